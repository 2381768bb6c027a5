"""Real gates on one real store, moved one step at a time as a trace of the model says.

Every worker and every look of the model is a gate of its own. It runs until it is about to do something that the model
has a step for (a verb of the store, its guard, its first byte, its reply), and stands there until the trace moves it. A
step that the real engine does not offer is refused: that is where it keeps to a rule that the trace leaves out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import placet
from placet.bootstrap import stores
from placet.bootstrap.opening import around_store
from placet.engine.gate import Gate
from placet.errors import StoreInDoubt
from placet.model.effect import Effect, EffectState
from placet.model.ledger import Claim, ClaimAnswer, Claimed, MoveAnswer, Moved, Settlement, Turn
from placet.model.outcome import AwaitingApproval, Outcome
from placet.model.waking import Topic
from placet.ports.store import Store
from placet.ports.wakeups import Wakeup, silence
from tests.protocol.model import World
from tests.protocol.moves import ANSWERED, APPLIED, NOT_APPLIED, STILL_RUNNING

TICK = 100.0
"""Seconds of the fake clock, so long that nothing which runs by the real one, such as a heartbeat, comes between."""
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
AGENT = placet.Principal.agent("agent", tenant="acme", roles=["operator"], scopes=["pay"])
PERSON = placet.Principal.person(
    "mara", tenant="acme", roles=["admin"], scopes=["approvals.decide", "effects.reconcile", "effects.read"]
)
_PATIENCE_SECONDS = 60.0


class TraceClock:
    """Time that passes when the trace says so; sleepers wait for it. `ahead`: of the database's, for a host's clock."""

    def __init__(self, time: SharedTime, ahead: float = 0.0) -> None:
        self.time = time
        self._ahead = timedelta(seconds=ahead)
        self.sleeping: Callable[[], None] = lambda: None

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.time.passed) + self._ahead

    def monotonic(self) -> float:
        return self.time.passed

    async def sleep(self, seconds: float) -> None:
        until = self.time.passed + seconds
        if seconds < 1e-6:
            await asyncio.sleep(0)
            return
        while self.time.passed < until:
            self.sleeping()
            await self.time.moved()


class SharedTime:
    """`follow`: told of every advance, for a database that has a clock of its own."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.follow: Callable[[float], None] = lambda passed: None
        self._waiting: list[asyncio.Future[None]] = []

    def advance(self, seconds: float) -> None:
        self.passed += seconds
        self.follow(self.passed)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.set_result(None)

    async def moved(self) -> None:
        self._waiting.append(asyncio.get_running_loop().create_future())
        await self._waiting[-1]


