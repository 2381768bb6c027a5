"""The table of the ledger, and when silence may be called absence."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import Principal, Remote, tool
from placet.model.call import Call
from placet.model.contract import MAX_ATTEMPTS_PER_CALL
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import CallId, Digest, OperationKey, RequestId, RunId
from placet.model.ledger import Claimed
from placet.rules.lifecycle import (
    TRANSITIONS,
    AlreadyDone,
    MayDispatch,
    NobodyKnows,
    OtherOperation,
    StillRunning,
    WornOut,
    late_word_counts,
    ledger_answer,
    may_act_twice,
    may_be_absent,
    quiet_end,
    taken_over_state,
)
from placet.rules.transitions import apply_claim
from placet.testing.conformance import a_claim

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

REACHABLE = {
    "(none)": {"prepared", "dispatched"},
    "prepared": {"dispatched"},
    "dispatched": {"dispatched", "committed", "failed", "unknown", "reconciled_absent"},
    "committed": set(),
    "failed": {"dispatched"},
    "unknown": {"reconciled_committed", "reconciled_absent"},
    "reconciled_committed": set(),
    "reconciled_absent": {"dispatched"},
}
"""Written from DESIGN section 10 and the model's reachable table, not from the code."""


def an_effect(**changes: object) -> Effect:
    answer = apply_claim(None, a_claim(), now=NOW)
    assert isinstance(answer, Claimed)
    return replace(answer.effect, **changes)  # type: ignore[arg-type]


@pytest.mark.req("H032", "H033")
def test_the_table_is_the_one_of_the_design_and_nothing_else() -> None:
    written = {(None if before == "(none)" else EffectState(before), EffectState(after))
               for before, afters in REACHABLE.items() for after in afters}  # fmt: skip

    assert written == TRANSITIONS


@pytest.mark.req("H032")
def test_the_table_is_what_the_explored_model_reaches(shared_data: Path) -> None:
    model_folder = shared_data.parent / "model"
    if not (model_folder / "ledger_model.py").exists():
        pytest.skip("the explored model is not beside the shared data")
    sys.path.insert(0, str(model_folder))
    sys.dont_write_bytecode, was = True, sys.dont_write_bytecode
    try:
        import ledger_model as model
    finally:
        sys.path.remove(str(model_folder))
        sys.dont_write_bytecode = was
    small = dict(T=3, L=1, S=1, net=1, recs=1, reject=True)
    reached: set[tuple[str, str]] = set()
    for changes in ({}, {"proof": True, "cocommit": True}):
        violations, _, _, table, _ = model.verify(replace(model.FULL, **small, **changes), secs=20)
        assert violations == []
        reached |= table

    ours = {("new" if before is None else before.value, after.value) for before, after in TRANSITIONS
            if EffectState.PREPARED not in (before, after)}  # fmt: skip
    assert reached | {("dispatched", "dispatched")} == ours


def test_only_a_lost_co_commit_row_is_absent_at_once() -> None:
    assert taken_over_state(an_effect()) is EffectState.UNKNOWN
    assert taken_over_state(an_effect(token="co:t-1")) is EffectState.RECONCILED_ABSENT


def test_every_state_says_whether_it_may_be_dispatched_as_the_table_does() -> None:
    for state in EffectState:
        assert state.may_be_dispatched == (
            state is not EffectState.DISPATCHED and (state, EffectState.DISPATCHED) in TRANSITIONS
        )
        assert state.is_committed == (state.value in ("committed", "reconciled_committed"))


# ---------------------------------------------------------------- what a known operation answers


def a_call(**remote: Any) -> Call:
    async def pay(order: str) -> str: ...

    contract = tool(effect="write", risk="low", permission="p", remote=Remote(**remote))(pay).contract
    return Call(
        contract=contract,
        call_id=CallId("call-1"),
        run_id=RunId("run-1"),
        request_id=RequestId("request-1"),
        principal=Principal.agent("agent-1", tenant="acme"),
        reply_to=CallId("call-1"),
        first_attempt=1,
        is_recorded=True,
        arguments={"order": "A"},
        canonical_arguments=b'{"order":"A"}',
        argument_digest=Digest("a" * 64),
        operation_key=OperationKey("key-1"),
        fingerprint=Digest("f" * 64),
        resource=None,
    )


def test_an_operation_the_ledger_does_not_know_may_be_dispatched() -> None:
    assert ledger_answer(a_call(), None) == MayDispatch(expected_fence=0, may_act_twice=False)


@pytest.mark.parametrize("state", list(EffectState))
def test_a_known_operation_answers_by_its_state(state: EffectState) -> None:
    effect = an_effect(state=state, fence=7)

    expected = {
        EffectState.PREPARED: MayDispatch(expected_fence=7, may_act_twice=False),
        EffectState.DISPATCHED: StillRunning(effect=effect),
        EffectState.COMMITTED: AlreadyDone(effect=effect),
        EffectState.FAILED: MayDispatch(expected_fence=7, may_act_twice=False),
        EffectState.UNKNOWN: NobodyKnows(effect=effect),
        EffectState.RECONCILED_COMMITTED: AlreadyDone(effect=effect),
        EffectState.RECONCILED_ABSENT: MayDispatch(expected_fence=7, may_act_twice=True),
    }
    assert ledger_answer(a_call(), effect) == expected[state]


