"""A task that takes longer than a call may: its state is asked for until it is known, and it is never begun twice."""

from __future__ import annotations

from typing import Any

import pytest

import placet
from placet import End, Ended, Fail, Failure, InlineDriver, Move, Next, State, StepContext, Waiting, Workflow, Workflows
from tests.engine.conftest import SCOPE, OpenWorld
from tests.workflows.order import AGENT, Order


class Printer:
    """A remote that begins a job when it is asked to, answers too late, and says of the job how far it is."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.asked = 0
        self.is_done = False

    def tools(self) -> list[Any]:
        async def status(context: placet.ProbeContext) -> placet.Found | placet.CannotTell:
            self.asked += 1
            return placet.Found(result="42 pages") if self.is_done else placet.CannotTell()

        @placet.tool(
            effect="write",
            risk="medium",
            permission=SCOPE,
            name="print",
            probe=status,
            remote=placet.Remote(arrival_bound_seconds=1.0),
        )
        async def print_(order: str, call: placet.CallContext) -> str:
            self.begun.append(call.operation_key)
            raise ConnectionError("no answer while it prints")

        return [print_]


async def prints(inputs: Order, context: StepContext) -> Move:
    printed = await context.call("print", {"order": inputs.order})
    is_printed = printed.is_success and printed.result == "42 pages"  # type: ignore[union-attr]
    return Next("DONE", inputs) if is_printed else Fail("not_printed")


PRINT = Workflow(
    name="print",
    version="1",
    start="PRINT",
    states=(
        State(name="PRINT", inputs=Order, step=prints, next=("DONE",), tools=("print",), on_failure="FAILED"),
        End(name="DONE", inputs=Order),
        End(name="FAILED", inputs=Failure, is_failure=True),
    ),
)


@pytest.mark.req("C048", "C047")
@pytest.mark.case("G02")
async def test_a_long_task_is_asked_how_far_it_is_and_not_begun_again(open_world: OpenWorld) -> None:
    """The run waits meanwhile, however often it is looked at; once the job is done it goes on with its result."""
    printer = Printer()
    world = await open_world(*printer.tools())
    workflows = Workflows(world.gate, (PRINT,))
    driver = InlineDriver(workflows)
    await workflows.start("print", run="r1", inputs=Order(order="o-1", amount=1), principal=AGENT)

    for looks in range(4):
        waits = await driver.drive("acme", "r1")
        assert isinstance(waits, Waiting) and (waits.state, waits.code) == ("PRINT", "effect_unknown")
        assert (len(printer.begun), printer.asked) == (1, looks)
        world.clock.advance(3_600)
        await world.gate.reconciler.recover()

    printer.is_done = True
    world.clock.advance(3_600)
    await world.gate.reconciler.recover()
    world.clock.advance(3_600)
    ended = await driver.drive("acme", "r1")

    assert isinstance(ended, Ended) and ended.status == "done"
    assert (len(printer.begun), printer.asked) == (1, 5)
