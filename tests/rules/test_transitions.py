"""The protocol on one row: no command leads where the table does not, and every refusal leaves the row as it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from placet.model.audit import EventKind
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import (
    ApprovalId,
    CallId,
    Digest,
    OperationKey,
    OwnerId,
    PolicyVersion,
    RunId,
    Token,
)
from placet.model.ledger import Claimed, Held, Moved, NotMoved, Spend
from placet.rules.lifecycle import TRANSITIONS
from placet.rules.transitions import (
    apply_claim,
    apply_co_commit,
    apply_reconciliation,
    apply_settlement,
    apply_take_over,
    apply_turn,
)
from placet.testing.conformance import a_claim, a_reconciliation, a_settlement, a_turn
from placet.testing.conformance.samples import PAUSE_SECONDS, an_event

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LATER = NOW + timedelta(days=1)
"""Long after every lease, window and quiet end."""

WORDS = (EffectState.COMMITTED, EffectState.FAILED, EffectState.UNKNOWN)
TRUTHS = (EffectState.RECONCILED_COMMITTED, EffectState.RECONCILED_ABSENT)


def a_row(state: EffectState, **changes: object) -> Effect:
    answer = apply_claim(None, a_claim(), now=NOW)
    assert isinstance(answer, Claimed)
    return replace(answer.effect, state=state, **changes)  # type: ignore[arg-type]


def afterwards(row: Effect, command: str, target: EffectState) -> Effect:
    """The row once the command, aimed at the target state, has met it."""
    match command:
        case "claim":
            answer = apply_claim(row, a_claim(token="token-2", fence=row.fence), now=LATER)
            return answer.effect
        case "turn":
            return apply_turn(row, a_turn(row), now=LATER).effect
        case "settle":
            return apply_settlement(row, a_settlement(row, target), now=LATER).effect
        case "co-commit":
            return apply_co_commit(row, a_settlement(row), now=LATER).effect
        case "take over":
            return apply_take_over(row, row, now=LATER).effect
        case _:
            return apply_reconciliation(row, a_reconciliation(row, target, looked_at=LATER), now=LATER).effect


def has_moved(row: Effect, after: Effect) -> bool:
    """Evidence about an unknown effect may be noted on its row; that is no move."""
    return after.state is not row.state or (row.state is EffectState.DISPATCHED and after != row)


COMMANDS = [
    ("claim", EffectState.DISPATCHED),
    ("turn", EffectState.DISPATCHED),
    *(("settle", word) for word in WORDS),
    ("co-commit", EffectState.COMMITTED),
    ("take over", EffectState.UNKNOWN),
    *(("reconcile", truth) for truth in TRUTHS),
]


@pytest.mark.req("H032", "H033")
@pytest.mark.parametrize("before", list(EffectState))
@pytest.mark.parametrize(("command", "target"), COMMANDS)
@pytest.mark.parametrize("token", ["token-1", "co:token-1"])
def test_no_command_leads_where_the_table_does_not(
    before: EffectState, command: str, target: EffectState, token: str
) -> None:
    row = a_row(before, token=Token(token))

    after = afterwards(row, command, target)

    assert not has_moved(row, after) or (before, after.state) in TRANSITIONS
    assert after.fence == row.fence + (command == "claim" and after != row)
    if before.is_committed:
        assert after == row


def test_every_move_of_the_table_is_made_by_some_command() -> None:
    made: dict[str, set[tuple[EffectState, EffectState]]] = {}
    for token, before, (command, target) in product(("token-1", "co:token-1"), EffectState, COMMANDS):
        row = a_row(before, token=Token(token))
        after = afterwards(row, command, target)
        if has_moved(row, after):
            made.setdefault(token, set()).add((before, after.state))
    moves = {move for move in TRANSITIONS if move[0] and move[1] is not EffectState.PREPARED}

    assert made["token-1"] == moves - {(EffectState.DISPATCHED, EffectState.RECONCILED_ABSENT)}
    assert made["co:token-1"] == moves, "the last one is the take-over of a co-commit row"


# ---------------------------------------------------------------- what a move writes


def test_the_first_claim_writes_a_whole_row() -> None:
    claim = a_claim(first_attempt=3, lease_seconds=30.0, send_window_seconds=7.5, ends_by_itself=False)

    assert apply_claim(None, claim, now=NOW) == Claimed(
        effect=Effect(
            tenant="acme",
            operation_key=OperationKey("key-1"),
            fingerprint=Digest("f" * 64),
            tool="pay",
            tool_version="1",
            contract_digest=Digest("c" * 64),
            argument_digest=Digest("a" * 64),
            run_id=RunId("run-1"),
            call_id=CallId("call-1"),
            subject="agent-1",
            policy_version=PolicyVersion("policy-1"),
            decision="allow",
            approval_id=None,
            state=EffectState.DISPATCHED,
            fence=1,
            attempts=1,
            attempt=3,
            token=Token("token-1"),
            owner=OwnerId("owner-1"),
            lease_until=NOW + timedelta(seconds=30),
            send_by=NOW + timedelta(seconds=7.5),
            arrival_bound_seconds=2.0,
            ends_by_itself=False,
            attempt_ended_at=None,
            probes=0,
            probe_after=None,
            sealed_arguments=b"sealed arguments",
            sealed_result=None,
            result_digest=None,
            external_reference=None,
            reason=None,
            created_at=NOW,
            updated_at=NOW,
        )
    )


def test_a_further_claim_keeps_the_count_of_attempts_and_the_birth_and_nothing_else_of_the_dispatch_before() -> None:
    row = a_row(
        EffectState.FAILED,
        fence=4,
        attempts=6,
        attempt=2,
        attempt_ended_at=NOW,
        probes=3,
        probe_after=NOW,
        sealed_result=b"old",
        result_digest=Digest("9" * 64),
        external_reference="old",
        reason="raised",
    )
    claim = a_claim(token="token-2", fence=4)

    fresh = apply_claim(None, claim, now=LATER)
    assert isinstance(fresh, Claimed)
    assert apply_claim(row, claim, now=LATER) == Claimed(
        effect=replace(fresh.effect, fence=5, attempts=7, created_at=NOW)
    )


def test_a_claim_with_an_approval_writes_which() -> None:
    spend = Spend(approval_id=ApprovalId("apr-1"), signature="signature", event=an_event(EventKind.APPROVAL_SPENT))

    answer = apply_claim(None, a_claim(spend=spend), now=NOW)

    assert isinstance(answer, Claimed) and answer.effect.approval_id == "apr-1"


def test_a_turn_opens_the_next_attempt_and_renews_lease_and_window() -> None:
    row = a_row(EffectState.DISPATCHED, fence=2, attempts=5, attempt=3)

    assert apply_turn(row, a_turn(row, lease_seconds=30.0, send_window_seconds=7.5), now=LATER) == Moved(
        effect=replace(
            row,
            attempts=6,
            attempt=4,
            lease_until=LATER + timedelta(seconds=30),
            send_by=LATER + timedelta(seconds=7.5),
            updated_at=LATER,
        ),
        is_news=True,
    )


def test_a_turn_that_was_made_before_is_answered_as_made_and_changes_nothing() -> None:
    row = a_row(EffectState.DISPATCHED, attempt=4, attempts=100)

    assert apply_turn(row, a_turn(row, attempt=3), now=LATER) == Moved(effect=row, is_news=False)


@pytest.mark.parametrize("attempt", [1, 2, 5, 6])
def test_a_turn_of_an_attempt_that_is_not_open_changes_nothing(attempt: int) -> None:
    row = a_row(EffectState.DISPATCHED, attempt=4)

    assert apply_turn(row, a_turn(row, attempt=attempt), now=LATER) == NotMoved(effect=row, reason="other_attempt")


@pytest.mark.parametrize("attempts", [3, 4])
def test_no_turn_passes_the_limit_of_attempts(attempts: int) -> None:
    row = a_row(EffectState.DISPATCHED, attempts=attempts)

    assert apply_turn(row, a_turn(row, max_attempts=3), now=LATER) == NotMoved(effect=row, reason="attempts_used_up")
    assert isinstance(apply_turn(replace(row, attempts=2), a_turn(row, max_attempts=3), now=LATER), Moved)


@pytest.mark.parametrize("fence", [1, 3])
def test_a_turn_is_its_fences_alone(fence: int) -> None:
    row = a_row(EffectState.DISPATCHED, fence=2)

    assert apply_turn(row, a_turn(row, fence=fence), now=LATER) == NotMoved(effect=row, reason="taken_over")


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("ends_by_itself", [True, False])
@pytest.mark.parametrize("has_ended", [True, False])
def test_a_settlement_writes_state_result_and_what_is_known_of_the_end(
    word: EffectState, ends_by_itself: bool, has_ended: bool
) -> None:
    row = a_row(EffectState.DISPATCHED, ends_by_itself=ends_by_itself, attempt_ended_at=NOW)
    settlement = a_settlement(
        row,
        word,
        reason="the reason",
        attempt_has_ended=has_ended,
        sealed_result=b"sealed",
        result_digest=Digest("7" * 64),
        external_reference="remote-9",
    )

    assert apply_settlement(row, settlement, now=LATER) == Moved(
        effect=replace(
            row,
            state=word,
            reason="the reason",
            ends_by_itself=ends_by_itself and has_ended,
            attempt_ended_at=LATER if has_ended else None,
            sealed_result=b"sealed",
            result_digest=Digest("7" * 64),
            external_reference="remote-9",
            updated_at=LATER,
        ),
        is_news=True,
    )


@pytest.mark.parametrize("attempt", [1, 3])
def test_a_settlement_of_an_attempt_that_is_not_open_changes_nothing(attempt: int) -> None:
    row = a_row(EffectState.DISPATCHED, attempt=2)

    answer = apply_settlement(row, a_settlement(row, attempt=attempt), now=LATER)

    assert answer == NotMoved(effect=row, reason="other_attempt")


@pytest.mark.parametrize("attempt", [1, 3])
def test_once_a_dispatch_has_ended_its_late_word_counts_whichever_attempt_it_speaks_of(attempt: int) -> None:
    row = a_row(EffectState.UNKNOWN, attempt=2)

    answer = apply_settlement(row, a_settlement(row, attempt=attempt), now=LATER)

    assert isinstance(answer, Moved) and answer.effect.state is EffectState.RECONCILED_COMMITTED


@pytest.mark.parametrize("word", WORDS)
def test_a_settlement_that_was_made_before_is_answered_as_made_and_changes_nothing(word: EffectState) -> None:
    row = a_row(EffectState.DISPATCHED)
    settled = apply_settlement(row, a_settlement(row, word), now=NOW)
    assert isinstance(settled, Moved)

    again = apply_settlement(settled.effect, a_settlement(row, word), now=LATER)

    assert again == Moved(effect=settled.effect, is_news=False)


def test_a_late_success_that_was_made_before_is_answered_as_made_and_changes_nothing() -> None:
    row = a_row(EffectState.UNKNOWN)
    late = apply_settlement(row, a_settlement(row), now=NOW)
    assert isinstance(late, Moved)

    assert apply_settlement(late.effect, a_settlement(row), now=LATER) == Moved(effect=late.effect, is_news=False)


@pytest.mark.parametrize("before", list(EffectState))
@pytest.mark.parametrize("word", WORDS)
def test_no_settlement_takes_back_what_another_one_said(before: EffectState, word: EffectState) -> None:
    row = a_row(before, result_digest=Digest("d" * 64))
    counts = before in (EffectState.DISPATCHED, word)
    late = word is EffectState.COMMITTED and before in (EffectState.UNKNOWN, EffectState.RECONCILED_COMMITTED)

    answer = apply_settlement(row, a_settlement(row, word, result_digest=Digest("d" * 64)), now=LATER)

    if counts or late:
        assert isinstance(answer, Moved)
    else:
        assert answer == NotMoved(effect=row, reason="already_settled")


def test_the_end_of_an_unknown_attempt_is_noted_and_one_that_goes_on_no_longer_ends_by_itself() -> None:
    row = a_row(EffectState.UNKNOWN)
    unsure = a_settlement(row, EffectState.UNKNOWN)

    assert apply_settlement(row, unsure, now=LATER) == Moved(effect=replace(row, attempt_ended_at=LATER), is_news=False)
    assert apply_settlement(row, replace(unsure, attempt_has_ended=False), now=LATER) == Moved(
        effect=replace(row, ends_by_itself=False), is_news=False
    )


def test_a_failure_that_arrives_late_changes_nothing_about_an_unknown_effect() -> None:
    row = a_row(EffectState.UNKNOWN)

    answer = apply_settlement(row, a_settlement(row, EffectState.FAILED), now=LATER)

    assert answer == NotMoved(effect=row, reason="already_settled")


# ---------------------------------------------------------------- the truth


@pytest.mark.parametrize("truth", TRUTHS)
def test_a_reconciliation_writes_the_truth_and_what_was_found(truth: EffectState) -> None:
    row = a_row(EffectState.UNKNOWN, reason="owner_lost")
    found = a_reconciliation(
        row,
        truth,
        looked_at=LATER,
        reason="person",
        sealed_result=b"found",
        result_digest=Digest("7" * 64),
        external_reference="remote-9",
    )

    assert apply_reconciliation(row, found, now=LATER) == Moved(
        effect=replace(
            row,
            state=truth,
            reason="person",
            sealed_result=b"found",
            result_digest=Digest("7" * 64),
            external_reference="remote-9",
            updated_at=LATER,
        ),
        is_news=True,
    )


@pytest.mark.parametrize("truth", TRUTHS)
def test_a_truth_that_was_written_before_is_answered_as_written(truth: EffectState) -> None:
    row = a_row(truth, fence=2)

    said = a_reconciliation(row, truth, looked_at=LATER)
    assert apply_reconciliation(row, said, now=LATER) == Moved(effect=row, is_news=False)


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("before", [EffectState.UNKNOWN, *TRUTHS])
@pytest.mark.parametrize("fence", [1, 3])
def test_a_truth_about_another_dispatch_changes_nothing(truth: EffectState, before: EffectState, fence: int) -> None:
    row = a_row(before, fence=2)

    answer = apply_reconciliation(row, a_reconciliation(row, truth, looked_at=LATER, fence=fence), now=LATER)

    assert answer == NotMoved(effect=row, reason="moved_on")


@pytest.mark.parametrize("truth", TRUTHS)
def test_nobody_has_looked_in_the_future(truth: EffectState) -> None:
    row = a_row(EffectState.UNKNOWN)

    early = a_reconciliation(row, truth, looked_at=LATER + MICROSECOND)
    assert apply_reconciliation(row, early, now=LATER) == NotMoved(effect=row, reason="looked_in_the_future")


def test_absence_waits_for_the_quiet_end_and_presence_does_not() -> None:
    row = a_row(EffectState.UNKNOWN)
    quiet = row.send_by + timedelta(seconds=PAUSE_SECONDS + row.arrival_bound_seconds)
    absent, committed = (a_reconciliation(row, truth, looked_at=quiet) for truth in reversed(TRUTHS))

    assert apply_reconciliation(row, absent, now=LATER) == NotMoved(effect=row, reason="too_early_for_absent")
    assert isinstance(apply_reconciliation(row, committed, now=LATER), Moved)
    assert isinstance(apply_reconciliation(row, replace(absent, looked_at=quiet + MICROSECOND), now=LATER), Moved)


# ---------------------------------------------------------------- the token decides


def test_a_claim_that_finds_its_own_token_has_won_whoever_owns_the_row() -> None:
    row = a_row(EffectState.DISPATCHED, owner=OwnerId("somebody"))

    assert apply_claim(row, a_claim(), now=LATER) == Claimed(effect=row)


def test_a_claim_of_the_same_owner_with_another_token_has_lost() -> None:
    row = a_row(EffectState.DISPATCHED)

    assert apply_claim(row, a_claim(token="token-2"), now=LATER) == Held(effect=row)


@pytest.mark.parametrize("state", [state for state in EffectState if state is not EffectState.DISPATCHED])
def test_a_claim_whose_row_has_moved_on_since_does_not_win_again(state: EffectState) -> None:
    row = a_row(state)

    assert apply_claim(row, a_claim(), now=LATER) == Held(effect=row)
    assert apply_claim(row, a_claim(fence=1), now=LATER) == Held(effect=row)


def test_a_claim_whose_token_stands_at_another_fence_does_not_win() -> None:
    row = a_row(EffectState.DISPATCHED, fence=3)

    assert apply_claim(row, a_claim(), now=LATER) == Held(effect=row)


@pytest.mark.parametrize("changes", [{"fence": 0}, {"fence": 2}, {"fingerprint": Digest("0" * 64)}])
@pytest.mark.parametrize("state", [EffectState.PREPARED, EffectState.FAILED, EffectState.RECONCILED_ABSENT])
def test_a_claim_that_read_another_row_is_held(state: EffectState, changes: dict[str, object]) -> None:
    row = a_row(state)

    claim = a_claim(**{"token": "token-2", "fence": 1, **changes})  # type: ignore[arg-type]
    assert apply_claim(row, claim, now=LATER) == Held(effect=row)


@pytest.mark.parametrize("word", WORDS)
def test_a_settlement_is_its_tokens_and_its_fences_alone(word: EffectState) -> None:
    row = a_row(EffectState.DISPATCHED, fence=2)

    for settlement in (
        a_settlement(row, word, fence=1),
        a_settlement(row, word, fence=3),
        a_settlement(row, word, token=Token("token-2")),
    ):
        assert apply_settlement(row, settlement, now=LATER) == NotMoved(effect=row, reason="taken_over")


# ---------------------------------------------------------------- the late word


@pytest.mark.parametrize("ends_by_itself", [True, False])
def test_a_late_success_keeps_its_result(ends_by_itself: bool) -> None:
    row = a_row(EffectState.UNKNOWN, ends_by_itself=ends_by_itself)

    answer = apply_settlement(row, a_settlement(row), now=LATER)

    assert isinstance(answer, Moved) and answer.is_news
    assert answer.effect.state is EffectState.RECONCILED_COMMITTED
    assert (answer.effect.sealed_result, answer.effect.attempt_ended_at) == (b"sealed result", LATER)


@pytest.mark.parametrize("state", [EffectState.RECONCILED_ABSENT, EffectState.FAILED])
def test_a_late_success_never_changes_what_was_given_out(state: EffectState) -> None:
    row = a_row(state)

    assert apply_settlement(row, a_settlement(row), now=LATER) == NotMoved(effect=row, reason="already_settled")


def test_a_late_success_with_another_result_than_the_probe_found_changes_nothing() -> None:
    row = a_row(EffectState.RECONCILED_COMMITTED, result_digest=Digest("9" * 64))

    assert apply_settlement(row, a_settlement(row), now=LATER) == NotMoved(effect=row, reason="already_settled")


def test_the_first_end_that_was_heard_of_stands() -> None:
    row = a_row(EffectState.UNKNOWN, attempt_ended_at=NOW)

    word = a_settlement(row, EffectState.UNKNOWN)
    assert apply_settlement(row, word, now=LATER) == Moved(effect=row, is_news=False)


# ---------------------------------------------------------------- leases


def test_a_take_over_waits_for_the_lease_and_keeps_fence_token_and_window() -> None:
    row = a_row(EffectState.DISPATCHED)

    early = apply_take_over(row, row, now=row.lease_until - timedelta(microseconds=1))
    assert early == NotMoved(effect=row, reason="lease_renewed")
    taken = apply_take_over(row, row, now=row.lease_until)
    expected = replace(row, state=EffectState.UNKNOWN, reason="owner_lost", updated_at=row.lease_until)
    assert taken == Moved(effect=expected)


@pytest.mark.parametrize("seen", [{"fence": 0}, {"attempt": 2}])
def test_a_take_over_of_a_row_that_moved_since_it_was_seen_changes_nothing(seen: dict[str, object]) -> None:
    row = a_row(EffectState.DISPATCHED)

    answer = apply_take_over(row, replace(row, **seen), now=LATER)  # type: ignore[arg-type]

    assert answer == NotMoved(effect=row, reason="taken_over")


# ---------------------------------------------------------------- a handler's own transaction settles


CO_COMMIT_ROW = {"token": Token("co:token-1")}


@pytest.mark.req("H032")
def test_a_co_commit_writes_the_whole_settle() -> None:
    row = a_row(EffectState.DISPATCHED, **CO_COMMIT_ROW)
    said = a_settlement(row, reason="co_committed", attempt_has_ended=False)

    assert apply_co_commit(row, said, now=LATER) == Moved(
        effect=replace(
            row,
            state=EffectState.COMMITTED,
            reason="co_committed",
            ends_by_itself=False,
            attempt_ended_at=None,
            sealed_result=b"sealed result",
            result_digest=Digest("d" * 64),
            external_reference="remote-7",
            updated_at=LATER,
        ),
        is_news=True,
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fence": 1}, "taken_over"),
        ({"fence": 3}, "taken_over"),
        ({"token": Token("co:token-2")}, "taken_over"),
        ({"attempt": 1}, "other_attempt"),
        ({"attempt": 3}, "other_attempt"),
    ],
)
def test_a_co_commit_of_another_dispatch_or_attempt_changes_nothing(changes: dict[str, Any], reason: str) -> None:
    row = a_row(EffectState.DISPATCHED, fence=2, attempt=2, **CO_COMMIT_ROW)

    answer = apply_co_commit(row, a_settlement(row, **changes), now=LATER)

    assert answer == NotMoved(effect=row, reason=reason)


@pytest.mark.req("H033")
@pytest.mark.parametrize("state", [state for state in EffectState if state is not EffectState.DISPATCHED])
def test_a_co_commit_is_never_a_repeat_and_never_late(state: EffectState) -> None:
    """Its transaction holds more than the move, and would commit that once more."""
    row = a_row(state, **CO_COMMIT_ROW)

    answer = apply_co_commit(row, a_settlement(row), now=LATER)

    assert answer == NotMoved(effect=row, reason="already_settled")


def test_a_co_commit_whose_lease_is_over_counts_while_nobody_has_taken_the_row() -> None:
    row = a_row(EffectState.DISPATCHED, **CO_COMMIT_ROW)

    assert isinstance(apply_co_commit(row, a_settlement(row), now=row.lease_until + MICROSECOND), Moved)


def test_a_take_over_of_a_co_commit_row_is_an_absence() -> None:
    row = a_row(EffectState.DISPATCHED, **CO_COMMIT_ROW)

    early = apply_take_over(row, row, now=row.lease_until - MICROSECOND)
    assert early == NotMoved(effect=row, reason="lease_renewed")
    taken = apply_take_over(row, row, now=row.lease_until)
    expected = replace(row, state=EffectState.RECONCILED_ABSENT, reason="owner_lost", updated_at=row.lease_until)
    assert taken == Moved(effect=expected)
    assert apply_co_commit(expected, a_settlement(row), now=LATER) == NotMoved(
        effect=expected, reason="already_settled"
    )


def test_only_a_token_that_begins_with_the_mark_is_of_a_co_commit() -> None:
    marks = {"co:t-1": True, "t-1": False, "xco:t-1": False, "co-t-1": False, "": False, "co": False, "co:": True}

    assert {token: a_row(EffectState.DISPATCHED, token=Token(token)).co_commits for token in marks} == marks
