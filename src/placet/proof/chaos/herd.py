"""The workers' processes as their supervisor sees them: born, signalled, ended. All are the zygote's children."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from placet.errors import PlacetError
from placet.proof.chaos.plan import Life


class ChaosFailed(PlacetError):
    """The run itself went wrong, so that its table would mean nothing."""

    code = "chaos_failed"
    hint = "Run it again with fewer workers; if it goes on, please report it with its seed."
    may_have_acted = True


class Worker:
    """One process. `ended` is its exit code once it is over: minus the number of the signal that ended it."""

    def __init__(self, herd: Herd, process: int) -> None:
        self._herd = herd
        self._process = process
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def kill(self) -> None:
        self._herd.signal(self._process, signal.SIGKILL)

    def stop(self) -> None:
        self._herd.signal(self._process, signal.SIGSTOP)

    def wake(self) -> None:
        self._herd.signal(self._process, signal.SIGCONT)


class Herd:
    """Starts workers through a zygote, within an `async with` block; none outlives it."""

    def __init__(self) -> None:
        self._zygote: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._born: dict[int, asyncio.Future[Worker]] = {}
        self._workers: dict[int, Worker] = {}

    async def __aenter__(self) -> Self:
        command = (sys.executable, "-m", "placet.proof.chaos.zygote")
        self._zygote = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._zygote is not None and self._zygote.stdin is not None:
            self._zygote.stdin.close()
            await self._zygote.wait()
        if self._listening is not None:
            await self._listening

    async def start(self, life: Life) -> Worker:
        """A process that lives the life.

        Raises:
            ChaosFailed: the zygote is gone.
        """
        born: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
        self._born[life.number] = born
        self._order(live=asdict(life))
        return await born

    def signal(self, process: int, number: int) -> None:
        self._order(signal=int(number), process=process)

    def _order(self, **words: Any) -> None:
        if self._zygote is None or self._zygote.stdin is None or self._zygote.stdin.is_closing():
            raise ChaosFailed("The process that starts workers is gone.")
        self._zygote.stdin.write((json.dumps(words) + "\n").encode())

    async def _listen(self) -> None:
        if self._zygote is None or self._zygote.stdout is None:
            return
        async for line in self._zygote.stdout:
            match json.loads(line):
                case {"born": int(process), "life": int(number)}:
                    self._workers[process] = Worker(self, process)
                    self._born.pop(number).set_result(self._workers[process])
                case {"ended": int(process), "status": int(status)}:
                    worker = self._workers.pop(process)
                    if not worker.ended.done():
                        worker.ended.set_result(status)
                case other:
                    raise ChaosFailed(f"The process that starts workers said something else: {type(other).__name__}.")
        for waiting in self._born.values():
            if not waiting.done():
                waiting.set_exception(ChaosFailed("The process that starts workers is gone."))
        for worker in self._workers.values():
            if not worker.ended.done():
                worker.ended.set_result(-int(signal.SIGKILL))
