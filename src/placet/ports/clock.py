"""Time, ids, chance and waiting, so that tests own them."""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import Protocol


def elapsed_seconds(clock: Clock, since: float) -> float:
    """Seconds of monotonic time since then, never negative; 0 where the clock failed meanwhile."""
    elapsed = clock.monotonic() - since
    return elapsed if 0.0 <= elapsed < inf else 0.0


class Clock(Protocol):
    """Time of this process. Durable instants come from the store, whose clock all hosts share."""

    def now(self) -> datetime:
        """The instant, UTC and zone-aware."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, from an arbitrary start."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class IdSource(Protocol):
    """Fresh names and chance."""

    def new_id(self, prefix: str) -> str:
        """A name nobody else has: `prefix-` and at least 96 random bits."""
        ...

    def fraction(self) -> float:
        """A number drawn evenly from [0, 1)."""
        ...
