"""Waiting on behalf of a request. How, is the engine's waiting room; here is when its client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from starlette.requests import Request

from placet.engine.gate import Gate
from placet.engine.waiting_room import WaitingRoom as Room
from placet.http_api.problems import TooManyWaiting
from placet.http_api.settings import HttpSettings
from placet.model.principal import Principal
from placet.model.waking import Topic
from placet.ports.clock import Clock

Seen = TypeVar("Seen")


class WaitingRoom:
    """Who waits for an answer over HTTP in this process."""

    def __init__(self, *, gate: Gate, settings: HttpSettings, clock: Clock, ending: asyncio.Event) -> None:
        self._room = Room(
            wakeups=gate.store,
            clock=clock,
            ending=ending,
            poll_seconds=settings.poll_seconds,
            max_waiting=settings.max_waiting,
            max_waiting_each=settings.max_waiting_each,
            when_full=TooManyWaiting,
        )

    @contextmanager
    def place_of(self, principal: Principal) -> Iterator[None]:
        """A place for as long as this lasts.

        Raises:
            TooManyWaiting: none is free.
        """
        with self._room.place_of(principal):
            yield

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
        return await self._room.until(look, is_over, topic=topic, seconds=seconds, gone=has_gone(request))


async def has_gone(request: Request) -> None:
    """Until the client has gone. The body has to be read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
