"""Processes are asked for before anything is claimed, and what is wrong with ours says nothing of the remote."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import AwaitingApproval, GateSettings, Principal, Refused, Succeeded
from placet.adapters.transports import wire
from placet.errors import MisuseError
from placet.model.outcome import Outcome
from placet.rules.breaker import CircuitState
from placet.testing import FakeClock
from tests.engine import process_tools
from tests.engine.conftest import STRANGER, OpenWorld, World

ONE = GateSettings(max_processes=1, spare_processes=0, grace_seconds=0.05)
THEIR_APPROVER = Principal.person("petra", tenant="globex", scopes=("approvals.decide",))
LONG = 20.0


async def has_begun(folder: Path, word: str) -> None:
    async with asyncio.timeout(LONG):
        while not (folder / f"{word}.begun").exists():
            await asyncio.sleep(0.01)


def go_on(folder: Path) -> None:
    (folder / "go").touch()


async def theirs(world: World, tool: str, word: str, folder: Path, **more: Any) -> Outcome:
    arguments = {"word": word, "folder": str(folder)}
    return await world.submit(tool, arguments, call_id=word, run="r2", principal=STRANGER, **more)


async def a_slow_call(world: World, folder: Path, word: str = "slow") -> asyncio.Task[Outcome]:
    """Tenant acme's call that holds the only process until it is told to go on."""
    running = asyncio.ensure_future(world.submit("slow_look", {"word": word, "folder": str(folder)}, call_id=word))
    await has_begun(folder, word)
    return running


def circuit(world: World, tool: str, tenant: str) -> Any:
    return world.gate._path._capacity._lanes[tool, tenant].circuit


def assert_all_given_back(world: World) -> None:
    capacity = world.gate._path._capacity
    assert {lane.running for lane in capacity._lanes.values()} <= {0}
    assert capacity._slots._held == {}
    assert capacity._slots._free == 1


async def test_a_process_that_another_tenant_holds_costs_no_approval_and_opens_no_breaker(
    open_world: OpenWorld, where: str, tmp_path: Path
) -> None:
    world = await open_world(process_tools.slow_look, process_tools.guarded, store=where, settings=ONE)
    for word in ("one", "two"):
        waiting = await theirs(world, "guarded", word, tmp_path)
        assert isinstance(waiting, AwaitingApproval)
        await world.approve(waiting, by=THEIR_APPROVER)
    running = await a_slow_call(world, tmp_path)

    refused = [await theirs(world, "guarded", word, tmp_path, timeout_seconds=20.02) for word in ("one", "two")]

    assert [(type(each), each.code, each.may_have_acted, each.retryable) for each in refused] == [
        (Refused, "too_many_running", False, True)
    ] * 2
    assert await world.effects() == ()
    assert world.events("approval_spent") == []
    assert circuit(world, "guarded", "globex").state is CircuitState.CLOSED
    go_on(tmp_path)
    assert (await running).is_success
    again = [await theirs(world, "guarded", word, tmp_path) for word in ("one", "two")]
    assert [type(each) for each in again] == [Succeeded] * 2, "the approvals were spent"
    assert_all_given_back(world)


