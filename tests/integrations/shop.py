"""One workflow, and what carries it: the same definition, tools and gate for every engine, in this process or another.

    LOOK --> ASK --(a person answers)--> REFUND --> NOTE --> DONE
      |       |                            |          |
      +-------+------------> FAILED <------+----------+

LOOK reads, ASK asks for the refund, REFUND does it, NOTE writes without asking. Importable on its own, for processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import placet
from placet.engine.gate import Gate
from placet.engine.inline import InlineDriver
from placet.engine.workflow import Workflows
from placet.model.outcome import AwaitingApproval, Replayed, Succeeded
from placet.model.progress import Ended, Progress, Waiting
from placet.model.workflow import End, Fail, Failure, Move, Next, State, StepContext, Wait, Workflow
from placet.rules.contracts import Tool
from placet.testing.kill_points import SentinelRemote, die

CANARY = "canary-4711"
ORDER = f"{CANARY}-order"
AGENT = placet.Principal.agent("agent-1", tenant="acme", roles=["operator"], scopes=["pay"])
PERSON = placet.Principal.person(
    "mara", tenant="acme", roles=["admin"], scopes=["approvals.decide", "effects.reconcile", "effects.read", "stop"]
)
SETTINGS = placet.GateSettings(
    pause_seconds=0.1,
    grace_seconds=0.1,
    recovery_seconds=0.3,
    call_seconds=20.0,
    probe_seconds=2.0,
)
OF_THE_DYING = replace(SETTINGS, lease_seconds=0.5)
"""Whoever finds what they left waits for so long. Whoever lives on keeps what it has, however slow the machine is."""
KINDS = ("inline", "temporal", "dbos-sqlite", "dbos-postgresql", "langgraph-sqlite", "langgraph-postgresql")


@dataclass(frozen=True, kw_only=True)
class Order:
    order: str
    amount: int


@dataclass(frozen=True, kw_only=True)
class Done:
    amount: int


# ---------------------------------------------------------------- the workflow


async def look(inputs: Order, context: StepContext) -> Move:
    outcome = await context.call("look_up", {"order": inputs.order})
    return Next("ASK", inputs) if isinstance(outcome, Succeeded | Replayed) else Fail("not_found")


async def ask(inputs: Order, context: StepContext) -> Move:
    outcome = await context.propose("refund", {"order": inputs.order, "amount": inputs.amount}, name="refund")
    then = Next("REFUND", inputs)
    return Wait(outcome, then) if isinstance(outcome, AwaitingApproval) else then


async def refund(inputs: Order, context: StepContext) -> Move:
    outcome = await context.call("refund", {"order": inputs.order, "amount": inputs.amount}, name="refund")
    return Next("NOTE", inputs) if isinstance(outcome, Succeeded | Replayed) else Fail(outcome.code)


async def note(inputs: Order, context: StepContext) -> Move:
    outcome = await context.call("note", {"order": inputs.order, "amount": inputs.amount})
    return Next("DONE", Done(amount=inputs.amount)) if isinstance(outcome, Succeeded | Replayed) else Fail(outcome.code)


def workflow(version: str = "1", **more: Any) -> Workflow:
    return Workflow(
        name="refund",
        version=version,
        start="LOOK",
        states=(
            State(name="LOOK", inputs=Order, step=look, next=("ASK",), on_failure="FAILED", tools=("look_up",)),
            State(name="ASK", inputs=Order, step=ask, next=("REFUND",), on_failure="FAILED", tools=("refund",)),
            State(name="REFUND", inputs=Order, step=refund, next=("NOTE",), on_failure="FAILED", tools=("refund",)),
            State(name="NOTE", inputs=Order, step=note, next=("DONE",), on_failure="FAILED", tools=("note",)),
            End(name="DONE", inputs=Done),
            End(name="FAILED", inputs=Failure, is_failure=True),
        ),
        **more,
    )


# ---------------------------------------------------------------- the gate


@dataclass(frozen=True, kw_only=True)
class Shop:
    """One store, one remote, one folder; and the addresses of what carries runs.

    Attributes:
        kind: one of `KINDS`.
        address: of the Temporal server, or of the engine's database.
        store: a database's address; a file in the folder otherwise.
        run: the name of the one run there is, and of Temporal's queue. Tests share a server, so each has another.
    """

    folder: Path
    kind: str = "inline"
    address: str = ""
    store: str = ""
    run: str = "run-1"

    @property
    def remote(self) -> SentinelRemote:
        return SentinelRemote(self.folder / "remote.jsonl")

    def acted(self) -> dict[str, int]:
        """How often each tool really acted."""
        counts = {"refund": 0, "note": 0}
        for key, count in self.remote.effects().items():
            counts[key.partition("/")[0]] += count
        return counts


def nobody(name: str) -> None:
    """Nobody is told that a tool has acted."""


def tools(remote: SentinelRemote, dies: str, acted: Callable[[str], None]) -> list[Tool]:
    """`dies`: in which tool's handler, and on which side of its remote, this process ends: `refund-after`."""

    def written(name: str, approval: str) -> Tool:
        async def probe(context: placet.ProbeContext) -> placet.Found | placet.Absent:
            value = remote.found(f"{name}/{context.operation_key}")
            return placet.Absent() if value is None else placet.Found(result=value)

        async def act(order: str, amount: int, call: placet.CallContext) -> dict[str, int]:
            if dies == f"{name}-before":
                die()
            remote.act(f"{name}/{call.operation_key}", {"amount": amount})
            acted(f"{name} acted")
            if dies == f"{name}-after":
                die()
            return {"amount": amount}

        act.__name__ = name
        made: Tool = placet.tool(
            effect="write",
            risk="medium",
            permission="pay",
            approval=approval,
            probe=probe,
            remote=placet.Remote(arrival_bound_seconds=0.05),
            timeout_seconds=10.0,
        )(act)
        return made

    @placet.tool(effect="read")
    async def look_up(order: str) -> str:
        return f"{CANARY}-result of {order}"

    return [look_up, written("refund", "always"), written("note", "by_policy")]


