"""How the calls of a run stand. A run with an effect that nobody knows of never looks finished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from placet.console.entries import Entry
from placet.console.ways import Step, attempts_of, in_the_order_of_things, way_of
from placet.model.audit import AuditOutcome, EventKind
from placet.model.effect import EffectState


class Standing(StrEnum):
    """How a call, or the worst of a run, stands; the worst first."""

    UNKNOWN = "unknown"
    OPEN = "open"
    WAITING = "waiting"
    APPROVED = "approved"
    FAILED = "failed"
    REFUSED = "refused"
    DONE = "done"


STANDING_WORDS = {
    Standing.UNKNOWN: "nobody knows whether it happened",
    Standing.OPEN: "being done",
    Standing.WAITING: "waits for a person",
    Standing.APPROVED: "approved, not used",
    Standing.FAILED: "failed",
    Standing.REFUSED: "refused",
    Standing.DONE: "done",
}
_AFTER_APPROVALS = {
    EventKind.APPROVAL_ASKED: Standing.WAITING,
    EventKind.APPROVAL_APPROVED: Standing.APPROVED,
    EventKind.APPROVAL_DENIED: Standing.REFUSED,
    EventKind.APPROVAL_EXPIRED: Standing.REFUSED,
    EventKind.APPROVAL_WITHDRAWN: Standing.REFUSED,
    EventKind.APPROVAL_EDITED: Standing.REFUSED,
}
_AFTER_OUTCOMES = {
    AuditOutcome.VALIDATION: Standing.REFUSED,
    AuditOutcome.DENIED: Standing.REFUSED,
    AuditOutcome.TIMEOUT: Standing.FAILED,
    AuditOutcome.SUCCESS: Standing.DONE,
    AuditOutcome.REPLAYED: Standing.DONE,
    AuditOutcome.CONFLICT: Standing.REFUSED,
    AuditOutcome.ERROR: Standing.FAILED,
    AuditOutcome.UNKNOWN: Standing.UNKNOWN,
}
_AFTER_EFFECTS = {
    EffectState.COMMITTED: Standing.DONE,
    EffectState.RECONCILED_COMMITTED: Standing.DONE,
    EffectState.FAILED: Standing.FAILED,
    EffectState.RECONCILED_ABSENT: Standing.FAILED,
    EffectState.UNKNOWN: Standing.UNKNOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSeen:
    """One call of a run.

    Attributes:
        number: its place among the calls of the run, from 1.
        target: what it acts on, where a question about it says so; empty otherwise.
        attempts: how often it was sent.
        seconds: from its first event to its last.
    """

    call_id: str
    number: int
    tool: str
    target: str
    standing: Standing
    steps: tuple[Step, ...]
    entries: tuple[Entry, ...]
    attempts: int
    seconds: float | None

    @property
    def first_at(self) -> datetime | None:
        return next((step.at for step in self.steps if step.at is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """A run, as the newest events tell of it.

    Attributes:
        standing: of the call that stands worst.
        counts: how many calls stand how, the worst first.
    """

    run_id: str
    calls: tuple[CallSeen, ...]
    events: int
    first_at: datetime | None
    last_at: datetime | None
    standing: Standing
    counts: tuple[tuple[Standing, int], ...]

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(call.tool for call in self.calls if call.tool))


def run_seen(run_id: str, entries: Sequence[Entry], targets: dict[str, str] | None = None) -> RunSeen:
    """The run that these events, the oldest first, tell of.

    Args:
        targets: what calls act on, by call id, as far as somebody knows.
    """
    of_calls: dict[str, list[Entry]] = {}
    for entry in entries:
        if call_id := entry.word("call_id"):
            of_calls.setdefault(call_id, []).append(entry)
    settled = _settled(entries)
    calls = tuple(
        _call_seen(call_id, number, in_the_order_of_things(those), settled, (targets or {}).get(call_id, ""))
        for number, (call_id, those) in enumerate(of_calls.items(), start=1)
    )
    instants = [entry.at for entry in entries if entry.at is not None]
    counts = tuple((each, sum(call.standing is each for call in calls)) for each in Standing)
    return RunSeen(
        run_id=run_id,
        calls=calls,
        events=len(entries),
        first_at=min(instants, default=None),
        last_at=max(instants, default=None),
        standing=min((call.standing for call in calls), key=tuple(Standing).index, default=Standing.DONE),
        counts=tuple((each, count) for each, count in counts if count),
    )


# ---------------------------------------------------------------- within


def _settled(entries: Iterable[Entry]) -> dict[str, EffectState]:
    """How each operation stands by the last event that says so, by its fingerprint."""
    found: dict[str, EffectState] = {}
    for entry in entries:
        state, operation = entry.word("effect_state"), entry.word("operation")
        if operation and state in tuple(EffectState):
            found[operation] = EffectState(state)
    return found


def _call_seen(
    call_id: str, number: int, entries: tuple[Entry, ...], settled: dict[str, EffectState], target: str
) -> CallSeen:
    instants = [entry.at for entry in entries if entry.at is not None]
    return CallSeen(
        call_id=call_id,
        number=number,
        tool=next((tool for entry in entries if (tool := entry.word("tool"))), ""),
        target=target,
        standing=_standing(entries, settled),
        steps=way_of(entries),
        entries=entries,
        attempts=attempts_of(entries),
        seconds=(max(instants) - min(instants)).total_seconds() if instants else None,
    )


def _standing(entries: tuple[Entry, ...], settled: dict[str, EffectState]) -> Standing:
    """How the call stands: as its effect does, if it has one, and otherwise as it was answered last."""
    kinds = [entry.word("kind") for entry in entries]
    if kinds.count(EventKind.STARTED) > kinds.count(EventKind.COMPLETED):
        return Standing.OPEN
    effects = [settled[entry.word("operation")] for entry in entries if _is_of_an_effect(entry, settled)]
    if effects:
        return _AFTER_EFFECTS.get(effects[-1], Standing.OPEN)
    standing = Standing.OPEN
    for entry, kind in zip(entries, kinds, strict=True):
        if kind == EventKind.COMPLETED and entry.word("outcome") in tuple(AuditOutcome):
            standing = _AFTER_OUTCOMES.get(AuditOutcome(entry.word("outcome")), standing)
        elif kind in tuple(EventKind):
            standing = _AFTER_APPROVALS.get(EventKind(kind), standing)
    return standing


def _is_of_an_effect(entry: Entry, settled: dict[str, EffectState]) -> bool:
    says_so = entry.word("effect_state") or entry.word("outcome") == AuditOutcome.UNKNOWN
    return bool(says_so) and entry.word("operation") in settled
