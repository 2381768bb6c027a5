"""A purge is killed before and after each of its transactions, and begun again: nothing is lost, nothing is new."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

import placet
from placet.bootstrap.opening import around_store
from placet.bootstrap.opening import open_gate as open_with_clock
from placet.bootstrap.records import verify_audit
from placet.bootstrap.stores import open_existing_store
from placet.engine import forgetting
from placet.testing import FakeClock
from placet.testing.kill_points import KillPoint, Moment, Mortal
from tests.kill_points.actors import KILLED, ended, start

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 6, 1, tzinfo=UTC)
AGENT = placet.Principal.agent("agent", tenant="acme", roles=("admin",), scopes=("pay",))
PAULA = placet.Principal.person("paula", tenant="acme", scopes=("approvals.decide",))
KEEPER = placet.Principal.person("kim", tenant="ops", scopes=("ops.purge",))
KEPT = placet.Retention(seconds=90 * 86_400.0, audit_seconds=90 * 86_400.0)


def tools(folder: Path) -> list[placet.Tool]:
    @placet.tool(effect="write", risk="medium", permission="pay", operation_key="pay:{order}", approval="always")
    async def pay(order: str) -> str:
        with (folder / "acted.txt").open("a") as file:
            file.write(order + "\n")
        return "paid"

    return [pay]


def purge_and_die(folder: str, moment: Moment, nth: int) -> None:
    """Purge in small pieces, in a process that ends at the nth of them if there are so many; never if nth is 0."""
    forgetting._ROWS_AT_ONCE, forgetting._RUNS_AT_ONCE, forgetting._EVENTS_AT_ONCE = 2, 2, 7

    async def act() -> None:
        store = Path(folder, "placet.db")
        opening = open_with_clock(tools=tools(Path(folder)), store=store, clock=FakeClock(LATER), recovery="manual")
        if nth:
            around_store(opening, lambda store: Mortal(store, KillPoint(moment=moment, verb="purge", nth=nth)))
        async with opening as gate:
            await gate.purger.purge(KEPT, by=KEEPER)

    asyncio.run(act())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Five operations of months ago, each approved by a person and done once."""
    clock = FakeClock(BEGAN)
    with placet.open(tools=tools(tmp_path), store=tmp_path / "placet.db", clock=clock, recovery="manual") as gate:
        for number in range(5):
            call = {"call_id": f"c{number}", "tool": "pay", "arguments": {"order": f"o{number}"}}
            waiting = gate.submit(call, principal=AGENT, run=f"r{number}")
            assert isinstance(waiting, placet.AwaitingApproval)
            view = gate.desk.show(waiting.approval_id, by=PAULA)
            gate.desk.approve(waiting.approval_id, digest=view.digest, by=PAULA)
            assert gate.submit(call, principal=AGENT, run=f"r{number}").code == "succeeded"
            clock.advance(1.0)
    yield tmp_path


def purge(folder: Path, moment: Moment = Moment.BEFORE, nth: int = 0) -> int:
    """The exit code of a process of its own."""
    return ended(start(purge_and_die, str(folder), moment, nth))


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
@pytest.mark.parametrize("moment", list(Moment))
def test_a_purge_that_is_killed_anywhere_can_be_begun_again(folder: Path, moment: Moment) -> None:
    """Before the second one: the first is done. After the first one: it is done, and nobody hears of it."""
    kills = 0
    while True:
        killed = purge(folder, moment, 2 if moment is Moment.BEFORE else 1)
        holds, said, _ = asyncio.run(verified(folder))
        now = left(folder)
        assert holds, "whatever was cut has its tombstone"
        assert now["operations"] == 5
        assert said == 5 - now["unpurged"], "what is gone is on record, and nothing else is"
        if killed == 0:
            break
        assert killed == KILLED
        kills += 1
        assert kills < 40
    assert kills > 6, "it was killed on its way, again and again"
    assert left(folder) == {"operations": 5, "unpurged": 0, "runs": 0, "steps": 0, "approvals": 0}

    assert purge(folder) == 0
    clock = FakeClock(BEGAN + timedelta(days=160))
    with placet.open(tools=tools(folder), store=folder / "placet.db", clock=clock, recovery="manual") as gate:
        for number in range(5):
            call = {"call_id": f"again-{number}", "tool": "pay", "arguments": {"order": f"o{number}"}}
            again = gate.submit(call, principal=AGENT, run="later")
            assert isinstance(again, placet.Replayed) and again.result_unavailable == "record_purged"
        assert gate.verify_audit().holds
    assert (folder / "acted.txt").read_text().split() == [f"o{number}" for number in range(5)]
