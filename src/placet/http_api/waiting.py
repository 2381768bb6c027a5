"""Waiting on behalf of a request: for a person's answer, and for what changes at the desk.

Whoever waits is woken by the store where it can wake, looks by itself every so often, and is let go at once when its
client has gone, its time is over, or this process ends. How many wait is bounded, of everybody and of each principal.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from starlette.requests import Request

from placet.engine.gate import Gate
from placet.http_api.problems import TooManyWaiting
from placet.http_api.settings import HttpSettings
from placet.model.principal import Principal
from placet.model.waking import Topic
from placet.ports.clock import Clock
from placet.ports.wakeups import pause

Seen = TypeVar("Seen")


class WaitingRoom:
    """Who waits in this process."""

    def __init__(self, *, gate: Gate, settings: HttpSettings, clock: Clock, ending: asyncio.Event) -> None:
        self._gate = gate
        self._settings = settings
        self._clock = clock
        self._ending = ending
        self._inside: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def place_of(self, principal: Principal) -> Iterator[None]:
        """A place for as long as this lasts.

        Raises:
            TooManyWaiting: none is free.
        """
        who = (principal.tenant, principal.identity)
        is_full = self._inside.total() >= self._settings.max_waiting
        if is_full or self._inside[who] >= self._settings.max_waiting_each:
            raise TooManyWaiting
        self._inside[who] += 1
        try:
            yield
        finally:
            self._inside[who] -= 1
            if not self._inside[who]:
                del self._inside[who]

    async def until(
        self,
        look: Callable[[], Awaitable[Seen]],
        is_over: Callable[[Seen], bool],
        *,
        topic: Topic,
        seconds: float,
        request: Request,
    ) -> Seen:
        """What is seen at the first look at which it is over, or at the last one in time."""
        end = self._clock.monotonic() + seconds
        with self._gate.store.waiting_for(topic) as wakeup:
            gone = asyncio.ensure_future(has_gone(request))
            ending = asyncio.ensure_future(self._ending.wait())
            try:
                while True:
                    seen = await look()
                    left = end - self._clock.monotonic()
                    if is_over(seen) or left <= 0 or gone.done() or ending.done():
                        return seen
                    rest = min(left, self._settings.poll_seconds)
                    pausing = asyncio.ensure_future(pause(wakeup, seconds=rest, clock=self._clock))
                    try:
                        await asyncio.wait((pausing, gone, ending), return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        pausing.cancel()
            finally:
                gone.cancel()
                ending.cancel()


async def has_gone(request: Request) -> None:
    """Until the client has gone. The body has to be read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
