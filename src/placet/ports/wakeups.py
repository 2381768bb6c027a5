"""Waiting for what another process brings about, without asking the store all the time.

A wake-up is a hint and never the truth: it may come for nothing, and it may not come. So whoever waits looks at the
store when it is woken, and when it has waited for as long as it would without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from placet.model.waking import Topic
from placet.ports.clock import Clock


class Wakeup(Protocol):
    async def wait(self) -> None:
        """Until it is told of the topic, since it began to listen or was last woken. Perhaps for ever."""
        ...


class Wakeups(Protocol):
    def waiting_for(self, topic: Topic) -> AbstractContextManager[Wakeup]:
        """Listen for as long as the context lasts, in the event loop that enters it. Never raises for the store."""
        ...


class Silence:
    """A wake-up of a store that has no way to tell other processes: whoever waits looks by itself."""

    async def wait(self) -> None:
        await asyncio.get_running_loop().create_future()


@contextmanager
def silence() -> Iterator[Wakeup]:
    yield Silence()


async def pause(wakeup: Wakeup, *, seconds: float, clock: Clock) -> None:
    """Until it is told, or so many seconds have passed.

    Raises:
        What the clock's `sleep` raises.
    """
    resting = asyncio.ensure_future(clock.sleep(seconds))
    told = asyncio.ensure_future(wakeup.wait())
    try:
        await asyncio.wait((resting, told), return_when=asyncio.FIRST_COMPLETED)
        if resting.done():
            resting.result()
    finally:
        resting.cancel()
        told.cancel()
