"""The audit of a store, held against its chains while it is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from placet.model.audit import ChainedEvent
from placet.ports.store import Store
from placet.ports.waiting import one_turn
from placet.rules.chain_check import ChainCheck, ChainReport
from placet.rules.chains import Linker

EVENTS_A_TURN: Final = 100
"""Events of which a long look takes care before it lets whatever else is ready go first: some milliseconds of work."""


async def verify_store(
    store: Store, linker: Linker, *, anchors: dict[str, tuple[int, str]] | None = None
) -> ChainReport:
    """Hold the whole audit against its chains, heads, tombstones and, if given, anchors kept outside.

    All of it is of one moment, so that a store in use, or one that is being purged, is no broken one.
    """
    async with store.snapshot() as audit:
        check = ChainCheck(audit.heads, linker, anchors=anchors, tombstones=audit.tombstones)
        async for event in unhurried(audit.events):
            check.see(event)
    return check.report()


async def unhurried(events: AsyncIterator[ChainedEvent]) -> AsyncIterator[ChainedEvent]:
    """The same events. However fast they come and are taken, calls, leases and looks go on in between."""
    taken = 0
    async for event in events:
        yield event
        taken += 1
        if taken % EVENTS_A_TURN == 0:
            await one_turn()
