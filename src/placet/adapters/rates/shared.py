"""Limits that replicas share in a Redis or Valkey, and what a process goes by while that cannot be asked.

Nothing true is kept there: losing it loses counts, and no call. A window is one counter, added to and given its end in
one step at the server, whose clock alone says when it is over. A server that does not answer at once is left alone
for a while, and this process counts by itself, against its part of the limits: nobody gets through unlimited, and
nobody is kept out for the server's sake.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from math import inf
from typing import Any, Final

from limits.aio.storage import RedisStorage

from placet.adapters.rates.counting import Counting
from placet.adapters.rates.steady import OwnRateLimiter
from placet.model.principal import Principal
from placet.model.rates import Admitted, RateLimits, TooOften
from placet.ports.clock import Clock
from placet.ports.meter import Meter
from placet.rules.rates import own_part

PATIENCE_SECONDS: Final = 0.25
LEFT_ALONE_SECONDS: Final = 5.0
_MOST_CONNECTIONS: Final = 64

_log = logging.getLogger("placet.rates")


class SharedRateLimiter:
    """Fulfils `ports.rate_limits.RateLimiter` for replicas. Use it from one event loop."""

    def __init__(
        self,
        address: str,
        limits: RateLimits,
        *,
        clock: Clock,
        meter: Meter,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._storage = RedisStorage(
            _in_the_librarys_words(address),
            key_prefix="placet:rate",
            socket_timeout=patience_seconds,
            socket_connect_timeout=patience_seconds,
            max_connections=_MOST_CONNECTIONS,
        )
        self._client: Any = self._storage.bridge.storage  # type: ignore[attr-defined]  # of the client's own bridge
        self._shared = Counting(self._storage, limits)
        self._own = OwnRateLimiter(own_part(limits), clock=clock, meter=meter)
        self._clock = clock
        self._meter = meter
        self._patience_seconds = patience_seconds
        self._asked_again_at = -inf
        self._is_down = False

    async def admit(self, principal: Principal) -> Admitted | TooOften:
        answer = await self._of_shared(principal)
        if answer is None:
            return await self._own.admit(principal)
        if isinstance(answer, TooOften):
            self._meter.rate_limited(scope=answer.scope.value)
        return answer

    async def _of_shared(self, principal: Principal) -> Admitted | TooOften | None:
        """None while nobody can tell; then only one asks, now and then, and the others do not wait for it."""
        now = self._clock.monotonic()
        if self._is_down and not self._asked_again_at <= now < inf:
            return None
        if self._is_down:
            self._asked_again_at = now + LEFT_ALONE_SECONDS
        try:
            wall = self._clock.now().timestamp()
            async with asyncio.timeout(self._patience_seconds):
                answer = await self._shared.admit(principal, now=wall)
        except Exception:  # whatever a client library raises: nothing of it is told, and nothing of it decides
            self._note_failure(now)
            return None
        if self._is_down:
            self._is_down = False
            _log.warning("the shared rate limits are asked again")
        return answer

    def _note_failure(self, now: float) -> None:
        self._meter.rate_limiter_failed()
        if not self._is_down:
            self._is_down = True
            _log.warning("the shared rate limits cannot be asked: this process goes by its part of them")
        self._asked_again_at = (now if now < inf else 0.0) + LEFT_ALONE_SECONDS

    async def close(self) -> None:
        with suppress(Exception):
            await self._client.aclose()


def _in_the_librarys_words(address: str) -> str:
    """One client for both kinds of servers, which speak the same."""
    scheme, _, rest = address.partition("://")
    kind = {"unix": "valkey+unix", "rediss": "valkeys", "valkeys": "valkeys"}.get(scheme, "valkey")
    return f"async+{kind}://{rest}"
