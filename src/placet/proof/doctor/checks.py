"""What a check of a deployment is, what it may look at, and what it says.

Checks are data: an id, what it is about, and a function of a `Patient`. They run in order; one that cannot be looked
at, because what it needs is broken and was said to be so before, is `skipped`, never `ok`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from placet.errors import PlacetError
from placet.model.admission import Admission
from placet.model.destinations import Announcements
from placet.model.principal import Principal
from placet.model.serving import Listening
from placet.model.upstreams import Upstream
from placet.ports.clock import Clock
from placet.ports.examining import Examination, ServerExamination
from placet.ports.keys import STORE_CHECK, KeyPurpose, Keys
from placet.ports.policy import PolicyEngine
from placet.ports.sinks import AuditSink
from placet.rules.addresses import names_database
from placet.rules.contracts import Tool


class Level(StrEnum):
    """How bad it is. `fail`: do not start. `skipped`: it could not be looked at, which another line explains."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


class Depth(StrEnum):
    """How much is read. `deep` reads every row and every event."""

    NEWEST = "newest"
    DEEP = "deep"


class StoreKind(StrEnum):
    """What a store is kept in; each kind has checks of its own."""

    SQLITE = "sqlite"
    MEMORY = "memory"
    POSTGRES = "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is about to be started.

    Attributes:
        store: the path of a SQLite file, a `postgresql://` address, or `memory:`.
        key: None leaves it to `<store>.key`.
        tools, policy: what would be registered, and what would decide, or why it cannot be loaded.
        shadow: what would be asked as well, and decide nothing; None where nothing is.
        shadow_since: since when its file is as it is; None where that is not known.
        agent, people: who proposes and who may decide, as far as the deployment says so itself.
        admission: who is let in at the front doors; None where nothing was said.
        announcements: where what happens is announced.
        listening: where the front doors are served; None where nothing was said.
        upstreams: servers whose tools would be called.
        pins: the file of what was accepted of them; None where there is none to be.
        unread: names of settings that nobody reads, with the one that was probably meant.
    """

    store: str | Path
    key: Path | None
    tools: tuple[Tool, ...] | PlacetError
    policy: PolicyEngine | PlacetError
    shadow: PolicyEngine | PlacetError | None = None
    shadow_since: datetime | None = None
    agent: Principal | None = None
    people: tuple[Principal, ...] = ()
    sinks: tuple[AuditSink, ...] = ()
    unread: dict[str, str | None] = field(default_factory=dict)
    admission: Admission | None = None
    announcements: Announcements | None = None
    listening: Listening | None = None
    upstreams: tuple[Upstream, ...] = ()
    pins: Path | None = None

    @property
    def kind(self) -> StoreKind:
        said = str(self.store)
        if said == "memory:":
            return StoreKind.MEMORY
        return StoreKind.POSTGRES if names_database(self.store) else StoreKind.SQLITE


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """A deployment with what could be read of it; what could not is the error that says why.

    Attributes:
        key: the key file in force.
        server: None where the store is kept by no server.
        wall_drift_seconds: by how much the wall clock moved more than the steady one while the rest was read.
    """

    deployment: Deployment
    depth: Depth
    clock: Clock
    key: Path
    keys: Keys | PlacetError
    store: Examination | PlacetError
    server: ServerExamination | PlacetError | None
    wall_drift_seconds: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """What one check says.

    Attributes:
        told: what was found; names that the deployment chose, never a secret, an argument or a result.
        next_step: what to do about it; empty if there is nothing to do.
    """

    level: Level
    told: str
    next_step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing to look at. Whatever `look` raises is a failed check of that name."""

    id: str
    about: str
    look: Callable[[Patient], Saying | Awaitable[Saying]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One check with what it said."""

    id: str
    about: str
    saying: Saying


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Every check's saying, in order."""

    diagnoses: tuple[Diagnosis, ...]

    def count(self, level: Level) -> int:
        return sum(1 for each in self.diagnoses if each.saying.level is level)

    @property
    def worst(self) -> Level:
        """`fail` where anything failed or was left unseen, then `warn`, then `ok`."""
        if self.count(Level.FAIL) or self.count(Level.SKIPPED):
            return Level.FAIL
        return Level.WARN if self.count(Level.WARN) else Level.OK

    @property
    def red(self) -> tuple[Diagnosis, ...]:
        """What keeps it from being started."""
        return tuple(each for each in self.diagnoses if each.saying.level is Level.FAIL)


def ok(told: str) -> Saying:
    return Saying(level=Level.OK, told=told)


def warn(told: str, next_step: str) -> Saying:
    return Saying(level=Level.WARN, told=told, next_step=next_step)


def fail(told: str, next_step: str) -> Saying:
    return Saying(level=Level.FAIL, told=told, next_step=next_step)


def skipped(because: str) -> Saying:
    return Saying(level=Level.SKIPPED, told=because)


def of_error(error: PlacetError) -> Saying:
    """An error of ours as it stands, with its own next step."""
    return fail(str(error).rstrip("."), error.hint)


def of_store(look: Callable[[Patient, Examination], Saying]) -> Callable[[Patient], Saying]:
    """A look that needs the store to be readable."""

    def guarded(patient: Patient) -> Saying:
        if isinstance(patient.store, PlacetError):
            return skipped("the store cannot be read")
        return look(patient, patient.store)

    return guarded


def of_server(look: Callable[[Patient, ServerExamination], Saying]) -> Callable[[Patient], Saying]:
    """A look that needs the server to be reachable."""

    def guarded(patient: Patient) -> Saying:
        if patient.server is None or isinstance(patient.server, PlacetError):
            return skipped("the database cannot be reached")
        return look(patient, patient.server)

    return guarded


def of_store_on_server(look: Callable[[Patient, ServerExamination], Saying]) -> Callable[[Patient], Saying]:
    """A look at what a server keeps that needs the store to be made."""

    def guarded(patient: Patient) -> Saying:
        if isinstance(patient.store, PlacetError) or patient.server is None or isinstance(patient.server, PlacetError):
            return skipped("the store cannot be read")
        return look(patient, patient.server)

    return guarded


def of_store_and_keys(look: Callable[[Patient, Examination, Keys], Saying]) -> Callable[[Patient], Saying]:
    """A look that needs the store and its keys: by another's, everything that is sound looks as if it were forged."""

    def of_its_own(patient: Patient, store: Examination, keys: Keys) -> Saying:
        if not is_key_of(store, keys):
            return skipped("the key is not this store's")
        return look(patient, store, keys)

    return of_store_and_any_keys(of_its_own)


def is_key_of(store: Examination, keys: Keys) -> bool:
    """Whether the store was made with these keys, in their newest copy."""
    return keys.is_authentic(KeyPurpose.STORE, STORE_CHECK, store.key_check())


def of_store_and_any_keys(look: Callable[[Patient, Examination, Keys], Saying]) -> Callable[[Patient], Saying]:
    """A look that needs the store to be readable, and some keys."""

    def guarded(patient: Patient) -> Saying:
        if isinstance(patient.store, PlacetError) or isinstance(patient.keys, PlacetError):
            return skipped("the store or its key cannot be read")
        return look(patient, patient.store, patient.keys)

    return guarded
