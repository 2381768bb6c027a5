"""Questions and answers as rows: JSON beside what they are looked up by. Their MACs cover the values, not this form."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime
from typing import Any

from placet.adapters.stores.rows.instants import EPOCH, instant, microseconds
from placet.errors import PlacetError
from placet.model.approval import Answer, Approval, ApprovalDecision, ApprovalState, Edited, Leave, Mac, Question
from placet.model.decision import RequirementKind, Terms
from placet.model.reminders import Reminders
from placet.model.watching import WaitingMark
from placet.rules.approvals import edited_form, instant_text, precondition_form, question_form, signed_form
from placet.rules.asking import terms_form
from placet.rules.reminding import first_step_at, reminders_form


def approval_row(approval: Approval) -> tuple[Any, ...]:
    """All columns of `approvals`, in order."""
    question = approval.question
    return (
        question.approval_id,
        question.tenant,
        question.subject,
        question.run_id,
        question.tool,
        question.argument_digest,
        question.policy_version,
        question.operation_key,
        approval.state.value,
        _question_json(question),
        approval.question_mac.key_id,
        approval.question_mac.value,
        question.sealed_arguments,
        _answer_json(approval.answer),
        approval.signature.key_id if approval.signature else None,
        approval.signature.value if approval.signature else None,
        microseconds(question.asked_at),
        microseconds(approval.spent_at),
    )


def approval_change(approval: Approval, *, was: Approval) -> tuple[Any, ...]:
    """The bindings of `change_approval`."""
    row = approval_row(approval)
    return (row[8], row[13], row[14], row[15], row[17], was.question.tenant, was.question.approval_id, was.state.value)


def waiting_mark_from(row: tuple[Any, ...]) -> WaitingMark:
    """A row of `waiting_marks`."""
    approval_id, votes, told = row
    return WaitingMark(approval_id=approval_id, version=f"{votes}.{told or 0}")


def approval_from(row: tuple[Any, ...]) -> Approval:
    """Whatever a row says. One that was altered by hand, or moved, has a MAC that does not hold."""
    try:
        approval = _approval(row)
        question_form(approval.question)
        if approval.answer is not None:
            signed_form(approval.question, approval.answer)
        return approval
    except (PlacetError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return _unreadable(row)


def _approval(row: tuple[Any, ...]) -> Approval:
    question = json.loads(row[9])
    question.update(_looked_up_by(row))
    question["reasons"] = tuple(question["reasons"])
    question["requirement"] = RequirementKind(question["requirement"])
    question["asked_at"] = datetime.fromisoformat(question["asked_at"])
    question["decide_by"] = datetime.fromisoformat(question["decide_by"])
    if "terms" in question:
        question["terms"] = Terms(**question["terms"])
    if "edited" in question:
        question["edited"] = Edited(**question["edited"])
    if "reminders" in question:
        question["reminders"] = _reminders(question["reminders"])
    question.pop("first_step_at", None)
    if "precondition" in question:
        question["precondition"] = Mac(**question["precondition"])
    answer = json.loads(row[13]) if row[13] is not None else None
    if answer is not None:
        answer["decision"] = ApprovalDecision(answer.pop("verdict"))
        answer["decided_at"] = datetime.fromisoformat(answer["decided_at"])
        answer["expires_at"] = datetime.fromisoformat(answer["expires_at"])
        if "leave" in answer:
            answer["leave"] = leave_from(answer["leave"])
        answer["votes"] = tuple(answer.get("votes", ()))
    return Approval(
        question=Question(**question, sealed_arguments=row[12]),
        question_mac=Mac(key_id=row[10], value=row[11]),
        state=ApprovalState(row[8]),
        answer=Answer(**answer) if answer is not None else None,
        signature=Mac(key_id=row[14], value=row[15]) if row[15] is not None else None,
        spent_at=instant(row[17]),
    )


_LOOKED_UP_BY = (
    "approval_id",
    "tenant",
    "subject",
    "run_id",
    "tool",
    "argument_digest",
    "policy_version",
    "operation_key",
)
"""The first columns of a row. They are in no other place, and the question's MAC covers them: no row can be moved."""


