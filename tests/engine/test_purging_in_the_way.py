"""What stays in the way of a purge: it is passed over, and neither stops nor delays the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet import Principal, Retention
from placet.bootstrap.opening import around_store
from placet.engine.forgetting import PurgeReport, RowsInTurn
from placet.errors import StoreUnavailable
from placet.model.retention import Purge
from placet.ports.store import Store
from placet.testing import FakeClock
from tests.engine.conftest import ADMIN, OPERATOR, OpenWorld, Spy, World, acting, written
from tests.unguarded import unguarded

DAY = 86_400.0
QUARTER = Retention(seconds=90 * DAY)
WITH_AUDIT = Retention(seconds=90 * DAY, audit_seconds=90 * DAY)
KEEPER = Principal.person("kim", tenant="ops", scopes=("ops.purge",))


def by_hand(store: str, statement: str) -> list[Any]:
    """What somebody does who can write the file, triggers or none."""
    database = apsw.Connection(store)
    database.set_busy_timeout(10_000)
    unguarded(database)
    found = database.execute(statement).fetchall()
    database.close()
    return found


def counts(report: PurgeReport) -> dict[str, int]:
    return {kept.value: count for kept, count in report.purged.items() if count}


class Restless:
    """A store in which a row moves every time right after it was listed; in all else the store it wraps."""

    def __init__(self, store: Store, verb: str, moves: Callable[[], object]) -> None:
        self._store = store
        self._verb = verb
        self._moves = moves

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._store, name)
        if name != self._verb:
            return inner

        async def listed(*args: Any, **kwargs: Any) -> Any:
            found = await inner(*args, **kwargs)
            self._moves()
            return found

        return listed


async def purged_around(store: str, spy: Spy, around: Callable[[Store], Any], *, operations: int) -> PurgeReport:
    """One purge of as many finished operations, each in a run of its own, with something around the store."""
    clock, tool = FakeClock(), written(spy)
    opening = placet.open(tools=[tool], store=store, clock=clock, recovery=placet.Recovery.MANUAL)
    async with around_store(opening, around) as gate:
        world = World(gate=gate, clock=clock)
        for index in range(operations):
            await world.submit(tool, {"word": "once"}, call_id=f"c{index}", run=f"r{index}")
            clock.advance(1.0)
        clock.advance(91 * DAY)
        return await gate.purger.purge(QUARTER, by=KEEPER)


ALWAYS_MOVING = {
    "operations": ("finished", "UPDATE effects SET updated_at = updated_at + 1 WHERE call_id = 'c0'"),
    "runs": ("old_runs", "UPDATE runs SET steps = steps + 1 WHERE run_id = 'r0'"),
}


@pytest.mark.parametrize("kind", ALWAYS_MOVING)
async def test_a_row_that_always_moves_is_left_and_all_others_go(kind: str, tmp_path: Path, spy: Spy) -> None:
    verb, statement = ALWAYS_MOVING[kind]
    store = str(tmp_path / "placet.db")

    report = await purged_around(
        store, spy, lambda inner: Restless(inner, verb, lambda: by_hand(store, statement)), operations=7
    )

    assert counts(report) == {"operations": 7, "runs": 7} | {kind: 6}
    left = {"operations": "SELECT call_id FROM effects WHERE owner <> ''", "runs": "SELECT run_id FROM runs"}
    assert by_hand(store, left[kind]) == [({"operations": "c0", "runs": "r0"}[kind],)]


class Holding:
    """A store in which somebody's open transaction holds operations; in all else the store it wraps."""

    def __init__(self, store: Store, held: set[str], is_row_held: bool) -> None:
        self._store = store
        self._held = held
        self._is_row_held = is_row_held

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def purge(self, purge: Purge) -> bool:
        for grave in purge.graves:
            effect = await self._store.effect(grave.tenant, grave.operation_key)
            if effect is not None and effect.call_id in self._held:
                fault = StoreUnavailable("Too late.")
                fault.is_row_held = self._is_row_held
                raise fault
        return await self._store.purge(purge)


