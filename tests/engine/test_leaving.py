"""A caller that leaves: its cancellation is raised out of the gate, so that nothing of its own goes on after it."""

from __future__ import annotations

import asyncio

import pytest

from placet.model.effect import EffectState
from tests.engine.conftest import OPERATOR, OpenWorld, World, acting


@pytest.mark.parametrize("entrance", ["submit", "submit_all", "submit_until_failure"])
async def test_a_caller_that_is_cancelled_does_nothing_more_once_its_attempt_is_closed(
    open_world: OpenWorld, where: str, entrance: str
) -> None:
    has_begun, went_on = asyncio.Event(), list[object]()

    async def stays() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    world = await open_world(acting(stays), store=where)
    proposal = {"call_id": "c1", "tool": "act", "arguments": {}}

    async def caller() -> None:
        submit = getattr(world.gate, entrance)
        went_on.append(await submit(proposal if entrance == "submit" else [proposal], principal=OPERATOR, run="r1"))

    calling = asyncio.ensure_future(caller())
    async with asyncio.timeout(30):
        await has_begun.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert went_on == []
    await is_closed(world)


async def is_closed(world: World) -> None:
    row = await world.effect()
    assert (row.state, row.reason, world.words()) == (EffectState.UNKNOWN, "caller_left", ["started", "error"])
