"""Whether this machine's clock can be trusted with deadlines and expiries."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from placet.ports.examining import Examination
from placet.proof.doctor.checks import Check, Patient, Saying, fail, of_store, ok, warn

SKEW_SECONDS = 30.0
"""How far ahead of the clock something on record may be: as far as an approval may be."""
_DRIFT_SECONDS = 1.0
_ZONE = "Europe/Paris"
_EARLIEST = datetime(2025, 1, 1, tzinfo=UTC)


def clock_steady(patient: Patient) -> Saying:
    drift = patient.wall_drift_seconds()
    if abs(drift) > _DRIFT_SECONDS:
        return fail(
            f"the clock was set by {drift:+.0f} s while this command ran",
            "Let the clock be slewed (chrony, systemd-timesyncd), not set, and look again.",
        )
    return ok("the clock runs as steadily as this machine's uptime")


def clock_set(patient: Patient) -> Saying:
    now = patient.clock.now()
    if now < _EARLIEST:
        return fail(f"the clock says {now:%Y-%m-%d}", "Set the clock, and keep it set: chrony, systemd-timesyncd.")
    return ok(f"the clock says {now:%Y-%m-%d %H:%M} UTC")


def _clock_history(patient: Patient, store: Examination) -> Saying:
    newest = store.newest_instant()
    if newest is None:
        return ok("nothing is on record yet")
    ahead = (newest - patient.clock.now()).total_seconds()
    if ahead > SKEW_SECONDS:
        return fail(
            f"the clock is {ahead:,.0f} s behind what the store has on record already",
            "Set the clock right before anything runs: leases and expiries would last too long.",
        )
    return ok("the clock is not behind the store")


def time_zones(patient: Patient) -> Saying:
    try:
        ZoneInfo(_ZONE)
        return ok("time zones can be read")
    except (ZoneInfoNotFoundError, OSError, ValueError):
        pass
    return warn("no time zone data is installed", "Install the system's tzdata, or: pip install tzdata")


CHECKS = (
    Check(id="clock_set", about="the clock", look=clock_set),
    Check(id="clock_steady", about="jumps of the clock", look=clock_steady),
    Check(id="clock_history", about="clock and store", look=of_store(_clock_history)),
    Check(id="time_zones", about="time zones", look=time_zones),
)
