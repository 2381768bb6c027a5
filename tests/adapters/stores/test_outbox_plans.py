"""A round that finds nothing to do reads no delivery of those that arrived, however many there are."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.sqlite import SqliteStore
from placet.adapters.stores.sqlite.statements import queries
from placet.adapters.telemetry.quiet import QuietMeter
from placet.model.identifiers import WriterId
from placet.ports.store import nobody
from placet.testing import FakeClock

QUERIES = queries()


@pytest.fixture
async def filled(tmp_path: Path) -> apsw.Connection:
    """Thousands that arrived, one that waits and one that is dead."""
    path = tmp_path / "placet.db"
    store = SqliteStore(
        path, keys=KeyRing.ephemeral(), clock=FakeClock(), writer=WriterId("w"), meter=QuietMeter(), heard=nobody
    )
    await store.close()
    connection = apsw.Connection(str(path))
    with connection:
        for number in range(3_000):
            state = {0: "pending", 1: "dead"}.get(number, "delivered")
            connection.execute(
                "INSERT INTO deliveries VALUES ('ops', 'w', ?, 'approval.asked', ?, 1, 1, 1, 2, 'c', NULL)",
                (number + 1, state),
            )
        connection.execute("ANALYZE")
    return connection


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("due_deliveries", "deliveries_due"),
        ("dead_deliveries", "deliveries_left"),
        ("outbox_counts", "deliveries_left"),
        ("old_deliveries", "deliveries_ended"),
        ("drop_deliveries", "deliveries_ended"),
    ],
)
async def test_a_look_at_deliveries_goes_by_an_index_of_its_own(filled: apsw.Connection, name: str, index: str) -> None:
    statement = QUERIES[name]
    numbered = [int(each) for each in re.findall(r"\?(\d+)", statement)]
    count = max(numbered) if numbered else statement.count("?")
    plan = [str(row[3]) for row in filled.execute(f"EXPLAIN QUERY PLAN {statement.rstrip('; ')}", [None] * count)]

    assert any(index in step for step in plan), plan
    assert not any(re.match(r"SCAN deliveries(?!.*deliveries_left)", step) for step in plan), plan
    assert not any("TEMP B-TREE FOR ORDER BY" in step for step in plan if name == "outbox_counts"), plan
