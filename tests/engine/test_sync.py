"""The gate for programs without an event loop, from one thread and from many."""

from __future__ import annotations

import asyncio
import errno
import inspect
import linecache
import signal
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import AwaitingApproval, Gate, Replayed, Succeeded, SyncGate
from placet.engine.desk import Desk
from placet.engine.reconciler import Reconciler
from placet.engine.sync import LoopThread
from placet.errors import DecisionRefused, MisuseError, NotFound
from tests.engine.conftest import APPROVER, OPERATOR, SCOPE, Spy, looked_up, written


def proposal(call_id: str = "c1", tool: str = "write", word: str = "x") -> dict[str, Any]:
    return {"call_id": call_id, "tool": tool, "arguments": {"word": word}}


@pytest.fixture
def spy() -> Spy:
    return Spy()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_program_without_a_loop_proposes_approves_and_gets_its_result(spy: Spy, tmp_path: Path, kind: str) -> None:
    store = placet.MEMORY if kind == "memory" else tmp_path / "p.db"
    with placet.open(tools=[written(spy, approval="always"), looked_up(spy)], store=store) as gate:
        waiting = gate.submit(proposal(), principal=OPERATOR, run="r1")
        assert isinstance(waiting, AwaitingApproval)
        (view,) = gate.desk.pending(by=APPROVER)
        gate.desk.approve(view.approval_id, digest=view.digest, by=APPROVER)
        outcome = gate.submit(proposal(), principal=OPERATOR, run="r1")
        batch = gate.submit_all([proposal(), proposal("c2", "look")], principal=OPERATOR, run="r1")

        assert outcome.unwrap() == {"word": "x"}
        assert [type(each) for each in batch] == [Replayed, Succeeded]
        assert gate.verify_audit().holds
        assert [contract.name for contract in gate.tools_for(OPERATOR)] == ["write", "look"]
        assert len(gate.reconciler.effects(by=OPERATOR)) == 1


def test_errors_of_the_async_gate_are_raised_in_the_calling_thread(spy: Spy) -> None:
    with placet.open(tools=[written(spy)], store=placet.MEMORY) as gate:
        with pytest.raises(MisuseError):
            gate.submit(proposal(), principal=OPERATOR, run="")
        with pytest.raises(NotFound):
            gate.desk.show("apr-none", by=APPROVER)
        with pytest.raises(DecisionRefused):
            gate.desk.show("apr-none", by=OPERATOR)


@pytest.mark.req("C042", "C041", "B092")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_many_threads_make_one_effect_of_one_key(spy: Spy, tmp_path: Path, kind: str) -> None:
    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    def write(word: str) -> str:
        spy(threading.get_ident())
        return word

    store = placet.MEMORY if kind == "memory" else tmp_path / "p.db"
    with placet.open(tools=[write], store=store) as gate, ThreadPoolExecutor(32) as pool:
        outcomes = list(
            pool.map(
                lambda number: gate.submit(proposal(f"c{number}"), principal=OPERATOR, run="r1", idempotency_key="k"),
                range(50),
            )
        )
        assert gate.verify_audit().unpaired == 0

    assert (spy.count, {outcome.unwrap() for outcome in outcomes}) == (1, {"x"})
    assert sum(isinstance(outcome, Succeeded) for outcome in outcomes) == 1


def test_many_threads_with_wishes_of_their_own_each_get_theirs(spy: Spy, tmp_path: Path) -> None:
    with placet.open(tools=[written(spy)], store=tmp_path / "p.db") as gate, ThreadPoolExecutor(16) as pool:
        words = [f"word-{number}" for number in range(60)]
        outcomes = list(
            pool.map(lambda word: gate.submit(proposal(word, word=word), principal=OPERATOR, run="r1"), words)
        )

    assert [outcome.unwrap() for outcome in outcomes] == [{"word": word} for word in words]
    assert spy.count == 60


@pytest.mark.parametrize(("carried", "inner"), [(SyncGate, Gate)])
def test_every_coroutine_of_the_gate_has_its_carried_twin(carried: type, inner: type) -> None:
    ours = {name for name, each in vars(inner).items() if inspect.iscoroutinefunction(each) and name[0] != "_"}

    assert ours - {"announce"} <= set(vars(carried))


