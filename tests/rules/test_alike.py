"""Which questions are alike enough for one answer, and which of many comes first."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from placet.model.approval import Question
from placet.model.contract import EffectClass, Risk
from placet.model.decision import RequirementKind
from placet.model.reminders import Reminders
from placet.rules.alike import WHY_NOT_ALIKE, is_too_grave, unlike
from placet.rules.urgency import mark_of_urgency, urgency
from tests.rules.test_approvals import EDITED, MICROSECOND, NOW, TERMS, approval, question, tool_call

CONTRACT = tool_call().contract
TOLD = Reminders(remind_after_seconds=(60.0,), escalate_to=(), escalate_after_seconds=None, widens=False)
OTHERWISE: dict[str, tuple[Any, str]] = {
    "tool": ("other", "tool"),
    "tool_version": ("2", "contract"),
    "contract_digest": ("0" * 64, "contract"),
    "policy_version": ("v2", "policy"),
    "requirement": (RequirementKind.CONFIRM, "rule"),
    "lifetime_seconds": (60.0, "rule"),
    "terms": (TERMS, "rule"),
    "reasons": (("r", "s"), "rule"),
    "reminders": (TOLD, "rule"),
    "environment": ("staging", "environment"),
}
OF_EACH_ITS_OWN: dict[str, Any] = {
    "approval_id": "apr-2",
    "subject": "other",
    "on_behalf_of": "uma",
    "request_id": "q2",
    "run_id": "r2",
    "call_id": "c2",
    "argument_digest": "e" * 64,
    "resource": "w:y",
    "operation_key": "k2",
    "dispatch_number": 1,
    "asked_at": NOW + timedelta(seconds=1),
    "decide_by": NOW + timedelta(days=2),
    "nonce": "n-2",
    "sealed_arguments": b"other",
    "edited": EDITED,
}


@pytest.mark.case("O06")
@pytest.mark.parametrize("name", sorted(OTHERWISE))
def test_one_that_differs_in_what_it_is_held_to_is_unlike(name: str) -> None:
    value, why = OTHERWISE[name]
    odd = dataclasses.replace(question(), **{name: value})

    assert unlike([question(), question(approval_id="apr-2"), odd]) == why
    assert unlike([odd, odd]) is None
    assert why in WHY_NOT_ALIKE


@pytest.mark.case("O06")
@pytest.mark.parametrize("name", sorted(OF_EACH_ITS_OWN))
def test_what_is_each_ones_own_may_differ(name: str) -> None:
    assert unlike([question(), dataclasses.replace(question(), **{name: OF_EACH_ITS_OWN[name]})]) is None


def test_every_field_of_a_question_either_has_to_be_alike_or_may_differ() -> None:
    """A new field of questions is thought about: here, and where likeness is decided."""
    held = set(OTHERWISE) | set(OF_EACH_ITS_OWN)
    by_the_others = {"tenant", "purpose", "precondition"}
    assert {field.name for field in dataclasses.fields(Question)} - by_the_others == held


def test_what_is_wrong_first_is_said() -> None:
    odd = question(tool="other", environment="staging", policy_version="v2")
    assert unlike([question(), odd]) == "tool"


@pytest.mark.case("O06")
@pytest.mark.parametrize("risk", list(Risk))
def test_high_risk_is_too_grave_for_one_answer(risk: Risk) -> None:
    held = dataclasses.replace(CONTRACT, risk=risk)
    assert is_too_grave(question(), held) is (risk in (Risk.HIGH, Risk.CRITICAL))


@pytest.mark.case("O06")
def test_what_cannot_be_taken_back_or_may_be_done_twice_is_too_grave_for_one_answer() -> None:
    final = dataclasses.replace(CONTRACT, effect_class=EffectClass.IRREVERSIBLE)
    assert is_too_grave(question(), final)
    assert is_too_grave(question(reasons=("r", "may_act_twice")), CONTRACT)
    assert not is_too_grave(question(), CONTRACT)


@pytest.mark.case("O06")
def test_the_gravest_come_first_then_the_first_to_be_over_then_by_name() -> None:
    rows = [
        (Risk.CRITICAL, 9, "b"),
        (None, 1, "a"),
        (Risk.HIGH, 1, "z"),
        (Risk.HIGH, 2, "a"),
        (Risk.HIGH, 2, "b"),
        (Risk.MEDIUM, 1, "a"),
        (Risk.LOW, 0, "a"),
    ]
    marks = [
        mark_of_urgency(approval(question(decide_by=NOW + after * MICROSECOND, approval_id=name)), risk)
        for risk, after, name in rows
    ]

    assert sorted(reversed(marks), key=urgency) == marks
    assert len({urgency(mark) for mark in marks}) == len(marks)