@pytest.mark.parametrize(
    ("held", "is_row_held", "is_served"), [(1, True, True), (9, True, True), (10, True, False), (1, False, False)]
)
async def test_operations_that_somebody_holds_are_left_until_waiting_for_them_would_have_no_end(
    tmp_path: Path, spy: Spy, held: int, is_row_held: bool, is_served: bool
) -> None:
    store, clock, tool = str(tmp_path / "placet.db"), FakeClock(), written(spy)
    opening = placet.open(tools=[tool], store=store, clock=clock, recovery=placet.Recovery.MANUAL)

    def around(inner: Store) -> Store:
        wrapped: Any = Holding(inner, {f"c{index}" for index in range(held)}, is_row_held)
        return wrapped  # type: ignore[no-any-return]

    async with around_store(opening, around) as gate:
        world = World(gate=gate, clock=clock)
        for index in range(12):
            await world.submit(tool, {"word": "once"}, call_id=f"c{index}", run=f"r{index}")
            clock.advance(1.0)
        clock.advance(91 * DAY)
        if is_served:
            assert counts(await gate.purger.purge(QUARTER, by=KEEPER)) == {"operations": 12 - held, "runs": 12}
        else:
            with pytest.raises(StoreUnavailable):
                await gate.purger.purge(QUARTER, by=KEEPER)
    left = by_hand(store, "SELECT count(*) FROM effects WHERE owner <> ''")
    assert left == [(held if is_served else 12,)]


LEAVING = "UPDATE runs SET steps = steps + 1, stepped_at = opened_at + 100 * 86400000000 WHERE run_id = 'r0'"


async def test_a_row_that_leaves_the_list_meanwhile_keeps_no_other_for_another_round(tmp_path: Path, spy: Spy) -> None:
    store = str(tmp_path / "placet.db")

    report = await purged_around(
        store, spy, lambda inner: Restless(inner, "old_runs", lambda: by_hand(store, LEAVING)), operations=13
    )

    assert counts(report) == {"operations": 13, "runs": 12}
    assert by_hand(store, "SELECT run_id FROM runs") == [("r0",)]


async def test_a_run_that_cannot_be_read_stays_and_keeps_no_other(
    tmp_path: Path, open_world: OpenWorld, spy: Spy
) -> None:
    store, tool = str(tmp_path / "placet.db"), written(spy)
    world = await open_world(tool, store=store)
    for index in range(3):
        await world.submit(tool, {"word": "once"}, call_id=f"c{index}", run=f"r{index}")
    by_hand(store, "UPDATE runs SET opened_at = -9223372036854775807 WHERE run_id = 'r1'")
    world.clock.advance(91 * DAY)

    report = await world.gate.purger.purge(QUARTER, by=KEEPER)

    assert (counts(report), report.broken) == ({"operations": 3, "runs": 2}, 1)
    assert by_hand(store, "SELECT run_id FROM runs") == [("r1",)]
    told = [event["reasons"] for event in world.events("records_purged")]
    assert told == [["operations:3"], ["runs:2"]], "the others go together, as they would without it"


async def test_a_denial_whose_run_cannot_be_read_stands(tmp_path: Path, open_world: OpenWorld, spy: Spy) -> None:
    """Nobody can tell whether the run goes on."""
    store, tool = str(tmp_path / "placet.db"), written(spy, name="pay", risk="high", approval="always")
    world = await open_world(tool, store=store)
    for index in range(2):
        asked = await world.submit(tool, {"word": "once"}, principal=ADMIN, call_id=f"c{index}", run=f"r{index}")
        await world.deny(asked)
    by_hand(store, "UPDATE runs SET opened_at = -9223372036854775807 WHERE run_id = 'r0'")
    world.clock.advance(91 * DAY)

    report = await world.gate.purger.purge(QUARTER, by=KEEPER)

    assert counts(report) == {"runs": 1, "approvals": 1}
    assert by_hand(store, "SELECT run_id FROM approvals") == [("r0",)]


async def test_events_that_cannot_be_chained_end_the_cutting_and_nothing_else(
    tmp_path: Path, open_world: OpenWorld, spy: Spy
) -> None:
    """Whatever is older than a cut and is chained after it would pass for a copy, so nothing is cut while some wait."""
    store, tool = str(tmp_path / "placet.db"), written(spy)
    world = await open_world(tool, store=store)
    await world.submit(tool, {"word": "once"})
    by_hand(
        store,
        "INSERT INTO unchained_events (body, key_id, mac) VALUES ('{}', 'k', 'm'); "
        "CREATE TRIGGER jammed BEFORE UPDATE ON unchained_events BEGIN SELECT RAISE(ABORT, 'jammed'); END",
    )
    world.clock.advance(91 * DAY)

    async with asyncio.timeout(30):
        report = await world.gate.purger.purge(WITH_AUDIT, by=KEEPER)
        assert (counts(report), report.is_audit_waiting) == ({"operations": 1, "runs": 1}, True)

        by_hand(store, "SELECT 1")  # takes the trigger away
        report = await world.gate.purger.purge(WITH_AUDIT, by=KEEPER)

    assert (counts(report), report.is_audit_waiting) == ({"events": 2}, False)


