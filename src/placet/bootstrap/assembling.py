"""The gate of an open store: every part made once, inside the event loop that will use it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from placet.adapters.clock import SystemClock
from placet.adapters.pins import NoPinFile, PinFile
from placet.adapters.processes import LocalProcesses
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.transports.python import PythonTransport
from placet.bootstrap import stores
from placet.bootstrap.addresses import is_address
from placet.bootstrap.isolating import apart_of, by_isolation
from placet.bootstrap.joined import Around, Joined, close_all, open_all
from placet.bootstrap.measuring import meter_of, upstream_meter_of
from placet.engine.afterwards import Afterwards
from placet.engine.approving import Approver
from placet.engine.attempts import Attempts
from placet.engine.auditor import Auditor
from placet.engine.capacity import Capacity
from placet.engine.chronicle import Chronicle
from placet.engine.co_commit import CoCommits
from placet.engine.cursors import Cursors
from placet.engine.deciding import Decider
from placet.engine.desk import Desk
from placet.engine.discovering import Discoveries
from placet.engine.dispatch import Dispatcher
from placet.engine.drain import Drain
from placet.engine.driven import Driven
from placet.engine.editing import Editor
from placet.engine.endings import Endings
from placet.engine.entitling import Entitling
from placet.engine.following import Following
from placet.engine.gate import Gate
from placet.engine.granting import Granting
from placet.engine.herald import Herald, introduced
from placet.engine.keeper import Keeper
from placet.engine.known import KnownOperations
from placet.engine.path import CallPath
from placet.engine.performing import Performing
from placet.engine.pinning import PinDesk
from placet.engine.preconditions import Preconditions
from placet.engine.purging import Purger
from placet.engine.quarantine import Quarantine
from placet.engine.questions import Questions
from placet.engine.reads import Reads
from placet.engine.reconciler import Reconciler
from placet.engine.refusals import Refusals
from placet.engine.registry import Registry
from placet.engine.reminding import Reminding
from placet.engine.results import Results
from placet.engine.runs import Runs
from placet.engine.settings import GateSettings
from placet.engine.shadowing import PolicyShadow
from placet.engine.standing import StandingGrants
from placet.engine.steps import Steps
from placet.engine.submissions import Submissions
from placet.engine.switch import Switch
from placet.engine.upstream_questions import UpstreamQuestions
from placet.ports.clock import Clock, IdSource
from placet.ports.keys import Keys
from placet.ports.meter import Meter
from placet.ports.people import People
from placet.ports.policy import PolicyEngine
from placet.ports.sinks import AuditSink
from placet.ports.store import Store
from placet.ports.waiting import raise_owed_cancellation, whatever_happens

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from placet.adapters.transports.process import ProcessTransport

Opened = tuple[Keys, Store]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a program said, checked.

    Attributes:
        upstreams: servers whose tools are in the registry.
        pins: the file of what was accepted of them, where people accept through this gate.
        shadow: a policy that is asked as well, and decides nothing; None where there is none.
        around: what becomes of the store before the gate uses it.
        people: who may decide as of now, where somebody keeps a list.
        looks_after: whether stranded and unknown effects are recovered by the gate itself.
    """

    registry: Registry
    upstreams: tuple[Joined, ...]
    pins: Path | None
    store: str | Path
    key: Path | None
    policy: PolicyEngine
    shadow: PolicyEngine | None
    people: People
    settings: GateSettings
    looks_after: bool
    sinks: tuple[AuditSink, ...]
    metrics: CollectorRegistry | None
    clock: Clock
    ids: IdSource
    around: Callable[[Store], Store]


async def assemble(plan: Plan) -> Running:
    """Open the store and put a gate around it, with what keeps it alive started.

    Raises:
        StoreError, KeyMaterialError: the store cannot be opened; nothing is left open.
    """
    assembly = _Assembly(plan)
    await assembly.open()  # after all that may refuse: nothing is made, or left open, in vain
    running = assembly.running()
    try:
        await open_all(plan.upstreams, assembly.around())
    except BaseException:
        await running.close()
        raise
    return running


