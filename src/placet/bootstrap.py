"""Settings to a running gate; the only place that names concrete adapters."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from heapq import nlargest
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, TypeVar

from placet.adapters.clock import GuardedClock, GuardedIds, RandomIds, SystemClock
from placet.adapters.keys import KeyFile, KeyRing, create_key_file, load_key_file
from placet.adapters.processes import LocalProcesses
from placet.adapters.sinks.log import LogSink
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.memory import MemoryStore
from placet.adapters.telemetry.logs import configure as configure_logging
from placet.adapters.telemetry.quiet import QuietMeter
from placet.adapters.transports.python import PythonTransport
from placet.engine.afterwards import Afterwards
from placet.engine.approving import Approver, verify
from placet.engine.attempts import Attempts
from placet.engine.auditing import verify_store
from placet.engine.capacity import Capacity
from placet.engine.chronicle import Chronicle
from placet.engine.co_commit import CoCommits
from placet.engine.custody import Custody
from placet.engine.deciding import Decider
from placet.engine.desk import Desk
from placet.engine.dispatch import Dispatcher
from placet.engine.drain import Drain
from placet.engine.endings import Endings
from placet.engine.gate import Gate
from placet.engine.herald import Herald, introduced
from placet.engine.keeper import Keeper
from placet.engine.known import KnownOperations
from placet.engine.path import CallPath
from placet.engine.performing import Performing
from placet.engine.purging import Purger
from placet.engine.reads import Reads
from placet.engine.reconciler import Reconciler
from placet.engine.refusals import Refusals
from placet.engine.registry import Registry
from placet.engine.results import Results
from placet.engine.settings import GateSettings
from placet.engine.steps import Steps
from placet.engine.submissions import Submissions
from placet.engine.switch import Switch
from placet.engine.sync import LoopThread, SyncGate
from placet.errors import (
    ConfigurationError,
    ContractError,
    KeyMaterialError,
    MisuseError,
    StoreMissing,
    StoreNotWritable,
)
from placet.model.approval import Question
from placet.model.audit import ChainedEvent
from placet.model.contract import Isolation
from placet.model.exact import has_methods, items_of, member_of
from placet.model.identifiers import WriterId
from placet.ports.clock import Clock, IdSource
from placet.ports.examining import Examination
from placet.ports.keys import KeyPurpose, Keys
from placet.ports.meter import Meter
from placet.ports.policy import PolicyEngine
from placet.ports.sinks import AuditSink
from placet.ports.store import Heard, Store, nobody
from placet.ports.transport import Transport
from placet.ports.waiting import raise_owed_cancellation, whatever_happens
from placet.rules.audit import ChainReport, Linker, operation_of, place_in_time
from placet.rules.contracts import Tool
from placet.rules.decoding import LONE_SURROGATE
from placet.rules.exports import ExportLines, ExportReport, verify_export
from placet.rules.policy import Matrix

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from placet.adapters.transports.process import ProcessTransport

__all__ = [
    "MEMORY",
    "LogSink",
    "Opening",
    "Recovery",
    "audit_export",
    "chain_linker",
    "check_export",
    "configure_logging",
    "events_of_operation",
    "examine_store",
    "is_address",
    "is_made",
    "key_path",
    "load_key_file",
    "lost_store",
    "open_custody",
    "open_existing_store",
    "open_gate",
    "open_store",
    "peek_at_pending",
    "shown_store",
    "sqlite_library_version",
    "sqlite_settings",
    "system_clock",
    "verify_audit",
]

Member = TypeVar("Member")
Port = TypeVar("Port")
_LONGEST_PATH = 4_096
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOW_TO_ENTER = "Open it first: with placet.open(...) as gate."
_STARTER_LOOKS, _STARTER_PAUSE_SECONDS = 40, 0.05

MEMORY = "memory:"
"""The store that forgets everything with its process."""


class Recovery(StrEnum):
    """Who looks after stranded and unknown effects: the open gate itself, or the program when it says so."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"


