"""How an approval stands, in the words of a refused decision. They name who decided, and when, and nothing else."""

from __future__ import annotations

from placet.model.approval import Approval, ApprovalState, Question
from placet.rules import approvals as rules

_DECIDED = frozenset({ApprovalState.APPROVED, ApprovalState.SPENT, ApprovalState.DENIED})
"""States whose words may name who decided; whoever took it back is another one."""


def expired(question: Question) -> str:
    """Nobody decided in time; the message says since when. It has to be asked anew."""
    return f"Nobody decided in time: it expired at {rules.instant_text(question.decide_by)}. It has to be asked anew."


def asked_already(approval: Approval) -> str:
    """The edited call waits, or is approved, already; the message says under which id."""
    return f"This very call is {approval.state.value} already, as {approval.question.approval_id}."


def stands(approval: Approval) -> str:
    """Somebody was first; the message says who and when."""
    answer, who = approval.answer, ""
    if answer is not None and approval.state in _DECIDED:
        who = f" by {answer.decided_by} at {rules.instant_text(answer.decided_at)}"
    return f"It is {approval.state.value} already{who}."