class Actor:
    """Something that runs until it stands somewhere, and goes on when it is let.

    Attributes:
        at: where it stands.
        did: whether its last verb of the store changed, or had changed, what it was to change.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.at = "nowhere"
        self.did = False
        self.has_stood = False
        self.gate: Gate
        self.task: asyncio.Task[Any] | None = None
        self._stands = asyncio.Event()
        self._go: asyncio.Future[Any] | None = None

    async def stand(self, where: str) -> Any:
        """Stand here until moved; how it shall go on."""
        self.has_stood = True
        self._go = asyncio.get_running_loop().create_future()
        self._be(where)
        return await self._go

    def sleeps(self) -> None:
        self._be("asleep")

    async def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        self._stands.clear()
        self.at, self.has_stood = "running", False
        self.task = asyncio.create_task(self._until_done(work))
        await self.standing()

    async def go(self, how: Any = ANSWERED) -> None:
        """Let it go on, until it stands again."""
        assert self._go is not None, f"{self.name} is {self.at}"
        go, self._go = self._go, None
        self._stands.clear()
        self.at = "running"
        go.set_result(how)
        await self.standing()

    async def standing(self) -> None:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await self._stands.wait()

    async def _until_done(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await work
        finally:
            self._be("done")

    def _be(self, where: str) -> None:
        self.at = where
        self._stands.set()


class Unstaged(Actor):
    """One that stands nowhere."""

    async def stand(self, where: str) -> Any:
        return ANSWERED


@dataclass(kw_only=True)
class InFlight:
    """A request that has left its worker."""

    fence: int
    attempt: int
    worker: Actor
    deadline: datetime


@dataclass(kw_only=True)
class Stage:
    """What a replay has: actors, time, a remote that counts, and what was done against the rules.

    Attributes:
        acted: the worker's name and fence of each real effect.
        faults: what the real stores or the engine did that no invariant allows.
        late: transactions whose clients saw an error and which are still running, by worker.
    """

    world: World
    time: SharedTime = field(default_factory=SharedTime)
    workers: list[Actor] = field(default_factory=list)
    looks: list[Actor] = field(default_factory=list)
    recovery: Actor = field(default_factory=lambda: Unstaged("recovery"))
    requests: list[InFlight] = field(default_factory=list)
    acted: list[tuple[str, int]] = field(default_factory=list)
    late: dict[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    stopped: bool = False
    faults: list[str] = field(default_factory=list)
    fences: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        return self.recovery.gate.store

    async def row(self) -> Effect | None:
        found = await self.store.effects(tenant="acme", states=tuple(EffectState), limit=2)
        assert len(found) <= 1
        return found[0] if found and isinstance(found[0], Effect) else None

    def act(self, worker: Actor, fence: int) -> None:
        if not (self.world.honours_key and self.acted):
            self.acted.append((worker.name, fence))


class StagedStore:
    """The real store of one actor, which stands before each verb that the model has a step for."""

    def __init__(self, store: Store, stage: Stage, actor: Actor) -> None:
        self._store = store
        self._stage = stage
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def waiting_for(self, topic: Topic) -> AbstractContextManager[Wakeup]:
        """Nobody is woken by what another did: who goes on, and when, is the trace's to say."""
        return silence()

    async def claim(self, claim: Claim) -> ClaimAnswer:
        async def real() -> ClaimAnswer:
            before = await self._store.effect(claim.tenant, claim.operation_key)
            answer = await self._store.claim(claim)
            self._actor.did = isinstance(answer, Claimed)
            if isinstance(answer, Claimed):
                self._stage.fences[self._actor.name] = answer.effect.fence
                is_news = before is None or before.fence != answer.effect.fence
                told = self._stage.outcomes.get(self._actor.name)
                if self._stage.stopped and is_news:
                    self._stage.faults.append("started after a stop")
                if told is not None and not told.is_success and not told.may_have_acted:
                    self._stage.faults.append("told not run, and its own claim stands")
            return answer

        row = await self._store.effect(claim.tenant, claim.operation_key)
        if not self._actor.has_stood and row is not None and row.fence != claim.expected_fence:
            return await real()  # a new call claims before it has read: this is how the engine reads a known row
        return await self._through("claim", real)

    async def turn(self, turn: Turn) -> MoveAnswer:
        async def real() -> MoveAnswer:
            answer = await self._store.turn(turn)
            self._actor.did = isinstance(answer, Moved)
            if isinstance(answer, Moved) and answer.is_news and self._stage.stopped:
                self._stage.faults.append("started after a stop")
            return answer

        return await self._through("turn", real)

    async def settle(self, settlement: Settlement) -> MoveAnswer:
        async def real() -> MoveAnswer:
            before = await self._store.effect(settlement.tenant, settlement.operation_key)
            answer = await self._store.settle(settlement)
            self._actor.did = isinstance(answer, Moved) and (answer.is_news or answer.effect.state is settlement.state)
            holds = before is not None and (before.state, before.fence) == (EffectState.DISPATCHED, settlement.fence)
            is_late_word = answer.effect.state is EffectState.RECONCILED_COMMITTED
            if isinstance(answer, Moved) and answer.is_news and not holds and not is_late_word:
                self._stage.faults.append("a stale settle was accepted")
            return answer

        return await self._through("settle", real)

    async def void(self, *args: Any) -> bool:
        await self._actor.stand("void")
        return await self._store.void(*args)

    async def reconcile(self, *args: Any) -> MoveAnswer:
        await self._actor.stand("reconcile")
        return await self._store.reconcile(*args)

    async def _through(self, verb: str, real: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        how = await self._actor.stand(verb)
        if how == ANSWERED:
            return await real()
        if how == APPLIED:
            await real()
        elif how == STILL_RUNNING:
            self._stage.late[self._actor.name] = real
        else:
            assert how == NOT_APPLIED, how
        raise StoreInDoubt("The answer was lost.")


def tools(stage: Stage, actor: Actor) -> list[placet.Tool]:
    """The one tool, as the world describes it; its handler stands at its guard, its first byte and its reply."""
    world = stage.world
    loop = asyncio.get_running_loop()

    async def probe(context: placet.ProbeContext) -> placet.Found | placet.Absent:
        await actor.stand("look")
        return placet.Found(result={"paid": 1}) if stage.acted else placet.Absent()

    async def act(call: placet.CallContext) -> dict[str, int]:
        await actor.stand("guard")
        call.guard()
        await actor.stand("first byte")
        stage.requests.append(
            InFlight(fence=stage.fences[actor.name], attempt=call.attempt, worker=actor, deadline=call.deadline_at)
        )
        reply = await actor.stand("reply")
        if isinstance(reply, Exception):
            raise reply
        return {"paid": 1}

    options: dict[str, Any] = {
        "name": "pay",
        "effect": "idempotent_write" if world.attempts > 1 else "write",
        "risk": "medium",
        "permission": "pay",
        "operation_key": "pay:{order}",
        "approval": "always" if world.approvals is not None else "by_policy",
        "probe": probe,
        "breaker": None,
        "timeout_seconds": world.window * TICK - 0.002,  # the pause bound cannot be zero, and the tick is whole
        "retry": placet.RetryPolicy(max_attempts=world.attempts, initial_delay_seconds=1e-9, max_delay_seconds=1e-9),
        "remote": placet.Remote(
            honours_key=world.honours_key,
            refuses_late=world.refuses_late,
            arrival_bound_seconds=None if world.arrival is None else world.arrival * TICK,
        ),
    }
    if world.ends_by_itself:

        @placet.tool(**options)
        async def pay(order: str, call: placet.CallContext) -> dict[str, int]:
            return await act(call)

        return [pay]

    @placet.tool(**options)
    def pay_in_a_thread(order: str, call: placet.CallContext) -> dict[str, int]:
        return asyncio.run_coroutine_threadsafe(act(call), loop).result()

    return [pay_in_a_thread]


MakeStore = Callable[[TraceClock], Awaitable[tuple[Any, Store]]]
"""Opens the same store once more, as another process would: its keys and the store, whose clock is the database's."""


async def set_up(world: World, opened: AsyncExitStack, make: MakeStore, monkeypatch: Any) -> Stage:
    """Gates for all actors of the world, on one store."""
    stage = Stage(world=world)
    for number in range(world.workers):
        stage.workers.append(await _open(stage, f"worker {number}", opened, make, monkeypatch))
    for number in range(world.reconcilers):
        stage.looks.append(await _open(stage, f"look {number}", opened, make, monkeypatch))
    stage.recovery = await _open(stage, "recovery", opened, make, monkeypatch)
    if world.approvals is not None:
        for worker in stage.workers:
            await approve(worker)
    return stage


async def _open(stage: Stage, name: str, opened: AsyncExitStack, make: MakeStore, monkeypatch: Any) -> Actor:
    world = stage.world
    actor = Unstaged(name) if name == "recovery" else Actor(name)
    is_worker = name.startswith("worker")
    clock = TraceClock(stage.time, ahead=world.worker_clock * TICK if is_worker else 0.0)
    clock.sleeping = actor.sleeps
    made = await make(TraceClock(stage.time))
    monkeypatch.setattr(stores, "open_store", lambda *args, **kwargs: made)
    opening = placet.open(
        tools=tools(stage, actor),
        store="memory:",  # what is opened is what was made
        settings=placet.GateSettings(
            lease_seconds=world.lease * TICK,
            pause_seconds=(world.pause or 0) * TICK + 0.001,
            call_seconds=100 * TICK,
            probe_seconds=3_600.0,
            max_probes=1_000,
            recovery_seconds=3_600.0,
        ),
        recovery="manual",
        clock=clock,
    )
    if name != "recovery":
        around_store(opening, lambda store: StagedStore(store, stage, actor))  # type: ignore[arg-type]
    actor.gate = await opened.enter_async_context(opening)
    return actor


def proposal(worker: Actor) -> dict[str, Any]:
    return {"call_id": worker.name.replace(" ", "-"), "tool": "pay", "arguments": {"order": "o-1"}}


async def approve(worker: Actor) -> None:
    """An approval in this worker's hand, asked for before anything was dispatched."""
    outcome = await worker.gate.submit(proposal(worker), principal=AGENT, run=worker.name)
    assert isinstance(outcome, AwaitingApproval), outcome
    view = await worker.gate.desk.show(outcome.approval_id, by=PERSON)
    await worker.gate.desk.approve(outcome.approval_id, digest=view.digest, by=PERSON)
