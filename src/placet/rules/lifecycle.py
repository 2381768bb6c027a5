"""Which state may follow which, what a known operation answers, and when absence may be believed.

    (none) ─┐
    prepared ├─ claim ─► dispatched ─ settle ─► committed
    failed   │   fence+1     │ turn: same fence ├► failed     (every attempt proven harmless)
    absent ──┘               │                  └► unknown ─ reconcile ─► reconciled_committed
                             ├─ lease over ──────► unknown            └─► reconciled_absent
                             └─ lease over, co-commit row ──────────────► reconciled_absent

The table is the model's (exhaustively explored); each rule here closes a hole found there. Source: DESIGN 10, 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from placet.model.call import Call
from placet.model.contract import MAX_ATTEMPTS_PER_CALL, Contract
from placet.model.effect import Effect, EffectState

TRANSITIONS: frozenset[tuple[EffectState | None, EffectState]] = frozenset(
    {
        (None, EffectState.PREPARED),
        (None, EffectState.DISPATCHED),
        (EffectState.PREPARED, EffectState.DISPATCHED),
        (EffectState.FAILED, EffectState.DISPATCHED),
        (EffectState.RECONCILED_ABSENT, EffectState.DISPATCHED),
        (EffectState.DISPATCHED, EffectState.DISPATCHED),
        (EffectState.DISPATCHED, EffectState.COMMITTED),
        (EffectState.DISPATCHED, EffectState.FAILED),
        (EffectState.DISPATCHED, EffectState.UNKNOWN),
        (EffectState.DISPATCHED, EffectState.RECONCILED_ABSENT),
        (EffectState.UNKNOWN, EffectState.RECONCILED_COMMITTED),
        (EffectState.UNKNOWN, EffectState.RECONCILED_ABSENT),
    }
)
"""dispatched → reconciled_absent is for the take-over of a co-commit row only: see `taken_over_state`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MayDispatch:
    """Nothing stands in the way of a (further) dispatch. `may_act_twice`: only a person may order it, warned."""

    expected_fence: int
    may_act_twice: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyDone:
    """Answer from the record."""

    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class StillRunning:
    """Another caller's dispatch holds the row."""

    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class NobodyKnows:
    """Refused until reconciled."""

    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherOperation:
    """The key names another tool or other arguments."""

    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class WornOut:
    """The operation has used its attempts."""

    effect: Effect


LedgerAnswer = MayDispatch | AlreadyDone | StillRunning | NobodyKnows | OtherOperation | WornOut


def ledger_answer(call: Call, effect: Effect | None) -> LedgerAnswer:
    """What the ledger says about a call's operation key."""
    if effect is None:
        return MayDispatch(expected_fence=0, may_act_twice=False)
    if effect.fingerprint != call.fingerprint:
        return OtherOperation(effect=effect)
    match effect.state:
        case EffectState.COMMITTED | EffectState.RECONCILED_COMMITTED:
            return AlreadyDone(effect=effect)
        case EffectState.DISPATCHED:
            return StillRunning(effect=effect)
        case EffectState.UNKNOWN:
            return NobodyKnows(effect=effect)
        case EffectState.PREPARED | EffectState.FAILED | EffectState.RECONCILED_ABSENT:
            if effect.attempts >= MAX_ATTEMPTS_PER_CALL:
                return WornOut(effect=effect)
            return MayDispatch(expected_fence=effect.fence, may_act_twice=may_act_twice(call.contract, effect))


def may_act_twice(contract: Contract, effect: Effect) -> bool:
    """Whether "absent" is too weak to dispatch again without a person's order."""
    return effect.state is EffectState.RECONCILED_ABSENT and not contract.remote.proves_absence


def taken_over_state(effect: Effect) -> EffectState:
    """What a dispatched row of a lost owner becomes: only a co-commit row says itself that nothing was done."""
    return EffectState.RECONCILED_ABSENT if effect.co_commits else EffectState.UNKNOWN


def quiet_end(effect: Effect, *, pause_seconds: float) -> datetime | None:
    """After this instant no request of the effect can still be on its way; None while its attempt may go on.

    An attempt that ends by itself is bounded by `send_by`. Any other must have ended by its own worker's
    word, or its owner's proven death; quiet runs from then.
    """
    if effect.ends_by_itself:
        last_sent_at = effect.send_by
    elif effect.attempt_ended_at is not None:
        last_sent_at = max(effect.send_by, effect.attempt_ended_at)
    else:
        return None
    return last_sent_at + timedelta(seconds=pause_seconds + effect.arrival_bound_seconds)


def may_be_absent(effect: Effect, *, looked_at: datetime, pause_seconds: float) -> bool:
    """Whether a look that started at `looked_at` can prove absence: strictly after the quiet end."""
    end = quiet_end(effect, pause_seconds=pause_seconds)
    return end is not None and looked_at > end


def late_word_counts(effect: Effect, *, fence: int, state: EffectState) -> bool:
    """A late definite success of the same dispatch settles unknown; an outcome given out never changes."""
    return state is EffectState.COMMITTED and effect.state is EffectState.UNKNOWN and effect.fence == fence