def copy_effects(store: str) -> None:
    """10,100 more like the one that is there, each a microsecond later than the one before."""
    columns = [row[1] for row in by_hand(store, "PRAGMA table_info(effects)")]
    copied = ", ".join({"operation_key": "'k-' || value", "token": "'t-' || value",
                        "updated_at": "updated_at + value"}.get(name, name) for name in columns)  # fmt: skip
    by_hand(
        store,
        "WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 10100) "
        f"INSERT INTO effects SELECT {copied} FROM effects, n",
    )


@pytest.mark.req("C045")
async def test_the_queue_for_people_begins_with_the_oldest_however_long_it_is(
    tmp_path: Path, open_world: OpenWorld
) -> None:
    async def vanish() -> None:
        raise RuntimeError

    store = str(tmp_path / "placet.db")
    world = await open_world(acting(vanish), store=store)
    await world.submit("act")
    copy_effects(store)
    by_hand(store, "UPDATE effects SET send_by = 9223372036854775807 WHERE operation_key IN ('k-1', 'k-2')")

    waiting = await world.gate.reconciler.waiting(by=OPERATOR, limit=3)

    oldest = await world.gate.store.effect("acme", waiting[0].effect.operation_key)
    assert oldest is not None and oldest.call_id == "c1" and oldest.operation_key[:2] != "k-"
    assert [each.effect.operation_key for each in waiting[1:]] == ["k-3", "k-4"]


class Overheard:
    """A store whose pages of the queue are counted; in all else the store it wraps."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.pages: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def longest_unknown(self, **asked: Any) -> Any:
        found = await self._store.longest_unknown(**asked)
        self.pages.append(len(found))
        return found


async def test_the_queue_goes_past_rows_that_cannot_be_read_page_by_page_and_to_an_end(tmp_path: Path) -> None:
    async def vanish() -> None:
        raise RuntimeError

    store, clock = str(tmp_path / "placet.db"), FakeClock()
    opening = placet.open(tools=[acting(vanish)], store=store, clock=clock, recovery=placet.Recovery.MANUAL)
    overheard: list[Overheard] = []

    def around(inner: Store) -> Store:
        overheard.append(Overheard(inner))
        wrapped: Any = overheard[0]
        return wrapped  # type: ignore[no-any-return]

    async with around_store(opening, around) as gate:
        await World(gate=gate, clock=clock).submit("act")
        copy_effects(store)
        by_hand(store, "UPDATE effects SET send_by = 9223372036854775807 WHERE operation_key <> 'k-10100'")

        assert await gate.reconciler.waiting(by=OPERATOR, limit=3) == ()
        assert set(overheard[0].pages) == {100} and sum(overheard[0].pages) == 10_000

        by_hand(store, "DELETE FROM effects WHERE rowid % 2 AND operation_key <> 'k-10100'")
        (found,) = await gate.reconciler.waiting(by=OPERATOR, limit=3)
        assert found.effect.operation_key == "k-10100"


@pytest.mark.parametrize("going", [set(), {4}, {0, 5, 9}, set(range(10))], ids=["none", "one", "some", "all"])
async def test_rows_are_gone_through_once_to_an_end_while_some_of_them_leave(going: set[int]) -> None:
    rows, seen, looks = list(range(10)), list[int](), 0

    async def listed(limit: int, skip: int) -> tuple[int, ...]:
        nonlocal looks
        looks += 1
        assert looks < 50, "there is no end"
        return tuple(rows[skip : skip + limit])

    turns = RowsInTurn(listed, lambda row: row)
    while (found := await turns.next(3)) is not None:
        seen += found
        for row in found:
            if row in going:
                rows.remove(row)
        turns.pass_over([row for row in found if row not in going])

    assert seen == list(range(10))
