"""The way of one call, from proposal to what was observed, as its events tell of it.

    proposed → checked → decided (asked, voted, approved, …) → sent → observed (→ settled)

Attempts that were made again are folded into their last one, and answers from the record are told apart from what was
sent. Arguments and results are in no event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from placet.console.entries import Entry
from placet.console.reasons import Reason, reasons_of
from placet.model.audit import AuditOutcome, EventKind
from placet.model.contract import EffectClass
from placet.model.effect import EffectState


class Stage(StrEnum):
    """Where on its way a call is when something of it happens."""

    PROPOSED = "proposed"
    CHECKED = "checked"
    DECIDED = "decided"
    SENT = "sent"
    OBSERVED = "observed"


_OF_APPROVALS = {
    EventKind.APPROVAL_ASKED: "asked: a person has to decide",
    EventKind.APPROVAL_EDITED: "other arguments asked for instead",
    EventKind.APPROVAL_VOTED: "a vote to approve",
    EventKind.VOTE_WITHDRAWN: "a vote taken back",
    EventKind.APPROVAL_APPROVED: "approved",
    EventKind.APPROVAL_DENIED: "denied",
    EventKind.APPROVAL_EXPIRED: "expired",
    EventKind.APPROVAL_WITHDRAWN: "taken back",
    EventKind.APPROVAL_SPENT: "approval used",
}
_GRANTED = "taken back: a standing grant answers it"

_AGAINST = frozenset(
    {
        EventKind.APPROVAL_DENIED,
        EventKind.APPROVAL_EXPIRED,
        EventKind.APPROVAL_WITHDRAWN,
        EventKind.APPROVAL_EDITED,
    }
)
_OUTCOMES = {
    AuditOutcome.VALIDATION: "refused: it does not fit the contract",
    AuditOutcome.DENIED: "denied",
    AuditOutcome.APPROVAL_REQUIRED: "not run: a person has to decide",
    AuditOutcome.TIMEOUT: "no answer in time",
    AuditOutcome.SUCCESS: "done",
    AuditOutcome.REPLAYED: "answered from the record; nothing was sent",
    AuditOutcome.CONFLICT: "refused: the operation is known with other arguments, or is going on",
    AuditOutcome.ERROR: "failed",
    AuditOutcome.UNKNOWN: "unknown: it may have happened",
}
_WOULD_BE = {
    "allow": "it would be allowed",
    "ask": "a person would be asked as the new rules say",
    "deny": "it would be denied",
    "error": "the policy did not answer",
}
_ENDS_AT: dict[str, Stage] = {AuditOutcome.VALIDATION: Stage.CHECKED, AuditOutcome.DENIED: Stage.DECIDED}
_READS = frozenset({EffectClass.READ, EffectClass.SENSITIVE_READ})
_ANSWERED_BY_A_HANDLER = frozenset({AuditOutcome.SUCCESS, AuditOutcome.ERROR, AuditOutcome.TIMEOUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happened to a call.

    Attributes:
        gap_seconds: since the step before of the same call; None of the first, and where a time is missing.
        is_bad: whether it is a refusal, a failure, or not known.
        folded: earlier attempts of the same call, the first first.
    """

    stage: Stage
    words: str
    at: datetime | None
    entry: Entry
    gap_seconds: float | None = None
    is_bad: bool = False
    reasons: tuple[Reason, ...] = ()
    folded: tuple[Step, ...] = ()


def way_of(entries: Sequence[Entry]) -> tuple[Step, ...]:
    """The steps of a call whose events are in the order of things."""
    return _with_gaps(_folded([step for entry in entries for step in _steps_of(entry, entries)]))


def attempts_of(entries: Sequence[Entry]) -> int:
    """How often the call went to its handler."""
    return sum(_is_sent(entry, entries) for entry in entries if entry.word("kind") == EventKind.STARTED)


