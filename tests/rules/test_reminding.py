"""Which step of a waiting question is due, and from when an escalation counts: by its signed instants alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from placet.errors import MisuseError
from placet.model.approval import Question
from placet.model.reminders import Reminders, ReminderStep, Told
from placet.rules.approvals import question_form
from placet.rules.reminding import DueStep, due_step, escalates_at, first_step_at, is_widened, reminders_form
from placet.testing.conformance import a_question

ASKED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
REMIND, ESCALATE = ReminderStep.REMIND, ReminderStep.ESCALATE
TWICE = Reminders(remind_after_seconds=(10.0, 20.0), escalate_after_seconds=30.0, widens=True)


def at(seconds: float) -> datetime:
    return ASKED + timedelta(seconds=seconds)


def a_wait(reminders: Reminders | None = TWICE, *, seconds: float = 100.0) -> Question:
    return a_question(asked_at=ASKED, decide_by=at(seconds), reminders=reminders)


def due(seconds: float, *told: float, question: Question | None = None) -> DueStep | None:
    """What is due, after people were told at these instants."""
    had = [Told(step=REMIND, at=at(each)) for each in told]
    return due_step(question or a_wait(), had, now=at(seconds))


def test_each_step_is_due_from_its_instant_on_until_it_was_told() -> None:
    assert due(9.999999) is None
    first = DueStep(step=REMIND, next_at=at(20))
    assert due(10) == due(19.999999) == first
    assert due(10, 10) is due(19, 15) is None
    assert due(20, 10) == DueStep(step=REMIND, next_at=at(30))
    assert due(30, 10, 20) == DueStep(step=ESCALATE, next_at=None)
    assert due(99, 10, 20, 30) is None


def test_of_several_that_were_missed_one_is_told_and_the_escalation_before_all() -> None:
    assert due(25) == DueStep(step=REMIND, next_at=at(30))
    assert due(25, 25) is None
    assert due(31) == due(31, 10) == DueStep(step=ESCALATE, next_at=None)
    mixed = a_wait(Reminders(remind_after_seconds=(10.0, 40.0), escalate_after_seconds=20.0))
    assert due(50, question=mixed) == DueStep(step=ESCALATE, next_at=None)
    assert due(25, question=mixed) == DueStep(step=ESCALATE, next_at=at(40))
    assert due(40, 25, question=mixed) == DueStep(step=REMIND, next_at=None)


def test_nothing_is_due_from_the_end_of_the_question_on() -> None:
    assert due(99.999999) is not None
    assert due(100) is due(500) is None
    short = a_wait(seconds=20.0)
    assert (first_step_at(short), escalates_at(short)) == (at(10), None)
    assert due(19, question=short) == DueStep(step=REMIND, next_at=None)
    assert is_widened(short, now=at(19)) is False


def test_a_clock_that_goes_back_tells_nothing_again() -> None:
    assert due(11, 25) is None
    assert due(29, 25) is None
    assert due(30, 25) == DueStep(step=ESCALATE, next_at=None)


def test_a_question_without_reminders_waits_in_peace() -> None:
    quiet = a_wait(None)
    assert due(50, question=quiet) is None
    assert (first_step_at(quiet), escalates_at(quiet), is_widened(quiet, now=at(50))) == (None, None, False)


def test_an_escalation_counts_from_its_instant_and_only_if_it_widens() -> None:
    assert [is_widened(a_wait(), now=at(seconds)) for seconds in (0, 29.999999, 30, 99)] == [False, False, True, True]
    told = Reminders(escalate_after_seconds=30.0)
    assert is_widened(a_wait(told), now=at(50)) is False
    assert escalates_at(a_wait(told)) == at(30)


def test_every_part_of_the_reminders_is_signed_and_a_question_without_any_keeps_its_form() -> None:
    forms = [
        question_form(a_wait(each))
        for each in (
            None,
            TWICE,
            Reminders(remind_after_seconds=(10.0,), escalate_after_seconds=30.0, widens=True),
            Reminders(remind_after_seconds=(10.0, 20.0), escalate_after_seconds=31.0, widens=True),
            Reminders(remind_after_seconds=(10.0, 20.0), escalate_after_seconds=30.0),
            Reminders(
                remind_after_seconds=(10.0, 20.0), escalate_after_seconds=30.0, escalate_to=("role:admin",), widens=True
            ),
        )
    ]
    assert len(set(forms)) == len(forms)
    assert b'"v":1' in forms[0] and b"reminders" not in forms[0]
    assert reminders_form(TWICE) == {
        "remind_after_seconds": [10.0, 20.0],
        "escalate_after_seconds": 30.0,
        "escalate_to": [],
        "widens": True,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"remind_after_seconds": [1.0]},
        {"remind_after_seconds": (0.0,)},
        {"remind_after_seconds": (2.0, 1.0)},
        {"remind_after_seconds": (1.0, 1.0)},
        {"remind_after_seconds": (366 * 86_401.0,)},
        {"remind_after_seconds": tuple(float(n) for n in range(1, 10))},
        {"remind_after_seconds": ("1h",)},
        {"escalate_after_seconds": -1.0},
        {"escalate_after_seconds": 1.0, "escalate_to": ["role:admin"]},
        {"escalate_after_seconds": 1.0, "escalate_to": (5,)},
        {"escalate_after_seconds": 1.0, "escalate_to": ("role:admin",) * 65},
        {"escalate_after_seconds": 1.0, "widens": 1},
        {"remind_after_seconds": (1.0,), "escalate_to": ("role:admin",)},
        {"remind_after_seconds": (1.0,), "widens": True},
    ],
    ids=str,
)
def test_reminders_that_mean_nothing_are_not_made(wrong: dict[str, object]) -> None:
    with pytest.raises(MisuseError):
        Reminders(**wrong)  # type: ignore[arg-type]
