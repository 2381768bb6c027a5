"""Leaving a gate: nobody new comes in, whoever is inside is closed and settled, and the store goes last."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import EffectState, GateSettings, Invalid, NotRun, Recovery, Refused, Succeeded, Unknown
from placet.errors import BoundaryUnavailable, MisuseError, StoreInDoubt, StoreUnavailable
from placet.model.call import Call
from placet.model.contract import Contract
from placet.model.identifiers import PolicyVersion
from placet.model.principal import Principal
from placet.rules.proposals import MAX_BATCH
from tests.engine.conftest import OPERATOR, SCOPE, OpenWorld, Spy, acting, looked_up, written

QUICK = GateSettings(grace_seconds=0.05)
PATIENT = GateSettings(grace_seconds=30.0)


def ask(tool: str = "act", call_id: str = "c1", **arguments: object) -> dict[str, object]:
    return {"call_id": call_id, "tool": tool, "arguments": arguments}


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def record_of(path: Path) -> tuple[list[tuple[str, str | None]], int]:
    """States and reasons of all effects, and how many attempts were never closed."""

    async def look() -> tuple[list[tuple[str, str | None]], int]:
        async with placet.open(tools=[], store=path, recovery=Recovery.MANUAL) as gate:
            effects = await gate.store.effects(tenant=None, states=tuple(EffectState), limit=100)
            return [(effect.state.value, effect.reason) for effect in effects], (await gate.verify_audit()).unpaired

    return asyncio.run(look())


# ---------------------------------------------------------------- leaving with calls in flight


@pytest.mark.parametrize("effect", ["write", "read"])
async def test_a_call_in_flight_is_cancelled_closed_and_settled_before_the_store_goes(
    tmp_path: Path, effect: str
) -> None:
    begun = asyncio.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.sleep(60)

    tool = acting(forever, effect=effect)
    async with placet.open(tools=[tool], store=tmp_path / "p.db", recovery=Recovery.MANUAL, settings=QUICK) as gate:
        asking = asyncio.ensure_future(gate.submit(ask(), principal=OPERATOR, run="r1"))
        await begun.wait()

    assert asking.done() and asking.cancelled()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    effects = [] if effect == "read" else [("unknown", "caller_left")]
    assert await asyncio.to_thread(record_of, tmp_path / "p.db") == (effects, 0)


async def test_a_call_that_ends_within_the_patience_keeps_its_outcome(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def briefly() -> None:
        begun.set()
        await asyncio.sleep(0.05)

    opening = placet.open(tools=[acting(briefly)], store=tmp_path / "p.db", recovery=Recovery.MANUAL, settings=PATIENT)
    async with opening as gate:
        asking = asyncio.ensure_future(gate.submit(ask(), principal=OPERATOR, run="r1"))
        await begun.wait()

    assert isinstance(asking.result(), Succeeded)


async def test_a_closed_gate_takes_nothing(spy: Spy) -> None:
    async with placet.open(tools=[looked_up(spy)], store=placet.MEMORY) as gate:
        pass

    for entrance in (gate.submit_all, gate.submit_until_failure):
        with pytest.raises(MisuseError, match="The gate is closed"):
            await entrance([ask("look", word="x")], principal=OPERATOR, run="r1")
    with pytest.raises(MisuseError, match="The gate is closed"):
        await gate.submit(ask("look", word="x"), principal=OPERATOR, run="r1")
    assert spy.count == 0


async def test_while_it_closes_nobody_new_comes_in(tmp_path: Path) -> None:
    begun, answers = asyncio.Event(), list[BaseException]()

    async def ask_again() -> None:
        begun.set()
        await asyncio.sleep(0.1)
        try:
            await gate.submit(ask(call_id="c2"), principal=OPERATOR, run="r1")
        except MisuseError as refusal:
            answers.append(refusal)

    opening = placet.open(
        tools=[acting(ask_again)], store=tmp_path / "p.db", recovery=Recovery.MANUAL, settings=PATIENT
    )
    async with opening as gate:
        asking = asyncio.ensure_future(gate.submit(ask(), principal=OPERATOR, run="r1"))
        await begun.wait()

    assert isinstance(asking.result(), Succeeded)
    assert [type(answer) for answer in answers] == [MisuseError]


async def test_a_settlement_the_store_never_takes_does_not_outlive_the_gate(tmp_path: Path, spy: Spy) -> None:
    async with placet.open(tools=[written(spy)], store=tmp_path / "p.db", settings=QUICK) as gate:
        store: Any = gate.store

        async def settle(settlement: object) -> None:
            raise StoreUnavailable("no")

        store.settle = settle
        assert isinstance(await gate.submit(ask("write", word="x"), principal=OPERATOR, run="r1"), Unknown)

    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_a_thread_that_speaks_after_the_gate_has_closed_leaves_nothing_running(tmp_path: Path) -> None:
    begun, release = threading.Event(), threading.Event()

    @placet.tool(effect="write", risk="medium", permission=SCOPE, name="act", timeout_seconds=0.05)
    def act() -> str:
        begun.set()
        release.wait(60)
        return "late"

    async with placet.open(tools=[act], store=tmp_path / "p.db", settings=QUICK) as gate:
        assert isinstance(await gate.submit(ask(), principal=OPERATOR, run="r1"), Unknown)
    release.set()
    await until(lambda: not any(thread.name == "placet-act" for thread in threading.enumerate()))
    await asyncio.sleep(0.02)

    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_leaving_that_is_cancelled_still_closes_the_store(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.sleep(60)

    async def session() -> None:
        async with placet.open(tools=[acting(forever)], store=tmp_path / "p.db", settings=QUICK) as gate:
            asking.append(asyncio.ensure_future(gate.submit(ask(), principal=OPERATOR, run="r1")))
            await begun.wait()
        raise AssertionError("the cancellation was lost")

    asking: list[asyncio.Future[Any]] = []
    leaving = asyncio.ensure_future(session())
    await begun.wait()
    await asyncio.sleep(0.05)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving

    assert asking[0].cancelled()
    assert await asyncio.to_thread(record_of, tmp_path / "p.db") == ([("unknown", "caller_left")], 0)


# ---------------------------------------------------------------- without a loop


@pytest.mark.parametrize("effect", ["write", "read"])
def test_ctrl_c_in_a_carried_call_leaves_nothing_open(
    tmp_path: Path, effect: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def politely() -> None:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)  # well within the grace
            raise

    tool = acting(politely, effect=effect)
    opening = placet.open(tools=[tool], store=tmp_path / "p.db", recovery=Recovery.MANUAL, settings=PATIENT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyboardInterrupt), opening as gate:
            gate.submit(ask(), principal=OPERATOR, run="r1")
        del gate, opening
        gc.collect()

    assert "Task was destroyed" not in capfd.readouterr().err
    effects = [] if effect == "read" else [("unknown", "caller_left")]
    assert record_of(tmp_path / "p.db") == (effects, 0)


def test_a_carried_gate_that_is_closed_says_so(spy: Spy) -> None:
    with placet.open(tools=[looked_up(spy)], store=placet.MEMORY) as gate:
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(MisuseError, match="The gate is closed"):
            gate.submit(ask("look", word="x"), principal=OPERATOR, run="r1")


# ---------------------------------------------------------------- forks


def in_a_fork(work: Any) -> str:
    """What `work` answers in a forked child; a child that hangs is killed by its alarm."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        try:
            answer = str(work())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error} {getattr(error, 'hint', '')}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        answer = said.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"
    return answer


