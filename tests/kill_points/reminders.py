"""Workers that remind in processes of their own, and die on the way. Started by the fork server, so importable."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path

import placet
from placet import AskReminders, AskRule, AskRules, Matrix
from placet.bootstrap.opening import Opening
from placet.engine.gate import Gate
from placet.testing.kill_points import KillPoint, SentinelRemote
from tests.kill_points.actors import AGENT, SETTINGS, SURVIVED, mortal_stores, proposal, tools

AT_ONCE = AskReminders(remind_after_seconds=(0.001,), escalate_after_seconds=3_600.0)
POLICY = Matrix(asks=AskRules(rules=(AskRule(name="refunds", tools=frozenset({"refund"}), reminders=AT_ONCE),)))


def open_gate(store: str, folder: Path) -> Opening:
    return placet.open(
        tools=tools(SentinelRemote(folder / "remote.jsonl"), timeout_seconds=20.0),
        store=store,
        key=folder / "placet.key",
        settings=SETTINGS,
        policy=POLICY,
        recovery=placet.Recovery.MANUAL,
    )


async def ask(store: str, folder: Path, count: int) -> None:
    """So many approvals are asked for; all of them are due from now on."""
    async with open_gate(store, folder) as gate:
        for number in range(count):
            outcome = await gate.submit(proposal("refund", order=f"o-{number}"), principal=AGENT, run=f"run-{number}")
            assert outcome.code == "approval_required"


def remind_and_die(store: str, folder: str, point: KillPoint) -> None:
    """One round in a process that ends on the way; one that survives exits with 7."""

    async def act() -> None:
        with mortal_stores(point):
            async with open_gate(store, Path(folder)) as gate:
                await gate.reminding.remind_due()

    asyncio.run(act())
    os._exit(SURVIVED)


def remind(store: str, folder: str) -> None:
    """Rounds in a process that nobody stops, until nothing is due."""

    async def act() -> None:
        async with open_gate(store, Path(folder)) as gate:
            while await gate.store.due_reminders(limit=1):
                await gate.reminding.remind_due()

    asyncio.run(act())


async def times_told(gate: Gate) -> Counter[str]:
    """How many events there are of each question."""
    events = [json.loads(event.body) async for event in gate.store.chained()]
    return Counter(event["approval_id"] for event in events if event["kind"] == "approval_reminded")
