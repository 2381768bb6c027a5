"""Standing grants, in a PostgreSQL store: a use is counted under its row's lock, whoever else claims elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.postgres.orders import How
from placet.model.approval import Mac
from placet.model.audit import AuditEvent
from placet.model.grant import Grant, GrantId, StoredGrant
from placet.model.listing import Mark

if TYPE_CHECKING:
    from placet.adapters.stores.postgres.overlay import PredictedTables


class PostgresGrantTables(ABC):
    """Grants as a transaction under locks sees them."""

    @abstractmethod
    def _known(self, name: str, *bindings: Any) -> Any: ...

    @abstractmethod
    def _state(self, name: str, *bindings: Any) -> None: ...

    def grant(self, tenant: str, grant_id: GrantId) -> StoredGrant | None:
        found = self._known("grant_locked", tenant, grant_id)
        return rows.grant_from(tuple(found[0])) if found else None

    def add_grant(self, stored: StoredGrant) -> None:
        self._state("add_grant", *rows.grant_row(stored))

    def use_grant(self, stored: StoredGrant, at: datetime) -> None:
        seen = (stored.grant.tenant, stored.grant.grant_id, stored.mac.value, stored.uses)
        self._state("use_grant", rows.microseconds(at), *seen)

    def revoke_grant(self, was: StoredGrant, revoked: Grant, mac: Mac) -> None:
        self._state("revoke_grant", *rows.grant_revocation(revoked, mac, was=was))

    def end_grant(self, stored: StoredGrant, at: datetime) -> None:
        self._state("end_grant", rows.microseconds(at), stored.grant.tenant, stored.grant.grant_id)


class PostgresGrants(ABC):
    """The verbs of `ports.store.Grants`."""

    async def grant(self, tenant: str, grant_id: GrantId) -> StoredGrant | None:
        found = await self._read("grant", tenant, grant_id)
        return rows.grant_from(found[0]) if found else None

    async def standing_grants(self, *, tenant: str, subject: str, tool: str, limit: int) -> tuple[StoredGrant, ...]:
        return tuple(map(rows.grant_from, await self._read("standing_grants", tenant, subject, tool, limit)))

    async def grants_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[StoredGrant, ...]:
        return tuple(map(rows.grant_from, await self._read("grants_after", tenant, *rows.place_of(mark), limit)))

    async def standing_grants_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[StoredGrant, ...]:
        found = await self._read("standing_grants_after", tenant, *rows.place_of(mark), limit)
        return tuple(map(rows.grant_from, found))

    async def add_grant(self, grant: Grant, mac: Mac, *, events: tuple[AuditEvent, ...]) -> StoredGrant:
        stored: StoredGrant = await self._write(lambda tables: verbs.add_grant(tables, grant, mac, events), How.LOCKED)
        return stored

    async def revoke_grant(
        self, seen: StoredGrant, revoked: Grant, mac: Mac, *, events: tuple[AuditEvent, ...]
    ) -> StoredGrant | None:
        found: StoredGrant | None = await self._write(
            lambda tables: verbs.revoke_grant(tables, seen, revoked, mac, events), How.LOCKED
        )
        return found

    async def end_grant(self, seen: StoredGrant, *, events: tuple[AuditEvent, ...]) -> bool:
        return bool(await self._write(lambda tables: verbs.end_grant(tables, seen, events, tables.now), How.LOCKED))

    @abstractmethod
    async def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    async def _write(self, verb: Callable[[PredictedTables], Any], how: How = How.TOGETHER) -> Any: ...
