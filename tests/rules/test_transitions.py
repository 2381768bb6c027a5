"""The protocol on one row: no command leads where the table does not, and every refusal leaves the row as it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from placet.model.effect import Effect, EffectState
from placet.model.identifiers import Digest, OwnerId, Token
from placet.model.ledger import Claimed, Held, Moved, NotMoved
from placet.rules.lifecycle import TRANSITIONS
from placet.rules.transitions import (
    apply_claim,
    apply_reconciliation,
    apply_settlement,
    apply_take_over,
    apply_turn,
)
from placet.testing.conformance import a_claim, a_reconciliation, a_settlement, a_turn

NOW = datetime(2026, 1, 1, tzinfo=UTC)
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
    ("take over", EffectState.UNKNOWN),
    *(("reconcile", truth) for truth in TRUTHS),
]


@pytest.mark.req("H032", "H033")
@pytest.mark.parametrize("before", list(EffectState))
@pytest.mark.parametrize(("command", "target"), COMMANDS)
def test_no_command_leads_where_the_table_does_not(before: EffectState, command: str, target: EffectState) -> None:
    row = a_row(before)

    after = afterwards(row, command, target)

    assert not has_moved(row, after) or (before, after.state) in TRANSITIONS
    assert after.fence == row.fence + (command == "claim" and after != row)
    if before.is_committed:
        assert after == row


def test_every_move_of_the_table_is_made_by_some_command() -> None:
    made = {
        (before, afterwards(a_row(before), command, target).state)
        for before, (command, target) in product(EffectState, COMMANDS)
        if has_moved(a_row(before), afterwards(a_row(before), command, target))
    }
    co_commit = (EffectState.DISPATCHED, EffectState.RECONCILED_ABSENT)

    assert made == {move for move in TRANSITIONS if move[0] and move[1] is not EffectState.PREPARED} - {co_commit}


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