@pytest.mark.parametrize("state", list(EffectState))
def test_a_key_that_names_another_operation_is_said_to_whatever_its_state(state: EffectState) -> None:
    effect = an_effect(state=state, fingerprint=Digest("0" * 64), attempts=MAX_ATTEMPTS_PER_CALL)

    assert ledger_answer(a_call(), effect) == OtherOperation(effect=effect)


@pytest.mark.parametrize("state", [state for state in EffectState if state.may_be_dispatched])
def test_an_operation_is_worn_out_once_its_hundred_attempts_are_used(state: EffectState) -> None:
    effect = an_effect(state=state, attempts=100)

    assert ledger_answer(a_call(), effect) == WornOut(effect=effect)
    assert isinstance(ledger_answer(a_call(), replace(effect, attempts=99)), MayDispatch)


@pytest.mark.parametrize(
    ("remote", "twice"),
    [
        ({}, True),
        ({"honours_key": True}, False),
        ({"honours_key": True, "key_retention_seconds": 3600.0}, True),
        ({"refuses_late": True}, False),
        ({"arrival_bound_seconds": 2.0}, False),
        ({"co_commits": True}, False),
    ],
)
def test_only_an_absence_that_the_remote_cannot_prove_may_act_twice(remote: dict[str, Any], twice: bool) -> None:
    contract = a_call(**remote).contract

    for state in EffectState:
        expected = twice and state is EffectState.RECONCILED_ABSENT
        assert may_act_twice(contract, an_effect(state=state)) is expected
    absent = ledger_answer(a_call(**remote), an_effect(state=EffectState.RECONCILED_ABSENT, fence=3))
    assert absent == MayDispatch(expected_fence=3, may_act_twice=twice)


# ---------------------------------------------------------------- quiet

SEND_BY = NOW + timedelta(seconds=10)


@pytest.mark.parametrize(
    ("ends_by_itself", "ended_after", "bound", "quiet_after"),
    [
        # seconds from NOW; send_by is NOW + 10, the pause bound 5
        (True, None, 0.0, 15.0),
        (True, None, 2.0, 17.0),
        (True, 3.0, 2.0, 17.0),  # its end changes nothing: send_by bounds it
        (True, 90.0, 2.0, 17.0),
        (False, None, 2.0, None),  # a thread may still be going on
        (False, 3.0, 2.0, 17.0),  # ended before its send window did
        (False, 10.0, 2.0, 17.0),
        (False, 90.0, 2.0, 97.0),  # quiet runs from the end that was heard of
        (False, 90.0, 0.0, 95.0),
    ],
)
@pytest.mark.req("H045")
def test_quiet_begins(ends_by_itself: bool, ended_after: float | None, bound: float, quiet_after: float | None) -> None:
    effect = an_effect(
        ends_by_itself=ends_by_itself,
        attempt_ended_at=None if ended_after is None else NOW + timedelta(seconds=ended_after),
        arrival_bound_seconds=bound,
        send_by=SEND_BY,
    )

    assert quiet_end(effect, pause_seconds=5.0) == (
        None if quiet_after is None else NOW + timedelta(seconds=quiet_after)
    )


def test_absence_needs_a_look_strictly_after_the_quiet_end() -> None:
    effect = an_effect(send_by=SEND_BY, arrival_bound_seconds=2.0)
    end = SEND_BY + timedelta(seconds=7)

    assert not may_be_absent(effect, looked_at=end - MICROSECOND, pause_seconds=5.0)
    assert not may_be_absent(effect, looked_at=end, pause_seconds=5.0)
    assert may_be_absent(effect, looked_at=end + MICROSECOND, pause_seconds=5.0)


def test_no_look_proves_absence_while_the_attempt_may_go_on() -> None:
    effect = an_effect(ends_by_itself=False, attempt_ended_at=None)

    assert not may_be_absent(effect, looked_at=NOW + timedelta(days=3650), pause_seconds=5.0)


# ---------------------------------------------------------------- the late word


@pytest.mark.parametrize("state", list(EffectState))
@pytest.mark.parametrize("word", [EffectState.COMMITTED, EffectState.FAILED, EffectState.UNKNOWN])
@pytest.mark.parametrize("fence", [0, 1, 2])
def test_a_late_word_counts_only_as_a_success_of_the_same_dispatch_of_an_unknown_effect(
    state: EffectState, word: EffectState, fence: int
) -> None:
    effect = an_effect(state=state)

    counts = (state, word, fence) == (EffectState.UNKNOWN, EffectState.COMMITTED, 1)
    assert late_word_counts(effect, fence=fence, state=word) is counts
