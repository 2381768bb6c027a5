"""How many runs may wait, and how fast they go on once people have answered.

python scripts/paused_runs.py STORE [--waiting 10000] [--resumed 1000]

STORE is a SQLite file that is not there yet, or the URL of an empty PostgreSQL database. Prints what so many paused
runs cost a process that serves (memory, processor time and statements while nothing happens), and how many go on in a
minute when all of the chosen ones are approved at once.
"""

# ruff: noqa: TID251, S101 - it measures, and stops where what it measures is not so

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import time
from contextlib import suppress
from dataclasses import dataclass

import placet
from placet import End, Failure, InlineDriver, Move, Next, Principal, State, StepContext, Workflow, Workflows

AGENT = Principal.agent("agent-1", tenant="acme", roles=("operator",), scopes=("pay",))
PERSON = Principal.person("mara", tenant="acme", roles=("admin",), scopes=("approvals.decide",))
_IDLE_SECONDS = 5.0


@dataclass(frozen=True)
class Order:
    order: str


@placet.tool(effect="write", risk="medium", permission="pay", approval="always")
async def pay(order: str) -> str:
    """Pay an order."""
    return order


async def paying(inputs: Order, context: StepContext) -> Move:
    outcome = await context.call("pay", {"order": inputs.order})
    return Next("PAID" if outcome.is_success else "NOT_PAID", inputs)


WORKFLOW = Workflow(
    name="order",
    version="1",
    start="PAY",
    states=(
        State(name="PAY", inputs=Order, step=paying, next=("PAID", "NOT_PAID"), tools=("pay",), on_failure="FAILED"),
        End(name="PAID", inputs=Order),
        End(name="NOT_PAID", inputs=Order),
        End(name="FAILED", inputs=Failure, is_failure=True),
    ),
)


async def waiting(workflows: Workflows, count: int) -> None:
    """So many runs that wait for a person."""
    driver = InlineDriver(workflows)

    async def one(number: int) -> None:
        run = f"run-{number:06d}"
        await workflows.start("order", run=run, inputs=Order(order=run), principal=AGENT)
        await driver.drive("acme", run)

    for first in range(0, count, 64):
        await asyncio.gather(*(one(number) for number in range(first, min(first + 64, count))))


async def prepared(store: str, count: int) -> float:
    """So many runs that wait for a person; how many of them began in a minute."""
    async with placet.open(tools=[pay], store=store, key=_key_of(store)) as gate:
        began = time.perf_counter()
        await waiting(Workflows(gate, (WORKFLOW,)), count)
        return count / (time.perf_counter() - began) * 60


async def served(store: str, *, resumed: int) -> dict[str, float]:
    """What they cost while nothing happens, and how many of them go on in a minute."""
    async with placet.open(tools=[pay], store=store, key=_key_of(store)) as gate:
        workflows = Workflows(gate, (WORKFLOW,))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        serving = asyncio.ensure_future(InlineDriver(workflows).serve())
        await asyncio.sleep(1.0)
        used, at = time.process_time(), time.perf_counter()
        await asyncio.sleep(_IDLE_SECONDS)
        idle = (time.process_time() - used) / (time.perf_counter() - at)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        waits = await gate.desk.listed(by=PERSON, limit=resumed)
        for view in waits:
            await gate.desk.approve(view.approval_id, digest=view.digest, by=PERSON)
        driver = InlineDriver(workflows)
        began = time.perf_counter()
        while await driver.catch_up():
            pass
        seconds = time.perf_counter() - began
        ended = [await gate.runs.show(view.run_id, by=AGENT) for view in waits[:3]]
        assert all(view.status is placet.RunStatus.DONE for view in ended)
    return {
        "idle_processor_share": round(idle, 4),
        "memory_growth_mib_while_serving": round(grown / 1024, 1),
        "resumed": len(waits),
        "resumed_per_minute": round(len(waits) / seconds * 60),
    }


def _key_of(store: str) -> str:
    """Beside a file; in this folder for a database."""
    return f"{store}.key" if "://" not in store else "paused-runs.key"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--resumed", type=int, default=1_000)
    said = parser.parse_args()
    started = asyncio.run(prepared(said.store, said.waiting))
    numbers = asyncio.run(served(said.store, resumed=said.resumed))
    print(json.dumps({"waiting": said.waiting, "started_per_minute": round(started), **numbers}, indent=2))