@pytest.fixture
def no_fork_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@pytest.mark.usefixtures("no_fork_warning")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_carried_gate_is_refused_in_a_forked_child_and_goes_on_in_its_own(
    tmp_path: Path, spy: Spy, kind: str
) -> None:
    store = placet.MEMORY if kind == "memory" else tmp_path / "p.db"
    opening = placet.open(tools=[written(spy)], store=store)
    with opening as gate:

        def submit(call_id: str) -> Any:
            return gate.submit(ask("write", call_id, word="x"), principal=OPERATOR, run="r1")

        assert isinstance(submit("c1"), Succeeded)

        answer = in_a_fork(lambda: submit("c2"))
        left = in_a_fork(lambda: opening.__exit__(None, None, None))

        assert answer.startswith("MisuseError: ") and "after the fork" in answer
        assert left == "None"
        assert isinstance(submit("c3"), Succeeded)
        assert gate.verify_audit().holds


@pytest.mark.usefixtures("no_fork_warning")
async def test_the_writer_of_a_store_is_refused_in_a_forked_child(tmp_path: Path, spy: Spy) -> None:
    async with placet.open(tools=[written(spy)], store=tmp_path / "p.db", recovery=Recovery.MANUAL) as gate:
        for work in (gate.store.resume("all", ()), gate.submit(ask("write", word="x"), principal=OPERATOR, run="r1")):

            def first_step(work: Any = work) -> None:
                work.send(None)

            answer = in_a_fork(first_step)
            work.close()

            assert answer.startswith("MisuseError: ") and "after the fork" in answer
        assert isinstance(await gate.submit(ask("write", word="x"), principal=OPERATOR, run="r1"), Succeeded)


