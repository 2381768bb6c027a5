"""Every moment at which something of a run has just become durable, and processes that die at one of them.

A moment is a transaction of placet's store, a write of the remote, or a write of the engine's own: a commit of DBOS's,
a checkpoint of LangGraph's, what Temporal's server was told or says. So a process that dies at each of them in turn
dies in every gap between two durable steps. Importable on its own, for processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from placet.bootstrap import stores
from placet.engine.gate import Gate
from placet.engine.workflow import Workflows
from placet.model.progress import Ended, Progress
from placet.testing.kill_points import die
from tests.at_once import at_once
from tests.integrations.shop import (
    AGENT,
    OF_THE_DYING,
    PERSON,
    SURVIVED,
    Shop,
    begun,
    carrying,
    decided,
    is_asking,
    is_over,
    open_gate,
    preload,
    serving,
    until,
    workflow,
)
from tests.kill_points.actors import KILLED, assert_audit_is_whole, ended, start

STORE_VERBS = frozenset(
    {"begin_run", "take_run", "rest_run", "change_run", "claim", "turn", "settle", "ask", "answer", "retire", "record"}
)
"""Writes that something of a run goes on with; others (a heartbeat, a chain) come when their time does."""

OF_THE_STORE = frozenset(
    {
        *("store begin_run 1", "store take_run LOOK 1", "store record 1", "store record 2", "store rest_run ASK 1"),
        *("store take_run ASK 1", "store ask 1", "store rest_run ASK 2", "store answer 1"),
        *("store take_run ASK 2", "store rest_run REFUND 1"),
        *("store take_run REFUND 1", "store claim 1", "refund acted 1", "store settle 1", "store rest_run NOTE 1"),
        *("store take_run NOTE 1", "store claim 2", "note acted 1", "store settle 2", "store rest_run DONE 1"),
    }
)
"""What is durable of one run, whatever carries it."""

_WRITE = re.compile(r"\b(INSERT INTO|(?<!FOR )(?<!DO )UPDATE|DELETE FROM)\s+(?:\S*\.)?\"?(\w+)", re.IGNORECASE)

_whose: ContextVar[str] = ContextVar("whose", default="")
"""The run that is being served here; a process meets those that others left, too."""


class Moments:
    """Those of one run, in their order, each with how often it was there: `store claim 2`.

    Args:
        dies_at: which is the last one of this process; empty for a process that lives.
        report: a file that gets a line for each.
    """

    def __init__(self, run: str, dies_at: str, report: Path) -> None:
        self._run = run
        self._dies_at = dies_at
        self._report = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def passed(self, name: str, *, whose: str) -> None:
        """Something is durable by now; whoever waits to hear of it does not, if this is the last moment."""
        if whose != self._run:
            return
        with self._lock:
            self._seen[name] += 1
            moment = f"{name} {self._seen[name]}"
            os.write(self._report, f"{moment}\n".encode())
            if moment == self._dies_at:
                die()

    def in_words(self, name: str, words: object) -> None:
        """As `passed`, where the run is named somewhere in the words."""
        if re.search(rf"\b{re.escape(self._run)}\b", repr(words)):
            self.passed(name, whose=self._run)


# ---------------------------------------------------------------- of the store and the remote


class _Store:
    def __init__(self, store: Any, moments: Moments) -> None:
        self._store = store
        self._moments = moments

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._store, name)
        if name not in STORE_VERBS:
            return inner

        async def told(*args: Any, **kwargs: Any) -> Any:
            answer = await inner(*args, **kwargs)
            state = f" {args[0].state}" if name == "rest_run" else f" {answer.state}" if name == "take_run" else ""
            self._moments.passed(f"store {name}{state}", whose=_whose.get())
            return answer

        return told


class Followed:
    """Workflows that say whose step is being done, and name as due no run but that one."""

    def __init__(self, workflows: Workflows, run: str) -> None:
        self._workflows = workflows
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workflows, name)

    async def start(self, name: str, **more: Any) -> Progress:
        _whose.set(more["run"])
        return await self._workflows.start(name, **more)

    async def advance(self, tenant: str, run: str, **more: Any) -> Progress:
        _whose.set(run)
        return await self._workflows.advance(tenant, run, **more)

    async def due(self, *, limit: int = 100) -> tuple[tuple[str, str], ...]:
        return tuple(name for name in await self._workflows.due(limit=limit) if name[1] == self._run)


@contextmanager
def stores_followed(moments: Moments) -> Iterator[None]:
    original = stores.open_store

    def open_store(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        keys, store = original(*args, **kwargs)
        return keys, _Store(store, moments)

    stores.open_store = open_store  # type: ignore[assignment]
    try:
        yield
    finally:
        stores.open_store = original


# ---------------------------------------------------------------- of the engines


def follow_dbos(moments: Moments) -> None:
    """Commits of whatever was written with the run's name among the values."""
    import sqlalchemy as sa
    from sqlalchemy.engine.default import DefaultDialect

    written: dict[int, tuple[str, object]] = {}
    commit = DefaultDialect.do_commit

    def wrote(connection: Any, cursor: Any, statement: str, values: Any, context: Any, many: bool) -> None:
        said = _WRITE.findall(statement)
        if not said or said[-1][1] == "placet_executors":
            return
        told, driver = f"dbos {said[-1][0]} {said[-1][1]}".lower(), connection.connection.dbapi_connection
        if getattr(driver, "autocommit", None) is True:
            moments.in_words(told, values)
        else:
            written[id(driver)] = (told, values)

    def do_commit(self: Any, connection: Any) -> None:
        commit(self, connection)
        if (what := written.pop(id(connection.dbapi_connection), None)) is not None:
            moments.in_words(*what)

    sa.event.listen(sa.Engine, "after_cursor_execute", wrote)
    DefaultDialect.do_commit = do_commit  # type: ignore[method-assign]


