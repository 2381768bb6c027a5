"""Counters of one process, by a clock that does not jump.

`limits` has counters in memory of its own; they go by the wall clock, and one that is set back would shut the door for
as long. These go by the monotonic one, are bounded in number, and while that clock fails they count on in windows that
do not end: strict, and never without a limit.
"""

from __future__ import annotations

from math import inf
from typing import Final

from limits.aio.storage import Storage

from placet.adapters.rates.counting import Counting
from placet.model.principal import Principal
from placet.model.rates import Admitted, RateLimits, TooOften
from placet.ports.clock import Clock
from placet.ports.meter import Meter

MOST_COUNTERS: Final = 100_000
_OVERFLOW: Final = "overflow"


class SteadyStorage(Storage):
    """Fulfils what `limits` asks of a storage for fixed windows."""

    STORAGE_SCHEME = None

    def __init__(self, clock: Clock, *, most_counters: int = MOST_COUNTERS) -> None:
        super().__init__()
        self._clock = clock
        self._most = most_counters
        self._windows: dict[str, tuple[int, float]] = {}
        self._latest = 0.0

    @property
    def base_exceptions(self) -> type[Exception]:
        return ValueError

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        now = self.now()
        name = self._name(key, now)
        count, ends_at = self._windows.get(name, (0, now + expiry))
        if ends_at <= now:
            count, ends_at = 0, now + expiry
        self._windows[name] = (count + amount, ends_at)
        return count + amount

    async def get(self, key: str) -> int:
        count, ends_at = self._windows.get(key, (0, -inf))
        return count if ends_at > self.now() else 0

    async def get_expiry(self, key: str) -> float:
        return self._windows.get(key, (0, self.now()))[1]

    async def check(self) -> bool:
        return True

    async def reset(self) -> int | None:
        count = len(self._windows)
        self._windows.clear()
        return count

    async def clear(self, key: str) -> None:
        self._windows.pop(key, None)

    def now(self) -> float:
        """The latest that the clock has said; it stands still while that fails."""
        said = self._clock.monotonic()
        self._latest = max(self._latest, said) if said != inf else self._latest
        return self._latest

    def _name(self, key: str, now: float) -> str:
        """The counter's own; one that all share once there are too many, which is stricter than none."""
        if key in self._windows or len(self._windows) < self._most:
            return key
        for name in [name for name, (_, ends_at) in self._windows.items() if ends_at <= now]:
            del self._windows[name]
        return key if len(self._windows) < self._most else _OVERFLOW


class OwnRateLimiter:
    """Fulfils `ports.rate_limits.RateLimiter` for one process."""

    def __init__(self, limits: RateLimits, *, clock: Clock, meter: Meter) -> None:
        self._storage = SteadyStorage(clock)
        self._counting = Counting(self._storage, limits)
        self._meter = meter

    async def admit(self, principal: Principal) -> Admitted | TooOften:
        answer = await self._counting.admit(principal, now=self._storage.now())
        if isinstance(answer, TooOften):
            self._meter.rate_limited(scope=answer.scope.value)
        return answer

    async def close(self) -> None: ...
