"""People who vote in processes of their own, on any store. Started by the fork server, so keep it importable."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import placet
from placet.bootstrap.opening import Opening
from placet.engine.gate import Gate
from placet.errors import DecisionRefused, StoreUnavailable
from placet.model.outcome import AwaitingApproval
from placet.testing.kill_points import KillPoint, SentinelRemote
from tests.kill_points.actors import AGENT, SETTINGS, SURVIVED, mortal_stores, proposal, tools

NEEDED = 3
POLICY = placet.Matrix(
    asks=placet.AskRules(
        rules=(
            placet.AskRule(
                name="three_people",
                tools=frozenset({"refund"}),
                needs=placet.RequirementKind.QUORUM,
                votes=NEEDED,
                usable_for_seconds=3_600,
            ),
        )
    )
)


def a_person(name: str) -> placet.Principal:
    return placet.Principal.person(name, tenant="acme", scopes=["approvals.decide"])


def open_gate(store: str, folder: Path) -> Opening:
    return placet.open(
        tools=tools(SentinelRemote(folder / "remote.jsonl"), timeout_seconds=20.0),
        store=store,
        key=folder / "placet.key",
        policy=POLICY,
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
    )


async def ask(gate: Gate) -> placet.Outcome:
    return await gate.submit(proposal("refund"), principal=AGENT, run="run-1")


async def asked(store: str, folder: Path) -> str:
    """The id of a question that waits for three people."""
    async with open_gate(store, folder) as gate:
        waiting = await ask(gate)
        assert isinstance(waiting, AwaitingApproval)
        return waiting.approval_id


async def vote(gate: Gate, approval_id: str, name: str) -> str:
    """Vote; the state of the question afterwards, or why the vote was refused."""
    person = a_person(name)
    while True:
        try:
            view = await gate.desk.show(approval_id, by=person)
            return (await gate.desk.approve(approval_id, digest=view.digest, by=person)).state.value
        except DecisionRefused as refusal:
            return refusal.code
        except StoreUnavailable:  # somebody who stands still holds the row, and nothing was changed
            continue


def vote_and_die(store: str, folder: str, approval_id: str, name: str, point: KillPoint) -> None:
    """Vote in a process that ends on the way; one that survives exits with 7."""

    async def act() -> None:
        with mortal_stores(point):
            async with open_gate(store, Path(folder)) as gate:
                await vote(gate, approval_id, name)

    asyncio.run(act())
    os._exit(SURVIVED)


EDITOR = placet.Principal.person("edith", tenant="acme", roles=["operator"], scopes=["approvals.decide", "pay"])
EDITED = {"order": "o-1", "amount": 3}


async def edit(gate: Gate, approval_id: str) -> str:
    """Change the amount; the id of the question that was made, or why none was."""
    try:
        view = await gate.desk.show(approval_id, by=EDITOR)
        made = await gate.desk.edit(approval_id, digest=view.digest, arguments=EDITED, by=EDITOR)
    except DecisionRefused as refusal:
        return refusal.code
    return made.approval_id


def edit_and_die(store: str, folder: str, approval_id: str, point: KillPoint) -> None:
    """Edit in a process that ends on the way; one that survives exits with 7."""

    async def act() -> None:
        with mortal_stores(point):
            async with open_gate(store, Path(folder)) as gate:
                await edit(gate, approval_id)

    asyncio.run(act())
    os._exit(SURVIVED)


def race_to_vote(store: str, folder: str, barrier: Any, name: str, approval_id: str, voters: list[str]) -> None:
    """Vote for everybody at once, together with the other processes, and write down what each was told."""

    async def act() -> dict[str, str]:
        async with open_gate(store, Path(folder)) as gate:
            barrier.wait(timeout=30)
            told = await asyncio.gather(*(vote(gate, approval_id, voter) for voter in voters))
            return dict(zip(voters, told, strict=True))

    Path(folder, f"votes-{name}.json").write_text(json.dumps(asyncio.run(act())))


async def assert_three_people_and_one_effect(store: str, folder: Path, approval_id: str) -> None:
    """Three votes made it, each signed and none lost; it ran once."""
    async with open_gate(store, folder) as gate:
        first, again = await ask(gate), await ask(gate)
        assert (first.code, again.code) == ("succeeded", "replayed")
        view = await gate.desk.show(approval_id, by=a_person("anybody"))
        assert (view.state.value, len({each.voter for each in view.votes})) == ("spent", NEEDED)
        kinds = [json.loads(event.body)["kind"] async for event in gate.store.chained()]
        assert [kinds.count(kind) for kind in ("approval_voted", "approval_approved", "approval_spent")] == [3, 1, 1]
        assert (await gate.verify_audit()).holds
    assert sum(SentinelRemote(folder / "remote.jsonl").effects().values()) == 1
