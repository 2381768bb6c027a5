"""A workflow of reads, writes and a question, in processes that die after each of their durable steps.

Started by the fork server, so keep it importable on its own.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import placet
from placet import End, Failure, Move, Next, State, StepContext, Workflow, Workflows
from placet.bootstrap import stores
from placet.engine.gate import Gate
from placet.testing.kill_points import die
from tests.kill_points.actors import AGENT, LEASE_SECONDS, SETTINGS, SURVIVED, Place, approve, recovered, tools

DURABLE = frozenset({"begin_run", "take_run", "rest_run", "claim", "settle", "ask", "answer", "record"})


@dataclass(frozen=True)
class Order:
    order: str


async def look(inputs: Order, context: StepContext) -> Move:
    return Next("PAY", inputs if (await context.call("balance", {"order": inputs.order})).is_success else None)


async def pay(inputs: Order, context: StepContext) -> Move:
    await context.call("pay", {"order": inputs.order, "amount": 5})
    return Next("REFUND", inputs)


async def refund(inputs: Order, context: StepContext) -> Move:
    outcome = await context.call("refund", {"order": inputs.order, "amount": 5})
    return Next("DONE", inputs) if outcome.is_success else Next("NOT", inputs)


ORDER = Workflow(
    name="order",
    version="1",
    start="LOOK",
    states=(
        State(name="LOOK", inputs=Order, step=look, next=("PAY",), tools=("balance",), on_failure="FAILED"),
        State(name="PAY", inputs=Order, step=pay, next=("REFUND",), tools=("pay",), on_failure="FAILED"),
        State(name="REFUND", inputs=Order, step=refund, next=("DONE", "NOT"), tools=("refund",), on_failure="FAILED"),
        End(name="DONE", inputs=Order),
        End(name="NOT", inputs=Order),
        End(name="FAILED", inputs=Failure, is_failure=True),
    ),
)


class MortalAfter:
    """A store whose process dies when so many of its verbs are durable; the answer of the last reaches nobody."""

    def __init__(self, store: Any, steps: int) -> None:
        self._store = store
        self._left = steps

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._store, name)
        if name not in DURABLE:
            return inner

        async def fatal(*args: Any, **kwargs: Any) -> Any:
            answer = await inner(*args, **kwargs)
            self._left -= 1
            if self._left == 0:
                die()
            return answer

        return fatal


def drive_and_die(folder: str, store: str, key: str, steps: int, dies: str) -> None:
    """Start, drive, approve, drive, in a process that ends on its way; one that survives exits with 7."""
    original = stores.open_store

    def open_store(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        keys, opened = original(*args, **kwargs)
        return keys, MortalAfter(opened, steps) if steps else opened

    stores.open_store = open_store  # type: ignore[assignment]

    async def act() -> None:
        async with opening(Place(folder=Path(folder)), store, key, dies=dies) as gate:
            await finish(gate)

    asyncio.run(act())
    os._exit(SURVIVED)


def opening(place: Place, store: str, key: str, *, dies: str = "") -> Any:
    return placet.open(
        tools=[*tools(place.remote, dies=dies, timeout_seconds=0.4)[:2], tools(place.remote, timeout_seconds=0.4)[3]],
        store=store,
        key=key,
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
    )


async def finish(gate: Gate) -> placet.Ended:
    """Whatever others left: to the end, approving what is asked."""
    workflows = Workflows(gate, (ORDER,))
    driver = placet.InlineDriver(workflows)
    await workflows.start("order", run="r1", inputs=Order(order="o-1"), principal=AGENT)
    async with asyncio.timeout(60):
        while True:
            match progress := await driver.drive("acme", "r1"):
                case placet.Ended():
                    return progress
                case placet.Waiting(code="approval_required"):
                    await approve(gate, progress.approvals[0])
                case _:
                    await recovered(gate)
                    await asyncio.sleep(LEASE_SECONDS / 10)
