"""What is asked otherwise about a call than when it was asked about under an earlier policy."""

from __future__ import annotations

from collections.abc import Sequence

from placet.model.approval import Approval, Difference, Question


def asked_before(question: Question, found: Sequence[Approval]) -> Question | None:
    """The question that this one stands in for: the last one about the very same call, under another policy.

    Args:
        found: sound ones of the same run and tool, the newest first.
    """
    mine = (question.call_id, question.operation_key, question.argument_digest)
    for approval in found:
        earlier = approval.question
        is_same = (earlier.call_id, earlier.operation_key, earlier.argument_digest) == mine
        if is_same and earlier.asked_at <= question.asked_at and earlier.approval_id != question.approval_id:
            return earlier if earlier.policy_version != question.policy_version else None
    return None


def differences(earlier: Question, question: Question) -> tuple[Difference, ...]:
    """The policy, and whatever else is not as it was; nothing of the arguments, which are the same."""
    pairs = zip(_terms(earlier), _terms(question), strict=True)
    return tuple(Difference(name=name, was=was, now=now) for (name, was), (_, now) in pairs if was != now)


def _terms(question: Question) -> tuple[tuple[str, str | None], ...]:
    terms = question.terms
    return (
        ("policy_version", str(question.policy_version)),
        ("requirement", question.requirement.value),
        ("rule", None if terms is None else terms.rule),
        ("votes_needed", str(question.votes_needed)),
        ("reasons", ", ".join(question.reasons) or None),
        ("tool_version", question.tool_version),
    )
