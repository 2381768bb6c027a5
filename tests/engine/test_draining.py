"""A gate that is told to end takes nothing more, lets those inside end, and lets go of the others as a kill would."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import placet
from placet.engine.drain import DrainReport
from placet.errors import MisuseError, PlacetError, StoreUnavailable
from placet.model.effect import EffectState
from placet.model.outcome import NotRun, Refused, Succeeded
from placet.testing import FakeClock
from tests.engine.conftest import OPERATOR, OpenWorld, Spy, World, acting, looked_up, written


class Stays:
    """A handler that is inside until it may go."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.may_go = asyncio.Event()

    async def __call__(self) -> None:
        self.has_begun.set()
        await self.may_go.wait()


async def inside(world: World, stays: Stays) -> asyncio.Future[Any]:
    """Somebody whose handler has begun."""
    submitting = asyncio.ensure_future(world.submit("act"))
    async with asyncio.timeout(30):
        await stays.has_begun.wait()
    return submitting


@pytest.mark.parametrize("tool", ["look", "write", "nothing of the kind"])
async def test_what_comes_while_it_drains_is_refused_on_record_and_runs_nothing(
    open_world: OpenWorld, spy: Spy, where: str, tool: str
) -> None:
    world = await open_world(looked_up(spy), written(spy), store=where)
    assert await world.gate.drain(1) == DrainReport(left=0)

    outcome = await world.submit(tool, {"word": "x"}, call_id="late")

    assert type(outcome) is Refused
    assert (outcome.code, outcome.retryable, outcome.may_have_acted) == ("draining", True, False)
    name = tool if tool in ("look", "write") else "unknown"
    assert (outcome.call_id, outcome.tool) == ("late", name)
    assert (spy.count, await world.effects()) == (0, ())
    assert world.words() == ["started", "denied"]
    told = world.completed()
    assert (told["detail"], told["call_id"], told["subject"]) == ("draining", "late", OPERATOR.subject)
    assert told["tool"] == name


async def test_a_refusal_that_the_store_does_not_take_is_a_refusal_all_the_same(
    open_world: OpenWorld, spy: Spy
) -> None:
    world = await open_world(written(spy))
    await world.gate.drain(1)

    async def down(*args: Any, **more: Any) -> Any:
        raise StoreUnavailable()

    world.gate.store.record = down  # type: ignore[method-assign]
    outcome = await world.submit("write", {"word": "x"})
    del world.gate.store.record

    assert (type(outcome), outcome.code) == (Refused, "draining")
    assert (spy.count, world.words()) == (0, [])


async def test_every_call_of_a_batch_is_turned_away(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy))
    await world.gate.drain(1)

    batch = [{"call_id": f"c{number}", "tool": "write", "arguments": {"word": "x"}} for number in range(3)]
    outcomes = await world.gate.submit_all(batch, principal=OPERATOR, run="r1")
    stopped = await world.gate.submit_until_failure(batch, principal=OPERATOR, run="r1")

    assert [outcome.code for outcome in outcomes] == ["draining"] * 3
    assert [type(outcome) for outcome in stopped] == [Refused, NotRun, NotRun]
    assert spy.count == 0


async def test_whoever_is_inside_ends_and_is_recorded(open_world: OpenWorld, where: str) -> None:
    stays = Stays()
    world = await open_world(acting(stays), store=where)
    submitting = await inside(world, stays)
    assert not world.gate.is_draining

    draining = asyncio.ensure_future(world.gate.drain(30))
    while not world.gate.is_draining:
        await asyncio.sleep(0)
    assert (await world.submit("act", call_id="late")).code == "draining"
    assert not draining.done()
    stays.may_go.set()

    assert await draining == DrainReport(left=0)
    assert type(await submitting) is Succeeded
    assert (await world.effect()).state is EffectState.COMMITTED
    assert (await world.gate.verify_audit()).holds, "the store still serves"


async def test_whoever_does_not_end_in_time_is_let_go_and_leaves_what_a_killed_process_leaves(tmp_path: Any) -> None:
    stays, clock, store = Stays(), FakeClock(), tmp_path / "placet.db"
    tool = acting(stays)
    manual = placet.Recovery.MANUAL
    async with placet.open(tools=[tool], store=store, clock=clock, recovery=manual) as gate:
        submitting = await inside(World(gate=gate, clock=clock), stays)

        assert await gate.drain(0.01) == DrainReport(left=1)

        with pytest.raises(PlacetError):  # nothing more is written for it
            await gate.store.now()
            await gate.store.record(())
    with pytest.raises(asyncio.CancelledError):
        await submitting

    async with placet.open(tools=[tool], store=store, clock=clock, recovery=manual) as gate:
        world = World(gate=gate, clock=clock)
        assert ((await world.effect()).state, world.words()) == (EffectState.DISPATCHED, ["started"])
        clock.advance(120)
        assert (await gate.reconciler.recover()).taken_over == 1
        assert sorted(world.words()) == ["started", "unknown"]  # of two writers, in no order


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "5", None, True], ids=repr)
async def test_a_time_that_is_none_drains_nothing(open_world: OpenWorld, spy: Spy, seconds: Any) -> None:
    world = await open_world(written(spy))

    with pytest.raises(MisuseError, match="seconds="):
        await world.gate.drain(seconds)

    assert not world.gate.is_draining
    assert type(await world.submit("write", {"word": "x"})) is Succeeded