def open_gate(
    *,
    tools: Collection[Tool],
    store: str | Path,
    key: str | Path | None = None,
    policy: PolicyEngine | None = None,
    settings: GateSettings | None = None,
    recovery: Recovery | str = Recovery.AUTOMATIC,
    sinks: Collection[AuditSink] = (),
    metrics: CollectorRegistry | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
) -> Opening:
    """Prepare a gate. Enter the answer with `async with` for a `Gate`, or with `with` for a `SyncGate`.

    Args:
        tools: what may run, made with `placet.tool`.
        store: the path of a SQLite file (made, with its key file, if absent), the URL of a PostgreSQL database
            (`postgresql://user@host/database`; its tables are made if absent), or `"memory:"`.
        key: the key file; `<store>.key` if absent, and always named for a database.
        policy: the matrix if absent.
        sinks: who else hears audit events, such as `placet.LogSink()`.
        metrics: a Prometheus registry to measure into; nothing is measured without one.

    Raises:
        ContractError: at once, if the tools cannot be registered together, or one cannot co-commit in the store.
        On entering, whatever keeps the store from being opened: `StoreError`, `KeyMaterialError`.
    """
    registry = Registry(_listed(tools, "tools"))
    _refuse_unreachable(registry)
    place = _place(store, "store")
    _refuse_unsettled(registry, place)
    return Opening(
        registry=registry,
        store=place,
        key=None if key is None else Path(_place(key, "key")),
        policy=Matrix() if policy is None else _port(policy, "policy", "decide", "is_listed"),
        settings=GateSettings() if settings is None else _settings(settings),
        recovery=_recovery(recovery),
        sinks=_listed(sinks, "sinks"),
        metrics=metrics,
        clock=SystemClock() if clock is None else GuardedClock(_port(clock, "clock", "now", "monotonic", "sleep")),
        ids=RandomIds() if ids is None else GuardedIds(_port(ids, "ids", "new_id", "fraction")),
    )


def _recovery(value: Recovery | str) -> Recovery:
    if (recovery := member_of(Recovery, value)) is not None:
        return recovery
    raise MisuseError("recovery= is 'automatic' or 'manual'.")


def _listed(values: Collection[Member], what: str) -> tuple[Member, ...]:
    found = items_of(values)
    if found is not None:
        return found
    raise MisuseError(f"{what}= is a list or a tuple.")


def _port(given: Port, what: str, *methods: str) -> Port:
    """What somebody gave for a port. It is not asked what it is: its class has the methods, or has not."""
    if has_methods(given, *methods):
        return given
    raise MisuseError(f"{what}= is an object with the methods {', '.join(methods)}.")


def _place(value: str | Path, what: str) -> str | Path:
    if type(value) is str or issubclass(type(value), Path):
        text = str(value)
        if "\0" not in text and LONE_SURROGATE.search(text) is None and len(text) <= _LONGEST_PATH:
            return value
    raise MisuseError(f"{what}= is text of at most {_LONGEST_PATH} characters, or a pathlib.Path.")


def _settings(settings: GateSettings) -> GateSettings:
    """The settings, checked once more: a frozen value can be changed by those who insist."""
    if type(settings) is GateSettings:
        with suppress(AttributeError):  # made without its constructor, it lacks a field
            return replace(settings)
    raise MisuseError("settings= is a placet.GateSettings.")


open_gate.__qualname__ = "placet.open"  # the name it is called by, so Python's own words about its arguments use it


class _NotEntered(MisuseError, AttributeError):
    """A gate was asked for something before it was open; for `hasattr`, what is not there."""


