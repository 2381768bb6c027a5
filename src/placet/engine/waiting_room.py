"""Waiting on behalf of somebody outside: for a person's answer, and for what changes at the desk.

Whoever waits is woken by the store where it can wake, looks by itself every so often, and is let go at once when nobody
waits for the answer any more, its time is over, or this process ends. How many wait is bounded, of everybody and of
each principal.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from placet.model.principal import Principal
from placet.model.waking import Topic
from placet.ports.clock import Clock
from placet.ports.wakeups import Wakeups, pause

Seen = TypeVar("Seen")


class WaitingRoom:
    """Who waits at one front door of this process."""

    def __init__(
        self,
        *,
        wakeups: Wakeups,
        clock: Clock,
        ending: asyncio.Event,
        poll_seconds: float,
        max_waiting: int,
        max_waiting_each: int,
        when_full: Callable[[], Exception],
    ) -> None:
        """Args:
        ending: set once this process ends.
        poll_seconds: how often whoever waits looks by itself.
        max_waiting, max_waiting_each: of everybody, and of one principal.
        when_full: what whoever finds no place is told, in the front door's own words.
        """
        self._wakeups = wakeups
        self._clock = clock
        self._ending = ending
        self._poll_seconds = poll_seconds
        self._most = max_waiting
        self._most_each = max_waiting_each
        self._when_full = when_full
        self._inside: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def place_of(self, principal: Principal) -> Iterator[None]:
        """A place for as long as this lasts.

        Raises:
            What `when_full` makes: none is free.
        """
        who = (principal.tenant, principal.identity)
        if self._inside.total() >= self._most or self._inside[who] >= self._most_each:
            raise self._when_full()
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
        gone: Coroutine[Any, Any, object] | None = None,
    ) -> Seen:
        """What is seen at the first look at which it is over, or at the last one in time.

        Args:
            gone: ends when nobody waits for the answer any more.
        """
        end = self._clock.monotonic() + seconds
        with self._wakeups.waiting_for(topic) as wakeup:
            others = [asyncio.ensure_future(self._ending.wait())]
            if gone is not None:
                others.append(asyncio.ensure_future(gone))  # type: ignore[arg-type]  # only whether it is done matters
            try:
                while True:
                    seen = await look()
                    left = end - self._clock.monotonic()
                    if is_over(seen) or left <= 0 or any(each.done() for each in others):
                        return seen
                    rest = min(left, self._poll_seconds)
                    pausing = asyncio.ensure_future(pause(wakeup, seconds=rest, clock=self._clock))
                    try:
                        await asyncio.wait((pausing, *others), return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        pausing.cancel()
            finally:
                for each in others:
                    each.cancel()
