"""Standing grants, in a SQLite store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.sqlite.writer import Writer
from placet.model.approval import Mac
from placet.model.audit import AuditEvent
from placet.model.grant import Grant, GrantId, StoredGrant
from placet.model.listing import Mark
from placet.ports.clock import Clock


class SqliteGrants(ABC):
    """The verbs of `ports.store.Grants`."""

    _clock: Clock
    _writer: Writer

    async def grant(self, tenant: str, grant_id: GrantId) -> StoredGrant | None:
        row = next(iter(self._read("grant", tenant, grant_id)), None)
        return None if row is None else rows.grant_from(row)

    async def standing_grants(self, *, tenant: str, subject: str, tool: str, limit: int) -> tuple[StoredGrant, ...]:
        now = rows.microseconds(self._clock.now())
        return tuple(map(rows.grant_from, self._read("standing_grants", tenant, subject, tool, now, limit)))

    async def grants_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[StoredGrant, ...]:
        return tuple(map(rows.grant_from, self._read("grants_after", tenant, *rows.place_of(mark), limit)))

    async def standing_grants_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[StoredGrant, ...]:
        now = rows.microseconds(self._clock.now())
        found = self._read("standing_grants_after", tenant, *rows.place_of(mark), limit, now)
        return tuple(map(rows.grant_from, found))

    async def add_grant(self, grant: Grant, mac: Mac, *, events: tuple[AuditEvent, ...]) -> StoredGrant:
        return await self._writer.transact(lambda tables: verbs.add_grant(tables, grant, mac, events))

    async def revoke_grant(
        self, seen: StoredGrant, revoked: Grant, mac: Mac, *, events: tuple[AuditEvent, ...]
    ) -> StoredGrant | None:
        return await self._writer.transact(lambda tables: verbs.revoke_grant(tables, seen, revoked, mac, events))

    async def end_grant(self, seen: StoredGrant, *, events: tuple[AuditEvent, ...]) -> bool:
        return await self._writer.transact(lambda tables: verbs.end_grant(tables, seen, events, self._clock.now()))

    @abstractmethod
    def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...
