"""The client of one call is told how far it is: what its tool says, and in between that it still runs.

The protocol wants numbers that rise with every notice. A tool's may stand still, or begin again with a further attempt;
then the last one is raised by next to nothing, so that the words and the sign of life are told all the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import inf, isfinite, nextafter
from typing import Any, Final

from mcp.server.context import ServerRequestContext

from placet.model.call_progress import CallProgress
from placet.ports.clock import Clock

_MOST_WAITING: Final = 64
"""Notices that wait for a slow client; of more, the oldest fall away."""
_LAST_SECONDS: Final = 5.0
"""How long the answer waits for what was said before it."""
_NEXT_TO_NOTHING: Final = 0.001
_MOST_DONE: Final = 2.0**53
"""What a tool says beyond is not believed: no number would be left for what is told later."""
STILL_RUNNING: Final = "still running"


class Reporter:
    """Tells one client of one call.

    Args:
        every_seconds: how often it is told that the call still runs.
    """

    def __init__(self, ctx: ServerRequestContext[Any, Any], *, clock: Clock, every_seconds: float) -> None:
        self._ctx = ctx
        self._clock = clock
        self._every_seconds = every_seconds
        self._last = -inf
        self._total: float | None = None
        self._waiting: deque[tuple[float, float | None, str | None]] = deque(maxlen=_MOST_WAITING)
        self._sending: asyncio.Task[None] | None = None
        self._is_over = False

    def heard(self, word: CallProgress) -> None:
        """Fulfils `on_progress`. After the answer nothing is told any more."""
        self._total = word.total
        self._add(word.done, word.message)

    @asynccontextmanager
    async def until_answered(self) -> AsyncIterator[None]:
        """Tell while the block lasts, and before it is left what was said in it."""
        beating = asyncio.ensure_future(self._beat())
        try:
            yield
            if self._sending is not None:
                await asyncio.wait((self._sending,), timeout=_LAST_SECONDS)
        finally:
            self._is_over = True
            beating.cancel()
            if self._sending is not None:
                self._sending.cancel()

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(self._every_seconds)
            self._add(self._last, STILL_RUNNING)

    def _add(self, done: float, message: str | None) -> None:
        number = done if self._last < done <= _MOST_DONE else self._raised()
        if self._is_over or not isfinite(number):
            return
        self._last = number
        self._waiting.append((number, self._total, message))
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send())

    def _raised(self) -> float:
        return 0.0 if self._last == -inf else max(self._last + _NEXT_TO_NOTHING, nextafter(self._last, inf))

    async def _send(self) -> None:
        try:
            while self._waiting:
                number, total, message = self._waiting.popleft()
                with suppress(Exception):  # a client that has gone
                    await self._ctx.session.report_progress(number, total, message)
        finally:
            self._sending = None
