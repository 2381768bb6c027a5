"""The audit of a store, held against its chains while it is read."""

from __future__ import annotations

from placet.ports.store import Store
from placet.rules.chain_check import ChainCheck, ChainReport
from placet.rules.chains import Linker


async def verify_store(
    store: Store, linker: Linker, *, anchors: dict[str, tuple[int, str]] | None = None
) -> ChainReport:
    """Hold the whole audit against its chains, heads, tombstones and, if given, anchors kept outside.

    All of it is of one moment, so that a store in use, or one that is being purged, is no broken one.
    """
    async with store.snapshot() as audit:
        check = ChainCheck(audit.heads, linker, anchors=anchors, tombstones=audit.tombstones)
        async for event in audit.events:
            check.see(event)
    return check.report()
