"""`placet doctor`: is this deployment safe to start?

    report = await diagnose(Deployment(store=..., key=None, tools=TOOLS, policy=Matrix()))
    report.red                 # what keeps it from being started; empty if nothing does

Nothing is changed: no store, key, log or lock comes into being, and none changes. Which checks there are depends on
what the store is kept in; `checks_of` names them.
"""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from pathlib import Path

from placet.bootstrap.looking import examine_database, examine_store
from placet.bootstrap.records import store_keys
from placet.bootstrap.stores import key_path, missing_store
from placet.bootstrap.surroundings import system_clock
from placet.errors import KeyMaterialError, PlacetError, StoreError
from placet.ports.clock import Clock
from placet.ports.examining import Examination, ServerExamination
from placet.ports.keys import Keys
from placet.ports.waiting import in_a_thread
from placet.proof.doctor import announcements, contracts, doors, files, keys, machine, server, state, tables, upstreams
from placet.proof.doctor.checks import (
    Check,
    Deployment,
    Depth,
    Diagnosis,
    Level,
    Patient,
    Report,
    Saying,
    StoreKind,
    fail,
    warn,
)
from placet.rules.foreign import safe_exception_name

__all__ = ["Check", "Deployment", "Depth", "Diagnosis", "Level", "Report", "Saying", "checks_of", "diagnose"]


def _in_memory(patient: Patient) -> Saying:
    return warn("the store is in memory: everything is forgotten when its process ends", "Name a file: --store FILE")


_STORE_CHECKS: dict[StoreKind, tuple[Check, ...]] = {
    StoreKind.SQLITE: (*keys.CHECKS, *files.CHECKS, *state.CHECKS),
    StoreKind.MEMORY: (Check(id="store_kind", about="the store", look=_in_memory),),
    StoreKind.POSTGRES: (*keys.CHECKS, *server.CHECKS, *tables.CHECKS, *state.CHECKS),
}


def checks_of(kind: StoreKind) -> tuple[Check, ...]:
    """Every check of a deployment whose store is of this kind, in the order in which they are told."""
    is_sqlite = kind is StoreKind.SQLITE
    clock = machine.CHECKS if is_sqlite else tuple(each for each in machine.CHECKS if each.id != "clock_history")
    return (*_STORE_CHECKS[kind], *clock, *contracts.CHECKS, *upstreams.CHECKS, *doors.CHECKS, *announcements.CHECKS)


async def diagnose(deployment: Deployment, *, depth: Depth = Depth.NEWEST, clock: Clock | None = None) -> Report:
    """Look at everything, and change nothing. Never raises for what it finds, and holds up nobody's event loop."""
    clock = clock or system_clock()
    opened = ExitStack()
    try:
        patient = await in_a_thread(lambda: _patient(deployment, depth, clock, opened))
        found = [await _diagnosis(check, patient) for check in checks_of(deployment.kind)]
    finally:
        await in_a_thread(opened.close)
    return Report(diagnoses=tuple(found))


def _patient(deployment: Deployment, depth: Depth, clock: Clock, opened: ExitStack) -> Patient:
    wall, steady = clock.now(), clock.monotonic()

    def drift() -> float:
        return (clock.now() - wall).total_seconds() - (clock.monotonic() - steady)

    path = Path(deployment.store)
    key = deployment.key or key_path(path)
    database = _database(deployment, opened)
    return Patient(
        deployment=deployment,
        depth=depth,
        clock=clock,
        key=key,
        keys=_keys(key) if _is_key_named(deployment) else _unnamed_key(),
        store=_store(deployment, path, opened) if database is None else _store_on(database, deployment),
        server=database,
        wall_drift_seconds=drift,
    )


def _is_key_named(deployment: Deployment) -> bool:
    """Beside a file there is a place for its key; beside a database there is none, and its URL is not for showing."""
    return deployment.key is not None or deployment.kind is not StoreKind.POSTGRES


def _unnamed_key() -> KeyMaterialError:
    return KeyMaterialError(
        "A store in a database needs its key file named.",
        hint="Name it: --key FILE, PLACET_KEY, or key in placet.toml.",
    )


def _keys(key: Path) -> Keys | PlacetError:
    try:
        return store_keys(key)
    except KeyMaterialError as error:
        return error


def _database(deployment: Deployment, opened: ExitStack) -> ServerExamination | PlacetError | None:
    if deployment.kind is not StoreKind.POSTGRES:
        return None
    try:
        return opened.enter_context(examine_database(str(deployment.store)))
    except PlacetError as error:
        return error


def _store_on(database: ServerExamination | PlacetError, deployment: Deployment) -> Examination | PlacetError:
    try:
        if isinstance(database, PlacetError) or database.is_made():
            return database
        return missing_store(deployment.store, deployment.key)
    except PlacetError as error:
        return error


def _store(deployment: Deployment, path: Path, opened: ExitStack) -> Examination | PlacetError:
    if deployment.kind is not StoreKind.SQLITE:
        return StoreError("The store is not a file.")
    try:
        if not path.exists() and path.parent.is_dir():
            return missing_store(path, deployment.key)
        return opened.enter_context(examine_store(path))
    except PlacetError as error:
        return error
    except OSError:
        pass
    return StoreError(f"The store cannot be looked at: {path}", hint="Give this user permission to read it.")


async def _diagnosis(check: Check, patient: Patient) -> Diagnosis:
    """What a check says. One that breaks is red: what nobody could look at is not fine."""
    try:
        answer = await in_a_thread(lambda: check.look(patient))
        saying = await answer if inspect.isawaitable(answer) else answer
    except PlacetError as error:
        saying = fail(str(error).rstrip("."), error.hint)
    except Exception as error:
        saying = fail(
            f"it could not be looked at: {safe_exception_name(error)}", "Look again; if it stays so, please report it."
        )
    return Diagnosis(id=check.id, about=check.about, saying=saying)
