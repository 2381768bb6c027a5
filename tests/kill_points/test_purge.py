"""A purge is killed before and after each of its transactions, and begun again: nothing is lost, nothing is new."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

import placet
from placet.bootstrap.records import verify_audit
from placet.bootstrap.stores import open_existing_store
from placet.testing import FakeClock

PATIENCE_SECONDS = 60
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
AGENT = placet.Principal.agent("agent", tenant="acme", roles=("admin",), scopes=("pay",))
PAULA = placet.Principal.person("paula", tenant="acme", scopes=("approvals.decide",))

COMMON = """
import placet

@placet.tool(effect="write", risk="medium", permission="pay", operation_key="pay:{order}", approval="always")
async def pay(order: str) -> str:
    with open(FOLDER + "/acted.txt", "a") as file:
        file.write(order + "\\n")
    return "paid"
"""

PURGER = (
    """
import asyncio, json, sys
from datetime import datetime, timedelta
FOLDER, MOMENT, NTH = sys.argv[1], sys.argv[2], int(sys.argv[3])
"""
    + COMMON
    + """
from placet.bootstrap.opening import around_store, open_gate
from placet.engine import forgetting
from placet.testing import FakeClock
from placet.testing.kill_points import KillPoint, Moment, Mortal

forgetting._ROWS_AT_ONCE, forgetting._RUNS_AT_ONCE, forgetting._EVENTS_AT_ONCE = 2, 2, 7
KEEPER = placet.Principal.person("kim", tenant="ops", scopes=("ops.purge",))
KEPT = placet.Retention(seconds=90 * 86_400.0, audit_seconds=90 * 86_400.0)

async def main():
    clock = FakeClock(datetime.fromisoformat("2026-06-01T00:00:00+00:00"))
    opening = open_gate(tools=[pay], store=FOLDER + "/placet.db", clock=clock, recovery="manual")
    if NTH:
        around_store(opening, lambda store: Mortal(store, KillPoint(moment=Moment(MOMENT), verb="purge", nth=NTH)))
    async with opening as gate:
        report = await gate.purger.purge(KEPT, by=KEEPER)
        print(json.dumps({kept.value: count for kept, count in report.purged.items()} | {"broken": report.broken}))

asyncio.run(main())
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Five operations of months ago, each approved by a person and done once."""
    scope: dict[str, object] = {"FOLDER": str(tmp_path)}
    exec(COMMON, scope)  # the very tool that the other processes define
    clock = FakeClock(BEGAN)
    with placet.open(tools=[scope["pay"]], store=tmp_path / "placet.db", clock=clock, recovery="manual") as gate:  # type: ignore[list-item]
        for number in range(5):
            call = {"call_id": f"c{number}", "tool": "pay", "arguments": {"order": f"o{number}"}}
            waiting = gate.submit(call, principal=AGENT, run=f"r{number}")
            assert isinstance(waiting, placet.AwaitingApproval)
            view = gate.desk.show(waiting.approval_id, by=PAULA)
            gate.desk.approve(waiting.approval_id, digest=view.digest, by=PAULA)
            assert gate.submit(call, principal=AGENT, run=f"r{number}").code == "succeeded"
            clock.advance(1.0)
    yield tmp_path


def purge(folder: Path, moment: str = "before", nth: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PURGER, str(folder), moment, str(nth)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def left(folder: Path) -> dict[str, int]:
    connection = apsw.Connection(str(folder / "placet.db"))
    queries = {
        "operations": "SELECT count(*) FROM effects",
        "unpurged": "SELECT count(*) FROM effects WHERE owner <> '' OR sealed_result IS NOT NULL",
        "runs": "SELECT count(*) FROM runs",
        "steps": "SELECT count(*) FROM step_fingerprints",
        "approvals": "SELECT count(*) FROM approvals",
    }
    found = {name: int(next(iter(connection.execute(query)))[0]) for name, query in queries.items()}
    connection.close()
    return found


async def verified(folder: Path) -> tuple[bool, int, int]:
    """Whether the audit holds; how much it says was forgotten, of operations, and how much of them is gone."""
    keys, store = open_existing_store(folder / "placet.db")
    try:
        report = await verify_audit(store, keys)
        told = [json.loads(event.body) async for event in store.chained()]
    finally:
        await store.close()
    said = [reason for event in told if event["kind"] == "records_purged" for reason in event["reasons"]]
    return report.holds, sum(int(each.partition(":")[2]) for each in said if each.startswith("operations")), len(told)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_purge_that_is_killed_anywhere_can_be_begun_again(folder: Path, moment: str) -> None:
    """Before the second one: the first is done. After the first one: it is done, and nobody hears of it."""
    kills = 0
    while True:
        killed = purge(folder, moment, 2 if moment == "before" else 1)
        holds, said, _ = asyncio.run(verified(folder))
        now = left(folder)
        assert holds, "whatever was cut has its tombstone"
        assert now["operations"] == 5
        assert said == 5 - now["unpurged"], "what is gone is on record, and nothing else is"
        if killed.returncode == 0:
            break
        assert killed.returncode == -9, killed.stderr
        kills += 1
        assert kills < 40
    assert kills > 6, "it was killed on its way, again and again"
    assert left(folder) == {"operations": 5, "unpurged": 0, "runs": 0, "steps": 0, "approvals": 0}

    finished = purge(folder)
    assert finished.returncode == 0, finished.stderr
    scope: dict[str, object] = {"FOLDER": str(folder)}
    exec(COMMON, scope)
    clock = FakeClock(BEGAN + timedelta(days=160))
    with placet.open(tools=[scope["pay"]], store=folder / "placet.db", clock=clock, recovery="manual") as gate:  # type: ignore[list-item]
        for number in range(5):
            call = {"call_id": f"again-{number}", "tool": "pay", "arguments": {"order": f"o{number}"}}
            again = gate.submit(call, principal=AGENT, run="later")
            assert isinstance(again, placet.Replayed) and again.result_unavailable == "record_purged"
        assert gate.verify_audit().holds
    assert (folder / "acted.txt").read_text().split() == [f"o{number}" for number in range(5)]
