"""Work that outlives the call it belongs to: closing an attempt once the store serves again, writing a late word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from placet.engine.settings import GateSettings
from placet.errors import READ_GIVEN_UP, NotFound, PlacetError
from placet.ports.clock import Clock

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
"""Between tries to settle while the store does not serve."""


class Afterwards:
    """Tasks of one gate that nobody waits for, until it closes."""

    def __init__(self, *, clock: Clock, settings: GateSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._is_closed = False
        self.tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it in a task of its own; after the end not at all, nor where the loop has ended."""
        if self._is_closed:  # the store goes too; the lease tells the others
            work.close()
            return
        try:
            task = asyncio.get_running_loop().create_task(work)
        except RuntimeError:
            work.close()
            return
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def insist(self, verb: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Have a verb of the store done once it serves again; until then our signs of life keep others from the row."""
        self.begin(self._insist(verb))

    async def close(self) -> None:
        """Let what is being written reach the ledger, for a while; nothing is left running."""
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=self._settings.grace_seconds)
        self._is_closed = True
        unfinished = tuple(self.tasks)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

    async def _insist(self, verb: Callable[[], Coroutine[Any, Any, object]]) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._is_closed:
            try:
                await self._clock.sleep(pause)
            except PlacetError:
                await asyncio.sleep(pause)  # noqa: TID251  the clock failed; the loop has a time of its own
            pause = min(pause * 2.0, _LONGEST_PAUSE_SECONDS)
            try:
                await verb()
                return
            except NotFound:
                return
            except PlacetError as fault:
                if fault.code == READ_GIVEN_UP:
                    return
