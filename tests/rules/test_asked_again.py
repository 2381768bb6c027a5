"""What is asked otherwise than under an earlier policy: of the very same call, and of nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from placet.model.approval import Approval, ApprovalState, Difference, Question
from placet.model.decision import RequirementKind
from placet.model.identifiers import ApprovalId, CallId, Digest, OperationKey, PolicyVersion
from placet.rules.asked_again import asked_before, differences
from tests.rules.test_approvals import approval, question

NOW = question()
BEFORE = replace(
    NOW,
    approval_id=ApprovalId("apr-0"),
    policy_version=PolicyVersion("older"),
    requirement=RequirementKind.CONFIRM,
    asked_at=NOW.asked_at - timedelta(hours=1),
)


def row(asked: Question) -> Approval:
    return approval(asked, state=ApprovalState.WITHDRAWN)


def test_the_difference_is_what_is_not_as_it_was() -> None:
    found = asked_before(replace(NOW, requirement=RequirementKind.REVIEW), [row(NOW), row(BEFORE)])

    assert found == BEFORE
    assert differences(found, replace(NOW, requirement=RequirementKind.REVIEW)) == (
        Difference(name="policy_version", was="older", now=str(NOW.policy_version)),
        Difference(name="requirement", was="confirm", now="review"),
    )


@pytest.mark.parametrize(
    "other",
    [
        {"call_id": CallId("another")},
        {"operation_key": OperationKey("another")},
        {"argument_digest": Digest("0" * 64)},
        {"asked_at": NOW.asked_at + timedelta(seconds=1)},
        {"policy_version": NOW.policy_version},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_is_another_call_or_policy_or_later_is_no_earlier_question(other: dict[str, object]) -> None:
    assert asked_before(NOW, [row(replace(BEFORE, **other))]) is None  # type: ignore[arg-type]
