"""Claims of many callers in many processes against one stop: by the store's own order none of its scope follows it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from tests.kill_points.actors import AGENT, ELSEWHERE, FORK_SERVER, Place, ended, open_gate, proposal, start

OPERATOR = placet.Principal.person("olga", tenant="acme", scopes=("ops.stop",))
ROOT = placet.Principal.person("root", tenant="operators", scopes=("ops.stop.all",))
PROCESSES, CALLERS = 4, 8


def ask_until_stopped(folder: str, answers: str, barrier: Any, name: str) -> None:
    """Writes and reads of many callers at once, each until it is told of the stop."""
    place = Place(folder=Path(folder))

    async def caller(gate: Any, number: int, told: Counter[str]) -> None:
        tool = "balance" if number % 4 == 0 else "pay"
        for n in count():
            ask = proposal(tool, order=f"{name}-{number}-{n}", call_id=f"{name}-{number}-{n}")
            outcome = await gate.submit(ask, principal=AGENT, run=f"run-{name}-{number}-{n}")
            told[outcome.code] += 1
            if outcome.code == "stopped":
                return

    async def act() -> Counter[str]:
        told: Counter[str] = Counter()
        async with open_gate(place) as gate:
            barrier.wait(timeout=30)
            await asyncio.gather(*(caller(gate, number, told) for number in range(CALLERS)))
        return told

    Path(answers, f"{name}.json").write_text(json.dumps(asyncio.run(act())))


def in_order(store: Path) -> list[dict[str, Any]]:
    """The events in the order in which they came into the store, whoever wrote them."""
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [json.loads(row[0]) for row in connection.execute("SELECT body FROM audit_events ORDER BY rowid")]
    finally:
        connection.close()


@pytest.mark.parametrize("scope", ["tenant", "all"])
async def test_nothing_begins_after_a_stop_of_four_processes_with_many_callers(tmp_path: Path, scope: str) -> None:
    place, answers = Place(folder=tmp_path), tmp_path / "answers"
    answers.mkdir()
    by = OPERATOR if scope == "tenant" else ROOT
    async with open_gate(place) as gate:
        barrier = FORK_SERVER.Barrier(PROCESSES + 1)
        processes = [start(ask_until_stopped, str(tmp_path), str(answers), barrier, str(n)) for n in range(PROCESSES)]
        await asyncio.to_thread(barrier.wait, 30)
        while sum(event["kind"] == "started" for event in in_order(place.store)) < 50:
            await asyncio.sleep(0.01)

        report = await gate.switch.stop(scope, by=by)
        elsewhere = await gate.submit(proposal(call_id="e"), principal=ELSEWHERE, run="run-e")
        codes = [await asyncio.to_thread(ended, process) for process in processes]

    events = in_order(place.store)
    (at,) = (n for n, event in enumerate(events) if event["kind"] == "stopped")
    begun_after = [
        event
        for event in events[at + 1 :]
        if event["kind"] == "started" and event["tenant"] == "acme" and not _is_of_refusal(event, events)
    ]
    told = sum((Counter(json.loads(file.read_text())) for file in answers.iterdir()), Counter())
    assert codes == [0] * PROCESSES
    assert begun_after == []
    assert set(told) == {"succeeded", "stopped"} and told["stopped"] == PROCESSES * CALLERS
    assert elsewhere.code == ("succeeded" if scope == "tenant" else "stopped")
    open_then = Counter(event["call_id"] for event in events[: at + 1] if event["kind"] == "started" and event["fence"])
    open_then.subtract(
        event["call_id"] for event in events[: at + 1] if event["kind"] == "completed" and event["fence"]
    )
    assert report.running_count == sum(open_then.values())


def _is_of_refusal(started: dict[str, Any], events: list[dict[str, Any]]) -> bool:
    """A refused call has a pair on record too, and began nothing."""
    return any(
        event["kind"] == "completed"
        and event["call_id"] == started["call_id"]
        and event["run_id"] == started["run_id"]
        and event.get("detail") == "stopped"
        for event in events
    )
