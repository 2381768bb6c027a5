"""A process dies around the commit of a handler's own transaction in PostgreSQL: payment and ledger agree."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest

import placet
from placet.engine.gate import Gate
from placet.model.outcome import Replayed, Succeeded
from placet.testing.kill_points import KillPoint, Moment, die
from tests.kill_points.actors import (
    AGENT,
    KILLED,
    SETTINGS,
    SURVIVED,
    ended,
    mortal_stores,
    recovered,
    start,
)
from tests.postgres.fixtures import Database

pytestmark = [pytest.mark.req("H042", "H046", "C045"), pytest.mark.case("H01", "G09")]


def shop(url: str, *, dies: str = "") -> placet.Tool:
    def reached(step: str) -> None:
        if step == dies:
            die()

    @placet.tool(
        effect="write", risk="medium", permission="pay", operation_key="pay:{order}",
        remote=placet.Remote(co_commits=True), timeout_seconds=10.0,
    )  # fmt: skip
    async def pay(order: str, call: placet.CallContext) -> str:
        reached("begun")
        connection = await asyncpg.connect(url)
        try:
            async with connection.transaction():
                await connection.execute("INSERT INTO payments VALUES ($1)", order)
                reached("written")
                result = await call.co_commit(connection, order)
                reached("settled")
            reached("committed")
            return result
        finally:
            await connection.close()

    return pay


def open_gate(url: str, folder: str | Path, *, dies: str = "") -> Any:
    return placet.open(
        tools=[shop(url, dies=dies)], store=url, key=Path(folder, "key"), settings=SETTINGS, recovery="manual"
    )


def proposal() -> dict[str, Any]:
    return {"call_id": "c1", "tool": "pay", "arguments": {"order": "o-1"}}


def pay_and_die(url: str, folder: str, point: KillPoint | None, dies: str) -> None:
    async def act() -> None:
        with mortal_stores(point):
            async with open_gate(url, folder, dies=dies) as gate:
                await gate.submit(proposal(), principal=AGENT, run="run-1")

    asyncio.run(act())
    os._exit(SURVIVED)


def both(database: Database) -> tuple[int, list[str]]:
    """How many payments there are, and the states of the effects."""
    ((payments,),) = database.fetch("SELECT count(*) FROM payments")
    states = Counter(str(row[0]) for row in database.fetch("SELECT state FROM placet.effects"))
    assert isinstance(payments, int)
    return payments, list(states)


async def assert_audit_is_whole(gate: Gate) -> None:
    """The event of the last payment is chained by itself, soon after its outcome was told."""
    async with asyncio.timeout(30):
        while (report := await gate.verify_audit()).unpaired:
            await asyncio.sleep(0.01)
    assert report.breaks == ()
    bodies = [orjson.loads(event.body) async for event in gate.store.chained()]
    pairs = Counter((body["call_id"], body["fence"], body["kind"]) for body in bodies if body.get("fence"))
    assert set(pairs.values()) == {1}, pairs


@pytest.fixture
async def made(database: Database, tmp_path: Path) -> Database:
    """A store with its key, and a table of the shop's own."""
    async with open_gate(database.url, tmp_path):
        database.execute("CREATE TABLE payments (order_id text)")
    return database


BEFORE_THE_COMMIT = ("begun", "written", "settled")
AT_THE_STORE = (
    (KillPoint(moment=Moment.AFTER, verb="claim"), False),
    (KillPoint(moment=Moment.BEFORE, verb="settle"), True),
    (KillPoint(moment=Moment.AFTER, verb="settle"), True),
)


@pytest.mark.parametrize(
    ("point", "dies", "is_committed"),
    [*((None, dies, False) for dies in BEFORE_THE_COMMIT), (None, "committed", True),
     *((point, "", committed) for point, committed in AT_THE_STORE)],
    ids=[*BEFORE_THE_COMMIT, "committed", "after claim", "before settle", "after settle"],
)  # fmt: skip
async def test_dead_at_any_step_the_payment_and_the_ledger_agree_and_it_is_paid_once(
    made: Database, tmp_path: Path, point: KillPoint | None, dies: str, is_committed: bool
) -> None:
    assert ended(start(pay_and_die, made.url, str(tmp_path), point, dies)) == KILLED
    async with asyncio.timeout(30):  # until the server has noticed, and rolled back what was open
        while made.fetch(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        ):
            await asyncio.sleep(0.01)
    assert both(made) == ((1, ["committed"]) if is_committed else (0, ["dispatched"]))

    async with open_gate(made.url, tmp_path) as gate:
        at_once = await gate.submit(proposal(), principal=AGENT, run="run-1", timeout_seconds=0.5)
        await recovered(gate)
        later = await gate.submit(proposal(), principal=AGENT, run="run-1")
        await assert_audit_is_whole(gate)

    if is_committed:
        assert type(at_once) is Replayed and at_once.result == "o-1"
    assert type(later) is (Replayed if at_once.is_success else Succeeded)
    assert both(made) == (1, ["committed"])
    assert made.fetch("SELECT count(*) FROM placet.unchained_events") == [(0,)]


async def test_a_server_that_is_killed_takes_both_or_keeps_both(made: Database, tmp_path: Path) -> None:
    """Whether the last commit is there or not, the two agree, and the operation is done once in the end."""
    if made.server is None:
        pytest.skip("the server given by PLACET_TEST_POSTGRES_URL is not ours to kill")
    async with open_gate(made.url, tmp_path) as gate:
        asking = asyncio.ensure_future(gate.submit(proposal(), principal=AGENT, run="run-1"))
        async with asyncio.timeout(30):
            while not made.fetch("SELECT 1 FROM placet.effects"):
                await asyncio.sleep(0)
        made.server.kill()
        made.server.start()
        outcome = await asking
        payments, states = both(made)
        assert payments == (1 if states == ["committed"] else 0), states
        assert not (outcome.is_success and payments == 0)

    async with open_gate(made.url, tmp_path) as gate:
        await recovered(gate)
        await gate.submit(proposal(), principal=AGENT, run="run-1")
        assert both(made) == (1, ["committed"])
        await assert_audit_is_whole(gate)
