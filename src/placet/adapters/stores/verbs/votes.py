"""Votes towards a quorum."""

from __future__ import annotations

from dataclasses import replace

from placet.adapters.stores.verbs.approvals import known_approval
from placet.adapters.stores.verbs.tables import Tables
from placet.model.approval import Approval, ApprovalState, OtherVotes, SignedAnswer, SignedVote
from placet.model.audit import AuditEvent


def vote(
    tables: Tables,
    seen: Approval,
    cast: SignedVote,
    among: tuple[SignedVote, ...],
    closing: SignedAnswer | None,
    events: tuple[AuditEvent, ...],
) -> Approval | OtherVotes:
    approval = known_approval(tables, seen)
    if approval.state is not ApprovalState.PENDING:
        return approval
    question = approval.question
    if _signatures(tables.votes(question.tenant, question.approval_id)) != _signatures(among):
        return OtherVotes()
    tables.add_vote(question.tenant, question.approval_id, cast)
    if closing is not None:
        decided = replace(approval, state=ApprovalState.APPROVED, answer=closing.answer, signature=closing.signature)
        tables.change_approval(decided, was=approval)
        approval = decided
    tables.append(events)
    return approval


def _signatures(votes: tuple[SignedVote, ...]) -> list[str]:
    return sorted(each.signature.value for each in votes)
