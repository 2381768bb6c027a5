"""What a ledger row becomes when a command meets it: the protocol, with nothing around it.

Each function takes the row as it is and the store's now, and answers with the row as it shall be, or why not. Stores
write what these answer, so that every store keeps the same protocol. Source: DESIGN sections 10 to 12.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from placet.model.effect import Effect, EffectState
from placet.model.ledger import (
    Claim,
    Claimed,
    Held,
    MoveAnswer,
    Moved,
    NotMoved,
    Reconciliation,
    Settlement,
    Turn,
)
from placet.model.making import changed
from placet.rules.lifecycle import late_word_counts, may_be_absent, taken_over_state


def apply_claim(effect: Effect | None, claim: Claim, *, now: datetime) -> Claimed | Held:
    """(none), prepared, failed or reconciled_absent → dispatched, with the next fence.

    A claim repeated after a lost answer finds its own token and has won already; the token decides, never the owner.
    """
    if effect is not None and effect.token == claim.token:
        has_won = effect.state is EffectState.DISPATCHED and effect.fence == claim.expected_fence + 1
        return Claimed(effect=effect) if has_won else Held(effect=effect)
    if effect is not None and not (
        effect.state.may_be_dispatched
        and effect.fence == claim.expected_fence
        and effect.fingerprint == claim.fingerprint
    ):
        return Held(effect=effect)
    return Claimed(
        effect=Effect(
            tenant=claim.tenant,
            operation_key=claim.operation_key,
            fingerprint=claim.fingerprint,
            tool=claim.tool,
            tool_version=claim.tool_version,
            contract_digest=claim.contract_digest,
            argument_digest=claim.argument_digest,
            run_id=claim.run_id,
            call_id=claim.call_id,
            subject=claim.subject,
            policy_version=claim.policy_version,
            decision=claim.decision,
            approval_id=claim.spend.approval_id if claim.spend else None,
            state=EffectState.DISPATCHED,
            fence=(effect.fence if effect else 0) + 1,
            attempts=(effect.attempts if effect else 0) + 1,
            attempt=claim.first_attempt,
            token=claim.token,
            owner=claim.owner,
            lease_until=now + timedelta(seconds=claim.lease_seconds),
            send_by=now + timedelta(seconds=claim.send_window_seconds),
            arrival_bound_seconds=claim.arrival_bound_seconds,
            ends_by_itself=claim.ends_by_itself,
            attempt_ended_at=None,
            probes=0,
            probe_after=None,
            sealed_arguments=claim.sealed_arguments,
            sealed_result=None,
            result_digest=None,
            external_reference=None,
            reason=None,
            created_at=effect.created_at if effect else now,
            updated_at=now,
        )
    )


def apply_turn(effect: Effect, turn: Turn, *, now: datetime) -> MoveAnswer:
    """dispatched → dispatched: attempt n is closed, n+1 opened, lease and send window renewed; same fence."""
    if effect.state is not EffectState.DISPATCHED or effect.fence != turn.fence:
        return NotMoved(effect=effect, reason="taken_over")
    if effect.attempt == turn.attempt + 1:
        return Moved(effect=effect, is_news=False)
    if effect.attempt != turn.attempt:
        return NotMoved(effect=effect, reason="other_attempt")
    if effect.attempts >= turn.max_attempts:
        return NotMoved(effect=effect, reason="attempts_used_up")
    return Moved(
        effect=changed(
            effect,
            attempts=effect.attempts + 1,
            attempt=effect.attempt + 1,
            lease_until=now + timedelta(seconds=turn.lease_seconds),
            send_by=now + timedelta(seconds=turn.send_window_seconds),
            updated_at=now,
        )
    )


def apply_settlement(effect: Effect, settlement: Settlement, *, now: datetime) -> MoveAnswer:
    """dispatched → committed, failed or unknown, by the holder of fence and token only."""
    if effect.fence != settlement.fence or effect.token != settlement.token:
        return NotMoved(effect=effect, reason="taken_over")
    if effect.state is EffectState.DISPATCHED and effect.attempt != settlement.attempt:
        return NotMoved(effect=effect, reason="other_attempt")
    if effect.state is EffectState.DISPATCHED:
        return Moved(effect=_settled(effect, settlement, state=settlement.state, now=now))
    if late_word_counts(effect, fence=settlement.fence, state=settlement.state):
        return Moved(effect=_settled(effect, settlement, state=EffectState.RECONCILED_COMMITTED, now=now))
    if effect.state is EffectState.UNKNOWN and settlement.state is EffectState.UNKNOWN:
        if not settlement.attempt_has_ended:
            effect = changed(effect, ends_by_itself=False)
        elif effect.attempt_ended_at is None:
            effect = changed(effect, attempt_ended_at=now)
        return Moved(effect=effect, is_news=False)
    if effect.state is settlement.state or _is_late_word_again(effect, settlement):
        return Moved(effect=effect, is_news=False)
    return NotMoved(effect=effect, reason="already_settled")


def apply_co_commit(effect: Effect, settlement: Settlement, *, now: datetime) -> MoveAnswer:
    """dispatched → committed, in the transaction of the handler of the open attempt.

    The transaction commits what the handler wrote together with this move. So unlike a settlement it is never a
    repeat, and there is no late one: on a row that is not dispatched any more, none of it may commit.
    """
    if effect.fence != settlement.fence or effect.token != settlement.token:
        return NotMoved(effect=effect, reason="taken_over")
    if effect.state is not EffectState.DISPATCHED:
        return NotMoved(effect=effect, reason="already_settled")
    if effect.attempt != settlement.attempt:
        return NotMoved(effect=effect, reason="other_attempt")
    return Moved(effect=_settled(effect, settlement, state=EffectState.COMMITTED, now=now))


def apply_take_over(effect: Effect, seen: Effect, *, now: datetime) -> MoveAnswer:
    """dispatched → unknown, once the lease is over and nobody has moved the row since it was seen.

    A co-commit row that is still dispatched was not committed, and never will be from here on: its move is to
    reconciled_absent.
    """
    if effect.state is not EffectState.DISPATCHED or effect.fence != seen.fence or effect.attempt != seen.attempt:
        return NotMoved(effect=effect, reason="taken_over")
    if effect.lease_until > now:
        return NotMoved(effect=effect, reason="lease_renewed")
    state = taken_over_state(effect)
    return Moved(effect=changed(effect, state=state, reason="owner_lost", updated_at=now))


def apply_reconciliation(effect: Effect, truth: Reconciliation, *, now: datetime) -> MoveAnswer:
    """unknown → reconciled_committed or reconciled_absent, for the dispatch that was looked at."""
    if effect.state is truth.state and effect.fence == truth.fence:
        return Moved(effect=effect, is_news=False)
    if effect.state is not EffectState.UNKNOWN or effect.fence != truth.fence:
        return NotMoved(effect=effect, reason="moved_on")
    if truth.looked_at > now:
        return NotMoved(effect=effect, reason="looked_in_the_future")
    if truth.state is EffectState.RECONCILED_ABSENT and not may_be_absent(
        effect, looked_at=truth.looked_at, pause_seconds=truth.pause_seconds
    ):
        return NotMoved(effect=effect, reason="too_early_for_absent")
    return Moved(
        effect=changed(
            effect,
            state=truth.state,
            reason=truth.reason,
            sealed_result=truth.sealed_result,
            result_digest=truth.result_digest,
            external_reference=truth.external_reference,
            updated_at=now,
        )
    )


def _is_late_word_again(effect: Effect, settlement: Settlement) -> bool:
    """The late success that is on record already, result and all."""
    is_success = settlement.state is EffectState.COMMITTED and effect.state is EffectState.RECONCILED_COMMITTED
    return is_success and effect.result_digest == settlement.result_digest


def _settled(effect: Effect, settlement: Settlement, *, state: EffectState, now: datetime) -> Effect:
    return changed(
        effect,
        state=state,
        reason=settlement.reason,
        ends_by_itself=effect.ends_by_itself and settlement.attempt_has_ended,
        attempt_ended_at=now if settlement.attempt_has_ended else None,
        sealed_result=settlement.sealed_result,
        result_digest=settlement.result_digest,
        external_reference=settlement.external_reference,
        updated_at=now,
    )