async def test_who_has_patience_waits_for_a_process_and_one_tenant_goes_before_anothers_queue(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    world = await open_world(process_tools.slow_look, settings=ONE)
    running = await a_slow_call(world, tmp_path)
    words = [f"w{number}" for number in range(4)]
    queue = [
        asyncio.ensure_future(world.submit("slow_look", {"word": word, "folder": str(tmp_path)}, call_id=word))
        for word in words
    ]
    while world.gate._path._capacity._slots.waiting("acme") < 4:
        await asyncio.sleep(0)
    stranger = asyncio.ensure_future(theirs(world, "slow_look", "theirs", tmp_path))
    while not world.gate._path._capacity._slots.waiting("globex"):
        await asyncio.sleep(0)
    ends: list[str] = []
    for name, task in (("theirs", stranger), *zip(words, queue, strict=True)):
        task.add_done_callback(lambda _, name=name: ends.append(name))
    go_on(tmp_path)

    outcomes = await asyncio.gather(running, stranger, *queue)

    assert [outcome.code for outcome in outcomes] == ["succeeded"] * 6
    assert ends == ["w0", "theirs", "w1", "w2", "w3"]
    assert_all_given_back(world)


async def test_nobody_waits_for_a_process_where_nobody_may_wait(open_world: OpenWorld, tmp_path: Path) -> None:
    settings = GateSettings(max_processes=1, spare_processes=0, max_waiting=0)
    world = await open_world(process_tools.slow_look, settings=settings)
    running = await a_slow_call(world, tmp_path)

    assert (await theirs(world, "slow_look", "theirs", tmp_path)).code == "too_many_running"
    go_on(tmp_path)
    assert (await running).is_success
    assert_all_given_back(world)


async def test_no_more_of_a_tenant_wait_for_a_process_than_may_wait(open_world: OpenWorld, tmp_path: Path) -> None:
    settings = GateSettings(max_processes=1, spare_processes=0, max_waiting=1)
    world = await open_world(process_tools.slow_look, settings=settings)
    running = await a_slow_call(world, tmp_path)
    waiting = asyncio.ensure_future(theirs(world, "slow_look", "first", tmp_path))
    while not world.gate._path._capacity._slots.waiting("globex"):
        await asyncio.sleep(0)

    async with asyncio.timeout(LONG):
        second = await theirs(world, "slow_look", "second", tmp_path)
    assert (second.code, waiting.done()) == ("too_many_running", False)
    assert world.gate._path._capacity._lanes["slow_look", "globex"].waiting_for_slots == 1
    go_on(tmp_path)
    assert all(outcome.is_success for outcome in await asyncio.gather(running, waiting))
    assert_all_given_back(world)


async def test_a_caller_that_leaves_while_it_waits_for_a_process_holds_nothing(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    world = await open_world(process_tools.slow_look, settings=ONE)
    running = await a_slow_call(world, tmp_path)
    waiting = asyncio.ensure_future(theirs(world, "slow_look", "theirs", tmp_path))
    while not world.gate._path._capacity._slots.waiting("globex"):
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert world.completed()["detail"] == "too_many_running"
    go_on(tmp_path)
    assert (await running).is_success
    assert_all_given_back(world)


class Pausing(FakeClock):
    """A clock whose sleepers wait until the test lets them go on."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps, self.may_go = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.sleeps.set()
        await self.may_go.wait()


@pytest.mark.parametrize("in_time", [True, False])
async def test_a_pause_between_attempts_holds_no_process_and_a_retry_without_one_is_not_made(
    open_world: OpenWorld, tmp_path: Path, in_time: bool
) -> None:
    clock = Pausing()
    world = await open_world(process_tools.busy_once, process_tools.slow_look, settings=ONE, clock=clock)
    arguments = {"word": "x", "folder": str(tmp_path)}
    busy = asyncio.ensure_future(world.submit("busy_once", arguments, call_id="busy", timeout_seconds=22.0))
    await asyncio.wait_for(clock.sleeps.wait(), LONG)

    stranger = asyncio.ensure_future(theirs(world, "slow_look", "theirs", tmp_path))
    await has_begun(tmp_path, "theirs")
    if in_time:
        go_on(tmp_path)
        assert (await stranger).is_success
    else:
        clock.advance(1.99)  # just the time of one attempt, and a hundredth of a second, are left
    clock.may_go.set()
    outcome = await busy
    go_on(tmp_path)
    await stranger

    assert outcome.code == ("succeeded" if in_time else "remote_busy")
    assert world.attempts().count(2) == (2 if in_time else 0)
    assert len(circuit(world, "busy_once", "acme").faults_at) == (0 if in_time else 1)
    assert_all_given_back(world)


# ---------------------------------------------------------------- what says nothing of the remote


async def test_callers_without_patience_open_no_breaker_of_a_handler_that_was_never_called(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    world = await open_world(process_tools.slow_look, settings=ONE)
    arguments = {"folder": str(tmp_path)}
    hasty = [
        await world.submit("slow_look", arguments | {"word": f"h{n}"}, call_id=f"h{n}", timeout_seconds=0.02)
        for n in range(3)
    ]
    assert [outcome.code for outcome in hasty] == ["not_sent"] * 3
    go_on(tmp_path)
    assert (await world.submit("slow_look", arguments | {"word": "w"}, call_id="w")).is_success


async def test_callers_that_leave_before_the_handler_was_called_open_no_breaker(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    world = await open_world(process_tools.slow_look, settings=ONE)
    arguments = {"folder": str(tmp_path)}
    for number in range(3):
        word = f"g{number}"
        leaving = asyncio.ensure_future(world.submit("slow_look", arguments | {"word": word}, call_id=word))
        while not world.gate._path._capacity._slots._held:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert not (tmp_path / f"{word}.begun").exists()
    go_on(tmp_path)
    assert (await world.submit("slow_look", arguments | {"word": "w"}, call_id="w")).is_success


async def test_what_a_handler_itself_says_was_not_sent_speaks_of_the_remote(open_world: OpenWorld) -> None:
    world = await open_world(process_tools.says_not_sent, settings=ONE)
    outcomes = [await world.submit("says_not_sent", {"word": str(n)}, call_id=str(n)) for n in range(3)]
    assert [outcome.code for outcome in outcomes] == ["not_sent", "not_sent", "circuit_open"]


# ---------------------------------------------------------------- opening


async def test_a_gate_that_may_not_be_opened_here_makes_no_store_and_leaves_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "_is_an_attempt", True)
    before = set(threading.enumerate())

    with pytest.raises(MisuseError, match="gate with process handlers"):
        async with placet.open(tools=[process_tools.look], store=tmp_path / "placet.db"):
            pass

    assert list(tmp_path.iterdir()) == []
    assert set(threading.enumerate()) - before == set()
