"""What is shown at the door, in a SQLite store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.sqlite.writer import Writer
from placet.model.audit import AuditEvent
from placet.model.credentials import CredentialChange, CredentialKind, SeenCredential, StoredCredential
from placet.ports.clock import Clock


class SqliteCredentials(ABC):
    """The verbs of `ports.store.Credentials`."""

    _clock: Clock
    _writer: Writer

    async def credential(self, kind: CredentialKind, name: str) -> SeenCredential | None:
        row = next(iter(self._read("credential", kind.value, name)), None)
        return None if row is None else SeenCredential(row=rows.credential_from(row), at=self._clock.now())

    async def credentials(
        self, kind: CredentialKind, *, tenant: str, subject: str | None = None, limit: int
    ) -> tuple[StoredCredential, ...]:
        if subject is None:
            found = self._read("credentials_of_tenant", kind.value, tenant, limit)
        else:
            found = self._read("credentials_of_subject", kind.value, tenant, subject, limit)
        return tuple(map(rows.credential_from, found))

    async def ended_credentials(self, kind: CredentialKind, *, limit: int) -> tuple[StoredCredential, ...]:
        found = self._read("ended_credentials", kind.value, rows.microseconds(self._clock.now()), limit)
        return tuple(map(rows.credential_from, found))

    async def put_credentials(self, change: CredentialChange, *, events: tuple[AuditEvent, ...]) -> bool:
        return await self._writer.transact(lambda tables: verbs.put_credentials(tables, change, events))

    async def credential_used(self, kind: CredentialKind, name: str, *, every_seconds: float) -> None:
        await self._writer.transact(
            lambda tables: verbs.credential_used(tables, kind, name, every_seconds, self._clock.now())
        )

    @abstractmethod
    def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...
