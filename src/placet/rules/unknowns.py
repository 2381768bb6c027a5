"""Why an unknown effect is still unknown, and what a person may say of it now.

Presence may be said at any time. Absence is believed only from a look that began after the quiet end, and not from
whoever asked for the effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from placet.model.contract import Contract
from placet.model.effect import Effect
from placet.model.principal import Principal, Standing, subjects_of
from placet.rules.lifecycle import quiet_end
from placet.rules.policy import RECONCILE_SCOPE


class UnknownReason(StrEnum):
    """Why nothing has settled it yet."""

    NO_PROBE = "no_probe"
    """The contract has no probe: only a person can look."""
    NOT_HERE = "not_here"
    """This process does not know the tool; one that does may probe it."""
    NOT_PROBED = "not_probed"
    """Its probe has not been asked yet."""
    CANNOT_TELL = "cannot_tell"
    """Its probe was asked and could not tell, or saw an absence that came too early to be believed."""
    GAVE_UP = "gave_up"
    """Its probes are used up: only a person can look."""


class Absence(StrEnum):
    """Whether "absent" would be believed of a look that begins now."""

    BELIEVABLE = "believable"
    TOO_EARLY = "too_early"
    """A request may still be on its way until `absent_after`."""
    ATTEMPT_OPEN = "attempt_open"
    """Nobody knows that the attempt has ended: its worker has not said so, and is not proven dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEffect:
    """An unknown effect in the queue for people.

    Attributes:
        age_seconds: how long it has been unknown.
        next_probe_at: when its probe is asked again; None where no probe will be.
        absent_after: a look has to begin later than this for "absent" to be believed; None while nobody can say.
        may_act_twice: whether another dispatch after "absent" might do it a second time, as the remote neither honours
            keys nor refuses or bounds late requests; None where the contract is not known here.
        requested_by: who asked for it, and for whom; none of them may say "absent".
        why_not_committed, why_not_absent: the code with which this person would be refused now; None if it may.
    """

    effect: Effect
    age_seconds: float
    reason: UnknownReason
    next_probe_at: datetime | None
    absence: Absence
    absent_after: datetime | None
    may_act_twice: bool | None
    requested_by: tuple[str, ...]
    why_not_committed: str | None
    why_not_absent: str | None


def unknown_reason(contract: Contract | None, *, probes: int, max_probes: int) -> UnknownReason:
    """By contract and by how often somebody looked in vain."""
    if contract is None:
        return UnknownReason.NOT_HERE
    if not contract.has_probe:
        return UnknownReason.NO_PROBE
    if probes >= max_probes:
        return UnknownReason.GAVE_UP
    return UnknownReason.CANNOT_TELL if probes else UnknownReason.NOT_PROBED


def waiting_effect(
    effect: Effect,
    contract: Contract | None,
    person: Principal,
    *,
    now: datetime,
    max_probes: int,
    pause_seconds: float,
) -> WaitingEffect:
    reason = unknown_reason(contract, probes=effect.probes, max_probes=max_probes)
    is_probed = reason in (UnknownReason.NOT_PROBED, UnknownReason.CANNOT_TELL)
    end = quiet_end(effect, pause_seconds=pause_seconds)
    absence = _absence(end, now)
    why_not = _why_not(person)
    requested_by = subjects_of(effect.subject)
    is_own = person.subject in requested_by
    too_early = None if absence is Absence.BELIEVABLE else "too_early_for_absent"
    return WaitingEffect(
        effect=effect,
        age_seconds=max(0.0, (now - effect.updated_at).total_seconds()),
        reason=reason,
        next_probe_at=(effect.probe_after or now) if is_probed else None,
        absence=absence,
        absent_after=end,
        may_act_twice=None if contract is None else not contract.remote.proves_absence,
        requested_by=requested_by,
        why_not_committed=why_not,
        why_not_absent=why_not or ("own_request" if is_own else too_early),
    )


def _absence(end: datetime | None, now: datetime) -> Absence:
    if end is None:
        return Absence.ATTEMPT_OPEN
    return Absence.BELIEVABLE if now > end else Absence.TOO_EARLY


def _why_not(person: Principal) -> str | None:
    if person.standing is not Standing.PERSON:
        return "not_a_person"
    return None if RECONCILE_SCOPE in person.scopes else "scope_missing"
