"""What was told of questions, as a transaction under locks sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any

from placet.adapters.stores import rows
from placet.model.identifiers import ApprovalId
from placet.model.reminders import Told


class PostgresReminderTables(ABC):
    """The question is locked before its row here is looked at, so nobody tells anything meanwhile."""

    @abstractmethod
    def _known(self, name: str, *bindings: Any) -> Any: ...

    @abstractmethod
    def _state(self, name: str, *bindings: Any) -> None: ...

    def told(self, tenant: str, approval_id: ApprovalId) -> tuple[Told, ...]:
        found = self._known("told", tenant, approval_id)
        return rows.told_from(found[0][0]) if found else ()

    def put_told(self, tenant: str, approval_id: ApprovalId, told: tuple[Told, ...], next_at: datetime | None) -> None:
        self._state("put_told", *rows.reminder_row(tenant, approval_id, told, next_at))
