"""What is told of questions that wait, in memory: the table and the verbs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from placet.adapters.stores import verbs
from placet.model.approval import Approval, ApprovalState
from placet.model.audit import AuditEvent
from placet.model.identifiers import ApprovalId
from placet.model.reminders import Telling, Told, WaitingQuestion
from placet.ports.clock import Clock
from placet.rules.reminding import first_step_at

if TYPE_CHECKING:
    from placet.adapters.stores.memory.tables import MemoryTables

Answered = TypeVar("Answered")
Key = TypeVar("Key")
Row = TypeVar("Row")


class MemoryReminderTables(ABC):
    """Rows in a dictionary, undone as those of `MemoryTables` are."""

    def __init__(self) -> None:
        super().__init__()
        self.reminders: dict[tuple[str, ApprovalId], tuple[tuple[Told, ...], datetime | None]] = {}

    @abstractmethod
    def _put(self, table: dict[Key, Row], key: Key, row: Row) -> None: ...

    def told(self, tenant: str, approval_id: ApprovalId) -> tuple[Told, ...]:
        told, _ = self.reminders.get((tenant, approval_id), ((), None))
        return told

    def put_told(self, tenant: str, approval_id: ApprovalId, told: tuple[Told, ...], next_at: datetime | None) -> None:
        self._put(self.reminders, (tenant, approval_id), (told, next_at))


class MemoryReminders(ABC):
    """The verbs of `ports.reminders`."""

    _clock: Clock
    _tables: MemoryTables

    async def due_reminders(self, *, limit: int) -> tuple[WaitingQuestion, ...]:
        now = self._clock.now()
        found = [each for each in self._tables.approvals.values() if self._is_due(each, now)]
        found.sort(key=lambda each: each.question.asked_at)
        return tuple(
            WaitingQuestion(approval=each, told=self._tables.told(each.question.tenant, each.question.approval_id))
            for each in found[:limit]
        )

    def _is_due(self, approval: Approval, now: datetime) -> bool:
        question = approval.question
        row = self._tables.reminders.get((question.tenant, question.approval_id))
        due_at = first_step_at(question) if row is None else row[1]
        is_open = approval.state is ApprovalState.PENDING and question.decide_by > now
        return is_open and due_at is not None and due_at <= now

    async def told_reminders(self, tenant: str, approval_id: ApprovalId) -> tuple[Told, ...]:
        return self._tables.told(tenant, approval_id)

    async def tell_reminder(self, approval: Approval, telling: Telling, *, events: tuple[AuditEvent, ...]) -> bool:
        return self._transact(lambda tables: verbs.tell_reminder(tables, approval, telling, events, self._clock.now()))

    @abstractmethod
    def _transact(self, verb: Callable[[MemoryTables], Answered]) -> Answered: ...
