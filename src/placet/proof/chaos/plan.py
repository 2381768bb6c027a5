"""What a chaos run shall do: how many workers die, where, and what is deliberately wrong.

Everything random comes from the seed. The moments are the machine's all the same: two runs with one seed try the same
things, and meet them in another order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from placet.engine.settings import GateSettings
from placet.errors import ConfigurationError
from placet.proof.chaos.database import Database
from placet.testing.kill_points import KillPoint, Moment


class Steps(StrEnum):
    """ALL: every named step first, then moments nobody chose. RANDOM: only those."""

    ALL = "all"
    RANDOM = "random"


class Sabotage(StrEnum):
    """Something deliberately wrong, to see that the table shows it.

    LATE_REMOTE: the remote acts on requests that come late, though its contract says it refuses them.
    NO_GUARD: a handler does not ask the guard before its first byte, and its process stands still for longer than the
        pause bound just there.
    FORGETFUL_STORE: the store acknowledges claims and forgets them.
    SILENT_STORE: the store settles without the completed event.
    """

    LATE_REMOTE = "late-remote"
    NO_GUARD = "no-guard"
    FORGETFUL_STORE = "forgetful-store"
    SILENT_STORE = "silent-store"


class Inside(StrEnum):
    """Where inside a handler a worker dies or stands still."""

    BEFORE_FIRST_BYTE = "before the first byte"
    AFTER_IT_ACTED = "after the remote acted"
    STANDS_STILL = "stands still before the guard"


AT_RANDOM = "at random"
STOOD_STILL = "stood still"
UNDISTURBED = "undisturbed"
"""Names of rows beside those of steps."""

VERBS = (
    "claim",
    "turn",
    "settle",
    "ask",
    "answer",
    "record",
    "heartbeat",
    "take_over",
    "begin_probe",
    "owner_died",
    "probed_in_vain",
    "reconcile",
    "close_lost_read",
)
"""The store's verbs that workers use under load, in the order of a call's life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One named place to die at: around a verb of the store, or inside a handler."""

    name: str
    verb: str = ""
    moment: Moment = Moment.BEFORE
    inside: Inside | None = None

    def point(self, nth: int) -> KillPoint | None:
        return None if self.inside is not None else KillPoint(moment=self.moment, verb=self.verb, nth=nth)


NAMED_STEPS: tuple[Step, ...] = (
    *(Step(name=f"{moment.value} {verb}", verb=verb, moment=moment) for verb in VERBS[:1] for moment in Moment),
    *(Step(name=inside.value, inside=inside) for inside in Inside),
    *(Step(name=f"{moment.value} {verb}", verb=verb, moment=moment) for verb in VERBS[1:] for moment in Moment),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Bounds short enough to be waited for, and long enough for a busy machine.

    Attributes:
        timeout_seconds: deadline of an attempt, and so its send window.
        arrival_seconds: the bound that contracts declare for a request to act after it was sent.
        delay_seconds: the longest delay of a remote that keeps to that bound.
        late_seconds: the longest delay of a remote that refuses late requests, so that nothing need bound it.
        still_seconds: shortest and longest time a worker is suspended at a moment nobody chose: beyond its lease, and
            within the pause bound.
        standing_seconds: the same for a worker that stands still right before its guard; beyond any bound.
    """

    lease_seconds: float = 1.0
    pause_seconds: float = 3.0
    timeout_seconds: float = 1.0
    arrival_seconds: float = 1.0
    delay_seconds: float = 0.2
    late_seconds: float = 2.5
    still_seconds: tuple[float, float] = (1.2, 2.0)
    standing_seconds: tuple[float, float] = (1.5, 4.0)

    def settings(self) -> GateSettings:
        return GateSettings(
            lease_seconds=self.lease_seconds,
            pause_seconds=self.pause_seconds,
            grace_seconds=0.1,
            recovery_seconds=0.5,
            probe_seconds=2.0,
            max_probes=1_000,
            max_steps=1_000_000,
            call_seconds=5.0,
        )


_SABOTAGED = Timing(
    lease_seconds=0.3,
    pause_seconds=0.1,
    timeout_seconds=0.3,
    arrival_seconds=0.1,
    delay_seconds=0.0,
    late_seconds=3.0,
    standing_seconds=(4.0, 5.0),
)
"""Bounds that the saboteurs are sure to break."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosPlan:
    """One run.

    Attributes:
        store: a SQLite file that does not exist yet, or the address of a database without effects.
        kills: how many deaths by SIGKILL end the load, once `operations` have been asked for and `database`, where
            there is one, has been taken down.
        seconds: when it ends in any case; settling what is open comes after that.
        per_step: deaths wanted at each named step.
        database: what is restarted under load, one way after another; None: nothing is.
    """

    store: str
    key: str | None = None
    kills: int = 200
    operations: int = 1
    seconds: float = 120.0
    workers: int = 8
    seed: int = 1
    steps: Steps = Steps.ALL
    per_step: int = 1
    sabotage: Sabotage | None = None
    database: Database | None = field(default=None, compare=False)
    restart_every_seconds: float = 10.0
    timing: Timing = field(default_factory=Timing)

    def __post_init__(self) -> None:
        if not hasattr(os, "fork"):
            raise ConfigurationError("placet chaos needs an operating system that can fork and stop processes.")
        for name in ("kills", "operations", "workers", "per_step"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"A chaos run has at least one of {name!r}.")
        if self.seconds <= 0 or self.restart_every_seconds <= 0:
            raise ConfigurationError("A chaos run's times are above zero.")

    @property
    def bounds(self) -> Timing:
        return self.timing if self.sabotage is None else _SABOTAGED

    def as_data(self) -> dict[str, Any]:
        """The settings, for the record; without addresses, which may hold a password."""
        bounds = self.bounds
        return {
            "kills": self.kills,
            "seconds": self.seconds,
            "workers": self.workers,
            "seed": self.seed,
            "steps": self.steps.value,
            "per_step": self.per_step,
            "sabotage": self.sabotage.value if self.sabotage is not None else None,
            "outages": [] if self.database is None else [each.value for each in self.database.takedowns],
            "lease_seconds": bounds.lease_seconds,
            "pause_seconds": bounds.pause_seconds,
            "timeout_seconds": bounds.timeout_seconds,
            "arrival_seconds": bounds.arrival_seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What one worker process is born with; crosses to it as JSON.

    Attributes:
        slot: which of the workers it is; a slot's next life takes up what this one left open.
        number: of the life, over all slots.
        open: operations that earlier lives of the slot began and heard no last word about.
        first: the number of its first new operation.
        step: the name of the named step it dies at; empty for none. `nth`: at which use of that verb.
        shared: an operation of that number is asked for by other slots too.
    """

    slot: int
    number: int
    seed: int
    store: str
    key: str | None
    port: int
    journal: str
    open: tuple[str, ...]
    first: int
    step: str
    nth: int
    sabotage: str
    timing: dict[str, Any]


STEPS_BY_NAME = {step.name: step for step in NAMED_STEPS}
