"""What is told of questions that wait."""

from __future__ import annotations

from datetime import datetime

from placet.adapters.stores.verbs.tables import Tables
from placet.model.approval import Approval, ApprovalState
from placet.model.audit import AuditEvent
from placet.model.reminders import Telling


def tell_reminder(
    tables: Tables, seen: Approval, telling: Telling, events: tuple[AuditEvent, ...], now: datetime
) -> bool:
    """The question is looked at first, and under its lock where there is one: of two that tell, one finds it told."""
    question = seen.question
    approval = tables.approval(question.tenant, question.approval_id)
    if approval is None or approval.state is not ApprovalState.PENDING or approval.question.decide_by <= now:
        return False
    if tables.told(question.tenant, question.approval_id) != telling.told:
        return False
    tables.put_told(question.tenant, question.approval_id, (*telling.told, telling.now), telling.next_at)
    tables.append(events)
    return True
