"""What is shown at the door, in a PostgreSQL store: looked up by every host, changed under the row's lock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.postgres.orders import How
from placet.adapters.stores.postgres.overlay import PredictedTables
from placet.errors import StoreCorrupt
from placet.model.audit import AuditEvent
from placet.model.credentials import CredentialChange, CredentialKind, SeenCredential, StoredCredential


class PostgresCredentials(ABC):
    """The verbs of `ports.store.Credentials`."""

    async def credential(self, kind: CredentialKind, name: str) -> SeenCredential | None:
        row = next(iter(await self._read("credential", kind.value, name)), None)
        if row is None:
            return None
        at = rows.instant(row[-1])
        if at is None:
            raise StoreCorrupt("The store's clock says nothing.")
        return SeenCredential(row=rows.credential_from(row[:-1]), at=at)

    async def credentials(
        self, kind: CredentialKind, *, tenant: str, subject: str | None = None, limit: int
    ) -> tuple[StoredCredential, ...]:
        if subject is None:
            found = await self._read("credentials_of_tenant", kind.value, tenant, limit)
        else:
            found = await self._read("credentials_of_subject", kind.value, tenant, subject, limit)
        return tuple(map(rows.credential_from, found))

    async def ended_credentials(self, kind: CredentialKind, *, limit: int) -> tuple[StoredCredential, ...]:
        return tuple(map(rows.credential_from, await self._read("ended_credentials", kind.value, limit)))

    async def put_credentials(self, change: CredentialChange, *, events: tuple[AuditEvent, ...]) -> bool:
        return bool(await self._write(lambda tables: verbs.put_credentials(tables, change, events), How.LOCKED))

    async def credential_used(self, kind: CredentialKind, name: str, *, every_seconds: float) -> None:
        await self._write(
            lambda tables: verbs.credential_used(tables, kind, name, every_seconds, tables.now), How.LOCKED
        )

    @abstractmethod
    async def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    async def _write(self, verb: Callable[[PredictedTables], Any], how: How = How.TOGETHER) -> Any: ...