def open_gate(
    shop: Shop,
    *,
    dies: str = "",
    policy: Path | None = None,
    settings: Any = SETTINGS,
    acted: Callable[[str], None] = nobody,
) -> Any:
    place: dict[str, Any] = {"store": shop.folder / "placet.db"}
    if shop.store:
        place = {"store": shop.store, "key": str(shop.folder / "key")}
    return placet.open(tools=tools(shop.remote, dies, acted), policy=policy, settings=settings, **place)


async def decided(gate: Gate, question: str | None = None, *, approves: bool = True) -> None:
    """A person answers it; or the one question there is."""
    if question is None:
        [waiting] = await gate.desk.pending(by=PERSON)
        question = waiting.approval_id
    view = await gate.desk.show(question, by=PERSON)
    decide = gate.desk.approve if approves else gate.desk.deny
    await decide(question, digest=view.digest, by=PERSON)


# ---------------------------------------------------------------- what carries it


class Inline:
    """The workflow driven by the process that has the gate."""

    def __init__(self, workflows: Workflows) -> None:
        self._workflows = workflows

    async def start(self, name: str, **more: Any) -> Progress:
        return await self._workflows.start(name, **more)

    async def serve(self, ending: asyncio.Event) -> None:
        driving = asyncio.ensure_future(InlineDriver(self._workflows, look_seconds=0.1).serve())
        await ending.wait()
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)


@asynccontextmanager
async def carrying(
    shop: Shop,
    workflows: Any,
    *,
    executor: str = "worker-1",
    dead_after_seconds: float = 1.0,
    heartbeat_seconds: float = 1.0,
    interceptors: Sequence[Any] = (),
) -> AsyncIterator[Any]:
    """A driver of the shop's kind; `interceptors` are those of Temporal's client."""
    kind, _, where = shop.kind.partition("-")
    async with AsyncExitStack() as stack:
        if kind == "temporal":
            yield await _on_temporal(shop, workflows, heartbeat_seconds, interceptors)
        elif kind == "dbos":
            from placet.integrations.dbos import DbosDriver

            options = {"notification_listener_polling_interval_sec": 0.05}
            yield await stack.enter_async_context(
                DbosDriver(
                    workflows,
                    database=shop.address or f"sqlite:///{shop.folder / 'dbos.db'}",
                    executor=executor,
                    look_seconds=0.1,
                    dead_after_seconds=dead_after_seconds,
                    options=options,
                )
            )
        elif kind == "langgraph":
            from placet.integrations.langgraph import GraphDriver

            checkpointer = await stack.enter_async_context(_checkpointer(shop, where))
            await checkpointer.setup()
            yield GraphDriver(workflows, checkpointer=checkpointer, look_seconds=0.1)
        else:
            yield Inline(workflows)


async def _on_temporal(shop: Shop, workflows: Any, heartbeat_seconds: float, interceptors: Sequence[Any]) -> Any:
    from temporalio.client import Client

    from placet.integrations.temporal import TemporalDriver

    client = await Client.connect(shop.address, namespace="placet", identity="worker", interceptors=list(interceptors))
    return TemporalDriver(
        workflows, client=client, task_queue=shop.run, look_seconds=0.1, heartbeat_seconds=heartbeat_seconds
    )