class Opening:
    """A gate that can be entered, once."""

    def __init__(
        self,
        *,
        registry: Registry,
        store: str | Path,
        key: Path | None,
        policy: PolicyEngine,
        settings: GateSettings,
        recovery: Recovery,
        sinks: tuple[AuditSink, ...],
        metrics: CollectorRegistry | None,
        clock: Clock,
        ids: IdSource,
    ) -> None:
        self._registry = registry
        self._where = store
        self._key = key
        self._policy = policy
        self._settings = settings
        self._recovery = recovery
        self._sinks = sinks
        self._metrics = metrics
        self._clock = clock
        self._ids = ids
        self._around: Callable[[Store], Store] = _as_it_is
        self._open: _Running | None = None
        self._thread: LoopThread | None = None

    async def __aenter__(self) -> Gate:
        if self._open is not None:
            raise MisuseError("A gate is entered once; call placet.open again.")
        self._open = self._run()
        try:
            await self._open.gate.announce()
        except BaseException:
            await self._open.close()
            raise
        return self._open.gate

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            await self._open.close()

    def __enter__(self) -> SyncGate:
        self._thread = LoopThread()
        try:
            return SyncGate(self._thread.carry(self.__aenter__()), self._thread)
        except BaseException:
            self._thread.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None or not self._thread.is_ours:
            return  # a forked child leaves alone what is its parent's
        try:
            self._thread.carry(self.__aexit__(kind, error, trace))
        finally:
            self._thread.close()

    def __getattr__(self, name: str) -> NoReturn:
        """Whatever is asked of a gate that was not entered is misuse; what copying and debuggers ask is not."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise _NotEntered(f"This gate is not open, so it has no {name!r}. {_HOW_TO_ENTER}")

    def _run(self) -> _Running:
        """Put everything together, inside the event loop that will use it."""
        listeners = introduced(self._sinks)
        meter = self._meter(tuple(listener.name for listener in listeners))
        herald = Herald(meter=meter, listeners=listeners)
        here = PythonTransport(self._registry.tools, meter=meter, grace_seconds=self._settings.grace_seconds)
        apart = self._apart(meter)
        transport = here if apart is None else _by_isolation(here, apart)
        processes = LocalProcesses()
        owner = processes.own_id()
        keys, store = open_store(  # after all that may refuse: nothing is made, or left open, in vain
            self._where, key=self._key, clock=self._clock, ids=self._ids, meter=meter, heard=herald.durable
        )
        store = self._around(store)
        chronicle = Chronicle(keys=keys, clock=self._clock)
        steps = Steps(policy=self._policy, ids=self._ids, settings=self._settings)
        refusals = Refusals(store=store, chronicle=chronicle, steps=steps)
        results = Results(registry=self._registry, keys=keys)
        attempts = Attempts(transport=transport, chronicle=chronicle, clock=self._clock, ids=self._ids)
        endings = Endings(chronicle=chronicle, attempts=attempts, clock=self._clock)
        afterwards = Afterwards(clock=self._clock, settings=self._settings)
        performing = Performing()
        dispatcher = Dispatcher(
            store=store,
            attempts=attempts,
            endings=endings,
            results=results,
            chronicle=chronicle,
            herald=herald,
            afterwards=afterwards,
            co_commits=CoCommits(store=store, results=results, endings=endings, afterwards=afterwards),
            performing=performing,
            keys=keys,
            ids=self._ids,
            settings=self._settings,
            owner=owner,
            meter=meter,
        )
        reads = Reads(
            store=store,
            attempts=attempts,
            endings=endings,
            results=results,
            chronicle=chronicle,
            herald=herald,
            refusals=refusals,
            afterwards=afterwards,
            performing=performing,
            settings=self._settings,
            owner=owner,
        )
        reconciler = Reconciler(
            store=store,
            registry=self._registry,
            transport=transport,
            chronicle=chronicle,
            keys=keys,
            liveness=processes,
            meter=meter,
            settings=self._settings,
            performing=performing,
        )
        submissions = Submissions(grace_seconds=self._settings.grace_seconds)
        decider = Decider(policy=self._policy, clock=self._clock)
        path = CallPath(
            registry=self._registry,
            store=store,
            decider=decider,
            capacity=Capacity(transport=transport, clock=self._clock, meter=meter, settings=self._settings),
            chronicle=chronicle,
            dispatcher=dispatcher,
            reads=reads,
            known=KnownOperations(
                store=store, chronicle=chronicle, results=results, refusals=refusals, steps=steps, clock=self._clock
            ),
            refusals=refusals,
            approver=Approver(store=store, keys=keys, chronicle=chronicle, ids=self._ids),
            steps=steps,
            meter=meter,
        )
        keeper = Keeper(
            store=store,
            performing=performing,
            reconciler=reconciler,
            clock=SystemClock(),
            settings=self._settings,
            owner=owner,
            meter=meter,
        )
        gate = Gate(
            registry=self._registry,
            store=store,
            decider=decider,
            path=path,
            chronicle=chronicle,
            refusals=refusals,
            submissions=submissions,
            desk=Desk(store=store, keys=keys, chronicle=chronicle, registry=self._registry),
            reconciler=reconciler,
            switch=Switch(store=store, keys=keys, chronicle=chronicle),
            purger=Purger(
                store=store,
                keys=keys,
                linker=ChainLinker(keys),
                chronicle=chronicle,
                registry=self._registry,
                retention=self._settings.retention,
            ),
            drain=Drain(submissions=submissions, keeper=keeper, store=store),
            clock=self._clock,
            ids=self._ids,
            settings=self._settings,
            linker=ChainLinker(keys),
        )
        keeper.start_heartbeat()
        if self._recovery is Recovery.AUTOMATIC:
            keeper.start_recovery()
        return _Running(
            gate=gate,
            submissions=submissions,
            apart=apart,
            store=store,
            keeper=keeper,
            afterwards=afterwards,
            herald=herald,
            meter=meter,
        )

    def _apart(self, meter: Meter) -> ProcessTransport | None:
        """Whoever runs handlers in processes of their own, if any is to run so."""
        tools = _process_tools(self._registry)
        if not tools:
            return None
        from placet.adapters.transports.process import ProcessTransport

        return ProcessTransport(
            tools,
            meter=meter,
            clock=self._clock,
            grace_seconds=self._settings.grace_seconds,
            spare_processes=self._settings.spare_processes,
        )

    def _meter(self, sinks: tuple[str, ...]) -> Meter:
        if self._metrics is None:
            return QuietMeter()
        from prometheus_client import CollectorRegistry

        from placet.adapters.telemetry.metrics import PrometheusMeter

        if not issubclass(type(self._metrics), CollectorRegistry):
            raise MisuseError("metrics= is a prometheus_client.CollectorRegistry.")
        return PrometheusMeter(
            self._metrics, tools=tuple(self._registry.tools), sinks=sinks, store=_name_of_store(self._where)
        )


def around_store(opening: Opening, around: Callable[[Store], Store]) -> Opening:
    """For proofs whose processes die at a verb of their store: the gate will use what `around` makes of it."""
    opening._around = around
    return opening


def _as_it_is(store: Store) -> Store:
    return store


def _name_of_store(where: str | Path) -> Hashable:
    """Equal for gates of one store, and for no others; a store in memory is its gate's own."""
    if str(where) == MEMORY:
        return object()
    return str(where) if is_address(where) else str(Path(where).resolve())


