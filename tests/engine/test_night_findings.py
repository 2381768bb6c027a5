"""Interleavings and faults found by reading the code as a stranger."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import placet
from placet import AwaitingApproval, Failed, Principal, Replayed, Succeeded, Unknown, tool
from placet.engine.results import Results
from placet.errors import StoreMissing
from placet.testing import FakeClock

AGENT = Principal.agent("bot", tenant="acme", roles=("operator",), scopes=("w",))
MARA = Principal.person("mara", tenant="acme", scopes=("approvals.decide",))
acts: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done_yet() -> None:
    acts.clear()


@tool(effect="write", risk="medium", permission="w", approval="always")
async def act(word: str) -> str:
    """Act, after a person said so."""
    acts.append(word)
    return word


@tool(effect="write", risk="medium", permission="w")
async def cancels_itself(word: str) -> str:
    """A handler that cancels the task it runs in."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return word


@tool(effect="write", risk="medium", permission="w")
def in_a_thread(word: str) -> str:
    """Runs in a thread."""
    acts.append(word)
    return word


def call(name: str, call_id: str) -> dict[str, object]:
    return {"call_id": call_id, "tool": name, "arguments": {"word": "x"}}


async def approve(gate: placet.Gate) -> None:
    (view,) = await gate.desk.pending(by=MARA)
    await gate.desk.approve(view.approval_id, digest=view.digest, by=MARA)


async def test_a_finished_call_is_replayed_even_while_the_same_wish_waits_under_another_id() -> None:
    async with placet.open(tools=[act], store="memory:") as gate:
        await gate.submit(call("act", "c1"), principal=AGENT, run="r")
        await approve(gate)
        first = await gate.submit(call("act", "c1"), principal=AGENT, run="r")
        other = await gate.submit(call("act", "c2"), principal=AGENT, run="r")
        while_waiting = await gate.submit(call("act", "c1"), principal=AGENT, run="r")
        await approve(gate)
        after_approval = await gate.submit(call("act", "c1"), principal=AGENT, run="r")

    assert (type(first), type(other)) == (Succeeded, AwaitingApproval)
    assert (type(while_waiting), type(after_approval)) == (Replayed, Replayed)
    assert acts == ["x"]


async def test_an_approval_taken_back_between_look_and_claim_is_asked_for_anew() -> None:
    async with placet.open(tools=[act], store="memory:") as gate:
        await gate.submit(call("act", "c1"), principal=AGENT, run="r")
        await approve(gate)
        (approval,) = await gate.desk.listed(by=MARA)
        claim = gate.store.claim

        async def withdrawn_first(command: object) -> object:
            gate.store.claim = claim  # type: ignore[method-assign]
            await gate.desk.withdraw(approval.approval_id, by=MARA)
            return await claim(command)  # type: ignore[arg-type]

        gate.store.claim = withdrawn_first  # type: ignore[method-assign,assignment]
        outcome = await gate.submit(call("act", "c1"), principal=AGENT, run="r")

    assert isinstance(outcome, AwaitingApproval)
    assert outcome.approval_id != approval.approval_id
    assert acts == []


async def test_a_handler_that_cancels_itself_is_closed_as_unknown() -> None:
    async with placet.open(tools=[cancels_itself], store="memory:") as gate:
        outcome = await gate.submit(call("cancels_itself", "c1"), principal=AGENT, run="r")
        report = await gate.verify_audit()

    assert isinstance(outcome, Unknown)
    assert (report.holds, report.unpaired) == (True, 0)


async def test_without_a_thread_left_nothing_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    async with placet.open(tools=[in_a_thread], store="memory:") as gate:
        start = threading.Thread.start

        def none_left(thread: threading.Thread) -> None:
            if thread.name == "placet-in_a_thread":
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", none_left)
        outcome = await gate.submit(call("in_a_thread", "c1"), principal=AGENT, run="r")

    assert isinstance(outcome, Failed)
    assert outcome.code == "not_sent"
    assert acts == []


async def test_naming_the_stores_own_key_does_not_make_an_empty_ledger(tmp_path: Path) -> None:
    store, key = tmp_path / "p.db", tmp_path / "p.db.key"
    async with placet.open(tools=[act], store=store):
        pass
    store.unlink()

    with pytest.raises(StoreMissing) as lost:
        async with placet.open(tools=[act], store=store, key=key):
            pass

    assert lost.value.code == "store_lost"


class Suspended(FakeClock):
    """A host whose monotonic clock stands still while it sleeps; only the wall clock goes on."""

    def suspend(self, seconds: float) -> None:
        before = self._monotonic
        self.advance(seconds)
        self._monotonic = before


class Set(FakeClock):
    """A host whose wall clock somebody sets back; only the monotonic clock goes on."""

    def suspend(self, seconds: float) -> None:
        before = self._now
        self.advance(seconds)
        self._now = before


@pytest.mark.parametrize("kind", [Suspended, Set])
async def test_after_the_send_window_of_either_clock_the_guard_lets_nothing_leave(kind: type[Suspended | Set]) -> None:
    clock = kind()

    @tool(effect="write", risk="medium", permission="w", timeout_seconds=10.0)
    async def guarded(word: str, context: placet.CallContext) -> str:
        """Sends only what its guard lets through."""
        clock.suspend(120)
        context.guard()
        acts.append(word)
        return word

    async with placet.open(
        tools=[guarded],
        store="memory:",
        clock=clock,
        recovery="manual",
        settings=placet.GateSettings(call_seconds=1000),
    ) as gate:
        outcome = await gate.submit(call("guarded", "c1"), principal=AGENT, run="r")

    assert isinstance(outcome, Failed)
    assert outcome.code == "not_sent"
    assert acts == []


async def test_a_fault_of_our_own_inside_a_read_closes_its_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(effect="read")
    async def look(word: str) -> str:
        """Look."""
        acts.append(word)
        return word

    def broken(*_: object) -> None:
        raise ZeroDivisionError("our own")

    monkeypatch.setattr(Results, "checked", broken)
    async with placet.open(tools=[look], store="memory:") as gate:
        outcome = await gate.submit(call("look", "c1"), principal=AGENT, run="r")
        kinds = [event.body async for event in gate.store.chained()]
        report = await gate.verify_audit()

    assert isinstance(outcome, Failed)
    assert (len(kinds), report.holds, report.unpaired) == (2, True, 0)
