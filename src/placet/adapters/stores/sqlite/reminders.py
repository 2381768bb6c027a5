"""What is told of questions that wait, in a SQLite store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.sqlite.writer import Writer
from placet.model.approval import Approval
from placet.model.audit import AuditEvent
from placet.model.identifiers import ApprovalId
from placet.model.reminders import Telling, Told, WaitingQuestion
from placet.ports.clock import Clock
from placet.rules.approvals import instant_text


class SqliteReminders(ABC):
    """The verbs of `ports.reminders`."""

    _clock: Clock
    _writer: Writer

    async def due_reminders(self, *, limit: int) -> tuple[WaitingQuestion, ...]:
        now = self._clock.now()
        found = self._read("due_reminders", instant_text(now), rows.microseconds(now), limit)
        return tuple(map(rows.waiting_from, found))

    async def told_reminders(self, tenant: str, approval_id: ApprovalId) -> tuple[Told, ...]:
        found = self._read("told", tenant, approval_id)
        return rows.told_from(found[0][0]) if found else ()

    async def tell_reminder(self, approval: Approval, telling: Telling, *, events: tuple[AuditEvent, ...]) -> bool:
        return await self._writer.transact(
            lambda tables: verbs.tell_reminder(tables, approval, telling, events, self._clock.now())
        )

    @abstractmethod
    def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...
