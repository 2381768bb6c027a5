"""Who gives and uses standing grants in processes of their own, on any store. Keep it importable on its own."""

from __future__ import annotations

import asyncio
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import placet
from placet.bootstrap.opening import Opening
from placet.engine.gate import Gate
from placet.engine.granting import GrantWish
from placet.model.decision import GrantTerms
from placet.testing.kill_points import KillPoint, SentinelRemote
from tests.kill_points.actors import (
    AGENT,
    PERSON,
    SETTINGS,
    SURVIVED,
    SharedTime,
    mortal_stores,
    proposal,
    served,
    tools,
)

USES = 3
POLICY = placet.Matrix(
    asks=placet.AskRules(rules=(placet.AskRule(name="small", grants=GrantTerms(max_uses=USES, max_seconds=3_600.0)),))
)
WISH = GrantWish(
    tool="refund",
    subjects=(AGENT.subject,),
    limits={"order": "any", "amount": {"at_most": 10}},
    max_uses=USES,
    seconds=3_600.0,
)


def open_gate(store: str, folder: Path) -> Opening:
    return placet.open(
        tools=tools(SentinelRemote(folder / "remote.jsonl"), timeout_seconds=20.0),
        store=store,
        key=folder / "placet.key",
        policy=POLICY,
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
        clock=SharedTime(folder),
    )


async def give(gate: Gate) -> str:
    draft = await gate.grants.draft(WISH, by=PERSON)
    return (await gate.grants.give(WISH, digest=draft.digest, by=PERSON)).grant_id


async def given(store: str, folder: Path) -> str:
    async with open_gate(store, folder) as gate:
        return await give(gate)


async def refund(gate: Gate, call_id: str) -> placet.Outcome:
    return await gate.submit(proposal("refund", call_id=call_id), principal=AGENT, run="run-1")


def act_and_die(store: str, folder: str, what: str, grant_id: str, point: KillPoint) -> None:
    """Give, use or revoke a grant in a process that ends on the way; one that survives exits with 7."""

    async def act() -> None:
        with mortal_stores(point):
            async with open_gate(store, Path(folder)) as gate:
                if what == "give":
                    await give(gate)
                elif what == "use":
                    await refund(gate, "call-1")
                else:
                    await gate.grants.revoke(grant_id, by=PERSON)

    asyncio.run(act())
    os._exit(SURVIVED)


def race_to_use(store: str, folder: str, barrier: Any, name: str, calls: int) -> None:
    """Ask for several different calls at once, together with the other processes, and write down what each was told."""

    async def act() -> list[str]:
        async with open_gate(store, Path(folder)) as gate:
            barrier.wait(timeout=30)
            outcomes = await asyncio.gather(*(served(partial(refund, gate, f"call-{name}-{n}")) for n in range(calls)))
            return [outcome.code for outcome in outcomes]

    Path(folder, f"used-{name}.json").write_text(json.dumps(asyncio.run(act())))


async def race(store: str, folder: Path, start: Any, ended: Any, barrier: Any) -> None:
    """Two processes, eight calls, three uses."""
    grant_id = await given(store, folder)
    processes = [start(race_to_use, store, str(folder), barrier, str(number), 4) for number in range(2)]
    assert [ended(process, within=60.0) for process in processes] == [0, 0]

    told = [code for file in folder.glob("used-*.json") for code in json.loads(file.read_text())]
    assert sorted(told) == ["approval_required"] * 5 + ["succeeded"] * USES
    assert sum(SentinelRemote(folder / "remote.jsonl").effects().values()) == USES
    async with open_gate(store, folder) as gate:
        view = await gate.grants.show(grant_id, by=PERSON)
        assert (view.state.value, view.uses) == ("used_up", USES)
        kinds = [json.loads(event.body)["kind"] async for event in gate.store.chained()]
        assert kinds.count("grant_used_up") == 1
        assert (await gate.verify_audit()).holds