def _checkpointer(shop: Shop, where: str) -> Any:
    if where == "sqlite":
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        return AsyncSqliteSaver.from_conn_string(str(shop.folder / "graph.db"))
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    return AsyncPostgresSaver.from_conn_string(shop.address)


async def begun(shop: Shop, driver: Any, **more: Any) -> Progress:
    order = Order(order=ORDER, amount=5)
    started: Progress = await driver.start("refund", run=shop.run, inputs=order, principal=AGENT, **more)
    return started


@asynccontextmanager
async def serving(shop: Shop, driver: Any, **options: Any) -> AsyncIterator[None]:
    """A worker, in this process.

    One of Temporal's remembers no workflow: each is replayed from its history whenever something happens in it, and
    nobody waits ten seconds for a worker that is dead.
    """
    if shop.kind == "temporal":
        options = {"max_cached_workflows": 0, "max_concurrent_workflow_task_polls": 1, **options}
    ending = asyncio.Event()
    work = asyncio.ensure_future(driver.serve(ending, **options))
    try:
        yield
    finally:
        ending.set()
        await work


async def until(shop: Shop, workflows: Workflows, is_so: Callable[[Progress], bool]) -> Progress:
    """What the run's progress is once it is so."""
    async with asyncio.timeout(60):
        while not is_so(progress := await workflows.look("acme", shop.run)):
            await asyncio.sleep(0.02)
    return progress


def is_over(progress: Progress) -> bool:
    return isinstance(progress, Ended)


def is_asking(progress: Progress) -> bool:
    return isinstance(progress, Waiting) and bool(progress.approvals)


# ---------------------------------------------------------------- a process


class Mortal:
    """Workflows whose process dies as soon as a step is on record that led there, before the engine hears of it."""

    def __init__(self, workflows: Workflows, dies_at: str) -> None:
        self._workflows = workflows
        self._dies_at = dies_at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workflows, name)

    async def advance(self, tenant: str, run: str, **more: Any) -> Progress:
        progress = await self._workflows.advance(tenant, run, **more)
        if self._dies_at == (f"{progress.state}?" if is_asking(progress) else progress.state):
            die()
        return progress


def carry(
    shop: Shop,
    *,
    starts: bool = False,
    dies_in: str = "",
    dies_at: str = "",
    executor: str = "worker-1",
    dead_after_seconds: float = 1.0,
) -> None:
    """A process that carries the run to its end, or to its own: inside a tool, or after a step that led to a state.

    `ASK?` is where it has asked, and waits.
    """

    async def act() -> None:
        settings = OF_THE_DYING if dies_in or dies_at else SETTINGS
        async with open_gate(shop, dies=dies_in, settings=settings) as gate:
            workflows = Workflows(gate, (workflow(),))
            mortal = Mortal(workflows, dies_at) if dies_at else workflows
            async with (
                carrying(shop, mortal, executor=executor, dead_after_seconds=dead_after_seconds) as driver,
                serving(shop, driver),
            ):
                if starts:
                    await begun(shop, driver)
                await until(shop, workflows, is_over)

    asyncio.run(act())
    os._exit(SURVIVED)


def answer(shop: Shop) -> None:
    """A process in which a person approves, with nobody there to be told."""

    async def act() -> None:
        async with open_gate(shop) as gate:
            assert is_asking(await Workflows(gate, (workflow(),)).look("acme", shop.run))
            await decided(gate)

    asyncio.run(act())
    os._exit(SURVIVED)


def one_after_the_other(shop: Shop, plan: Sequence[dict[str, Any] | None], report: Path) -> None:
    """Processes, one for each line of a plan: those of `carry`, or None for `answer`; how each ended.

    They are forked from this one, which has loaded the engine and begun nothing.
    """
    preload(shop.kind)
    codes: list[int] = []
    for line in plan:
        child = os.fork()
        if child == 0:
            answer(shop) if line is None else carry(shop, **line)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        report.write_text(json.dumps(codes))
        if codes[-1] not in (SURVIVED, -signal.SIGKILL):
            break
    os._exit(SURVIVED)


def preload(kind: str) -> None:
    for store in ("sqlite", "postgres"):
        import_module(f"placet.adapters.stores.{store}")
    engine = kind.partition("-")[0]
    if engine != "inline":
        import_module(f"placet.integrations.{engine}")
    if engine == "langgraph":
        import_module("langgraph.checkpoint.sqlite.aio")
        import_module("langgraph.checkpoint.postgres.aio")


SURVIVED = 7
