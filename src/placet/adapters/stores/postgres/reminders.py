"""What is told of questions that wait, in a PostgreSQL store: workers of any number of hosts share it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.postgres.orders import How
from placet.adapters.stores.postgres.overlay import PredictedTables
from placet.model.approval import Approval
from placet.model.audit import AuditEvent
from placet.model.identifiers import ApprovalId
from placet.model.reminders import Telling, Told, WaitingQuestion


class PostgresReminders(ABC):
    """The verbs of `ports.reminders`."""

    async def due_reminders(self, *, limit: int) -> tuple[WaitingQuestion, ...]:
        return tuple(map(rows.waiting_from, await self._read("due_reminders", limit)))

    async def told_reminders(self, tenant: str, approval_id: ApprovalId) -> tuple[Told, ...]:
        found = await self._read("told", tenant, approval_id)
        return rows.told_from(found[0][0]) if found else ()

    async def tell_reminder(self, approval: Approval, telling: Telling, *, events: tuple[AuditEvent, ...]) -> bool:
        return bool(
            await self._write(
                lambda tables: verbs.tell_reminder(tables, approval, telling, events, tables.now), How.LOCKED
            )
        )

    @abstractmethod
    async def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    async def _write(self, verb: Callable[[PredictedTables], Any], how: How = How.TOGETHER) -> Any: ...