def test_every_coroutine_of_desk_reconciler_and_switch_has_its_carried_twin() -> None:
    from placet.engine.switch import Switch
    from placet.engine.sync import SyncDesk, SyncReconciler, SyncSwitch

    pairs = ((SyncDesk, Desk, set()), (SyncReconciler, Reconciler, {"probe", "visible"}), (SyncSwitch, Switch, set()))
    for carried, inner, inside in pairs:
        ours = {name for name, _ in inspect.getmembers(inner, inspect.iscoroutinefunction) if name[0] != "_"}
        assert ours - inside <= set(vars(carried))
        for name in ours - inside:
            assert vars(carried)[name].__doc__ == getattr(inner, name).__doc__


@pytest.mark.req("B106", "H042")
def test_an_interrupted_caller_has_its_attempt_closed(spy: Spy) -> None:
    running = threading.Event()

    @placet.tool(effect="write", risk="medium", permission=SCOPE, timeout_seconds=60)
    async def act() -> str:
        running.set()
        await asyncio.sleep(60)
        return ""

    with placet.open(tools=[act], store=placet.MEMORY) as gate:
        thread: Any = gate._thread

        class Interrupted(BaseException):
            pass

        def carry_and_interrupt() -> None:
            future = asyncio.run_coroutine_threadsafe(
                gate._inner.submit({"call_id": "c1", "tool": "act", "arguments": {}}, principal=OPERATOR, run="r1"),
                thread._loop,
            )
            running.wait(60)
            future.cancel()

        carry_and_interrupt()
        for _ in range(500):
            effects = gate.reconciler.effects(by=OPERATOR)
            if effects and effects[0].state is not placet.EffectState.DISPATCHED:
                break
        assert effects[0].state is placet.EffectState.UNKNOWN


@pytest.mark.req("B106")
def test_a_program_that_is_interrupted_while_it_waits_leaves_nothing_running(spy: Spy) -> None:
    """As by Ctrl-C: what it waited for is cancelled, and its attempt closed."""
    has_ended = threading.Event()

    class Interrupted(BaseException):
        pass

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    @placet.tool(effect="write", risk="medium", permission=SCOPE, timeout_seconds=60)
    async def act() -> str:
        try:
            while not is_waiting(threading.main_thread()):
                await asyncio.sleep(0.001)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            await asyncio.sleep(60)
        finally:
            has_ended.set()
        return ""

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with placet.open(tools=[act], store=placet.MEMORY) as gate:
            with pytest.raises(Interrupted):
                gate.submit({"call_id": "c1", "tool": "act", "arguments": {}}, principal=OPERATOR, run="r1")
            assert has_ended.wait(30), "the attempt goes on although nobody waits for it"
    finally:
        signal.signal(signal.SIGUSR1, before)


def is_waiting(thread: threading.Thread) -> bool:
    """Whether it stands still until another thread wakes it, and may be interrupted there."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None or frame.f_code is not threading.Condition.wait.__code__:
        return False
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith("waiter.acquire(")


def test_a_gate_is_entered_once(spy: Spy) -> None:
    opening = placet.open(tools=[written(spy)], store=placet.MEMORY)
    with opening:
        pass
    with pytest.raises(MisuseError), opening:
        pass


def test_a_store_that_cannot_be_opened_leaves_no_thread_behind(spy: Spy, tmp_path: Path) -> None:
    before = threading.active_count()

    with pytest.raises(placet.PlacetError), placet.open(tools=[written(spy)], store=tmp_path / "no" / "p.db"):
        pass

    assert threading.active_count() == before


# ---------------------------------------------------------------- a loop that breaks


def test_an_exit_in_a_task_of_somebody_else_is_told_and_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def leaves() -> None:
        task = asyncio.ensure_future(exits())
        await asyncio.wait((task,))
        assert type(task.exception()) is SystemExit

    async def exits() -> None:
        raise SystemExit("s3cr3t")

    async def works() -> str:
        return "works"

    thread = LoopThread()
    try:
        thread.carry(leaves())
        assert thread.carry(works()) == "works"
    finally:
        thread.close()
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "placet.loop"]
    assert told == [("WARNING", "a task in the gate's loop raised SystemExit")]
    assert [record.__dict__["error_type"] for record in caplog.records if record.name == "placet.loop"] == [
        "SystemExit"
    ]
    assert "s3cr3t" not in caplog.text


def test_a_loop_that_fails_says_so_once_and_leaves_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    """As when a program closes descriptors that are not its own, and among them the loop's."""
    thread = LoopThread()

    def select(timeout: object) -> object:
        raise OSError(errno.EBADF, "s3cr3t")

    async def breaks() -> None:
        thread._loop._selector.select = select  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    with pytest.raises(CancelledError):
        thread.carry(breaks())
    thread._thread.join(30)
    assert not thread._thread.is_alive()
    told = [record for record in caplog.records if record.name == "placet.loop"]
    assert [record.levelname for record in told] == ["CRITICAL"]
    assert told[0].getMessage() == "the gate's loop has failed: OSError"
    assert "s3cr3t" not in caplog.text
    work = asyncio.sleep(0)
    with pytest.raises(MisuseError, match="closed"):
        thread.carry(work)
    thread.close()
    thread.close()


