"""Runs, holds and stops that somebody changed by hand: they are told as what they are, and keep no other from it."""

from __future__ import annotations

from datetime import timedelta

from placet.errors import StoreCorrupt
from placet.model.identifiers import RunId
from placet.model.retention import BrokenRun, Hold, OldRun
from placet.testing.conformance import a_step, an_event, fault_of
from tests.adapters.postgres.conftest import OpenStore
from tests.postgres.fixtures import Database


async def test_a_hold_or_a_stop_that_cannot_be_read_is_told_as_such_and_holds(
    open_store: OpenStore, database: Database
) -> None:
    store = open_store()
    await store.hold(Hold(scope="tenant:acme", held_by="kim", held_at=await store.now()), events=(an_event(),))
    await store.stop("tool:pay", (an_event(),))
    for table, column in (("holds", "held_at"), ("stops", "stopped_at")):
        database.execute(f"UPDATE placet.{table} SET {column} = 9223372036854775807")

    assert type(await fault_of(store.holds())) is StoreCorrupt
    assert type(await fault_of(store.stop_records())) is StoreCorrupt
    assert await store.stops() == ("tool:pay",)
    assert await store.lift("tenant:acme", events=(an_event(),)), "it is lifted by its name"


async def test_a_run_that_cannot_be_read_is_listed_as_broken_beside_the_others(
    open_store: OpenStore, database: Database
) -> None:
    store = open_store()
    for name in ("run-1", "run-2"):
        await store.record((an_event(),), step=a_step("call-1", run_id=RunId(name)))
    database.execute("UPDATE placet.runs SET opened_at = -9000000000000000000 WHERE run_id = 'run-2'")

    found = await store.old_runs(before=await store.now() + timedelta(days=1), limit=9)

    assert found == (
        BrokenRun(tenant="acme", run_id=RunId("run-2")),
        OldRun(tenant="acme", run_id=RunId("run-1"), steps=1),
    )
