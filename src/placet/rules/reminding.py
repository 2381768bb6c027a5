"""Which step of a waiting question's reminders is due.

Who was told so far is a row's word, and only keeps somebody from being told twice. When the steps are due, and whether
an escalation widens who may decide, follows from what is signed: the question's own instants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from placet.model.approval import Question
from placet.model.json import JsonObject
from placet.model.reminders import Reminders, ReminderStep, Told


@dataclass(frozen=True, slots=True, kw_only=True)
class DueStep:
    """What is to be told now, and when the next step comes; None after the last."""

    step: ReminderStep
    next_at: datetime | None


def due_step(question: Question, told: Iterable[Told], *, now: datetime) -> DueStep | None:
    """What is to be told of a question that waits; None where nothing is.

    Of several steps that were passed over, by a worker that was not there, one is taken: the escalation if it is among
    them. Nothing is told from `decide_by` on.
    """
    if question.decide_by <= now:
        return None
    plan = tuple(_steps(question))
    last = max((each.at for each in told), default=None)
    due = [step for at, step in plan if at <= now and (last is None or at > last)]
    if not due:
        return None
    step = ReminderStep.ESCALATE if ReminderStep.ESCALATE in due else ReminderStep.REMIND
    return DueStep(step=step, next_at=min((at for at, _ in plan if at > now), default=None))


def first_step_at(question: Question) -> datetime | None:
    """When somebody is told for the first time; None where nobody ever is."""
    return min((at for at, _ in _steps(question)), default=None)


def escalates_at(question: Question) -> datetime | None:
    """When the question is escalated, if nobody decides it before; None where it never is."""
    return next((at for at, step in _steps(question) if step is ReminderStep.ESCALATE), None)


def is_widened(question: Question, *, now: datetime) -> bool:
    """Whether others may decide by now, if the rule of today says so too. No row's word counts here."""
    at = escalates_at(question)
    return question.reminders is not None and question.reminders.widens and at is not None and at <= now


def reminders_form(reminders: Reminders) -> JsonObject:
    """Reminders as digests, signatures and stores spell them."""
    return {
        "remind_after_seconds": [float(each) for each in reminders.remind_after_seconds],
        "escalate_after_seconds": _number(reminders.escalate_after_seconds),
        "escalate_to": list(reminders.escalate_to),
        "widens": reminders.widens,
    }


def _number(seconds: float | None) -> float | None:
    return None if seconds is None else float(seconds)


def _steps(question: Question) -> Iterator[tuple[datetime, ReminderStep]]:
    """All steps before the question's own end."""
    reminders = question.reminders
    if reminders is None:
        return
    steps = [(each, ReminderStep.REMIND) for each in reminders.remind_after_seconds]
    if reminders.escalate_after_seconds is not None:
        steps.append((reminders.escalate_after_seconds, ReminderStep.ESCALATE))
    for seconds, step in steps:
        at = question.asked_at + timedelta(seconds=seconds)
        if at < question.decide_by:
            yield at, step