class _Assembly:
    """The parts that others share; the rest is made where it is needed, once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        listeners = introduced(plan.sinks)
        self._meter = meter_of(
            plan.metrics,
            tools=tuple(plan.registry.tools),
            sinks=tuple(listener.name for listener in listeners),
            store=plan.store,
        )
        self._herald = Herald(meter=self._meter, listeners=listeners)
        here = PythonTransport(plan.registry.tools, meter=self._meter, grace_seconds=plan.settings.grace_seconds)
        self._apart = apart_of(plan.registry, plan.settings, clock=plan.clock, meter=self._meter)
        self._transport = here if self._apart is None else by_isolation(here, self._apart)
        self._processes = LocalProcesses()
        self._owner = self._processes.own_id()

    async def open(self) -> None:
        """A database may be far away, or at work on its schema for an hour: the caller's event loop goes on meanwhile.

        Whoever is cancelled meanwhile leaves at once, and nothing open behind: what is opened then is closed again.
        """
        plan = self._plan
        opening = partial(
            stores.open_store,
            plan.store, key=plan.key, clock=plan.clock, ids=plan.ids, meter=self._meter, heard=self._herald.durable,
        )  # fmt: skip
        if not is_address(plan.store):
            self._put_together(*opening())
            return
        begun = _begun(opening)
        try:
            keys, opened = await asyncio.wrap_future(begun)
        except asyncio.CancelledError:
            begun.add_done_callback(_let_go)
            raise
        self._put_together(keys, opened)

    def _put_together(self, keys: Keys, opened: Store) -> None:
        plan = self._plan
        self._keys = keys
        self._store = plan.around(opened)
        self._chronicle = Chronicle(keys=self._keys, clock=plan.clock)
        self._steps = Steps(policy=plan.policy, ids=plan.ids, settings=plan.settings)
        self._refusals = Refusals(store=self._store, chronicle=self._chronicle, steps=self._steps)
        self._results = Results(registry=plan.registry, keys=self._keys)
        self._attempts = Attempts(transport=self._transport, chronicle=self._chronicle, clock=plan.clock, ids=plan.ids)
        self._endings = Endings(chronicle=self._chronicle, attempts=self._attempts, clock=plan.clock)
        self._afterwards = Afterwards(clock=plan.clock, settings=plan.settings)
        self._performing = Performing()
        self._quarantine = Quarantine(store=self._store, chronicle=self._chronicle)
        self._submissions = Submissions(grace_seconds=plan.settings.grace_seconds)
        shadow = None if plan.shadow is None else PolicyShadow(policy=plan.shadow, clock=plan.clock)
        self._decider = Decider(policy=plan.policy, clock=plan.clock, shadow=shadow)
        self._entitling = Entitling(decider=self._decider, people=plan.people)
        self._standing = StandingGrants(
            store=self._store, keys=self._keys, chronicle=self._chronicle, entitling=self._entitling
        )
        self._preconditions = Preconditions(
            transport=self._transport, keys=self._keys, clock=plan.clock, seconds=plan.settings.probe_seconds
        )
        self._reconciler = Reconciler(
            store=self._store,
            registry=plan.registry,
            transport=self._transport,
            chronicle=self._chronicle,
            keys=self._keys,
            liveness=self._processes,
            meter=self._meter,
            settings=plan.settings,
            performing=self._performing,
        )
        self._driven = Driven(self._store)
        self._keeper = Keeper(
            store=self._store,
            performing=self._performing,
            reconciler=self._reconciler,
            clock=SystemClock(),
            settings=plan.settings,
            owner=self._owner,
            meter=self._meter,
            driven=self._driven,
        )

    def running(self) -> Running:
        gate = self._gate()
        self._keeper.start_heartbeat()
        if self._plan.looks_after:
            self._keeper.start_recovery()
        return Running(
            gate=gate,
            submissions=self._submissions,
            apart=self._apart,
            upstreams=self._plan.upstreams,
            store=self._store,
            keys=self._keys,
            clock=self._plan.clock,
            keeper=self._keeper,
            afterwards=self._afterwards,
            herald=self._herald,
            meter=self._meter,
            people=self._plan.people,
        )

    def around(self) -> Around:
        """What upstreams are given of the gate."""
        return Around(
            clock=SystemClock(),
            meter=upstream_meter_of(self._plan.metrics, self._plan.upstreams),
            quarantine=self._quarantine.drifted,
            is_quarantined=self._quarantine.is_in_force,
            discovered=Discoveries(store=self._store, chronicle=self._chronicle).discovered,
        )

    def _gate(self) -> Gate:
        plan, store, keys, chronicle = self._plan, self._store, self._keys, self._chronicle
        linker = ChainLinker(keys)
        path = self._path()
        return Gate(
            registry=plan.registry,
            store=store,
            decider=self._decider,
            path=path,
            following=Following(
                store=store,
                keys=keys,
                decider=self._decider,
                path=path,
                refusals=self._refusals,
                chronicle=chronicle,
            ),
            chronicle=chronicle,
            refusals=self._refusals,
            submissions=self._submissions,
            desk=self._desk(),
            grants=Granting(
                store=store,
                keys=keys,
                chronicle=chronicle,
                registry=plan.registry,
                decider=self._decider,
                entitling=self._entitling,
                ids=plan.ids,
            ),
            reconciler=self._reconciler,
            switch=Switch(store=store, keys=keys, chronicle=chronicle),
            upstream_questions=UpstreamQuestions(store=store, chronicle=chronicle),
            pins=PinDesk(
                shelf=NoPinFile() if plan.pins is None else PinFile(plan.pins, keys=keys),
                store=store,
                keys=keys,
                chronicle=chronicle,
                quarantine=self._quarantine,
            ),
            purger=Purger(
                store=store,
                keys=keys,
                linker=linker,
                chronicle=chronicle,
                registry=plan.registry,
                retention=plan.settings.retention,
            ),
            reminding=Reminding(store=store, keys=keys, chronicle=chronicle),
            questions=Questions(store=store, keys=keys),
            runs=Runs(
                store=store,
                keys=keys,
                decider=self._decider,
                chronicle=chronicle,
                settings=plan.settings,
                clock=plan.clock,
                ids=plan.ids,
                driven=self._driven,
                meter=self._meter,
            ),
            auditor=Auditor(store=store, keys=keys, linker=linker),
            cursors=Cursors(store=store, keys=keys),
            drain=Drain(submissions=self._submissions, keeper=self._keeper, store=store),
            clock=plan.clock,
            ids=plan.ids,
            settings=plan.settings,
            linker=linker,
        )

    def _desk(self) -> Desk:
        plan = self._plan
        return Desk(
            store=self._store,
            keys=self._keys,
            chronicle=self._chronicle,
            registry=plan.registry,
            entitling=self._entitling,
            editor=Editor(
                store=self._store,
                keys=self._keys,
                registry=plan.registry,
                decider=self._decider,
                ids=plan.ids,
                clock=plan.clock,
                preconditions=self._preconditions,
            ),
        )

    def _path(self) -> CallPath:
        plan, store, keys, chronicle = self._plan, self._store, self._keys, self._chronicle
        return CallPath(
            registry=plan.registry,
            store=store,
            decider=self._decider,
            capacity=Capacity(transport=self._transport, clock=plan.clock, meter=self._meter, settings=plan.settings),
            chronicle=chronicle,
            dispatcher=self._dispatcher(),
            reads=self._reads(),
            known=KnownOperations(
                store=store,
                chronicle=chronicle,
                results=self._results,
                refusals=self._refusals,
                steps=self._steps,
                clock=plan.clock,
            ),
            refusals=self._refusals,
            approver=Approver(
                store=store,
                keys=keys,
                chronicle=chronicle,
                ids=plan.ids,
                entitling=self._entitling,
                standing=self._standing,
                preconditions=self._preconditions,
            ),
            standing=self._standing,
            preconditions=self._preconditions,
            steps=self._steps,
            quarantine=self._quarantine,
            meter=self._meter,
        )

    def _dispatcher(self) -> Dispatcher:
        return Dispatcher(
            store=self._store,
            attempts=self._attempts,
            endings=self._endings,
            results=self._results,
            chronicle=self._chronicle,
            herald=self._herald,
            afterwards=self._afterwards,
            co_commits=CoCommits(
                store=self._store, results=self._results, endings=self._endings, afterwards=self._afterwards
            ),
            performing=self._performing,
            keys=self._keys,
            ids=self._plan.ids,
            settings=self._plan.settings,
            owner=self._owner,
            meter=self._meter,
        )

    def _reads(self) -> Reads:
        return Reads(
            store=self._store,
            attempts=self._attempts,
            endings=self._endings,
            results=self._results,
            chronicle=self._chronicle,
            herald=self._herald,
            refusals=self._refusals,
            afterwards=self._afterwards,
            performing=self._performing,
            settings=self._plan.settings,
            owner=self._owner,
        )


class Running:
    """An open gate and what has to end with it, in this order; and what else is put together around the same store."""

    def __init__(
        self,
        *,
        gate: Gate,
        submissions: Submissions,
        apart: ProcessTransport | None,
        upstreams: tuple[Joined, ...],
        store: Store,
        keys: Keys,
        clock: Clock,
        keeper: Keeper,
        afterwards: Afterwards,
        herald: Herald,
        meter: Meter,
        people: People,
    ) -> None:
        self.gate = gate
        self.people = people
        self.store = store
        self.keys = keys
        self.clock = clock
        self.meter = meter
        self._process = os.getpid()
        self._submissions = submissions
        self._apart = apart
        self.upstreams = upstreams
        self._keeper = keeper
        self._afterwards = afterwards
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
            if self._apart is not None:
                await self._apart.close()
            await self._keeper.stop()
            await close_all(self.upstreams)
            await self._afterwards.close()
            await self._herald.close()
        finally:
            await close_all(self.upstreams)
            self.meter.close()
            await self.store.close()


def _begun(opening: Callable[[], Opened]) -> futures.Future[Opened]:
    """In a thread of its own that keeps no program from ending; those of an executor are waited for."""
    begun: futures.Future[Opened] = futures.Future()
    begun.set_running_or_notify_cancel()

    def run() -> None:
        try:
            begun.set_result(opening())
        except BaseException as fault:
            begun.set_exception(fault)

    threading.Thread(target=run, name="placet-opening", daemon=True).start()
    return begun


def _let_go(begun: futures.Future[Opened]) -> None:
    """Nobody wants it any more. What was opened is closed elsewhere: this may be anybody's event loop."""
    if begun.exception() is None:
        _, opened = begun.result()
        threading.Thread(target=lambda: asyncio.run(opened.close()), name="placet-closing", daemon=True).start()