def _process_tools(registry: Registry) -> list[Tool]:
    return [tool for tool in registry.tools.values() if tool.contract.isolation is Isolation.PROCESS]


def _refuse_unreachable(registry: Registry) -> None:
    """At once, and not when the first call finds out, that a new process cannot import a tool."""
    tools = _process_tools(registry)
    if tools:
        from placet.adapters.transports.places import place_of

        for tool in tools:
            place_of(tool)


def _refuse_unsettled(registry: Registry, store: str | Path) -> None:
    """At once, and not at the first call, that a tool cannot co-commit in this store, or could hold it up."""
    settles_in = _settles_in(str(store))
    for contract in registry:
        if contract.remote.co_commits and contract.isolation is not settles_in:
            raise ContractError(
                f"The tool {contract.name!r} cannot co-commit in this store.",
                code="co_commit_unfit",
                hint=_FIT_TO_CO_COMMIT[settles_in],
                tool=contract.name,
            )


def _settles_in(store: str) -> Isolation | None:
    """Where a handler has to run whose transaction settles its effect.

    One on a SQLite file holds the write lock of all: a plain function, in a thread, cannot wait for the event loop
    while it does.
    """
    if store == MEMORY:
        return None
    return Isolation.ASYNC if is_address(store) else Isolation.THREAD


_POSTGRES = ("postgresql://", "postgres://")
_FIT_TO_CO_COMMIT = {
    None: "A store in memory has no transactions: use a SQLite file, or PostgreSQL.",
    Isolation.THREAD: "On a SQLite file write the handler as a plain function, not a coroutine function.",
    Isolation.ASYNC: "On PostgreSQL write the handler as a coroutine function, with asyncpg.",
}