def follow_langgraph(moments: Moments) -> None:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    def followed(inner: Any, name: str) -> Any:
        async def put(saver: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
            answer = await inner(saver, config, *args, **kwargs)
            moments.in_words(f"langgraph {name}", config["configurable"]["thread_id"])
            return answer

        return put

    for saver in (AsyncPostgresSaver, AsyncSqliteSaver):
        for name in ("aput", "aput_writes"):
            setattr(saver, name, followed(getattr(saver, name), name))


def temporal_followed(moments: Moments) -> Any:
    """An interceptor of a client and its workers."""
    from temporalio import activity
    from temporalio.client import Interceptor, OutboundInterceptor, StartWorkflowInput
    from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput
    from temporalio.worker import Interceptor as OfWorker

    class Client(OutboundInterceptor):
        async def start_workflow(self, input: StartWorkflowInput) -> Any:
            answer = await super().start_workflow(input)
            moments.in_words("temporal start" if input.start_signal is None else "temporal signal", input.id)
            return answer

    class Activity(ActivityInboundInterceptor):
        async def execute_activity(self, input: ExecuteActivityInput) -> Any:
            about = activity.info().workflow_id
            moments.in_words("temporal activity begun", about)
            answer = await super().execute_activity(input)
            moments.in_words("temporal activity done and not told", about)
            return answer

    class Both(Interceptor, OfWorker):
        def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
            return Client(super().intercept_client(next))

        def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
            return Activity(super().intercept_activity(next))

    return Both()


def runner_followed(moments: Moments) -> Any:
    """Where the workflow's own code is asked what comes next: what it says is durable when the server is told."""
    from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

    restrictions = SandboxRestrictions.default.with_passthrough_modules("placet")

    class Runner(SandboxedWorkflowRunner):
        def create_instance(self, det: Any) -> Any:
            instance, about = super().create_instance(det), det.info.workflow_id
            activate = instance.activate

            def asked(act: Any) -> Any:
                is_news = not act.is_replaying and not any(job.HasField("remove_from_cache") for job in act.jobs)
                if is_news:
                    moments.in_words("temporal task begun", about)
                answer = activate(act)
                if is_news:
                    moments.in_words("temporal task done and not told", about)
                return answer

            instance.activate = asked  # type: ignore[method-assign]
            return instance

    return Runner(restrictions=restrictions)


# ---------------------------------------------------------------- processes


def dies(shop: Shop, moments: Moments) -> None:
    """A process that begins a run, carries it, answers its question, and dies on the way; 7 of one that does not."""
    kind = shop.kind.partition("-")[0]
    options: dict[str, Any] = {}
    more: dict[str, Any] = {}
    if kind == "dbos":
        follow_dbos(moments)
        more = {"executor": shop.run, "dead_after_seconds": 600.0}  # it looks after nobody else's runs
    elif kind == "langgraph":
        follow_langgraph(moments)
    elif kind == "temporal":
        options, more = {"workflow_runner": runner_followed(moments)}, {"interceptors": [temporal_followed(moments)]}
        more["heartbeat_seconds"] = 3.0

    def acted(name: str) -> None:
        moments.passed(name, whose=_whose.get())

    async def act() -> None:
        with stores_followed(moments):
            async with open_gate(shop, settings=OF_THE_DYING, acted=acted) as gate:
                _whose.set(shop.run)
                workflows: Any = Followed(Workflows(gate, (workflow(),)), shop.run)
                async with carrying(shop, workflows, **more) as driver, serving(shop, driver, **options):
                    await begun(shop, driver)
                    asking = await until(shop, workflows, is_asking)
                    await decided(gate, asking.approvals[0])  # type: ignore[union-attr]
                    await until(shop, workflows, is_over)
                    await _heard(shop, driver)

    asyncio.run(act())
    os._exit(SURVIVED)


async def _heard(shop: Shop, driver: Any) -> None:
    """The engine knows of the end, too."""
    if shop.kind == "temporal":
        await driver.result("acme", shop.run)
    elif shop.kind.startswith("dbos"):
        from dbos import DBOS

        async with asyncio.timeout(60):
            while (await asyncio.to_thread(DBOS.get_workflow_status, f"placet/acme/{shop.run}")).status != "SUCCESS":
                await asyncio.sleep(0.02)


def finish(shop: Shop, runs: Sequence[str]) -> None:
    """A process that ends what all of them left: at the end nobody has died for a while."""

    async def act() -> None:
        async with open_gate(shop) as gate:
            workflows = Workflows(gate, (workflow(),))
            if not shop.kind.startswith("temporal"):
                async with carrying(shop, workflows, executor="finisher") as driver, serving(shop, driver):
                    await _answered(gate, workflows, runs)
                return
            for some in (runs[at : at + _WORKERS] for at in range(0, len(runs), _WORKERS)):
                async with AsyncExitStack() as stack:
                    for run in some:
                        one, mine = replace(shop, run=run), cast(Workflows, Followed(workflows, run))
                        driver = await stack.enter_async_context(carrying(one, mine))
                        await stack.enter_async_context(serving(one, driver))
                    await _answered(gate, workflows, some)

    asyncio.run(act())
    os._exit(SURVIVED)


async def _answered(gate: Gate, workflows: Workflows, runs: Sequence[str]) -> None:
    """Every question, until the runs are over."""
    left = set(runs)
    async with asyncio.timeout(200):
        while left := {run for run in left if not is_over(await workflows.look("acme", run))}:
            for waiting in await gate.desk.pending(by=PERSON):
                if waiting.run_id in runs:
                    await decided(gate, waiting.approval_id)
            await asyncio.sleep(0.05)


def die_one_after_the_other(shop: Shop, moments: Sequence[str]) -> None:
    """A process that dies at each of these moments, each with a run of its own; one more ends what they left.

    Without any, one lives, and there is one for each of the moments that it had.

    They are forked from this one, which has loaded the engine and begun nothing.
    """
    preload(shop.kind)
    report: list[tuple[str, str, int]] = []

    def one(moment: str) -> int:
        mine = replace(shop, run=f"{shop.run}-{len(report)}")
        code = _forked(lambda: dies(mine, Moments(mine.run, moment, report_of(mine))))
        report.append((mine.run, moment, code))
        return code

    if not moments:
        one("")
        moments = report_of(replace(shop, run=report[0][0])).read_text().splitlines()
    for moment in moments:
        for _ in range(_TIMES):
            if one(moment) != SURVIVED:  # one more wake-up, or one less, and there may be no such moment
                break
    code = _forked(lambda: finish(shop, [run for run, _, _ in report]))
    told = {"processes": report, "finisher": code, "cpu_seconds": os.times()[:4]}
    (shop.folder / "report.json").write_text(json.dumps(told))
    os._exit(SURVIVED)


def report_of(shop: Shop) -> Path:
    return shop.folder / f"{shop.run}.txt"


def _forked(act: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# ---------------------------------------------------------------- what became of their runs


def all_end_right(shop: Shop) -> set[str]:
    """Every moment there is, each with a process that died there; all that they left has ended right."""
    return ended_right(shop, ())


def ended_right(shop: Shop, moments: Sequence[str]) -> set[str]:
    """The moments at which a process died; all that they left has ended right, and each effect was done once."""
    assert ended(start(die_one_after_the_other, shop, moments), within=LONGEST_SECONDS) == SURVIVED
    report = json.loads((shop.folder / "report.json").read_text())
    codes = {code for _, _, code in report["processes"]}
    assert report["finisher"] == SURVIVED and codes <= {KILLED, SURVIVED}
    runs = [run for run, _, _ in report["processes"]]
    at_once(_assert_done(shop, runs))
    assert sorted(shop.remote.effects().values()) == [1, 1] * len(runs)
    return {moment for _, moment, code in report["processes"] if code == KILLED}


async def _assert_done(shop: Shop, runs: Sequence[str]) -> None:
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        for run in runs:
            over = await workflows.look("acme", run)
            assert isinstance(over, Ended) and (over.status, over.state) == ("done", "DONE")
            assert (await gate.runs.show(run, by=AGENT)).steps == 3  # asked again is the same step
        assert_audit_is_whole(gate)


LONGEST_SECONDS = 900.0
"""For what hangs. A process takes half a second; on a machine that is busy with other things, several."""
_TIMES = 3
_WORKERS = 8
