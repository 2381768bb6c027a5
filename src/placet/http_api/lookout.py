"""One look at what waits, for everybody who watches the same tenant at the time.

Whoever was woken needs a look that began after that; whoever only looks again takes what somebody else has just seen.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from placet.engine.gate import Gate
from placet.model.principal import Principal
from placet.model.watching import Glance
from placet.ports.clock import Clock

MOST_WATCHED = 500


class Lookout:
    """The looks of one process. What is kept for a tenant goes with the last who watches it."""

    def __init__(self, *, gate: Gate, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._tenants: WeakValueDictionary[str, TenantLooks] = WeakValueDictionary()

    def over(self, tenant: str) -> TenantLooks:
        """The looks at a tenant; hold on to them while watching it."""
        looks = self._tenants.get(tenant)
        if looks is None:
            looks = self._tenants[tenant] = TenantLooks(self._gate, self._clock)
        return looks


class TenantLooks:
    """Looks at one tenant, shared by its streams."""

    def __init__(self, gate: Gate, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._last: _Look | None = None

    async def glance(self, *, by: Principal, begun_after: float) -> Glance:
        """What waits, as of a look that began after this instant of the monotonic clock.

        Raises:
            PlacetError: the look failed, whoever began it.
        """
        last = self._last
        if last is None or not last.is_good(begun_after):
            last = self._last = _Look(self._gate, self._clock, by)
        return await asyncio.shield(last.seen)


class _Look:
    def __init__(self, gate: Gate, clock: Clock, by: Principal) -> None:
        self._begun_at: float | None = None
        self._gate, self._clock, self._by = gate, clock, by
        self.seen = asyncio.ensure_future(self._look())
        self.seen.add_done_callback(_heard)

    async def _look(self) -> Glance:
        self._begun_at = self._clock.monotonic()
        return await self._gate.desk.watching.glance(by=self._by, limit=MOST_WATCHED)

    def is_good(self, begun_after: float) -> bool:
        """One that failed is good for those who wait for it already, and for nobody else."""
        has_failed = self.seen.done() and (self.seen.cancelled() or self.seen.exception() is not None)
        return not has_failed and (self._begun_at is None or self._begun_at > begun_after)


def _heard(seen: asyncio.Future[Glance]) -> None:
    """Of a look that nobody waits for any more, nobody has to hear why it failed."""
    if not seen.cancelled():
        seen.exception()
