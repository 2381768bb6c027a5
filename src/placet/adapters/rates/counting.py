"""What both kinds of limits do: count a request for its principal, then for its tenant."""

from __future__ import annotations

from typing import Final

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import Storage
from limits.aio.strategies import FixedWindowRateLimiter

from placet.model.principal import Principal
from placet.model.rates import Admitted, Rate, RateLimits, RateScope, TooOften
from placet.rules.rates import counted_as

_SHORTEST_WAIT_SECONDS: Final = 1.0


class Counting:
    """Limits over one storage. Whoever is over its own limit uses up nothing of its tenant's."""

    def __init__(self, storage: Storage, limits: RateLimits) -> None:
        self._limiter = FixedWindowRateLimiter(storage)
        self._storage = storage
        self._items = (
            (RateScope.PRINCIPAL, _item(limits.per_principal, RateScope.PRINCIPAL)),
            (RateScope.TENANT, _item(limits.per_tenant, RateScope.TENANT)),
        )

    async def admit(self, principal: Principal, *, now: float) -> Admitted | TooOften:
        """Args:
            now: by the clock in which the storage tells when a window ends.

        Raises:
            What the storage raises.
        """
        for scope, item in self._items:
            name = counted_as(principal, scope)
            if not await self._limiter.hit(item, name):
                rest = await self._storage.get_expiry(item.key_for(name)) - now
                window = float(item.get_expiry())
                return TooOften(scope=scope, retry_after_seconds=min(max(rest, _SHORTEST_WAIT_SECONDS), window))
        return Admitted()


def _item(rate: Rate, scope: RateScope) -> RateLimitItem:
    return RateLimitItemPerSecond(rate.count, rate.seconds, namespace=scope.value)
