"""The tools a run of a workflow has: those of its definition, within those that whoever began it allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet import Ended, Fail, Move, Next, RunLimits, StepContext, Waiting
from placet.errors import MisuseError, RunConflict
from placet.model.outcome import AwaitingApproval
from tests.workflows.conftest import OpenShop, Shop
from tests.workflows.order import AGENT, BOSS, Order, with_step


async def _only_looks(inputs: Order, context: StepContext) -> Move:
    outcome = await context.call("stock.look", {"word": inputs.order})
    return Next("CONFIRM", inputs) if outcome.is_success else Fail(outcome.code)


async def _sends(inputs: Order, context: StepContext) -> Move:
    outcome = await context.call("ship", {"word": inputs.order})
    return Next("SHIP", inputs) if outcome.is_success else Fail(outcome.code)


def _without_ship() -> Any:
    workflow = with_step("SHIP", _only_looks, tools=("stock.look",))
    states = tuple(
        replace(state, tools=("stock.look",)) if state.name == "REFUND" else state for state in workflow.states
    )
    return replace(workflow, states=states)


async def direct(shop: Shop, tool: str, **arguments: Any) -> str:
    """The same principal, past its workflow."""
    call = {"call_id": f"direct-{tool}", "tool": tool, "arguments": arguments}
    return (await shop.world.gate.submit(call, principal=AGENT, run="r1")).code


@pytest.mark.parametrize(
    ("limits", "code"),
    [(None, "succeeded"), (RunLimits(allowed_tools=frozenset({"stock.look", "pay"})), "tool_not_in_run")],
    ids=["all of the workflow's", "fewer"],
)
async def test_whoever_begins_a_run_may_allow_fewer_tools_than_its_workflow_has(
    open_shop: OpenShop, limits: RunLimits | None, code: str
) -> None:
    shop = await open_shop()
    await shop.start(limits=limits)

    assert await direct(shop, "ship", word="x") == code
    shown = await shop.world.gate.runs.show("r1", by=BOSS)
    assert shown.allowed_tools is not None
    assert ("ship" in shown.allowed_tools) is (code == "succeeded")


async def test_no_limits_let_a_tool_in_that_the_workflow_does_not_have(open_shop: OpenShop) -> None:
    shop = await open_shop(_without_ship())
    await shop.start()
    assert await direct(shop, "ship", word="x") == "tool_not_in_run"

    await shop.world.gate.runs.pause("r1", by=BOSS)
    everything = frozenset({"ship", "pay", "stock.look"})
    wide = RunLimits(allowed_tools=everything, workflow_tools=everything)
    await shop.world.gate.runs.resume("r1", by=BOSS, limits=wide)

    assert await direct(shop, "ship", word="x") == "tool_not_in_run"
    with pytest.raises(MisuseError):
        await shop.world.gate.runs.begin("r2", by=AGENT, limits=wide)


async def test_tools_that_were_allowed_stay_what_they_were_where_new_limits_name_none(open_shop: OpenShop) -> None:
    shop = await open_shop()
    await shop.start(limits=RunLimits(allowed_tools=frozenset({"stock.look", "pay"})))
    await shop.world.gate.runs.pause("r1", by=BOSS)

    await shop.world.gate.runs.resume("r1", by=BOSS, limits=RunLimits(max_steps=99))

    assert await direct(shop, "ship", word="x") == "tool_not_in_run"


@pytest.mark.case("G04")
@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
@pytest.mark.parametrize("allowed", [None, frozenset({"stock.look", "pay"})], ids=["all", "fewer"])
async def test_a_run_that_goes_on_in_another_version_has_that_ones_tools(
    open_shop: OpenShop, where: str, allowed: frozenset[str] | None
) -> None:
    before = await open_shop(_without_ship(), store=where)
    limits = None if allowed is None else RunLimits(allowed_tools=allowed)
    await before.start(limits=limits)
    waits = await before.drive()
    await before.approve(waits)
    newer = replace(with_step("PAY", _sends, tools=("ship",)), version="2", accepts={"1": lambda rest: rest})
    after = await open_shop(newer, store=where, clock=before.world.clock, spies=before, seed=1)

    ended = await after.drive()

    assert isinstance(ended, Ended)
    if allowed is None:
        assert (ended.status, after.shipments.count) == ("done", 2 + 1)
    else:
        assert (ended.code, after.shipments.count) == ("tool_not_in_run", 0)
    moved = [event for event in after.world.events("run_moved") if "from_version:1" in event["reasons"]]
    assert [(event["detail"], "version:2" in event["reasons"]) for event in moved] == [("CONFIRM", True)]
    again = await after.start(limits=limits)  # and a starter that tries again finds it
    assert again == ended


async def test_limits_under_which_a_call_takes_something_else_wait_for_those_under_way(open_shop: OpenShop) -> None:
    refused: list[str] = []

    async def paused_in_between(inputs: Order, context: StepContext) -> Move:
        outcome = await context.propose("pay", {"word": inputs.order, "count": 1})
        assert isinstance(outcome, AwaitingApproval)
        await context.call("ship", {"word": "x"})
        return Fail("enough")

    shop = await open_shop(with_step("CHECK", paused_in_between, tools=("pay", "ship")))

    async def meanwhile() -> None:
        await shop.world.gate.runs.pause("r1", by=BOSS)
        try:
            await shop.world.gate.runs.resume("r1", by=BOSS, limits=RunLimits(max_cost=9, costs={"ship": 2}))
        except RunConflict as conflict:
            refused.append(conflict.code)
        await shop.world.gate.runs.resume("r1", by=BOSS, limits=RunLimits(max_cost=99, costs={"ship": 1}))

    shop.shipments.meanwhile = meanwhile  # type: ignore[attr-defined]
    await shop.start(limits=RunLimits(max_cost=9, costs={"ship": 1}))
    assert not isinstance(await shop.drive(), Waiting)
    assert refused == ["calls_under_way"]
