"""What was told of questions that wait, and which of them are due."""

from __future__ import annotations

from typing import Protocol

from placet.model.approval import Approval
from placet.model.audit import AuditEvent
from placet.model.identifiers import ApprovalId
from placet.model.reminders import Telling, Told, WaitingQuestion


class ReminderRows(Protocol):
    """Nothing here is on the path of a call, and nothing that it says decides anything."""

    async def due_reminders(self, *, limit: int) -> tuple[WaitingQuestion, ...]:
        """Pending questions of every tenant whose next step has come and whose time is not over, the oldest first."""
        ...

    async def told_reminders(self, tenant: str, approval_id: ApprovalId) -> tuple[Told, ...]:
        """What was told of a question, in order; it stays as long as the question."""
        ...

    async def tell_reminder(self, approval: Approval, telling: Telling, *, events: tuple[AuditEvent, ...]) -> bool:
        """Put a step on record, with its events.

        False, and nothing written, if the question is decided, closed or out of time by now, or another step was told
        since it was seen.
        """
        ...
