"""The clock of scratch gates: it goes as the machine's does, can be put ahead, and waits only for a moment."""

from __future__ import annotations

from datetime import datetime, timedelta

from placet.bootstrap.surroundings import system_clock

_LONGEST_SLEEP_SECONDS = 0.02


class StageClock:
    """Whoever waits for another looks again soon, and no time passes for it that does not pass for the other."""

    def __init__(self) -> None:
        self._inner = system_clock()
        self._ahead_seconds = 0.0

    def now(self) -> datetime:
        return self._inner.now() + timedelta(seconds=self._ahead_seconds)

    def monotonic(self) -> float:
        return self._inner.monotonic() + self._ahead_seconds

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(min(seconds, _LONGEST_SLEEP_SECONDS))

    def advance(self, seconds: float) -> None:
        self._ahead_seconds += seconds
