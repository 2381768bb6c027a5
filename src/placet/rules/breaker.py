"""When a remote that does not answer is left alone for a while: one circuit, told what its attempts say of the remote.

    closed ── so many faults in a row, within a time ──► open ── a while later, asked for leave ──► half_open
      ▲                                                   ▲                                            │
      │                                                   └──────────────── a probe met a fault ───────┤
      └──────────────────────────── as many probes as needed found the remote well ────────────────────┘

Only faults that speak of the remote count: it was not reached, it was busy, it broke, it kept silent for the whole time
its contract gives it. A refusal of the business is an answer, and a healthy one. What a short-tempered caller cut off
says nothing, nor does an attempt whose handler we could not call, or kept back. A word counts only in the state its
attempt was let through in, so what comes late changes nothing.

Time is a monotonic number of seconds that the caller hands in. Source: DESIGN section 11, ADR-0022.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NewType

from placet.model.attempt import Answered, CallerLeft, DeadlinePassed, Raised, Rejected, Report, Returned, Unsent
from placet.model.contract import Breaker

_TELLING_STATUSES = frozenset({408, 429})
"""Below 500, what a remote says when it has no room or no time; any other status is an answer."""

Permit = NewType("Permit", int)
"""Leave for one attempt: the epoch of the circuit that gave it."""


class CircuitState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Health(StrEnum):
    """What one attempt says of the remote."""

    WELL = "well"
    ILL = "ill"
    NO_WORD = "no_word"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """What is remembered of one remote.

    Attributes:
        epoch: how often the state has changed.
        faults_at: when the faults in a row were met, oldest first; while closed.
        since: when the state began.
        probing: probes let through that have not ended; while half open.
        well: probes that found the remote well; while half open.
    """

    state: CircuitState = CircuitState.CLOSED
    epoch: int = 0
    faults_at: tuple[float, ...] = ()
    since: float = 0.0
    probing: int = 0
    well: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAlone:
    """No leave now. `retry_after_seconds`: when it may be worth asking again; None while probes are on their way."""

    retry_after_seconds: float | None


def health(report: Report, *, had_its_time: bool) -> Health:
    """What a report says of the remote. `had_its_time`: the attempt had its contract's whole time, not only a rest."""
    match report:
        case Returned() | Rejected():
            return Health.WELL
        case Answered(status=status):
            return Health.ILL if status >= 500 or status in _TELLING_STATUSES else Health.WELL
        case Unsent(is_handlers_word=False):
            return Health.NO_WORD
        case Unsent(is_late=False) | Raised():
            return Health.ILL
        case Unsent() | DeadlinePassed():
            return Health.ILL if had_its_time else Health.NO_WORD
        case CallerLeft():
            return Health.NO_WORD


def ask_leave(circuit: Circuit, breaker: Breaker, *, now: float) -> tuple[Circuit, Permit | LeftAlone]:
    """Leave for an attempt, or when to ask again; the circuit as it is afterwards.

    A permit of a half-open circuit is one of few: it is given back by `heard`, or by `give_back` if nothing was heard.
    """
    match circuit.state:
        case CircuitState.CLOSED:
            return circuit, Permit(circuit.epoch)
        case CircuitState.OPEN:
            rest = breaker.open_seconds - (now - circuit.since)
            if rest > 0.0:
                return circuit, LeftAlone(retry_after_seconds=min(rest, breaker.open_seconds))
            circuit = Circuit(state=CircuitState.HALF_OPEN, epoch=circuit.epoch + 1, since=now)
        case CircuitState.HALF_OPEN:
            if circuit.probing + circuit.well >= breaker.probes:
                return circuit, LeftAlone(retry_after_seconds=None)
    return replace(circuit, probing=circuit.probing + 1), Permit(circuit.epoch)


def heard(circuit: Circuit, breaker: Breaker, permit: Permit, word: Health, *, now: float) -> Circuit:
    """The circuit after an attempt's word. The permit is given back with it, except where it said nothing."""
    if permit != circuit.epoch:
        return circuit
    match circuit.state, word:
        case CircuitState.CLOSED, Health.WELL:
            return replace(circuit, faults_at=()) if circuit.faults_at else circuit
        case CircuitState.CLOSED, Health.ILL:
            recent = (*(at for at in circuit.faults_at if now - at <= breaker.within_seconds), now)
            if len(recent) < breaker.faults:
                return replace(circuit, faults_at=recent)
            return _opened(circuit, now=now)
        case CircuitState.HALF_OPEN, Health.ILL:
            return _opened(circuit, now=now)
        case CircuitState.HALF_OPEN, Health.WELL:
            if circuit.well + 1 < breaker.probes:
                return replace(circuit, probing=circuit.probing - 1, well=circuit.well + 1)
            return Circuit(epoch=circuit.epoch + 1, since=now)
        case _:
            return circuit


def give_back(circuit: Circuit, permit: Permit) -> Circuit:
    """The circuit after a call that was let through and has ended without a word on the remote."""
    if circuit.state is CircuitState.HALF_OPEN and permit == circuit.epoch:
        return replace(circuit, probing=circuit.probing - 1)
    return circuit


def stays_open(circuit: Circuit, breaker: Breaker, *, until: float) -> bool:
    """Whether nothing can be let through before that instant."""
    return circuit.state is CircuitState.OPEN and until - circuit.since < breaker.open_seconds


def remembers_nothing(circuit: Circuit, breaker: Breaker, *, now: float) -> bool:
    """Whether the circuit is as good as a new one."""
    is_closed = circuit.state is CircuitState.CLOSED
    return is_closed and not any(now - at <= breaker.within_seconds for at in circuit.faults_at)


def _opened(circuit: Circuit, *, now: float) -> Circuit:
    return Circuit(state=CircuitState.OPEN, epoch=circuit.epoch + 1, since=now)
