"""An effect of several sub-effects is a run of several calls: each a ledger entry of its own, under the run's name."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pydantic
import pytest

import placet
from placet import End, Ended, Fail, Failure, Move, Next, State, StepContext, Succeeded, Workflow
from placet.agent import Agent, ScriptedModel, calls, text
from placet.errors import ModelError

AGENT = placet.Principal.agent(
    "agent", tenant="acme", roles=("operator",), scopes=("stock", "pay", "effects.read", "runs.read")
)
SETTINGS = placet.GateSettings(lease_seconds=0.3, pause_seconds=0.1, grace_seconds=0.1)


class Order(pydantic.BaseModel):
    """What is bought."""

    item: str


def tools(done: Path) -> list[placet.Tool]:
    """The two sub-effects; each writes down that it acted."""

    def acted(line: str) -> str:
        with done.open("a") as file:
            file.write(f"{line}\n")
        return line

    @placet.tool(effect="write", risk="low", permission="stock")
    async def reserve(item: str) -> str:
        """Reserve an item."""
        return acted(f"reserve {item}")

    @placet.tool(effect="write", risk="low", permission="pay")
    async def charge(item: str) -> str:
        """Charge for it."""
        return acted(f"charge {item}")

    return [reserve, charge]


def workflow(dies: bool) -> Workflow:
    """One state that does both. `dies`: whether the process is killed between the two."""

    async def buy(order: Order, context: StepContext) -> Move:
        first = await context.call("reserve", {"item": order.item}, name="reserved")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        second = await context.call("charge", {"item": order.item}, name="charged")
        match first, second:
            case (Succeeded() | placet.Replayed(), Succeeded() | placet.Replayed()):
                return Next("DONE", order)
            case _:
                return Fail("not_bought")

    return Workflow(
        name="order",
        version="1",
        start="BUY",
        states=(
            State(name="BUY", inputs=Order, step=buy, next=("DONE",), tools=("reserve", "charge"), on_failure="FAILED"),
            End(name="DONE", inputs=Order),
            End(name="FAILED", inputs=Failure, is_failure=True),
        ),
    )


async def bought(folder: Path, dies: bool) -> tuple[Any, Any]:
    """Begin the order, or go on with it; where it stands, and its run."""
    store = folder / "placet.db"
    async with placet.open(tools=tools(folder / "done.txt"), store=store, settings=SETTINGS, recovery="manual") as gate:
        workflows = placet.Workflows(gate, (workflow(dies),))
        await workflows.start("order", run="r1", inputs=Order(item="pen"), principal=AGENT)
        driver = placet.InlineDriver(workflows)
        progress: Any = None
        async with asyncio.timeout(60):
            while not isinstance(progress, Ended):
                progress = await driver.drive("acme", "r1")
        return progress, await gate.runs.show("r1", by=AGENT)


@pytest.mark.case("H03")
async def test_a_crash_between_two_sub_effects_repeats_neither_and_each_is_settled_alone(tmp_path: Path) -> None:
    program = (
        "import asyncio; from pathlib import Path; from tests.scenarios.test_several_effects import bought; "
        f"asyncio.run(bought(Path({str(tmp_path)!r}), True))"
    )
    died = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, timeout=120, check=False
    )
    assert died.returncode == -9, died.stderr.decode()
    assert (tmp_path / "done.txt").read_text() == "reserve pen\n"

    ended, run = await bought(tmp_path, False)

    assert (ended.state, ended.status) == ("DONE", "done")
    assert (tmp_path / "done.txt").read_text() == "reserve pen\ncharge pen\n"
    assert {(call.call_id, call.tool, call.state) for call in run.calls} == {
        ("reserved", "reserve", "committed"),
        ("charged", "charge", "committed"),
    }


@pytest.mark.case("H03")
async def test_a_model_that_fails_after_a_committed_call_repeats_it_in_no_retry_of_the_run(tmp_path: Path) -> None:
    done = tmp_path / "done.txt"
    async with placet.open(tools=tools(done), store=tmp_path / "placet.db") as gate:
        with pytest.raises(ModelError):  # as an endpoint that answers 500 after the first turn
            model = ScriptedModel([calls(("reserve", {"item": "pen"}))])
            await Agent(gate=gate, model=model, principal=AGENT, run="r1").work("Buy a pen.")
        both = [calls(("reserve", {"item": "pen"})), calls(("charge", {"item": "pen"})), text("Bought.")]
        ending = await Agent(gate=gate, model=ScriptedModel(both), principal=AGENT, run="r1").work("Buy a pen.")

    assert (ending.words, done.read_text()) == ("Bought.", "reserve pen\ncharge pen\n")
