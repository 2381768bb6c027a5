"""The gate for programs without an event loop, from one thread and from many."""

from __future__ import annotations

import asyncio
import errno
import inspect
import threading
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

    pairs = ((SyncDesk, Desk, set()), (SyncReconciler, Reconciler, {"probe"}), (SyncSwitch, Switch, set()))
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
            running.wait(5)
            future.cancel()

        carry_and_interrupt()
        for _ in range(500):
            effects = gate.reconciler.effects(by=OPERATOR)
            if effects and effects[0].state is not placet.EffectState.DISPATCHED:
                break
        assert effects[0].state is placet.EffectState.UNKNOWN


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
