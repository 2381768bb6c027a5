"""Callers in many processes against one stop, on one PostgreSQL database: nothing of its scope begins after it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import placet
from placet.model.effect import EffectState
from placet.testing.kill_points import SentinelRemote
from tests.kill_points.actors import AGENT, ELSEWHERE, FORK_SERVER, SETTINGS, ended, proposal, start, tools
from tests.kill_points.test_stop_race import CALLERS, OPERATOR, PROCESSES
from tests.postgres.fixtures import Database


def open_gate(url: str, folder: Path | str) -> Any:
    return placet.open(
        tools=tools(SentinelRemote(Path(folder, "remote.jsonl")), timeout_seconds=20.0),
        store=url,
        key=Path(folder, "placet.key"),
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
    )


def ask_until_stopped(url: str, folder: str, barrier: Any, name: str) -> None:
    async def caller(gate: Any, number: int, told: Counter[str]) -> None:
        tool = "balance" if number % 4 == 0 else "pay"
        for n in count():
            ask = proposal(tool, order=f"{name}-{number}-{n}", call_id=f"{name}-{number}-{n}")
            outcome = await gate.submit(ask, principal=AGENT, run=f"run-{name}-{number}-{n}")
            if outcome.code != "boundary_unavailable":  # nothing ran: somebody who stands still held the run
                told[outcome.code] += 1
            if outcome.code == "stopped":
                return

    async def act() -> Counter[str]:
        told: Counter[str] = Counter()
        async with open_gate(url, folder) as gate:
            barrier.wait(timeout=30)
            await asyncio.gather(*(caller(gate, number, told) for number in range(CALLERS)))
        return told

    Path(folder, f"{name}.json").write_text(json.dumps(asyncio.run(act())))


def begun(database: Database) -> set[tuple[str, str]]:
    """Attempts that have begun in the tenant: started events, without those of calls that were refused."""
    bodies = [json.loads(str(row[0])) for row in database.fetch("SELECT body FROM placet.audit_events")]
    refused = {_call(body) for body in bodies if body.get("detail") == "stopped" and body["kind"] == "completed"}
    return {
        _call(body)
        for body in bodies
        if body["kind"] == "started" and body["tenant"] == "acme" and _call(body) not in refused
    }


def _call(body: dict[str, Any]) -> tuple[str, str]:
    return body["run_id"], body["call_id"]


async def test_nothing_begins_after_a_stop_of_four_processes_with_many_callers(
    database: Database, tmp_path: Path
) -> None:
    async with open_gate(database.url, tmp_path) as gate:
        barrier = FORK_SERVER.Barrier(PROCESSES + 1)
        processes = [start(ask_until_stopped, database.url, str(tmp_path), barrier, str(n)) for n in range(PROCESSES)]
        await asyncio.to_thread(barrier.wait, 30)
        while len(begun(database)) < 50:
            await asyncio.sleep(0.01)

        report = await gate.switch.stop("tenant", by=OPERATOR)
        at_return = begun(database)
        elsewhere = await gate.submit(proposal(call_id="e"), principal=ELSEWHERE, run="run-e")
        codes = [await asyncio.to_thread(ended, process) for process in processes]
        effects = await gate.store.effects(tenant="acme", states=tuple(EffectState), limit=100_000)

    told = sum((Counter(json.loads(file.read_text())) for file in tmp_path.glob("?.json")), Counter())
    assert codes == [0] * PROCESSES
    assert begun(database) == at_return
    assert set(told) == {"succeeded", "stopped"} and told["stopped"] == PROCESSES * CALLERS
    assert elsewhere.code == "succeeded"
    assert {effect.state for effect in effects} == {EffectState.COMMITTED}
    assert 0 <= report.running_count <= PROCESSES * CALLERS
