"""A run as its events tell of it: nothing is told that no event says, and what nobody knows never looks done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.console.entries import Entry
from placet.console.timelines import CallSeen, RunSeen, Standing, run_seen
from placet.console.ways import Stage

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Told:
    """Events of one writer, a second apart unless they say otherwise."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.seconds = 0.0

    def event(self, kind: str, *, call: str = "c-1", after: float = 1.0, **facts: Any) -> Told:
        self.seconds += after
        at = (BEGAN + timedelta(seconds=self.seconds)).isoformat()
        plain = {
            "kind": kind,
            "at": at,
            "call_id": call,
            "tool": "refund",
            "subject": "agent-7",
            "attempt": 1,
            "fence": 0,
        }
        self.entries.append(Entry(writer="w", sequence=len(self.entries) + 1, facts=plain | facts))
        return self

    def attempt(self, outcome: str, *, fence: int = 1, attempt: int = 1, call: str = "c-1", **facts: Any) -> Told:
        same = {"fence": fence, "attempt": attempt, "call": call, "effect_class": "write", "operation": f"op-{call}"}
        self.event("started", decision="allow", reasons=["matrix_admin_low"], **same)
        return self.event("completed", outcome=outcome, **same, **facts)

    def asked(self, *, call: str = "c-1") -> Told:
        """As the gate writes it: the proposal ends, and then the question is there."""
        self.event("started", decision="ask", call=call)
        self.event("completed", outcome="approval_required", after=0.0, call=call)
        return self.event("approval_asked", after=0.0, reasons=["matrix_admin_high"], approval_id="a-1", call=call)

    def seen(self) -> RunSeen:
        return run_seen("run-1", self.entries)

    def call(self) -> CallSeen:
        return self.seen().calls[0]


def way(call: CallSeen) -> list[str]:
    return [f"{step.stage.value} {step.words}".strip() for step in call.steps]


@pytest.mark.case("D08")
def test_what_a_policy_in_shadow_would_have_changed_is_told_beside_what_was_done() -> None:
    would_deny = {"enforced": "allow", "would_be": "deny", "changes": True, "reasons": ["scope_missing"]}
    told = Told()
    told.event("started", decision="allow", fence=1, shadow=would_deny)
    told.event("completed", outcome="success", fence=1, shadow=would_deny)

    call = told.call()

    assert way(call) == [
        "proposed",
        "checked fits its contract",
        "decided allowed",
        "decided in shadow, decides nothing: it would be denied",
        "sent attempt 1",
        "observed done",
    ]
    assert [reason.code for reason in call.steps[3].reasons] == ["scope_missing"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"would_be": "allow", "changes": False}, []),
        ({"would_be": "error", "changes": False}, ["the policy did not answer"]),
        ({"would_be": ["x"], "changes": True, "reasons": 7}, ["unreadable"]),
        ("deny", []),
    ],
)
def test_of_a_policy_in_shadow_only_a_change_and_a_fault_are_told(said: object, words: list[str]) -> None:
    told = Told().event("started", decision="allow", fence=1, shadow=said)

    found = [step.words for step in told.call().steps if step.words.startswith("in shadow")]

    assert found == [f"in shadow, decides nothing: {each}" for each in words]


def test_a_call_that_was_asked_about_is_told_as_it_came_about() -> None:
    told = Told().asked().event("approval_approved", after=90.0, decided_by="mei")
    told.event("started", decision="allow_after_approval", fence=1, effect_class="write")
    told.event("approval_spent", fence=1, after=0.0, decided_by="mei")
    told.event("completed", outcome="success", fence=1, effect_state="committed", operation="op", after=2.5)
    call = told.call()

    assert way(call) == [
        "proposed",
        "checked fits its contract",
        "decided asked: a person has to decide",
        "decided approved",
        "decided approval used",
        "sent attempt 1",
        "observed done",
    ]
    assert [step.gap_seconds for step in call.steps] == [None, None, None, 90.0, 1.0, None, 2.5]
    assert [each.code for each in call.steps[2].reasons] == ["matrix_admin_high"]
    assert (call.standing, call.attempts, call.seconds) == (Standing.DONE, 1, 93.5)


def test_a_call_that_a_grant_let_through_says_so_and_whose_grant_it_is() -> None:
    told = Told().asked().event("approval_withdrawn", detail="granted")
    told.event(
        "started", decision="allow_by_grant", reasons=["grant:gr-1"], decided_by="mei", fence=1, effect_class="write"
    )
    told.event("completed", outcome="success", fence=1, effect_state="committed", operation="op")
    call = told.call()

    assert way(call) == [
        "proposed",
        "checked fits its contract",
        "decided asked: a person has to decide",
        "decided taken back: a standing grant answers it",
        "decided let through by a standing grant",
        "sent attempt 1",
        "observed done",
    ]
    assert not any(step.is_bad for step in call.steps)
    assert [each.code for each in call.steps[4].reasons] == ["grant:gr-1"]


def test_what_a_transaction_writes_is_told_with_the_cause_first() -> None:
    kinds = [each.word("kind") for each in Told().asked().call().entries]

    assert kinds == ["started", "approval_asked", "completed"]


