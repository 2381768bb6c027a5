"""What an issuer publishes, fetched when it is needed, and not more often than the issuer can bear.

never fetched        whoever is first waits for it
fresh, one hour      used as it is
not fresh            one caller fetches it anew; others go on with what is there
not enough           fetched anew, but never sooner than 30 s after the last try: made-up questions wear nobody out
issuer down          what is there is used for a day since it was fetched; then nobody is let in
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from math import inf
from typing import Final, Generic, TypeVar

from placet.adapters.identity.fetching import NotFetched
from placet.errors import BoundaryUnavailable
from placet.ports.clock import Clock

FRESH_SECONDS: Final = 3_600.0
FLOOR_SECONDS: Final = 30.0
STALE_SECONDS: Final = 86_400.0
Value = TypeVar("Value")

_log = logging.getLogger("placet.sign_in")


class Remembered(Generic[Value]):
    """One document of one issuer. Use it from one event loop.

    Args:
        what: it is, in the log: "the keys".
    """

    def __init__(self, fetch: Callable[[], Awaitable[Value]], *, what: str, issuer: str, clock: Clock) -> None:
        self._fetch = fetch
        self._what = what
        self._issuer = issuer
        self._clock = clock
        self._fetching: asyncio.Task[None] | None = None
        self._value: Value | None = None
        self._fetched_at = -inf
        self._tried_at = -inf

    async def value(self) -> Value:
        """What the issuer says, or said within the last day.

        Raises:
            BoundaryUnavailable: nobody can tell now: it could not be fetched, or not for a day.
        """
        age = self._age(self._fetched_at)
        if age > STALE_SECONDS or (age > FRESH_SECONDS and not self._is_fetching):
            await self._refresh()
        if self._value is None or self._age(self._fetched_at) > STALE_SECONDS:
            raise BoundaryUnavailable(
                f"{self._what.capitalize()} of an issuer of sign-in tokens cannot be fetched.",
                code="sign_in_unavailable",
                hint="Ask again. If it goes on, look into the log of placet.sign_in, and at the issuer.",
            )
        return self._value

    async def renewed(self) -> Value:
        """The same, after another look at the issuer, if there was none just now. Raises what `value` raises."""
        await self._refresh()
        return await self.value()

    async def close(self) -> None:
        """Fetch nothing more."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait((self._fetching,))

    def _age(self, since: float) -> float:
        now = self._clock.monotonic()
        if now == inf:
            raise BoundaryUnavailable("The clock cannot be read.", code="clock_failed")
        return now - since

    @property
    def _is_fetching(self) -> bool:
        return self._fetching is not None and not self._fetching.done()

    async def _refresh(self) -> None:
        """Once for all who wait, and not too soon after the last try.

        In a task of its own: whoever asks and leaves again would else spend the one try that all others have.
        """
        if not self._is_fetching:
            if self._age(self._tried_at) < FLOOR_SECONDS:
                return
            self._tried_at = self._clock.monotonic()
            self._fetching = asyncio.ensure_future(self._fetch_anew())
        if self._fetching is not None:
            await asyncio.wait((self._fetching,))  # whatever becomes of whoever waits, the fetch goes on

    async def _fetch_anew(self) -> None:
        try:
            value = await self._fetch()
        except NotFetched as fault:
            _log.warning("%s of the issuer %r were not fetched: %s", self._what, self._issuer, fault.reason)
            return
        self._value, self._fetched_at = value, self._clock.monotonic()
