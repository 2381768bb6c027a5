"""A world in which a test decides what happens next: which store command is carried out, which remote acts, who dies.

Two processes, each with a gate of its own, share one store. Every command of a gate to the store waits until the test
carries it out, loses its answer, or ends the process before or after it; every handler waits until the test says what
the remote does. Time stands still until it is told to move. The remote counts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import placet
from placet.adapters.keys import KeyRing
from placet.adapters.stores.memory import MemoryStore
from placet.adapters.stores.sqlite import SqliteStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.bootstrap import assembling, stores
from placet.engine.gate import Gate
from placet.errors import StoreInDoubt, StoreUnavailable
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import OwnerId, WriterId
from placet.model.outcome import Outcome
from placet.ports.store import Store, nobody
from placet.rules.lifecycle import TRANSITIONS
from placet.testing.fakes import SeededIds

AGENT = placet.Principal.agent("agent-1", tenant="acme", roles=["operator"], scopes=["pay"])
PERSON = placet.Principal.person(
    "mara", tenant="acme", roles=["admin"], scopes=["approvals.decide", "effects.reconcile", "effects.read"]
)
ARRIVAL_SECONDS = 5.0
SETTINGS = placet.GateSettings(lease_seconds=10.0, pause_seconds=2.0, grace_seconds=0.05, call_seconds=40.0)
RECORDED_COMMANDS = frozenset(
    {
        *("claim", "turn", "settle", "void", "record", "take_over", "reconcile", "owner_died", "probed_in_vain"),
        *("effect", "ask", "same_ask", "answer", "retire", "close_lost_read"),
    }
)
"""What waits for the test. The others only read for display, or are signs of life."""

PROPOSALS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("pay", {"order": "o-1", "amount": 5}),
    ("pay", {"order": "o-2", "amount": 5}),
    ("top_up", {"order": "o-3", "amount": 5}),
    ("refund", {"order": "o-4", "amount": 5}),
)


class SteppedClock:
    """Both clocks stand still until somebody moves them; who sleeps wakes when its time has come."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self._monotonic = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._monotonic + seconds, woken))
        await woken

    def advance(self, seconds: float) -> None:
        self._monotonic += seconds
        self._now += timedelta(seconds=seconds)
        due = [woken for at, woken in self._sleepers if at <= self._monotonic]
        self._sleepers = [(at, woken) for at, woken in self._sleepers if at > self._monotonic]
        for woken in due:
            if not woken.done():
                woken.set_result(None)

    def jump(self, seconds: float) -> None:
        """Somebody sets the clock on the wall."""
        self._now += timedelta(seconds=seconds)


@dataclass
class Waiting:
    """A store command that nobody has carried out yet, or a handler that has not heard what its remote does."""

    process: Process
    name: str
    key: str = ""
    attempt: int = 1
    honours_key: bool = False
    context: placet.CallContext | None = None
    told: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Process:
    """One life: its gate, and whether it still lives. What it held in memory ends with it."""

    number: int
    owner: OwnerId
    gate: Gate | None = None
    is_dead: bool = False
    is_free: bool = False
    """While it is, its commands are carried out at once."""
    is_cut_off: bool = False
    """While it is, its signs of life do not reach the store."""
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)


class Died(BaseException):
    """Unwinds what was left of a dead process; it can no longer reach anything."""


class Reached:
    """A store as one process reaches it."""

    def __init__(self, world: World, process: Process, store: Store) -> None:
        self._world = world
        self._process = process
        self._store = store

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(inner):
            return inner

        async def command(*args: Any, **kwargs: Any) -> Any:
            if name == "close":
                return None
            if self._process.is_dead:
                await self._world.never()
            if name == "heartbeat" and self._process.is_cut_off:
                raise StoreUnavailable("The store did not serve.")
            if name not in RECORDED_COMMANDS or self._process.is_free:
                return await self._world.carried_out(inner, *args, **kwargs)
            return await self._world.wait_for_the_test(self._process, name, inner, args, kwargs)

        return command


