"""A tool that a server has, and that nobody has accepted, is put on record once; it stays hidden and is not called.

Once in a process, and once for all processes as far as the newest events of the store go back. The first few that a
server has are put on record one by one; what it has besides at a look, in one record that says how many.

Nobody has accepted the name either: it is the server's own words, so the record has a mark of it and not the name.
`placet mcp list` shows the names.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from placet.engine.chronicle import NOBODY, Chronicle
from placet.model.audit import AuditEvent, EventKind
from placet.ports.store import Store

MOST_NAMED: Final = 16
"""Tools of one server, in one process, that are put on record one by one."""
MOST_COUNTED: Final = 16
"""Records of one server, in one process, that say how many more there are."""
_LOOKED_BACK: Final = 1_000
_MARK_CHARACTERS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """What is on record now and was not before.

    Attributes:
        mark: of a name, or of all that are more than the few.
        count: how many tools it stands for.
    """

    mark: str
    count: int = 1


class Discoveries:
    """Remembers which new tools are on record."""

    def __init__(self, *, store: Store, chronicle: Chronicle) -> None:
        self._store = store
        self._chronicle = chronicle
        self._known: set[tuple[str, str]] | None = None
        self._named: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()

    async def discovered(self, server: str, tools: Iterable[str]) -> tuple[Discovered, ...]:
        """Put on record what of these is new; durable on return.

        Args:
            tools: by the server's own names.

        Raises:
            StoreError: they may not be on record; say it again.
        """
        if self._known is None:
            self._known = await self._on_record()
        new = sorted(mark for mark in {mark_of(tool) for tool in tools} if (server, mark) not in self._known)
        if not new or (server, mark_of(" ".join(new))) in self._known:
            return ()
        room = MOST_NAMED - self._named[server]
        named, more = new[:room], new[room:]
        found = [Discovered(mark=mark) for mark in named]
        if more and self._counted[server] < MOST_COUNTED:
            found.append(Discovered(mark=mark_of(" ".join(more)), count=len(more)))
        if not found:
            return ()
        await self._store.record(tuple(self._event(server, each) for each in found))
        self._known.update((server, mark) for mark in (*new, *(each.mark for each in found)))
        self._named[server] += len(named)
        self._counted[server] += len(found) - len(named)
        return tuple(found)

    async def _on_record(self) -> set[tuple[str, str]]:
        tenant = self._chronicle.of_store(NOBODY)["tenant"]
        found: set[tuple[str, str]] = set()
        async for each in self._store.chained(tenant=str(tenant), newest=_LOOKED_BACK):
            said = json.loads(each.body)
            if said.get("kind") == EventKind.TOOL_DISCOVERED.value:
                server, mark = (each.partition(":")[2] for each in said["reasons"][:2])
                found.add((server, mark))
        return found

    def _event(self, server: str, found: Discovered) -> AuditEvent:
        several = () if found.count == 1 else (f"more:{found.count}",)
        return self._chronicle.event(
            EventKind.TOOL_DISCOVERED,
            self._chronicle.of_store(NOBODY),
            detail="hidden",
            reasons=(f"upstream:{server}", f"tool:{found.mark}", *several),
            model_suggested=False,
        )


def mark_of(tool: str) -> str:
    """Tells one name from others."""
    return hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_CHARACTERS]
