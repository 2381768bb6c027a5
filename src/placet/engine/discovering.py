"""A tool that a server has, and that nobody has accepted, is put on record once; it stays hidden and is not called.

Once in a process, and once for all processes as far as the newest events of the store go back. A server that invents
names without end is put on record up to a bound.

Nobody has accepted the name either: it is the server's own words, so the record has a mark of it and not the name.
`placet mcp list` shows the names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Final

from placet.engine.chronicle import NOBODY, Chronicle
from placet.model.audit import AuditEvent, EventKind
from placet.ports.store import Store

MOST_DISCOVERED: Final = 256
"""Of one server, in one process."""
_LOOKED_BACK: Final = 1_000
_MARK_CHARACTERS: Final = 16


class Discoveries:
    """Remembers which new tools are on record."""

    def __init__(self, *, store: Store, chronicle: Chronicle) -> None:
        self._store = store
        self._chronicle = chronicle
        self._known: set[tuple[str, str]] | None = None
        self._counts: dict[str, int] = {}

    async def discovered(self, server: str, tools: Iterable[str]) -> tuple[str, ...]:
        """Put on record what of these is new; durable on return.

        Args:
            tools: by the server's own names.

        Returns:
            Marks of those that are on record now and were not before.

        Raises:
            StoreError: they may not be on record; say it again.
        """
        if self._known is None:
            self._known = await self._on_record()
        marked = {mark_of(tool) for tool in tools}
        room = MOST_DISCOVERED - self._counts.get(server, 0)
        new = sorted(mark for mark in marked if (server, mark) not in self._known)[:room]
        if not new:
            return ()
        await self._store.record(tuple(self._event(server, mark) for mark in new))
        self._known.update((server, mark) for mark in new)
        self._counts[server] = self._counts.get(server, 0) + len(new)
        return tuple(new)

    async def _on_record(self) -> set[tuple[str, str]]:
        tenant = self._chronicle.of_store(NOBODY)["tenant"]
        found: set[tuple[str, str]] = set()
        async for each in self._store.chained(tenant=str(tenant), newest=_LOOKED_BACK):
            said = json.loads(each.body)
            if said.get("kind") == EventKind.TOOL_DISCOVERED.value:
                server, mark = (each.partition(":")[2] for each in said["reasons"])
                found.add((server, mark))
        return found

    def _event(self, server: str, mark: str) -> AuditEvent:
        return self._chronicle.event(
            EventKind.TOOL_DISCOVERED,
            self._chronicle.of_store(NOBODY),
            detail="hidden",
            reasons=(f"upstream:{server}", f"tool:{mark}"),
            model_suggested=False,
        )


def mark_of(tool: str) -> str:
    """Tells one name from others."""
    return hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_CHARACTERS]
