"""What is shown at the door, in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from placet.adapters.stores import verbs
from placet.model.audit import AuditEvent
from placet.model.credentials import CredentialChange, CredentialKind, SeenCredential, StoredCredential
from placet.ports.clock import Clock

if TYPE_CHECKING:
    from placet.adapters.stores.memory.tables import MemoryTables

Answered = TypeVar("Answered")


class MemoryCredentials(ABC):
    """The verbs of `ports.store.Credentials`."""

    _tables: MemoryTables
    _clock: Clock

    @abstractmethod
    def _transact(self, verb: Callable[[MemoryTables], Answered]) -> Answered: ...

    async def credential(self, kind: CredentialKind, name: str) -> SeenCredential | None:
        row = self._tables.credential(kind, name)
        return None if row is None else SeenCredential(row=row, at=self._clock.now())

    async def credentials(
        self, kind: CredentialKind, *, tenant: str, subject: str | None = None, limit: int
    ) -> tuple[StoredCredential, ...]:
        found = [r for r in self._tables.rows_of(kind) if r.tenant == tenant and subject in (None, r.subject)]
        found.sort(key=lambda row: row.name)
        return tuple(sorted(found, key=lambda row: row.made_at, reverse=True)[:limit])

    async def ended_credentials(self, kind: CredentialKind, *, limit: int) -> tuple[StoredCredential, ...]:
        now = self._clock.now()
        found = [row for row in self._tables.rows_of(kind) if row.ends_at <= now]
        return tuple(sorted(found, key=lambda row: (row.ends_at, row.name))[:limit])

    async def put_credentials(self, change: CredentialChange, *, events: tuple[AuditEvent, ...]) -> bool:
        return self._transact(lambda tables: verbs.put_credentials(tables, change, events))

    async def credential_used(self, kind: CredentialKind, name: str, *, every_seconds: float) -> None:
        self._transact(lambda tables: verbs.credential_used(tables, kind, name, every_seconds, self._clock.now()))