# ---------------------------------------------------------------- claims and settlements in doubt


class Doubtful:
    """A store whose claim lands, whose every answer about it is lost, until it serves again."""

    def __init__(self, store: Any) -> None:
        self._real = (store.claim, store.void)
        self._store = store
        self.lands = True
        self.first = True
        store.claim, store.void = self._claim, self._void

    async def _claim(self, claim: Any) -> Any:
        if self.first:
            self.first = False
            if self.lands:
                await self._real[0](claim)
            raise StoreInDoubt("lost")
        raise StoreUnavailable("down")

    async def _void(self, *_: Any) -> bool:
        raise StoreUnavailable("down")

    def serve(self) -> None:
        self._store.claim, self._store.void = self._real


async def test_a_claim_that_turns_out_to_have_landed_is_settled_as_not_sent(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy), store=where)
    doubtful = Doubtful(world.gate.store)

    outcome = await world.submit("write", {"word": "x"})
    before = (await world.effect()).state
    doubtful.serve()
    await until(lambda: not world.gate._path._dispatcher._afterwards.tasks)

    assert isinstance(outcome, Unknown)
    effect = await world.effect()
    assert (before, effect.state, effect.reason) == (EffectState.DISPATCHED, EffectState.FAILED, "not_sent")
    assert (spy.count, world.words()) == (0, ["started", "error"])
    assert world.completed()["duration_ms"] < 60_000


async def test_a_claim_that_never_landed_never_will(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy), store=where)
    doubtful = Doubtful(world.gate.store)
    doubtful.lands = False

    assert isinstance(await world.submit("write", {"word": "x"}), Unknown)
    doubtful.serve()
    await until(lambda: not world.gate._path._dispatcher._afterwards.tasks)

    assert (await world.effects(), world.words(), spy.count) == ((), [], 0)
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


async def test_a_clock_that_fails_while_a_claim_is_in_doubt_keeps_the_doubt(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy))
    doubtful: Any = Doubtful(world.gate.store)
    clockless = BoundaryUnavailable("The clock cannot be read.", code="clock_failed")

    async def void(*_: Any) -> bool:
        raise clockless

    store: Any = world.gate.store
    store.void = void

    assert isinstance(await world.submit("write", {"word": "x"}), Unknown)
    doubtful.serve()
    await until(lambda: not world.gate._path._dispatcher._afterwards.tasks)

    assert (await world.effect()).state is EffectState.FAILED


async def test_a_settlement_the_clock_kept_off_is_made_once_it_runs_again(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy), store=where)
    store: Any = world.gate.store
    real, fails = store.settle, True

    async def settle(settlement: Any) -> Any:
        if fails:
            raise BoundaryUnavailable("The clock cannot be read.", code="clock_failed")
        return await real(settlement)

    store.settle = settle
    assert isinstance(await world.submit("write", {"word": "x"}), Unknown)
    for _ in range(20):
        await asyncio.sleep(0)
    fails = False
    await until(lambda: not world.gate._path._dispatcher._afterwards.tasks)

    assert (await world.effect()).state is EffectState.COMMITTED


# ---------------------------------------------------------------- floods