def _by_isolation(here: PythonTransport, apart: ProcessTransport) -> Transport:
    from placet.adapters.transports.by_isolation import TransportByIsolation

    return TransportByIsolation(here=here, apart=apart)


class _Running:
    """An open gate and what has to end with it, in this order."""

    def __init__(
        self,
        *,
        gate: Gate,
        submissions: Submissions,
        apart: ProcessTransport | None,
        store: Store,
        keeper: Keeper,
        afterwards: Afterwards,
        herald: Herald,
        meter: Meter,
    ) -> None:
        self.gate = gate
        self._process = os.getpid()
        self._submissions = submissions
        self._apart = apart
        self._store = store
        self._keeper = keeper
        self._afterwards = afterwards
        self._herald = herald
        self._meter = meter

    async def close(self) -> None:
        """End it all in bounded time. A cancellation of the caller is raised afterwards."""
        if os.getpid() != self._process:
            return  # a forked child leaves alone what is its parent's
        closing = asyncio.ensure_future(self._close())
        await whatever_happens(closing)
        closing.result()
        await raise_owed_cancellation()

    async def _close(self) -> None:
        """Signs of life go on until nothing is in flight; the store goes last, whatever happened before."""
        try:
            await self._submissions.close()
            if self._apart is not None:
                await self._apart.close()
            await self._keeper.stop()
            await self._afterwards.close()
            await self._herald.close()
        finally:
            self._meter.close()
            await self._store.close()


def open_store(
    where: str | Path,
    *,
    key: Path | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    meter: Meter | None = None,
    heard: Heard = nobody,
) -> tuple[KeyRing, Store]:
    """A store and its keys. A new store makes its key file (mode 0600); an existing store without its key is refused.

    Raises:
        KeyMaterialError: the key is absent, exposed or another store's.
        StoreError: the store cannot be opened.
    """
    clock, ids, meter = clock or SystemClock(), ids or RandomIds(), meter or QuietMeter()
    writer = WriterId(ids.new_id("w"))
    if str(where) == MEMORY:
        keys = KeyRing.ephemeral()
        return keys, MemoryStore(keys=keys, clock=clock, writer=writer, meter=meter, heard=heard)
    _refuse_other_addresses(where)
    if is_address(where):
        return _open_database(str(where), key, clock=clock, writer=writer, meter=meter, heard=heard)
    from placet.adapters.stores.sqlite import SqliteStore

    path = Path(where)
    if is_too_long(path):
        raise ConfigurationError("store= is the path of a file, and this one is longer than the file system takes.")
    if not path.name or path.is_dir():
        raise ConfigurationError(f"store= is the path of a file, not of a folder: {str(where)!r}")
    found: KeyRing | None = None
    with suppress(PermissionError):
        found = _keys_for(path, key, clock)
    if found is None:
        raise StoreNotWritable(f"This user may not look into the folder of the store: {path.parent}")
    return found, SqliteStore(path, keys=found, clock=clock, writer=writer, meter=meter, heard=heard)


def is_too_long(path: Path) -> bool:
    try:
        path.exists()
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


def open_existing_store(where: str | Path, *, key: Path | None = None) -> tuple[KeyRing, Store]:
    """Like `open_store`, for looking at something that must be there.

    Raises:
        StoreMissing: there is no such file.
    """
    _refuse_other_addresses(where)
    if is_address(where):
        if not is_made(str(where)):
            raise StoreMissing(
                f"There is no store at {shown_store(where)}", hint="Create one with: placet init --store-only"
            )
    elif not Path(where).exists():
        raise StoreMissing(f"There is no store at {where}")
    return open_store(where, key=key)


def is_made(database: str) -> bool:
    """Whether there is a store in the database at a URL. Nothing is made.

    Raises:
        ConfigurationError, StoreError: it cannot be looked at.
    """
    _require_asyncpg()
    from placet.adapters.stores import postgres

    return postgres.is_made(postgres.address_of(database))


def is_address(where: str | Path) -> bool:
    """Whether a store is named by the URL of a PostgreSQL database, and not by a path."""
    return type(where) is str and where.startswith(_POSTGRES)