def test_a_task_that_will_not_end_does_not_keep_a_program_from_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placet.engine.sync._ENDING_SECONDS", 0.05)
    thread, refusals = LoopThread(), 0

    async def will_not_end() -> None:
        nonlocal refusals
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                refusals += 1

    async def begin() -> asyncio.Task[None]:
        task = asyncio.ensure_future(will_not_end())
        await asyncio.sleep(0)
        return task

    left = thread.carry(begin())
    thread.close()

    left._log_destroy_pending = False  # type: ignore[attr-defined]  # it is left on purpose
    assert (refusals, left.done()) == (1, False)
    with pytest.raises(MisuseError, match="closed"):
        thread.carry(asyncio.sleep(0))


def test_what_ends_when_it_is_told_to_has_ended_before_the_program_leaves() -> None:
    thread, ended = LoopThread(), []

    async def ends_in_its_own_time() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            for _ in range(50):
                await asyncio.sleep(0)
            ended.append("task")

    async def counts() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ended.append("generator")

    async def begin() -> None:
        kept.append(asyncio.ensure_future(ends_in_its_own_time()))
        kept.append(generator := counts())
        assert await anext(generator) == 1

    kept: list[object] = []
    thread.carry(begin())
    thread.close()

    assert ended == ["task", "generator"]


def test_nothing_is_remembered_of_calls_that_were_answered() -> None:
    thread = LoopThread()
    for _ in range(5):
        thread.carry(asyncio.sleep(0))
    with pytest.raises(ZeroDivisionError):
        thread.carry(fails())
    waiting = set(thread._waiting)
    thread.close()

    assert waiting == set()


async def fails() -> None:
    raise ZeroDivisionError


def test_holds_are_set_and_lifted_from_a_program_without_a_loop(spy: Spy) -> None:
    keeper = placet.Principal.person("kim", tenant="ops", scopes=("ops.hold",))
    with placet.open(tools=[written(spy)], store=placet.MEMORY) as gate:
        assert gate.purger.hold("tenant:acme", by=keeper)
        assert [hold.scope for hold in gate.purger.holds(by=keeper)] == ["tenant:acme"]
        gate.purger.lift("tenant:acme", by=keeper)
        assert gate.purger.holds(by=keeper) == ()


def test_while_a_gate_closes_nobody_new_comes_in() -> None:
    thread, may_end = LoopThread(), threading.Event()

    async def ends_when_told() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            while not may_end.is_set():
                await asyncio.sleep(0.001)

    async def begin() -> asyncio.Task[None]:
        task = asyncio.ensure_future(ends_when_told())
        await asyncio.sleep(0)
        return task

    thread.carry(begin())
    closing = threading.Thread(target=thread.close)
    closing.start()
    try:
        deadline = threading.Event()
        for _ in range(3000):
            if thread._is_closed:
                break
            deadline.wait(0.01)
        with pytest.raises(MisuseError, match="closed"):
            thread.carry(asyncio.sleep(0))
    finally:
        may_end.set()
        closing.join(30)
    assert not closing.is_alive()
