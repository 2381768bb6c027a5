"""What was told of questions over one SQLite connection, inside whatever transaction its writer has open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any

from placet.adapters.stores import rows
from placet.model.identifiers import ApprovalId
from placet.model.reminders import Told


class SqliteReminderTables(ABC):
    """Whoever writes holds the lock of the whole file."""

    @abstractmethod
    def _all(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def _write(self, name: str, *bindings: Any) -> int: ...

    def told(self, tenant: str, approval_id: ApprovalId) -> tuple[Told, ...]:
        found = self._all("told", tenant, approval_id)
        return rows.told_from(found[0][0]) if found else ()

    def put_told(self, tenant: str, approval_id: ApprovalId, told: tuple[Told, ...], next_at: datetime | None) -> None:
        self._write("put_told", *rows.reminder_row(tenant, approval_id, told, next_at))
