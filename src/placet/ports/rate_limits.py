"""How often anybody may come, asked before anything else is done for them."""

from __future__ import annotations

from typing import Protocol

from placet.model.principal import Principal
from placet.model.rates import Admitted, TooOften


class RateLimiter(Protocol):
    """Counts requests. It always has an answer, whatever becomes of the counters, and never raises for them."""

    async def admit(self, principal: Principal) -> Admitted | TooOften:
        """Count one request of somebody who has signed in, or refuse it."""
        ...

    async def close(self) -> None: ...
