"""Questions and what becomes of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from placet.adapters.stores.verbs.steps import count, is_closed, step_refusal, without_budget
from placet.adapters.stores.verbs.tables import Tables
from placet.errors import NotFound
from placet.model.approval import Answer, Approval, ApprovalDecision, ApprovalState, Mac, Question
from placet.model.audit import AuditEvent
from placet.model.identifiers import ApprovalId
from placet.model.ledger import RecordAnswer, SameAsk, Step, ToolClosed, Withdrawal
from placet.rules import runs
from placet.rules.approvals import CLOSED_AS
from placet.rules.approvals import TRANSITIONS as APPROVAL_TRANSITIONS


def ask(
    tables: Tables,
    question: Question,
    mac: Mac,
    same: SameAsk,
    step: Step,
    events: tuple[AuditEvent, ...],
    now: datetime,
    closing: tuple[Withdrawal, ...] = (),
) -> Approval | RecordAnswer:
    run = tables.run(step.tenant, step.run_id)
    if (refusal := step_refusal(tables, step, run, tool=question.tool, now=now)) is not None:
        return refusal
    if (refusal := without_budget(tables, run, runs.takes(run, question.tool))) is not None:
        return refusal  # nobody is asked about what could not be done
    if is_closed(tables, step, question.tool):
        return ToolClosed()
    existing = tables.open_approval(same)
    count(tables, step, run, now)
    closed = close(tables, closing)
    if existing is not None and existing.question.approval_id not in closed:
        return existing  # also where it was to be closed, and somebody has answered it since it was seen
    approval = Approval(
        question=question, question_mac=mac, state=ApprovalState.PENDING, answer=None, signature=None, spent_at=None
    )
    tables.add_approval(approval)
    tables.append(events)
    return approval


def answer(tables: Tables, seen: Approval, given: Answer, signature: Mac, events: tuple[AuditEvent, ...]) -> Approval:
    approval = known_approval(tables, seen)
    if approval.state is not ApprovalState.PENDING:
        return approval
    state = ApprovalState.APPROVED if given.decision is ApprovalDecision.APPROVE else ApprovalState.DENIED
    decided = replace(approval, state=state, answer=given, signature=signature)
    tables.change_approval(decided, was=approval)
    if state is ApprovalState.DENIED:
        question = approval.question
        tables.add_denial(question.tenant, question.run_id, question.tool)
    tables.append(events)
    return decided


def edit(
    tables: Tables,
    seen: Approval,
    question: Question,
    mac: Mac,
    same: SameAsk,
    events: tuple[AuditEvent, ...],
) -> Approval:
    approval = known_approval(tables, seen)
    if approval.state is not ApprovalState.PENDING:
        return approval
    if (existing := tables.open_approval(same)) is not None:
        return existing
    edited = Approval(
        question=question, question_mac=mac, state=ApprovalState.PENDING, answer=None, signature=None, spent_at=None
    )
    tables.change_approval(replace(approval, state=ApprovalState.WITHDRAWN), was=approval)
    tables.add_approval(edited)
    tables.add_edit(approval.question, question.approval_id)
    tables.append(events)
    return edited


def retire(tables: Tables, seen: Approval, state: ApprovalState, events: tuple[AuditEvent, ...]) -> Approval:
    approval = known_approval(tables, seen)
    if approval.state is not seen.state or (approval.state, state) not in APPROVAL_TRANSITIONS:
        return approval
    closed = replace(approval, state=state)
    tables.change_approval(closed, was=approval)
    tables.append(events)
    return closed


def close(tables: Tables, closing: tuple[Withdrawal, ...]) -> set[ApprovalId]:
    """Withdraw what is still asked, revoke what is still approved; which of them are closed now.

    One that has become anything else since it was seen stays as it is.
    """
    closed: set[ApprovalId] = set()
    for each in closing:
        ends = CLOSED_AS.get(each.approval.state)
        if ends is not None and retire(tables, each.approval, ends, (each.event,)).state is ends:
            closed.add(each.approval.question.approval_id)
    return closed


def known_approval(tables: Tables, seen: Approval) -> Approval:
    approval = tables.approval(seen.question.tenant, seen.question.approval_id)
    if approval is None:
        raise NotFound("There is no such approval in this tenant.")
    return approval
