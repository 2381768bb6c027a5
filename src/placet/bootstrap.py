"""Settings to a running gate; the only place that names concrete adapters."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from placet.adapters.clock import GuardedClock, RandomIds, SystemClock
from placet.adapters.keys import KeyRing, create_key_file, load_key_file
from placet.adapters.processes import LocalProcesses
from placet.adapters.sinks.log import LogSink
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.memory import MemoryStore
from placet.adapters.telemetry.logs import configure as configure_logging
from placet.adapters.telemetry.quiet import QuietMeter
from placet.adapters.transports.python import PythonTransport
from placet.engine.approving import Approver
from placet.engine.chronicle import Chronicle
from placet.engine.desk import Desk
from placet.engine.dispatch import Dispatcher
from placet.engine.gate import Gate, Submissions
from placet.engine.herald import Herald
from placet.engine.keeper import Keeper
from placet.engine.reconciler import Reconciler
from placet.engine.refusals import Refusals
from placet.engine.registry import Registry
from placet.engine.settings import GateSettings
from placet.engine.sync import LoopThread, SyncGate
from placet.errors import ConfigurationError, KeyMaterialError, MisuseError, StoreMissing, StoreNotWritable
from placet.model.identifiers import WriterId
from placet.ports.clock import Clock, IdSource
from placet.ports.meter import Meter
from placet.ports.policy import PolicyEngine
from placet.ports.sinks import AuditSink
from placet.ports.store import Heard, Store, nobody
from placet.ports.waiting import raise_owed_cancellation, whatever_happens
from placet.rules.audit import ChainReport, verify_chains
from placet.rules.contracts import Tool
from placet.rules.policy import Matrix

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = [
    "MEMORY",
    "LogSink",
    "Opening",
    "Recovery",
    "configure_logging",
    "open_existing_store",
    "open_gate",
    "open_store",
    "verify_audit",
]

_STARTER_LOOKS, _STARTER_PAUSE_SECONDS = 40, 0.05

MEMORY = "memory:"
"""The store that forgets everything with its process."""


class Recovery(StrEnum):
    """Who looks after stranded and unknown effects: the open gate itself, or the program when it says so."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"


def open_gate(
    *,
    tools: Iterable[Tool],
    store: str | Path,
    key: str | Path | None = None,
    policy: PolicyEngine | None = None,
    settings: GateSettings | None = None,
    recovery: Recovery | str = Recovery.AUTOMATIC,
    sinks: Sequence[AuditSink] = (),
    metrics: CollectorRegistry | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
) -> Opening:
    """Prepare a gate. Enter the answer with `async with` for a `Gate`, or with `with` for a `SyncGate`.

    Args:
        tools: what may run, made with `placet.tool`.
        store: the path of a SQLite file (made, with its key file, if absent), or `"memory:"`.
        key: the key file; `<store>.key` if absent.
        policy: the matrix if absent.
        sinks: who else hears audit events, such as `placet.LogSink()`.
        metrics: a Prometheus registry to measure into; nothing is measured without one.

    Raises:
        ContractError: at once, if the tools cannot be registered together.
        On entering, whatever keeps the store from being opened: `StoreError`, `KeyMaterialError`.
    """
    return Opening(
        registry=Registry(tools),
        store=store,
        key=None if key is None else Path(key),
        policy=policy or Matrix(),
        settings=settings or GateSettings(),
        recovery=_recovery(recovery),
        sinks=tuple(sinks),
        metrics=metrics,
        clock=SystemClock() if clock is None else GuardedClock(clock),
        ids=ids or RandomIds(),
    )


