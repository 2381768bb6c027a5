"""Standing grants, in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from placet.adapters.stores import verbs
from placet.model.approval import Mac
from placet.model.audit import AuditEvent
from placet.model.grant import Grant, GrantId, StoredGrant
from placet.model.listing import Mark
from placet.ports.clock import Clock
from placet.rules.listing import mark_of_grant, page

if TYPE_CHECKING:
    from placet.adapters.stores.memory.tables import MemoryTables

Answered = TypeVar("Answered")


class MemoryGrants(ABC):
    """The verbs of `ports.store.Grants`."""

    _tables: MemoryTables
    _clock: Clock

    @abstractmethod
    def _transact(self, verb: Callable[[MemoryTables], Answered]) -> Answered: ...

    async def grant(self, tenant: str, grant_id: GrantId) -> StoredGrant | None:
        return self._tables.grant(tenant, grant_id)

    async def standing_grants(self, *, tenant: str, subject: str, tool: str, limit: int) -> tuple[StoredGrant, ...]:
        found = [each for each in self._standing(tenant) if (each.grant.subject, each.grant.tool) == (subject, tool)]
        return tuple(sorted(found, key=lambda each: (each.grant.expires_at, each.grant.grant_id))[:limit])

    async def grants_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[StoredGrant, ...]:
        found = [each for each in self._tables.grants.values() if each.grant.tenant == tenant]
        return page(found, mark_of_grant, mark, limit)

    async def standing_grants_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[StoredGrant, ...]:
        return page(self._standing(tenant), mark_of_grant, mark, limit)

    def _standing(self, tenant: str) -> list[StoredGrant]:
        now = self._clock.now()
        return [
            each
            for each in self._tables.grants.values()
            if each.grant.tenant == tenant
            and each.grant.revoked_at is None
            and each.grant.expires_at > now
            and each.uses < each.grant.max_uses
        ]

    async def add_grant(self, grant: Grant, mac: Mac, *, events: tuple[AuditEvent, ...]) -> StoredGrant:
        return self._transact(lambda tables: verbs.add_grant(tables, grant, mac, events))

    async def revoke_grant(
        self, seen: StoredGrant, revoked: Grant, mac: Mac, *, events: tuple[AuditEvent, ...]
    ) -> StoredGrant | None:
        return self._transact(lambda tables: verbs.revoke_grant(tables, seen, revoked, mac, events))

    async def end_grant(self, seen: StoredGrant, *, events: tuple[AuditEvent, ...]) -> bool:
        return self._transact(lambda tables: verbs.end_grant(tables, seen, events, self._clock.now()))