def _refuse_other_addresses(where: str | Path) -> None:
    """What looks like a URL is no path, and may hold a password: it is not repeated.

    Raises:
        ConfigurationError: it is a URL, and none of a database known here.
    """
    if type(where) is str and not is_address(where) and _URL.match(where):
        raise ConfigurationError(
            "store= is a URL that is not known here.",
            hint="Write a database as postgresql://USER@HOST:PORT/DATABASE, and a file as its path.",
        )


def shown_store(where: str | Path) -> str:
    """A store as it may be shown: of a database's address neither user nor password nor options."""
    if not is_address(where):
        return str(where)
    parts = re.fullmatch(r"[a-z]+://(?:[^/?#]*@)?([^/?#]*)([^?#]*).*", str(where), re.S)
    return f"postgresql://{parts[1]}{parts[2]}" if parts is not None else "postgresql://"


def _require_asyncpg() -> None:
    """Raises:
    ConfigurationError: the library of the store for many hosts, which is an extra, is not installed.
    """
    if find_spec("asyncpg") is None:
        raise ConfigurationError(
            "A PostgreSQL store needs asyncpg, which is not installed.", hint='pip install "placet[postgres]"'
        )


def _open_database(
    where: str, key: Path | None, *, clock: Clock, writer: WriterId, meter: Meter, heard: Heard
) -> tuple[KeyRing, Store]:
    """A database has no place beside it for a key: the file is always named. A new store makes it, as a file's does."""
    _require_asyncpg()
    from placet.adapters.stores import postgres

    address = postgres.address_of(where)
    if key is None:
        raise ConfigurationError(
            f"A PostgreSQL store needs its key file named: {address.shown}",
            hint="Say where: key= in Python, --key, PLACET_KEY or key in placet.toml; a new store makes it there.",
        )
    if not key.exists():
        if is_made(where):
            raise KeyMaterialError(f"The store {address.shown} exists, but its key does not: {key}")
        at = None
        with suppress(Exception):
            at = clock.now()
        keys = create_key_file(key, at=at)
    else:
        keys = load_key_file(key)
    return keys, postgres.PostgresStore(address, keys=keys, clock=clock, writer=writer, meter=meter, heard=heard)


def peek_at_pending(store: str | Path, *, key: Path | None, tenant: str, limit: int) -> tuple[Question, ...]:
    """What waits, without touching the store, as far as signatures hold. For suggestions; nothing is made or raised."""
    from placet.adapters.stores.sqlite.peek import peek_pending

    if not isinstance(store, Path):
        return ()  # a suggestion does not connect to a server
    try:
        keys = load_key_file(key or key_path(store))
    except KeyMaterialError:
        return ()
    found = peek_pending(store, tenant, limit=limit)
    return tuple(each.question for each in found if verify(each, keys) is None)


def examine_store(store: Path) -> AbstractContextManager[Examination]:
    """A look at a SQLite store that changes nothing of it; entering raises what keeps it from being read.

    Raises:
        StoreError: on entering; see `ports.examining`.
    """
    from placet.adapters.stores.sqlite.examining import examine

    return examine(store)


def sqlite_library_version() -> tuple[int, ...]:
    """The SQLite that stores are opened with here."""
    from placet.adapters.stores.sqlite.examining import library_version

    return library_version()


def sqlite_settings() -> dict[str, str]:
    """What every connection to a SQLite store has set here, read back from the library."""
    from placet.adapters.stores.sqlite.examining import connection_settings

    return connection_settings()


def chain_linker(keys: Keys) -> Linker:
    """What checks the links of an audit under these keys."""
    return ChainLinker(keys)


def lost_store(store: Path, key: Path) -> StoreMissing:
    """What is said where a store's own key is, and the store is not."""
    return StoreMissing(
        f"The key {key} is here and its store is not: {store}",
        code="store_lost",
        hint="Restore the store from a backup. Only if nothing was ever done under it, remove the key file.",
    )


def system_clock() -> Clock:
    """This machine's clock, for front doors that wait."""
    return SystemClock()


def key_path(store: Path) -> Path:
    """Where a store's key is looked for unless said otherwise."""
    return store.with_name(store.name + ".key")