@pytest.mark.parametrize(
    ("outcome", "facts", "last", "standing"),
    [
        ("validation", {"fence": 0}, "checked refused: it does not fit the contract", Standing.REFUSED),
        ("denied", {"fence": 0, "reasons": ["scope_missing"]}, "decided denied", Standing.REFUSED),
    ],
)
def test_a_refusal_is_a_step(outcome: str, facts: dict[str, Any], last: str, standing: Standing) -> None:
    told = Told().event("started", fence=0, effect_class="write").event("completed", outcome=outcome, **facts)
    call = told.call()

    assert (way(call)[-1], call.standing, call.steps[-1].is_bad) == (last, standing, True)
    assert not [step for step in call.steps if step.stage is Stage.SENT]


@pytest.mark.parametrize(
    ("kind", "words", "standing"),
    [
        ("approval_denied", "denied", Standing.REFUSED),
        ("approval_expired", "expired", Standing.REFUSED),
        ("approval_withdrawn", "taken back", Standing.REFUSED),
        ("approval_edited", "other arguments asked for instead", Standing.REFUSED),
        ("approval_approved", "approved", Standing.APPROVED),
    ],
)
def test_what_a_person_said_is_a_step(kind: str, words: str, standing: Standing) -> None:
    call = Told().asked().event(kind, decided_by="mei").call()

    assert (call.steps[-1].words, call.standing) == (words, standing)
    assert call.steps[-1].is_bad is (standing is Standing.REFUSED)


def test_a_question_that_waits_waits() -> None:
    assert Told().asked().call().standing is Standing.WAITING


def test_attempts_that_were_made_again_are_folded_into_the_last_one() -> None:
    told = Told().attempt("error", attempt=1).attempt("timeout", attempt=2)
    call = told.attempt("success", attempt=3, effect_state="committed").call()

    assert way(call) == ["proposed", "checked fits its contract", "decided allowed", "sent attempt 3", "observed done"]
    assert [step.words for step in call.steps[3].folded] == [
        "attempt 1", "failed", "attempt 2", "no answer in time",
    ]  # fmt: skip
    assert (call.attempts, call.standing) == (3, Standing.DONE)


def test_an_answer_from_the_record_is_not_sent() -> None:
    told = Told().attempt("success", effect_state="committed").attempt("replayed", fence=0).attempt("replayed", fence=0)
    call = told.call()

    assert way(call)[-2:] == ["observed done", "observed answered from the record; nothing was sent"]
    assert (call.attempts, len(call.steps[-1].folded)) == (1, 1)


@pytest.mark.parametrize("outcome", ["error", "timeout", "success", "unknown"])
def test_an_unknown_effect_is_never_done_until_it_is_settled(outcome: str) -> None:
    told = Told().attempt("success", call="c-0", effect_state="committed").attempt(outcome, effect_state="unknown")
    seen = told.seen()

    assert (seen.calls[1].standing, seen.standing) == (Standing.UNKNOWN, Standing.UNKNOWN)
    assert seen.calls[1].steps[-1].words == "unknown: it may have happened"
    assert seen.counts == ((Standing.UNKNOWN, 1), (Standing.DONE, 1))

    told.event("effect_reconciled", effect_state="reconciled_committed", operation="op-c-1", decided_by="omar")
    assert told.seen().standing is Standing.DONE
    assert told.seen().calls[1].steps[-1].words == "settled: it happened"


def test_a_call_that_met_an_unknown_effect_is_known_once_another_call_is_settled() -> None:
    told = Told().attempt("error", effect_state="unknown")
    told.event("started", call="c-2", operation="op-c-1", effect_class="write")
    told.event("completed", call="c-2", operation="op-c-1", outcome="unknown", detail="effect_unknown")
    assert [call.standing for call in told.seen().calls] == [Standing.UNKNOWN, Standing.UNKNOWN]

    told.event("effect_reconciled", effect_state="reconciled_absent", operation="op-c-1")
    assert [call.standing for call in told.seen().calls] == [Standing.FAILED, Standing.FAILED]


def test_what_has_not_ended_is_open() -> None:
    assert Told().event("started", decision="allow", fence=1).call().standing is Standing.OPEN


def test_a_read_that_was_answered_by_its_handler_was_sent() -> None:
    told = Told().event("started", decision="allow", effect_class="read").event("completed", outcome="success")

    assert [step.stage for step in told.call().steps] == [
        Stage.PROPOSED, Stage.CHECKED, Stage.DECIDED, Stage.SENT, Stage.OBSERVED,
    ]  # fmt: skip


def test_events_that_cannot_be_read_break_nothing() -> None:
    broken = Entry(writer="w", sequence=1, facts={"call_id": "c-1", "kind": "no such kind", "at": 7, "fence": "x"})
    told = Told().event("completed", outcome="no such outcome", effect_state="no such state")
    seen = run_seen("run-1", [Entry(writer="w", sequence=9, facts={}), broken, *told.entries])

    assert [step.words for step in seen.calls[0].steps] == ["unreadable", "unreadable"]
    assert seen.events == 3
