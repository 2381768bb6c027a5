"""Tells people again of questions that nobody has decided, and tells others once it has waited too long.

    due      pending questions whose next step has come, by the store's clock ── verified
    tell     one event, and that it was told ── one transaction, if nobody told it meanwhile and it still waits

The event is all there is to it: whatever is announced is read from the audit. What an escalation widens is not given
here but follows from the question's signed instants; a worker that is late is late with the message alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from placet.engine.chronicle import Chronicle
from placet.engine.verifying import verify
from placet.model.audit import EventKind
from placet.model.reminders import ReminderStep, Telling, Told, WaitingQuestion
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.rules import reminding as rules

_AT_ONCE = 1_000
_KINDS = {
    ReminderStep.REMIND: EventKind.APPROVAL_REMINDED,
    ReminderStep.ESCALATE: EventKind.APPROVAL_ESCALATED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemindingReport:
    """What one round put on record.

    Attributes:
        reminded: questions that people were told of again.
        escalated: questions that others were told of.
    """

    reminded: int = 0
    escalated: int = 0


class Reminding:
    """The reminders of one store, of every tenant. Any number may work on it."""

    def __init__(self, *, store: Store, keys: Keys, chronicle: Chronicle) -> None:
        self._store = store
        self._keys = keys
        self._chronicle = chronicle

    async def remind_due(self, *, limit: int = _AT_ONCE) -> RemindingReport:
        """Put on record what is due, a step of a question once however many do this; for the worker.

        Rows that do not hold are left alone: whoever looks at them is told, and nobody is sent to them from here.
        """
        now = await self._store.now()
        while True:
            found = await self._store.due_reminders(limit=limit)
            due = [(each, step) for each in found if (step := self._due(each, now)) is not None]
            if due or len(found) < limit:
                break
            limit *= 4  # past those that do not hold, which stay in the list
        told = [step.step for each, step in due if await self._tell(each, step, now)]
        return RemindingReport(reminded=told.count(ReminderStep.REMIND), escalated=told.count(ReminderStep.ESCALATE))

    def _due(self, waiting: WaitingQuestion, now: datetime) -> rules.DueStep | None:
        if verify(waiting.approval, self._keys) is not None:
            return None
        return rules.due_step(waiting.approval.question, waiting.told, now=now)

    async def _tell(self, waiting: WaitingQuestion, due: rules.DueStep, now: datetime) -> bool:
        """False where somebody else told it, or decided the question, meanwhile."""
        question = waiting.approval.question
        widens = due.step is ReminderStep.ESCALATE and rules.is_widened(question, now=now)
        event = self._chronicle.event(
            _KINDS[due.step],
            self._chronicle.of_question(question),
            expires_at=question.decide_by,
            detail="widened" if widens else None,
            model_suggested=False,
        )
        telling = Telling(told=waiting.told, now=Told(step=due.step, at=now), next_at=due.next_at)
        return await self._store.tell_reminder(waiting.approval, telling, events=(event,))