def in_the_order_of_things(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """What one transaction writes, in the order in which it came about.

    A proposal that ends because it is asked about is written before the question, and a start before the approval that
    it uses: told is first what the other came of.
    """
    told: list[Entry] = []
    for entry in entries:
        if told and _came_of(told[-1], entry):
            told.insert(-1, entry)
        else:
            told.append(entry)
    return tuple(told)


def _came_of(written: Entry, cause: Entry) -> bool:
    match written.word("kind"), cause.word("kind"):
        case EventKind.COMPLETED, EventKind.APPROVAL_ASKED | EventKind.APPROVAL_EDITED:
            return written.word("outcome") == AuditOutcome.APPROVAL_REQUIRED
        case EventKind.STARTED, EventKind.APPROVAL_SPENT:
            return written.word("fence") == cause.word("fence")
        case _:
            return False


# ---------------------------------------------------------------- within


def _steps_of(entry: Entry, entries: Sequence[Entry]) -> list[Step]:
    kind = entry.word("kind")
    if kind == EventKind.STARTED:
        return _steps_of_start(entry, entries)
    if kind == EventKind.COMPLETED:
        return [_observed(entry)] if entry.word("outcome") != AuditOutcome.APPROVAL_REQUIRED else []
    if kind == EventKind.EFFECT_RECONCILED:
        has_happened = entry.word("effect_state") == EffectState.RECONCILED_COMMITTED
        return [_step(Stage.OBSERVED, f"settled: it {'happened' if has_happened else 'did not happen'}", entry)]
    words = _OF_APPROVALS.get(EventKind(kind), kind.replace("_", " ")) if kind in tuple(EventKind) else "unreadable"
    if kind == EventKind.APPROVAL_WITHDRAWN and entry.word("detail") == "granted":
        return [_step(Stage.DECIDED, _GRANTED, entry)]
    reasons = reasons_of(entry.words("reasons")) if kind == EventKind.APPROVAL_ASKED else ()
    return [_step(Stage.DECIDED, words, entry, is_bad=kind in _AGAINST or entry.is_alarm, reasons=reasons)]


def _steps_of_start(entry: Entry, entries: Sequence[Entry]) -> list[Step]:
    """What one started event says: that it was proposed, that it fits, what policy said, and that it was sent."""
    end = _end_of(entry, entries)
    steps = [_step(Stage.PROPOSED, "", entry)]
    if end is not None and end.word("outcome") == AuditOutcome.VALIDATION:
        return steps
    steps.append(_step(Stage.CHECKED, "fits its contract", entry))
    match entry.word("decision"):
        case "allow":
            steps.append(_step(Stage.DECIDED, "allowed", entry, reasons=reasons_of(entry.words("reasons"))))
        case "allow_by_grant":
            words = "let through by a standing grant"
            steps.append(_step(Stage.DECIDED, words, entry, reasons=reasons_of(entry.words("reasons"))))
        case _:
            pass
    if (would_be := _would_be(entry)) is not None:
        steps.append(would_be)
    if _is_sent(entry, entries):
        steps.append(_step(Stage.SENT, f"attempt {entry.word('attempt') or 1}", entry))
    return steps


def _would_be(entry: Entry) -> Step | None:
    """What a policy in shadow would have answered, where that is something else, or nothing at all."""
    said = entry.facts.get("shadow")
    if type(said) is not dict or (said.get("changes") is not True and said.get("would_be") != "error"):
        return None
    words = _WOULD_BE.get(str(said.get("would_be")), "unreadable")
    reasons = said.get("reasons")
    told = reasons_of(tuple(map(str, reasons))) if type(reasons) is list else ()
    return _step(Stage.DECIDED, f"in shadow, decides nothing: {words}", entry, reasons=told)


def _observed(entry: Entry) -> Step:
    outcome, state = entry.word("outcome"), entry.word("effect_state")
    words = _OUTCOMES.get(AuditOutcome(outcome), outcome) if outcome in tuple(AuditOutcome) else "unreadable"
    if state == EffectState.UNKNOWN:
        words = _OUTCOMES[AuditOutcome.UNKNOWN]
    elif state == EffectState.COMMITTED and outcome != AuditOutcome.SUCCESS:
        words = "done; the result is not available"
    stage = _ENDS_AT.get(outcome, Stage.OBSERVED)
    is_good = outcome in (AuditOutcome.SUCCESS, AuditOutcome.REPLAYED) or state == EffectState.COMMITTED
    reasons = reasons_of(entry.words("reasons")) if outcome == AuditOutcome.DENIED else ()
    return _step(stage, words, entry, is_bad=not is_good, reasons=reasons)


def _is_sent(start: Entry, entries: Sequence[Entry]) -> bool:
    """Whether the attempt went to a handler: a write by its dispatch number, a read by how it was answered."""
    if start.number("fence") >= 1:
        return True
    end = _end_of(start, entries)
    outcome = end.word("outcome") if end is not None else ""
    return start.word("effect_class") in _READS and (end is None or outcome in _ANSWERED_BY_A_HANDLER)


def _end_of(start: Entry, entries: Sequence[Entry]) -> Entry | None:
    """The completed event of a started one: the next of its attempt and dispatch."""
    place = next(index for index, each in enumerate(entries) if each is start)
    same = (start.word("attempt"), start.word("fence"))
    for entry in entries[place + 1 :]:
        if entry.word("kind") == EventKind.COMPLETED and (entry.word("attempt"), entry.word("fence")) == same:
            return entry
    return None


def _folded(steps: list[Step]) -> list[Step]:
    """Earlier attempts hang below the last one, and what is said again is said once."""
    told: list[Step] = []
    for step in steps:
        if _is_told(step, told):
            continue
        if step.stage is Stage.SENT:
            earlier = [each for each in told if each.stage is Stage.SENT or _is_of_an_attempt(each)]
            told = [each for each in told if each not in earlier]
            told.append(replace(step, folded=_flat(earlier)))
        elif told and (told[-1].stage, told[-1].words) == (step.stage, step.words):
            told[-1] = replace(step, folded=_flat(told[-1:]))
        else:
            told.append(step)
    return told


def _is_told(step: Step, told: list[Step]) -> bool:
    """Whether a proposal says, asked again under its own name, only what it said before."""
    is_of_a_start = step.entry.word("kind") == EventKind.STARTED and step.stage is not Stage.SENT
    same = (step.stage, step.words, step.reasons)
    return is_of_a_start and any((each.stage, each.words, each.reasons) == same for each in told)


def _is_of_an_attempt(step: Step) -> bool:
    is_replay = step.entry.word("outcome") == AuditOutcome.REPLAYED
    return step.stage is Stage.OBSERVED and step.entry.word("kind") == EventKind.COMPLETED and not is_replay


def _flat(steps: list[Step]) -> tuple[Step, ...]:
    return tuple(one for each in steps for one in (*each.folded, replace(each, folded=())))


def _with_gaps(steps: list[Step]) -> tuple[Step, ...]:
    told: list[Step] = []
    before: datetime | None = None
    for step in steps:
        gap = (step.at - before).total_seconds() if step.at is not None and before is not None else None
        told.append(replace(step, gap_seconds=gap if gap is not None and gap > 0 else None))
        before = step.at or before
    return tuple(told)


def _step(stage: Stage, words: str, entry: Entry, *, is_bad: bool = False, reasons: tuple[Reason, ...] = ()) -> Step:
    return Step(stage=stage, words=words, at=entry.at, entry=entry, is_bad=is_bad, reasons=reasons)
