"""What a gate is opened together with: upstreams, whose tools are among its own, and which end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from placet.engine.discovering import Discovered
from placet.model.identifiers import Digest
from placet.model.pins import Drift
from placet.ports.clock import Clock
from placet.ports.meter import UpstreamMeter
from placet.rules.contracts import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What an upstream is given of the gate that it is opened with.

    Attributes:
        quarantine: has a tool refused from now on, everywhere, and says whether it was not refused before; what it did
            is durable when it returns.
        is_quarantined: whether a contract's tool is refused, as it was accepted under this pin.
        discovered: has tools of a server, by its own names, on record of which nothing is accepted; what of
            it was not on record before.
    """

    clock: Clock
    meter: UpstreamMeter
    quarantine: Callable[[Drift], Awaitable[bool]]
    is_quarantined: Callable[[str, Digest], Awaitable[bool]]
    discovered: Callable[[str, Collection[str]], Awaitable[tuple[Discovered, ...]]]


class Joined(Protocol):
    """An upstream that a gate can be opened together with."""

    @property
    def name(self) -> str:
        """Its server id."""
        ...

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What may be called of it."""
        ...

    async def open(self, around: Around) -> None:
        """Get ready, in the event loop of the gate. Nothing is connected, and nobody away is a fault."""
        ...

    async def close(self) -> None:
        """End everything, in bounded time; once more is nothing."""
        ...


async def open_all(upstreams: Collection[Joined], around: Around) -> None:
    for upstream in upstreams:
        await upstream.open(around)


async def close_all(upstreams: Collection[Joined]) -> None:
    """All at once, so that one that takes its time takes nobody else's."""
    await asyncio.gather(*(upstream.close() for upstream in upstreams), return_exceptions=True)