def _looked_up_by(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(_LOOKED_UP_BY, row[:8], strict=True))


def _unreadable(row: tuple[Any, ...]) -> Approval:
    """Stands for a row of which not even the form is left: a question nobody asked, whose MAC cannot hold."""
    states = [state for state in ApprovalState if state.value == row[8]]
    blank: dict[str, Any] = dict.fromkeys(
        ("environment", "request_id", "call_id", "tool_version", "contract_digest", "purpose", "nonce"), "unreadable"
    )
    return Approval(
        question=Question(
            **_looked_up_by(row),
            **blank,
            on_behalf_of=None,
            resource=None,
            dispatch_number=0,
            reasons=(),
            requirement=RequirementKind.REVIEW,
            lifetime_seconds=0.0,
            asked_at=EPOCH,
            decide_by=EPOCH,
            sealed_arguments=b"",
        ),
        question_mac=Mac(key_id="unreadable", value=""),
        state=states[0] if states else ApprovalState.PENDING,
        answer=None,
        signature=None,
        spent_at=None,
    )


def _question_json(question: Question) -> str:
    apart = {*_LOOKED_UP_BY, "sealed_arguments"}
    data = {field.name: getattr(question, field.name) for field in fields(Question) if field.name not in apart}
    data["reasons"] = list(question.reasons)
    data["requirement"] = question.requirement.value
    data["asked_at"] = instant_text(question.asked_at)
    data["decide_by"] = instant_text(question.decide_by)
    if question.terms is None:  # in the form of before, which processes of before can read
        del data["terms"]
    else:
        data["terms"] = terms_form(question.terms)
    if question.edited is None:
        del data["edited"]
    else:
        data["edited"] = edited_form(question.edited)
    if question.precondition is None:
        del data["precondition"]
    else:
        data["precondition"] = precondition_form(question.precondition)
    if question.reminders is None:
        del data["reminders"]
    else:
        data["reminders"] = reminders_form(question.reminders)
        first_at = first_step_at(question)
        data["first_step_at"] = None if first_at is None else instant_text(first_at)  # for finding only
    return json.dumps(data, sort_keys=True)


def _reminders(data: dict[str, Any]) -> Reminders:
    """Raises TypeError, KeyError or `MisuseError` for what is none."""
    data["remind_after_seconds"] = tuple(data["remind_after_seconds"])
    data["escalate_to"] = tuple(data["escalate_to"])
    return Reminders(**data)


def _answer_json(answer: Answer | None) -> str | None:
    if answer is None:
        return None
    data = {field.name: getattr(answer, field.name) for field in fields(Answer)}
    data["verdict"] = data.pop("decision").value  # as in `signed_form`: stores have it under this name
    data["decided_at"] = instant_text(answer.decided_at)
    data["expires_at"] = instant_text(answer.expires_at)
    data["leave"] = leave_data(answer.leave) if answer.leave is not None else None
    data["votes"] = list(answer.votes)
    for name in ("leave", "votes"):
        if not data[name]:
            del data[name]
    return json.dumps(data, sort_keys=True)


def leave_data(leave: Leave) -> dict[str, Any]:
    data = {"roles": list(leave.roles), "scopes": list(leave.scopes), "is_listed": leave.is_listed}
    return {**data, "by_escalation": True} if leave.by_escalation else data


def leave_from(data: dict[str, Any]) -> Leave:
    """Raises TypeError, ValueError or KeyError for what is none."""
    return Leave(
        roles=tuple(data["roles"]),
        scopes=tuple(data["scopes"]),
        is_listed=data["is_listed"],
        by_escalation=data.get("by_escalation", False) is True,
    )


def edit_row(of: Question, edited_id: str) -> tuple[Any, ...]:
    """All columns of `approval_edits`, in order: a way to find what was made of a question, which proves nothing."""
    return (of.tenant, edited_id, of.subject, of.run_id, of.tool, of.argument_digest, of.approval_id)