async def test_a_batch_beyond_the_limit_is_one_rejection_whatever_is_in_it(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(looked_up(spy), store=where)
    before = world.gate.store.commits

    outcomes = await world.gate.submit_all(
        [{"call_id": f"c{index}", "tool": "look"} for index in range(4000)], principal=OPERATOR, run="r1"
    )

    assert [type(outcome) for outcome in outcomes] == [NotRun] * MAX_BATCH + [Invalid] + [NotRun] * (3999 - MAX_BATCH)
    assert [outcome.call_id for outcome in outcomes[:2]] == ["c0", "c1"]
    assert world.words() == ["started", "validation"]
    assert world.gate.store.commits == before + 1


async def test_all_rejections_of_a_batch_are_one_commit(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(looked_up(spy), store=where)
    before = world.gate.store.commits

    outcomes = await world.gate.submit_all(
        [{"call_id": f"c{index}", "tool": "look"} for index in range(MAX_BATCH)], principal=OPERATOR, run="r1"
    )

    assert {type(outcome) for outcome in outcomes} == {Invalid}
    assert world.words() == ["started", "validation"] * MAX_BATCH
    assert world.gate.store.commits == before + 1


async def test_rejected_batches_use_up_the_steps_of_their_run(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy), settings=GateSettings(max_steps=2))

    codes = [
        {
            outcome.code
            for outcome in await world.gate.submit_all(
                [{"call_id": f"c{turn}{index}", "tool": "look"} for index in range(3)], principal=OPERATOR, run="r1"
            )
        }
        for turn in range(3)
    ]

    assert codes == [{"protocol_rejected"}, {"protocol_rejected"}, {"budget_exhausted"}]
    assert world.words() == ["started", "validation"] * 9


# ---------------------------------------------------------------- policies and binding


@dataclass
class Policy:
    """Allows nothing by itself; each test says what it does instead."""

    timeout_seconds: float | None = None
    version: Any = "v1"

    async def decide(self, call: Call) -> Any:
        raise NotImplementedError

    def is_listed(self, contract: Contract, principal: Principal) -> bool:
        raise asyncio.CancelledError

    async def may_decide(self, question: Any, person: Principal) -> Any:
        raise NotImplementedError


class Unversioned(Policy):
    def __getattribute__(self, name: str) -> Any:
        if name == "version":
            raise asyncio.CancelledError
        return super().__getattribute__(name)


async def test_a_policy_without_a_version_refuses_and_submit_never_raises(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy), policy=Unversioned())

    bad = await world.gate.submit({"bad": 1}, principal=OPERATOR, run="r1")

    assert isinstance(bad, Invalid)
    assert world.words() == ["started", "validation"]
    assert world.gate.tools_for(OPERATOR) == ()


async def test_a_policy_that_never_answers_is_a_deny_at_the_callers_patience(open_world: OpenWorld, spy: Spy) -> None:
    class Hanging(Policy):
        async def decide(self, call: Call) -> Any:
            await asyncio.sleep(3_600)

    world = await open_world(looked_up(spy), policy=Hanging())

    async with asyncio.timeout(60):
        outcome = await world.submit("look", {"word": "x"}, timeout_seconds=0.05)

    assert isinstance(outcome, Refused) and outcome.reasons == ("policy_failed",)
    assert (spy.count, world.words()) == (0, ["started", "denied"])


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_a_policy_may_wait_as_often_as_it_likes(open_world: OpenWorld, spy: Spy, turns: int) -> None:
    class Slow(Policy):
        async def decide(self, call: Call) -> Any:
            for _ in range(turns):
                await asyncio.sleep(0.001)
            return placet.Allow(reasons=("mine",), policy_version=PolicyVersion("v1"))

    world = await open_world(looked_up(spy), policy=Slow())

    assert isinstance(await world.submit("look", {"word": "x"}), Succeeded)


async def test_a_fault_in_binding_is_a_recorded_refusal(
    open_world: OpenWorld, spy: Spy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = await open_world(looked_up(spy))
    for fault in (RuntimeError("s3cr3t"), asyncio.CancelledError(), placet.errors.ContractError("s3cr3t")):

        def bind(*_: object, fault: BaseException = fault) -> Call:
            raise fault

        monkeypatch.setattr(world.gate._path, "bind", bind)
        outcome = await world.submit("look", {"word": "x"})
        explained = await world.gate.explain(ask("look", word="x"), principal=OPERATOR, run="r1")

        for answer in (outcome, explained):
            assert isinstance(answer, Refused)
            assert (answer.code, answer.reasons, answer.tool) == ("boundary_unavailable", ("internal_fault",), "look")
    assert world.words() == ["started", "denied"] * 3
    assert b"s3cr3t" not in world.bodies()
    told = [(record.message, record.__dict__["error_type"]) for record in caplog.records]
    names = ("RuntimeError", "untrusted_exception", "ContractError")
    assert told == [("binding failed", name) for name in names for _ in ("submitted", "explained")]
    assert "s3cr3t" not in caplog.text
