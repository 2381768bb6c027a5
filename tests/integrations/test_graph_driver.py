"""LangGraph: older checkpoints, forks and threads of nobody all come to where the store says the run is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from langgraph.types import Command

from placet.engine.workflow import Workflows
from placet.errors import MisuseError
from placet.integrations.langgraph import GraphDriver
from placet.model.progress import Ended
from placet.model.workflow import End, Failure, Move, Next, State, StepContext, Workflow
from tests.integrations.shop import (
    AGENT,
    Shop,
    begun,
    carrying,
    decided,
    is_asking,
    is_over,
    open_gate,
    serving,
    until,
    workflow,
)

ShopOf = Callable[[str], Shop]


async def test_travelling_back_in_time_acts_on_nothing_again(shop_of: ShopOf) -> None:
    shop = shop_of("langgraph-sqlite")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            await until(shop, workflows, is_asking)
            await decided(gate)
            ended = await until(shop, workflows, is_over)
            config = driver.config("acme", shop.run)
            before = [each async for each in driver.graph.aget_state_history(config)]
            for each in before:
                forked = await driver.graph.ainvoke(None, each.config)
                if (await driver.graph.aget_state(config)).interrupts:
                    forked = await driver.graph.ainvoke(Command(resume="approved"), config)
                assert forked["answer"]["progress"] == "ended"
    assert isinstance(ended, Ended) and len(before) > 5
    assert shop.acted() == {"refund": 1, "note": 1}


async def test_a_thread_that_is_resumed_in_the_middle_of_nothing_is_looked_at(shop_of: ShopOf) -> None:
    """Whoever has the checkpointer can name any run; what comes of it is what the store says."""
    shop = shop_of("langgraph-sqlite")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver:
            await begun(shop, driver)
            strange: Any = {"configurable": {"thread_id": "strange"}}
            told = await driver.graph.ainvoke({"tenant": "acme", "run_id": shop.run}, strange)
            assert told["answer"]["code"] == "approval_required"
            nobodys = await driver.graph.ainvoke({"tenant": "acme", "run_id": "nobody"}, strange)
            assert nobodys["answer"] == {"progress": "fault", "code": "not_found"}
            again = await driver.graph.ainvoke(Command(resume="approved"), strange)
            assert (again["answer"]["code"], again["in_vain"]) == ("not_found", 2)
    assert shop.acted() == {"refund": 0, "note": 0}


@dataclass(frozen=True, kw_only=True)
class Count:
    left: int


async def count(inputs: Count, context: StepContext) -> Move:
    return Next("COUNT", Count(left=inputs.left - 1)) if inputs.left else Next("DONE")


async def test_a_run_of_many_states_is_no_recursion(shop_of: ShopOf) -> None:
    counting = Workflow(
        name="count",
        version="1",
        start="COUNT",
        states=(
            State(name="COUNT", inputs=Count, step=count, next=("COUNT", "DONE"), on_failure="FAILED"),
            End(name="DONE", inputs=type(None)),
            End(name="FAILED", inputs=Failure, is_failure=True),
        ),
    )
    shop = shop_of("langgraph-sqlite")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (counting,))
        async with carrying(shop, workflows) as driver:
            ended = await driver.start("count", run=shop.run, inputs=Count(left=60), principal=AGENT)
    assert isinstance(ended, Ended) and ended.status == "done"


async def test_without_a_checkpointer_there_is_no_driver(shop_of: ShopOf) -> None:
    shop = shop_of("langgraph-sqlite")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        nothing: Any = None
        with pytest.raises(MisuseError):
            GraphDriver(workflows, checkpointer=nothing)
        async with carrying(shop, workflows) as driver:
            checkpointer = driver.graph.checkpointer
        with pytest.raises(MisuseError):
            GraphDriver(workflows, checkpointer=checkpointer, look_seconds=0.0)
