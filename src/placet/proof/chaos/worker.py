"""One life of one worker: asks for operations, four at a time, until it is killed.

What it begins and what it hears goes into a file of its slot, which SIGKILL does not take back: the operating system
has the line once it is written.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from placet.bootstrap.addresses import MEMORY
from placet.bootstrap.opening import Opening, Recovery, around_store, open_gate
from placet.engine.gate import Gate
from placet.errors import PlacetError
from placet.model.outcome import AwaitingApproval, Outcome
from placet.model.principal import Principal
from placet.ports.store import Store
from placet.proof.chaos.plan import STEPS_BY_NAME, Life, Sabotage, Timing
from placet.proof.chaos.stores import sabotaged
from placet.proof.chaos.tools import BALANCE, TENANT, tools
from placet.testing.kill_points import Mortal

CALLERS = 4
AGENT = Principal.agent("agent", tenant=TENANT, roles=("operator",), scopes=("chaos.write",))
PERSON = Principal.person(
    "person", tenant=TENANT, roles=("admin",), scopes=("approvals.decide", "effects.reconcile", "effects.read")
)
LAST_WORDS = ("succeeded", "replayed", "failed", "refused", "timed_out")
"""Outcomes after which a caller does not ask again."""
_MIX = ("transfer", "top_up", "book", "shared", "refund", "stamp", BALANCE, "transfer")
_MIX_FOR = {"turn": ("top_up",), "ask": ("refund",), "answer": ("refund",), "record": (BALANCE, "transfer")}
_SECONDS_TO_ASK_AGAIN = 0.5


class Journal:
    """Lines of one slot; each is on its way to the disk when `write` returns."""

    def __init__(self, path: Path, life: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._life = life

    def write(self, what: str, **more: Any) -> None:
        os.write(self._descriptor, (json.dumps({"life": self._life, "what": what, **more}) + "\n").encode())


def live(life: Life) -> None:
    """Work until the end; there is no other way out but a fault, which is written down."""
    journal = Journal(Path(life.journal), life.number)
    try:
        asyncio.run(_work(life, journal))
    except PlacetError as fault:
        journal.write("fault", code=fault.code)
    except Exception as fault:
        journal.write("fault", code=type(fault).__name__)


def opening(life: Life, *, still: Any = lambda: None) -> Opening:
    """The gate of a life, whose store dies or lies as the life demands."""
    timing, sabotage = Timing(**life.timing), Sabotage(life.sabotage) if life.sabotage else None
    step = STEPS_BY_NAME.get(life.step)
    inside = step.inside if step is not None else None
    opened = open_gate(
        tools=tools(life.port, timing, dies=inside, sabotage=sabotage, still=still),
        store=life.store,
        key=life.key,
        settings=timing.settings(),
        recovery=Recovery.AUTOMATIC,
    )
    point = step.point(life.nth) if step is not None else None

    def around(store: Store) -> Store:
        broken = sabotaged(store, sabotage)
        mortal: Any = broken if point is None else Mortal(broken, point)
        wrapped: Store = mortal
        return wrapped

    return around_store(opened, around)


async def warm_up() -> None:
    """One call on a store that forgets, in a process that will fork."""
    opened = open_gate(tools=tools(0, Timing()), store=MEMORY, settings=Timing().settings(), recovery=Recovery.MANUAL)
    async with opened as gate:
        await ask(gate, "refund:0-0", run="run-0")


async def _work(life: Life, journal: Journal) -> None:
    began = time.monotonic()
    async with opening(life, still=lambda: journal.write("still")) as gate:
        journal.write("ready", seconds=time.monotonic() - began)
        operations = iter([(name, True) for name in life.open])
        fresh = _operations(life)
        parent = os.getppid()

        async def caller() -> None:
            while os.getppid() == parent:
                name, is_again = next(operations, None) or (next(fresh), False)
                if name.startswith(BALANCE):
                    await gate.submit(_proposal(name), principal=AGENT, run=f"run-{life.slot}")
                    continue
                if not is_again:
                    journal.write("begun", operation=name)
                outcome = await ask(gate, name, run=f"run-{life.slot}", seconds=_SECONDS_TO_ASK_AGAIN)
                journal.write("told", operation=name, status=outcome.status, code=outcome.code)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))


async def ask(gate: Gate, name: str, *, run: str, seconds: float | None = None) -> Outcome:
    """Ask for an operation; a person approves what waits for one, and it is asked again."""
    proposal = _proposal(name)
    outcome = await gate.submit(proposal, principal=AGENT, run=run, timeout_seconds=seconds)
    if isinstance(outcome, AwaitingApproval):
        view = await gate.desk.show(outcome.approval_id, by=PERSON)
        await gate.desk.approve(outcome.approval_id, digest=view.digest, by=PERSON)
        outcome = await gate.submit(proposal, principal=AGENT, run=run, timeout_seconds=seconds)
    return outcome


def _proposal(name: str) -> dict[str, Any]:
    tool, _, order = name.partition(":")
    return {"call_id": name, "tool": tool, "arguments": {"order": order}}


def _operations(life: Life) -> Iterator[str]:
    """New operations without end; some of those are asked for by other slots too."""
    number = life.first
    chance = random.Random(f"{life.seed}/{life.number}")
    mix = _mix(life)
    while True:
        kind = mix[chance.randrange(len(mix))]
        yield f"transfer:shared-{number // CALLERS}" if kind == "shared" else f"{kind}:{life.slot}-{number}"
        number += 1


def _mix(life: Life) -> tuple[str, ...]:
    """What a life asks for: something of everything, unless its step is come to by one kind only."""
    if life.sabotage == Sabotage.LATE_REMOTE:
        return ("book",)
    if life.sabotage == Sabotage.NO_GUARD:
        return ("transfer",)
    step = STEPS_BY_NAME.get(life.step)
    return _MIX if step is None else _MIX_FOR.get(step.verb, _MIX)