class World:
    """Everything outside the two gates."""

    def __init__(self, folder: Path | None) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = SteppedClock()
        self.ring = KeyRing.ephemeral()
        self.acts: Counter[str] = Counter()
        self.on_its_way: list[tuple[str, float, bool]] = []
        """Requests that have left and not arrived: key, when they left, whether the remote honours keys."""
        self.commands: list[Waiting] = []
        self.handlers: list[Waiting] = []
        self.outcomes: list[tuple[Process, Outcome]] = []
        self.faults: list[AssertionError] = []
        """What went wrong where the code under test would have caught it."""
        self._folder = folder
        self._lives = 0
        self._busy = 0
        self._idle = asyncio.Event()
        self._owners: dict[OwnerId, Process] = {}
        self._known: dict[str, Effect] = {}
        self._memory = self._new_store() if folder is None else None
        self._inner: list[Store] = []
        self.processes = [self.start(), self.start()]

    # ------------------------------------------------------------ processes

    def start(self) -> Process:
        self._lives += 1
        process = Process(number=self._lives, owner=OwnerId(f"owner-{self._lives}"))
        self._owners[process.owner] = process
        store = self._memory or self._new_store()
        self._inner.append(store)
        reached: Any = Reached(self, process, store)
        process.is_free = True
        with ExitStack() as stack:
            stack.enter_context(patch.object(stores, "open_store", lambda *_, **__: (self.ring, reached)))
            stack.enter_context(patch.object(assembling, "LocalProcesses", lambda: Liveness(self, process)))
            opening = placet.open(
                tools=tools(), store=placet.MEMORY, settings=SETTINGS, clock=self.clock,
                ids=NamedIds(process.number), recovery=placet.Recovery.MANUAL,
            )  # fmt: skip
            process.gate = self.run(opening.__aenter__())
        process.is_free = False
        return process

    def _new_store(self) -> Store:
        self._lives_of_stores = getattr(self, "_lives_of_stores", 0) + 1
        common: dict[str, Any] = {
            "keys": self.ring, "clock": self.clock, "writer": WriterId(f"w{self._lives_of_stores}"),
            "meter": QuietMeter(), "heard": nobody,
        }  # fmt: skip
        return MemoryStore(**common) if self._folder is None else SqliteStore(self._folder / "placet.db", **common)

    def kill(self, process: Process) -> None:
        process.is_dead = True
        self.commands = [each for each in self.commands if each.process is not process]
        self.handlers = [each for each in self.handlers if each.process is not process]

    def is_dead(self, owner: OwnerId) -> bool:
        return owner in self._owners and self._owners[owner].is_dead

    def begin(self, process: Process, work: Coroutine[Any, Any, Any]) -> None:
        """Let a process do something, until it has to wait."""

        async def noted() -> None:
            _here.set((self, process))
            try:
                answer = await work
            except placet.PlacetError:
                return
            if not process.is_dead and isinstance(answer, Outcome):
                self.outcomes.append((process, answer))

        process.tasks.append(self.loop.create_task(noted()))
        self.run(self.quiet())

    def run_freely(self, process: Process, work: Coroutine[Any, Any, Any]) -> Any:
        async def here() -> Any:
            _here.set((self, process))
            return await work

        process.is_free = True
        try:
            return self.run(here())
        finally:
            process.is_free = False

    # ------------------------------------------------------------ what the test decides

    def carry_out(self, waiting: Waiting, how: str) -> None:
        """`applied`, `unheard` (applied, and its answer lost), `lost` (neither), `refused`; or the process dies."""
        self.commands.remove(waiting)
        if how == "dies before":
            self.kill(waiting.process)
            return
        waiting.told.set_result(how)
        self.run(self._until(waiting.over))
        if how == "dies after":
            self.kill(waiting.process)
        self.run(self.quiet())

    def answer_handler(self, waiting: Waiting, how: str) -> None:
        self.handlers.remove(waiting)
        if how == "dies":
            self.kill(waiting.process)
            return
        waiting.told.set_result(how)
        self.run(self._until(waiting.over))
        self.run(self.quiet())

    def arrive(self, index: int) -> None:
        key, _, honours_key = self.on_its_way.pop(index)
        self._act(key, honours_key=honours_key)

    def advance(self, seconds: float) -> None:
        """What the remote's bound allows no longer is lost before its time is over."""
        end = self.clock.monotonic() + seconds
        self.on_its_way = [each for each in self.on_its_way if end - each[1] <= ARRIVAL_SECONDS]
        self.clock.advance(seconds)
        self.run(self.quiet())

    def jump(self, seconds: float) -> None:
        """Nothing is on its way meanwhile: absence is believed by the clock of the store (ADR-0017)."""
        if not self.on_its_way:
            self.clock.jump(seconds)

    # ------------------------------------------------------------ within the processes

    async def wait_for_the_test(
        self, process: Process, name: str, inner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        waiting = Waiting(process=process, name=name)
        self.commands.append(waiting)
        try:
            how = await waiting.told
            if how == "lost":
                raise StoreInDoubt("The answer was lost.")
            if how == "refused":
                raise StoreUnavailable("The store did not serve.")
            answer = await self.carried_out(inner, *args, **kwargs)
            if how == "dies after":
                process.is_dead = True
                waiting.over.set()
                await self.never()
            if how == "unheard":
                raise StoreInDoubt("The answer was lost.")
            return answer
        finally:
            waiting.over.set()
            if waiting in self.commands:
                self.commands.remove(waiting)

    async def carried_out(self, inner: Any, *args: Any, **kwargs: Any) -> Any:
        self._busy += 1
        try:
            answer = await inner(*args, **kwargs)
            try:
                await self._check_rows()
            except AssertionError as fault:
                self.faults.append(fault)
            return answer
        finally:
            self._busy -= 1
            self._idle.set()

    async def handle(self, process: Process, context: placet.CallContext, *, honours_key: bool) -> dict[str, Any]:
        """What every handler does: look whether it is too late, then whatever the test says."""
        key = f"{context.tenant}/{context.operation_key}"
        waiting = Waiting(
            process=process, name="handler", key=key, attempt=context.attempt, honours_key=honours_key, context=context
        )
        self.handlers.append(waiting)
        try:
            how = await waiting.told
            return self._performed(waiting, how)
        finally:
            waiting.over.set()
            if waiting in self.handlers:
                self.handlers.remove(waiting)

    def _performed(self, waiting: Waiting, how: str) -> dict[str, Any]:
        assert waiting.context is not None and not waiting.process.is_dead
        if how == "not sent":
            raise placet.NotSent()
        if how == "rejected":
            raise placet.ToolRejected("No such order.")
        waiting.context.guard()
        match how:
            case "acts":
                self._act(waiting.key, honours_key=waiting.honours_key)
                return {"done": True}
            case "acts unheard":
                self._act(waiting.key, honours_key=waiting.honours_key)
                raise placet.RemoteStatus(503)
            case "acts and breaks":
                self._act(waiting.key, honours_key=waiting.honours_key)
                raise RuntimeError("broken pipe")
            case "on its way":
                self.on_its_way.append((waiting.key, self.clock.monotonic(), waiting.honours_key))
                raise ConnectionError("no answer")
            case "is lost":
                raise ConnectionError("no answer")
        raise AssertionError(how)

    def _act(self, key: str, *, honours_key: bool) -> None:
        if not (honours_key and self.acts[key]):
            self.acts[key] += 1
        if self.acts[key] != 1:
            self.faults.append(AssertionError(f"{key} acted twice"))

    async def never(self) -> None:
        await asyncio.get_running_loop().create_future()

    # ------------------------------------------------------------ the loop

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    async def quiet(self) -> None:
        """Until everybody waits: for the test, for a clock, or for nothing."""
        for _ in range(40):
            await asyncio.sleep(0)
            while self._busy:
                self._idle.clear()
                await asyncio.wait_for(self._idle.wait(), 60)

    async def _until(self, event: asyncio.Event) -> None:
        await asyncio.wait_for(event.wait(), 60)

    def close(self) -> None:
        for process in self._owners.values():
            process.is_dead = True
        for _ in range(20):
            pending = asyncio.all_tasks(self.loop)
            if not pending:
                break
            for task in pending:
                task.cancel()
            self.run(self.quiet())
        for store in {id(each): each for each in self._inner}.values():
            self.run(store.close())
        self.loop.close()

    # ------------------------------------------------------------ what always holds

    def rows(self) -> dict[str, Effect]:
        rows: dict[str, Effect] = self.run(self._rows())
        return rows

    async def _rows(self) -> dict[str, Effect]:
        found = await self._inner[-1].effects(tenant="acme", states=tuple(EffectState), limit=100)
        rows = {f"{row.tenant}/{row.operation_key}": row for row in found if isinstance(row, Effect)}
        assert len(rows) == len(found), "a row cannot be read"
        return rows

    def check(self) -> None:
        self.run(self._check_rows())
        if self.faults:
            raise self.faults[0]

    async def _check_rows(self) -> None:
        """After each command every row is where the table allows it to have gone, and fences never go back."""
        rows = await self._rows()
        for key, row in rows.items():
            before = self._known.get(key)
            was = before.state if before is not None else None
            assert row.state is was or (was, row.state) in TRANSITIONS, (key, was, row.state)
            assert before is None or row.fence - before.fence in (0, 1)
            if row.state in (EffectState.FAILED, EffectState.RECONCILED_ABSENT):
                assert not self.acts[key], f"{key} is {row.state} and acted"
                assert all(key != each[0] for each in self.on_its_way), f"{key} is {row.state} and may still act"
            if row.state.is_committed:
                assert self.acts[key] == 1, f"{key} is {row.state} and did not act"
            if before is not None and before.state.is_committed:
                assert row.state is before.state
        self._known = rows

    def key_of(self, number: int) -> str | None:
        """The ledger's name of a proposal, once it has one."""
        tool, arguments = PROPOSALS[number]
        names = [
            row.operation_key for row in self.rows().values() if row.tool == tool and arguments["order"] in str(row)
        ]
        return names[0] if names else None


class Liveness:
    """Death is known here, as a process table knows it."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    def own_id(self) -> OwnerId:
        return self._process.owner

    def is_dead(self, owner: OwnerId) -> bool:
        return self._world.is_dead(owner)


class NamedIds(SeededIds):
    """Names that no other process gives."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._number = number

    def new_id(self, prefix: str) -> str:
        return f"{super().new_id(prefix)}-{self._number}"


_here: ContextVar[tuple[World, Process]] = ContextVar("_here")
"""Where a handler runs; the tools are made once, which takes longer than many a history."""


@cache
def tools() -> list[placet.Tool]:
    async def probe(context: placet.ProbeContext) -> placet.Found | placet.Absent:
        world, _ = _here.get()
        acted = world.acts[f"{context.tenant}/{context.operation_key}"]
        return placet.Found(result={"done": True}) if acted else placet.Absent()

    async def ask_the_test(call: placet.CallContext, *, honours_key: bool) -> dict[str, Any]:
        world, process = _here.get()
        return await world.handle(process, call, honours_key=honours_key)

    common: dict[str, Any] = {"risk": "medium", "permission": "pay", "probe": probe, "timeout_seconds": 8.0}
    bound = placet.Remote(arrival_bound_seconds=ARRIVAL_SECONDS)
    honours = placet.Remote(honours_key=True, arrival_bound_seconds=ARRIVAL_SECONDS)
    retry = placet.RetryPolicy(max_attempts=3, initial_delay_seconds=0.5, max_delay_seconds=0.5)

    @placet.tool(effect="write", operation_key="pay:{order}", remote=bound, breaker=None, **common)
    async def pay(order: str, amount: int, call: placet.CallContext) -> dict[str, Any]:
        return await ask_the_test(call, honours_key=False)

    @placet.tool(
        effect="idempotent_write", operation_key="top-up:{order}", remote=honours, retry=retry, breaker=None, **common
    )
    async def top_up(order: str, amount: int, call: placet.CallContext) -> dict[str, Any]:
        return await ask_the_test(call, honours_key=True)

    @placet.tool(
        effect="write", operation_key="refund:{order}", approval="always", remote=bound, breaker=None, **common
    )
    async def refund(order: str, amount: int, call: placet.CallContext) -> dict[str, Any]:
        return await ask_the_test(call, honours_key=False)

    return [pay, top_up, refund]