def _recovery(value: Recovery | str) -> Recovery:
    try:
        return Recovery(value)
    except ValueError:
        pass
    raise MisuseError("recovery= is 'automatic' or 'manual'.")


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

    def _run(self) -> _Running:
        """Put everything together, inside the event loop that will use it."""
        meter = self._meter()
        herald = Herald(meter=meter, sinks=self._sinks)
        keys, store = open_store(
            self._where, key=self._key, clock=self._clock, ids=self._ids, meter=meter, heard=herald.durable
        )
        processes = LocalProcesses()
        owner = processes.own_id()
        chronicle = Chronicle(keys=keys, clock=self._clock)
        transport = PythonTransport(self._registry.tools, meter=meter, grace_seconds=self._settings.grace_seconds)
        refusals = Refusals(store=store, chronicle=chronicle, policy=self._policy, settings=self._settings)
        dispatcher = Dispatcher(
            registry=self._registry,
            store=store,
            transport=transport,
            chronicle=chronicle,
            herald=herald,
            refusals=refusals,
            keys=keys,
            clock=self._clock,
            ids=self._ids,
            settings=self._settings,
            owner=owner,
            count_settled=lambda state: meter.effect_settled(state=state),
        )
        reconciler = Reconciler(
            store=store,
            registry=self._registry,
            transport=transport,
            chronicle=chronicle,
            keys=keys,
            ids=self._ids,
            liveness=processes,
            meter=meter,
            settings=self._settings,
            is_ours_and_running=dispatcher.is_performing,
        )
        submissions = Submissions(grace_seconds=self._settings.grace_seconds)
        gate = Gate(
            registry=self._registry,
            store=store,
            policy=self._policy,
            transport=transport,
            chronicle=chronicle,
            dispatcher=dispatcher,
            refusals=refusals,
            submissions=submissions,
            approver=Approver(store=store, keys=keys, chronicle=chronicle, ids=self._ids),
            desk=Desk(store=store, keys=keys, chronicle=chronicle, registry=self._registry),
            reconciler=reconciler,
            clock=self._clock,
            ids=self._ids,
            meter=meter,
            settings=self._settings,
            linker=ChainLinker(keys),
        )
        keeper = Keeper(
            store=store,
            dispatcher=dispatcher,
            reconciler=reconciler,
            clock=SystemClock(),
            settings=self._settings,
            owner=owner,
        )
        keeper.start_heartbeat()
        if self._recovery is Recovery.AUTOMATIC:
            keeper.start_recovery()
        return _Running(
            gate=gate, submissions=submissions, store=store, keeper=keeper, dispatcher=dispatcher, herald=herald
        )

    def _meter(self) -> Meter:
        if self._metrics is None:
            return QuietMeter()
        from placet.adapters.telemetry.metrics import PrometheusMeter

        sinks = tuple(sink.name for sink in self._sinks)
        return PrometheusMeter(self._metrics, tools=tuple(self._registry.tools), sinks=sinks)


class _Running:
    """An open gate and what has to end with it, in this order."""

    def __init__(
        self,
        *,
        gate: Gate,
        submissions: Submissions,
        store: Store,
        keeper: Keeper,
        dispatcher: Dispatcher,
        herald: Herald,
    ) -> None:
        self.gate = gate
        self._process = os.getpid()
        self._submissions = submissions
        self._store = store
        self._keeper = keeper
        self._dispatcher = dispatcher
        self._herald = herald

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
            await self._keeper.stop()
            await self._dispatcher.close()
            await self._herald.close()
        finally:
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
    from placet.adapters.stores.sqlite import SqliteStore

    path = Path(where)
    if not path.name or path.is_dir():
        raise ConfigurationError(f"store= is the path of a file, not of a folder: {str(where)!r}")
    found: KeyRing | None = None
    with suppress(PermissionError):
        found = _keys_for(path, key)
    if found is None:
        raise StoreNotWritable(f"This user may not look into the folder of the store: {path.parent}")
    return found, SqliteStore(path, keys=found, clock=clock, writer=writer, meter=meter, heard=heard)


def open_existing_store(where: str | Path, *, key: Path | None = None) -> tuple[KeyRing, Store]:
    """Like `open_store`, for looking at something that must be there.

    Raises:
        StoreMissing: there is no such file.
    """
    if not Path(where).exists():
        raise StoreMissing(f"There is no store at {where}")
    return open_store(where, key=key)


def key_path(store: Path) -> Path:
    """Where a store's key is looked for unless said otherwise."""
    return store.with_name(store.name + ".key")


def verify_audit(store: Store, keys: KeyRing, *, anchors: dict[str, tuple[int, str]] | None = None) -> ChainReport:
    """Hold the whole audit of a store against its chains, heads and, if given, anchors kept outside."""
    return verify_chains(store.chained(), store.heads(), ChainLinker(keys), anchors=anchors, later_heads=store.heads)


def _keys_for(store: Path, given: Path | None) -> KeyRing:
    """The keys of a store. A key that waits beside a store that is gone is a lost ledger, not a new one.

    An empty ledger would let everything that was done be done again, so it is never made in the place of a lost one.
    Only a key kept somewhere else may be there before its store.
    """
    key = given or key_path(store)
    had_store = store.exists()  # asked first: another starter makes the key before the store
    if key.exists():
        is_own = given is None or given.absolute() == key_path(store).absolute()
        if is_own and not had_store and not _appears(store):
            raise StoreMissing(
                f"The key {key} is here and its store is not: {store}",
                code="store_lost",
                hint="Restore the store from a backup. Only if nothing was ever done under it, remove the key file.",
            )
        return load_key_file(key)
    if had_store:
        raise KeyMaterialError(f"The store {store} exists, but its key does not: {key}")
    if not store.parent.is_dir():
        raise StoreMissing(f"The folder of the store does not exist: {store.parent}", hint="Make the folder first.")
    return create_key_file(key)


def _appears(store: Path) -> bool:
    """Whether another starter, which has made the key, makes the store within its time."""
    waiting = threading.Event()
    for _ in range(_STARTER_LOOKS):
        if store.exists():
            return True
        waiting.wait(_STARTER_PAUSE_SECONDS)
    return store.exists()
