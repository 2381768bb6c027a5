"""What was told of a question, as a row has it. It decides nothing; what cannot be read was told by nobody."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from placet.adapters.stores.rows.approvals import approval_from
from placet.adapters.stores.rows.instants import microseconds
from placet.model.reminders import ReminderStep, Told, WaitingQuestion
from placet.rules.approvals import instant_text


def told_text(told: tuple[Told, ...]) -> str:
    return json.dumps([[each.step.value, instant_text(each.at)] for each in told])


def told_from(text: str | None) -> tuple[Told, ...]:
    """The steps that a row says; none of one that somebody changed by hand."""
    try:
        found = tuple(_told(*each) for each in json.loads(text or "[]"))
    except (ValueError, TypeError, RecursionError):
        return ()
    return found if all(each.at.tzinfo is not None for each in found) else ()


def reminder_row(
    tenant: str, approval_id: str, told: tuple[Told, ...], next_at: datetime | None
) -> tuple[str, str, str, int | None]:
    """All columns of `reminders`, in order."""
    return tenant, approval_id, told_text(told), microseconds(next_at)


def waiting_from(row: tuple[Any, ...]) -> WaitingQuestion:
    """A row of `approvals` with what was told of it behind its columns."""
    return WaitingQuestion(approval=approval_from(row[:-1]), told=told_from(row[-1]))


def _told(step: str, at: str) -> Told:
    return Told(step=ReminderStep(step), at=datetime.fromisoformat(at))