async def verify_audit(
    store: Store, keys: KeyRing, *, anchors: dict[str, tuple[int, str]] | None = None
) -> ChainReport:
    """Hold the whole audit of a store against its chains, heads and, if given, anchors kept outside."""
    return await verify_store(store, ChainLinker(keys), anchors=anchors)


async def events_of_operation(
    store: Store, keys: Keys, *, tenant: str, operation_key: str, newest: int
) -> tuple[ChainedEvent, ...]:
    """The newest events about one operation, oldest first, under whichever key they were written."""
    prints = Chronicle(keys=keys, clock=SystemClock()).fingerprints(tenant, operation_key)
    newest_events: list[ChainedEvent] = []
    async for event in store.chained(tenant=tenant):
        if operation_of(event) in prints:
            newest_events.append(event)
            if len(newest_events) > 2 * newest:  # a bounded heap in batches: most are not kept
                newest_events = nlargest(newest, newest_events, key=place_in_time)
    return tuple(sorted(nlargest(newest, newest_events, key=place_in_time), key=place_in_time))


@asynccontextmanager
async def audit_export(store: Store, keys: Keys, *, tenant: str | None) -> AsyncIterator[AsyncIterator[bytes]]:
    """The lines of an export of the whole audit, or of one tenant's part; see `rules.exports`."""
    async with store.snapshot(tenant=tenant) as audit:
        lines = ExportLines(
            audit.heads,
            count=audit.count,
            tenant=tenant,
            linker=ChainLinker(keys),
            sign=lambda message: keys.mac(KeyPurpose.AUDIT_CHAIN, message),
            tombstones=audit.tombstones,
        )
        yield _export(lines, audit.events)


async def _export(lines: ExportLines, events: AsyncIterator[ChainedEvent]) -> AsyncIterator[bytes]:
    for line in lines.begin():
        yield line
    async for event in events:
        for line in lines.take(event):
            yield line
    for line in lines.end():
        yield line


def check_export(
    lines: Iterable[bytes], key: Path, *, anchors: dict[str, tuple[int, str]] | None = None
) -> ExportReport:
    """Check an export by itself: of its store only the key file is needed.

    Raises:
        KeyMaterialError: the key file is absent, exposed or unreadable.
    """
    return verify_export(lines, ChainLinker(load_key_file(key)), anchors=anchors)


def open_custody(where: str | Path, *, key: Path | None = None) -> tuple[Custody, Store]:
    """The keys of an existing store, to be looked at and changed, and the store to be closed afterwards.

    Raises:
        StoreMissing, StoreError, KeyMaterialError: it is not there, or cannot be opened.
    """
    keys, store = open_existing_store(where, key=key)
    shelf = KeyFile(key or key_path(Path(where)))
    return Custody(shelf=shelf, keys=keys, store=store, chronicle=Chronicle(keys=keys, clock=SystemClock())), store


def _keys_for(store: Path, given: Path | None, clock: Clock) -> KeyRing:
    """The keys of a store. A key that waits beside a store that is gone is a lost ledger, not a new one.

    An empty ledger would let everything that was done be done again, so it is never made in the place of a lost one.
    Only a key kept somewhere else may be there before its store.
    """
    key = given or key_path(store)
    had_store = store.exists()  # asked first: another starter makes the key before the store
    if key.exists():
        is_own = given is None or given.absolute() == key_path(store).absolute()
        if is_own and not had_store and not _appears(store):
            raise lost_store(store, key)
        return load_key_file(key)
    if had_store:
        raise KeyMaterialError(f"The store {store} exists, but its key does not: {key}")
    if not store.parent.is_dir():
        raise StoreMissing(f"The folder of the store does not exist: {store.parent}", hint="Make the folder first.")
    at = None
    with suppress(Exception):  # when it was made is told if the clock can tell; a key is made in any case
        at = clock.now()
    return create_key_file(key, at=at)


def _appears(store: Path) -> bool:
    """Whether another starter, which has made the key, makes the store within its time."""
    waiting = threading.Event()
    for _ in range(_STARTER_LOOKS):
        if store.exists():
            return True
        waiting.wait(_STARTER_PAUSE_SECONDS)
    return store.exists()
