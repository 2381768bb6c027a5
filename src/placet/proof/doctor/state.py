"""What stands in the store: stops, broken rows, what is unknown, and whether the audit holds."""

from __future__ import annotations

from placet.bootstrap.records import chain_linker
from placet.engine.verifying import verify
from placet.model.audit import ElidedEvents
from placet.model.effect import BrokenEffect
from placet.model.identifiers import WriterId
from placet.model.stopping import is_quarantine
from placet.ports.examining import Examination
from placet.ports.keys import Keys
from placet.proof.doctor.checks import (
    Check,
    Depth,
    Patient,
    Saying,
    fail,
    of_store,
    of_store_and_keys,
    ok,
    warn,
)
from placet.rules.approvals import Misfit
from placet.rules.chain_check import ChainCheck, verify_chains

_ROWS = 1_000
_ALL = 2**62
_WRITERS, _EVENTS = 16, 500
_HOUR, _DAY = 3_600.0, 86_400.0
_MOST_NAMED = 5


def _stops(patient: Patient, store: Examination) -> Saying:
    scopes = [scope for scope in store.stops() if not is_quarantine(scope)]
    if scopes:
        told = ", ".join(scopes[:_MOST_NAMED]) + (f" and {len(scopes) - _MOST_NAMED} more" if scopes[5:] else "")
        return warn(f"{len(scopes)} stops are in force: {told}", "What they halt is refused until they are lifted.")
    return ok("nothing is stopped")


def _broken_rows(patient: Patient, store: Examination, keys: Keys) -> Saying:
    limit = _ALL if patient.depth is Depth.DEEP else _ROWS
    effects = store.effects(limit=limit)
    broken = sum(1 for each in effects if isinstance(each, BrokenEffect))
    misfits = [verify(each, keys) for each in store.approvals_in_force(limit=limit)]
    suspect = sum(1 for each in misfits if each not in (None, Misfit.KEY_RETIRED))
    if broken or suspect:
        return fail(
            f"somebody changed rows by hand: {broken} effects and {suspect} approvals do not hold",
            "Find out who can write the store. Keep it as it is, and compare it with a backup.",
        )
    which = "all" if patient.depth is Depth.DEEP or len(effects) < limit else f"the newest {limit:,}"
    return ok(f"{which} effects and open approvals can be read")


def _unknown_effects(patient: Patient, store: Examination) -> Saying:
    now = store.now(patient.clock.now())
    ages = [(now - since).total_seconds() for since in store.unknown_since()]
    stranded = store.stranded(now=now)
    if not ages and not stranded:
        return ok("no effect is unknown")
    old = sum(1 for age in ages if age >= _DAY)
    hours = sum(1 for age in ages if _HOUR <= age < _DAY)
    told = f"{len(ages)} effects are unknown ({old} for a day or more, {hours} for an hour or more)"
    if stranded:
        told += f"; {stranded} were left dispatched by an owner that is gone"
    return warn(told, "placet effects reconcile looks them up; what has no probe is for a person to settle.")


def _audit_chain(patient: Patient, store: Examination, keys: Keys) -> Saying:
    return _whole_audit(store, keys) if patient.depth is Depth.DEEP else _newest_audit(store, keys)


def _whole_audit(store: Examination, keys: Keys) -> Saying:
    report = verify_chains(store.chained(), store.heads(), chain_linker(keys), tombstones=store.tombstones())
    if not report.holds:
        return _broken_audit(len(report.breaks))
    if report.unpaired:
        return warn(
            f"{report.events:,} events hold; {report.unpaired} attempts have no end on record",
            "They are running, or were left by a crash: the next gate that opens closes those.",
        )
    return ok(f"all {report.events:,} events hold, in {report.writers} chains")


def _newest_audit(store: Examination, keys: Keys) -> Saying:
    """The ends of the newest chains. What came before them is taken for granted, and said not to be seen."""
    ends = store.chain_ends(writers=_WRITERS, events=_EVENTS)
    starts = {tombstone.writer: tombstone.first_kept for tombstone in store.tombstones()}
    check = ChainCheck((end.head for end in ends), chain_linker(keys), tombstones=store.tombstones())
    for end in ends:
        if end.before is not None:
            first, last = starts.get(end.head.writer, 1), end.events[0].sequence - 1
            check.pass_over(ElidedEvents(writer=end.head.writer, first=first, last=last, link=end.before))
        for event in end.events:
            check.see(event)
    seen: set[WriterId | str] = {end.head.writer for end in ends}
    breaks = [each for each in check.report().breaks if each.writer in seen]
    if breaks:
        return _broken_audit(len(breaks))
    return ok(f"the newest {sum(len(end.events) for end in ends):,} events hold; --deep looks at all of them")


def _broken_audit(breaks: int) -> Saying:
    return fail(
        f"the audit does not hold: {breaks} breaks",
        "placet audit verify says where. Stop all writers, keep the store as it is, compare with a kept anchor.",
    )


CHECKS = (
    Check(id="stops", about="stops in force", look=of_store(_stops)),
    Check(id="broken_rows", about="rows changed by hand", look=of_store_and_keys(_broken_rows)),
    Check(id="unknown_effects", about="unknown effects", look=of_store(_unknown_effects)),
    Check(id="audit_chain", about="the audit", look=of_store_and_keys(_audit_chain)),
)
