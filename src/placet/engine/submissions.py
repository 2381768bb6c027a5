"""Who is inside the gate, and the end of being so.

open ─ drain ─► draining: nobody begins anything new, those inside go on ─┬─ all left ────► close: nothing is left
  │                                                                        └─ time is over ► let go: nothing is written
  └─ close: those inside are cancelled, and their attempts settled                           for them any more
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from placet.errors import MisuseError

_LEAST_PATIENCE_SECONDS = 0.5
_ENDING_SECONDS = 10.0
"""How long cancelled submissions may take to close their attempts and settle; the store's own waiting fits in."""


class Submissions:
    """Who is inside. Once it closes nobody comes in, and whoever does not leave in time is cancelled.

    Attributes:
        is_draining: whether what comes now is turned away.
        has_run_out: whether a drain ended with somebody inside.
        is_closed: whether nothing comes in any more.
    """

    def __init__(self, *, grace_seconds: float) -> None:
        self._patience_seconds = max(_LEAST_PATIENCE_SECONDS, grace_seconds)
        self._inside: set[asyncio.Task[Any]] = set()
        self._left = asyncio.Event()
        self.is_closed = False
        self.is_draining = False
        self.has_run_out = False
        self._process = os.getpid()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The current task is inside for as long as this lasts.

        Raises:
            MisuseError: the gate is closed, or another process's.
        """
        if self.is_closed:
            raise MisuseError("The gate is closed.", hint="Open another with placet.open.")
        if os.getpid() != self._process:
            raise MisuseError("The gate belongs to another process: open a gate after the fork.")
        task = asyncio.current_task()
        if task is None or task in self._inside or self.is_draining:  # who is turned away keeps nobody waiting
            yield
            return
        self._inside.add(task)
        try:
            yield
        finally:
            self._inside.discard(task)
            self._left.set()

    async def drain(self, seconds: float) -> int:
        """Turn away what comes, and wait for those inside, at most so long; how many are inside then."""
        self.is_draining = True
        await self._emptied(seconds)
        self.has_run_out = bool(self._inside)
        return len(self._inside)

    async def close(self) -> None:
        """Let nobody in; wait a while for those inside, then cancel them and wait until their attempts are settled.

        After a drain that ran out nothing is settled any more: they are cancelled, and given their grace.
        """
        self.is_closed = True
        if not self.has_run_out:
            await self._emptied(self._patience_seconds)
        for task in self._inside:
            task.cancel()
        await self._emptied(self._patience_seconds + (0.0 if self.has_run_out else _ENDING_SECONDS))

    async def _emptied(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._inside:
                    self._left.clear()
                    await self._left.wait()
