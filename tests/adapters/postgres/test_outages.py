"""What one slow or absent thing costs the others: an outage is paid once, a slow list by nobody who looks for a row."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import placet
from placet.adapters.stores.postgres import connection, migrating
from placet.adapters.stores.postgres.connection import address_of
from placet.adapters.stores.postgres.migrating import _MIGRATION_LOCK
from placet.adapters.stores.postgres.outage import Outage
from placet.errors import StoreUnavailable
from placet.model.audit import EventKind
from placet.model.identifiers import OperationKey
from placet.model.ledger import Claimed, Recorded
from placet.testing.conformance import a_claim, a_step, an_event, fault_of
from tests.adapters.postgres.conftest import OpenStore
from tests.adapters.postgres.proxy import a_wire, through
from tests.adapters.postgres.test_under_locks import asleep
from tests.postgres.fixtures import Database


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that waits for nothing long, so that a test need not."""
    for name, limit in (("lock_timeout", "400ms"), ("statement_timeout", "800ms")):
        monkeypatch.setitem(connection._SERVER_SETTINGS, name, limit)


@asynccontextmanager
async def holding(database: Database, *statements: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else's open transaction; what it holds is let go at the end, or when it is rolled back."""
    hog = await asyncpg.connect(database.url)
    try:
        await hog.execute("BEGIN")
        for statement in statements:
            await hog.execute(statement)
        yield hog
    finally:
        await hog.close()


async def until(fetch: Callable[[], Any]) -> None:
    """Until the database says so."""
    async with asyncio.timeout(30):
        while not fetch():
            await asyncio.sleep(0.01)


# ---------------------------------------------------------------- an outage


async def test_an_outage_is_paid_once_by_all_who_wait(database: Database, open_store: OpenStore) -> None:
    async with a_wire(database) as wire:
        store = await asyncio.to_thread(open_store, through(wire, database, patience_seconds=2.0))
        wire.is_down = True
        wire.cut_before = b"apply("
        tried: list[int] = []
        with asleep(store):
            waiting = [
                *(asyncio.ensure_future(store.stop(f"tenant:{n}", (an_event(EventKind.STOPPED),))) for n in range(4)),
                *(
                    asyncio.ensure_future(store.claim(a_claim(f"key-{n}", token=f"t-{n}", step=a_step(f"c-{n}"))))
                    for n in range(4)
                ),
            ]
            for each in waiting:
                each.add_done_callback(lambda _: tried.append(wire.refused))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            store._thread.loop.call_soon_threadsafe(store._line.let_go)

        faults = await asyncio.gather(*map(fault_of, waiting))

        assert [type(fault) for fault in faults] == [StoreUnavailable] * 8, "nothing was sent of any"
        assert not any(fault.may_have_acted for fault in faults if fault is not None)
        assert tried == [tried[0]] * 8 and tried[0] > 1, "nobody tried again for those who had waited all the while"
        wire.is_down = False
        assert isinstance(await store.claim(a_claim("key-9")), Claimed), "the next who asks finds it well"


async def test_who_asks_while_the_server_is_known_to_be_away_tries_once(
    database: Database, open_store: OpenStore
) -> None:
    async with a_wire(database) as wire:
        store = await asyncio.to_thread(open_store, through(wire, database, patience_seconds=1.0))
        wire.is_down = True
        await store._thread.carry(_let_go(store))
        assert type(await fault_of(store.record((an_event(),)))) is StoreUnavailable
        before = wire.refused

        for _ in range(5):
            assert type(await fault_of(store.record((an_event(),)))) is StoreUnavailable

        assert wire.refused == before + 5


def test_an_outage_that_is_known_is_not_waited_out_again() -> None:
    outage = Outage(address_of("postgresql://db/ledger", patience_seconds=10.0))
    assert (outage.patience_seconds, outage.is_known) == (10.0, False)

    outage.found(StoreUnavailable("away"), at=7.0)
    assert (outage.patience_seconds, outage.is_known) == (2.0, True)
    with pytest.raises(StoreUnavailable):
        outage.check(waiting_since=7.0)
    outage.check(waiting_since=7.1)

    outage.is_over()
    outage.check(waiting_since=7.0)
    assert outage.patience_seconds == 10.0


async def _let_go(store: Any) -> None:
    store._line.let_go()


async def test_an_outage_is_paid_once_by_all_who_look(database: Database, open_store: OpenStore) -> None:
    async with a_wire(database) as wire:
        store = await asyncio.to_thread(open_store, through(wire, database, patience_seconds=2.0))
        wire.is_down = True
        tried: list[int] = []
        with asleep(store):
            looks = [
                *(asyncio.ensure_future(store.effect("acme", OperationKey(f"key-{n}"))) for n in range(4)),
                *(asyncio.ensure_future(store.stops()) for _ in range(4)),
                *(asyncio.ensure_future(store.now()) for _ in range(4)),
            ]
            for each in looks:
                each.add_done_callback(lambda _: tried.append(wire.refused))
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        faults = await asyncio.gather(*map(fault_of, looks))

        assert [type(fault) for fault in faults] == [StoreUnavailable] * 12
        assert tried == [tried[0]] * 12 and tried[0] > 1, "it was tried again, and once for all"
        wire.is_down = False
        assert await store.stops() == ()


async def test_a_look_waits_for_a_server_that_comes_back_as_a_write_does(
    database: Database, open_store: OpenStore
) -> None:
    async with a_wire(database) as wire:
        store = await asyncio.to_thread(open_store, through(wire, database))
        answer = await store.claim(a_claim("key-1"))
        assert isinstance(answer, Claimed)
        wire.is_down = True
        looking = asyncio.ensure_future(store.effect("acme", OperationKey("key-1")))
        await until(lambda: wire.refused > 1)
        assert not looking.done()
        wire.is_down = False

        assert await looking == answer.effect


# ---------------------------------------------------------------- looks


async def test_a_slow_list_keeps_nobody_waiting_who_looks_for_a_row(database: Database, open_store: OpenStore) -> None:
    store = open_store()
    answer = await store.claim(a_claim("key-1"))
    assert isinstance(answer, Claimed)
    async with holding(database, "LOCK placet.approvals IN ACCESS EXCLUSIVE MODE"):
        listing = asyncio.ensure_future(store.pending_count())
        await until(lambda: _waits(database))

        assert await store.effect("acme", OperationKey("key-1")) == answer.effect
        assert await store.stops() == ()
        assert not listing.done()
    assert await listing == 0


def waits_since(database: Database, seconds: float) -> bool:
    """Whether somebody waits for the migration, and has for so long."""
    return database.fetch(_WAITS_LONG, seconds) != [(0,)]


def _waits(database: Database) -> bool:
    return database.fetch("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IS NOT NULL") != [(0,)]


@pytest.mark.usefixtures("impatient")
async def test_a_look_that_fails_takes_no_answer_from_the_others_of_its_batch(
    database: Database, open_store: OpenStore
) -> None:
    store = open_store()
    answer = await store.claim(a_claim("key-1"))
    assert isinstance(answer, Claimed)
    await store.now()
    async with holding(database, "LOCK placet.stops IN ACCESS EXCLUSIVE MODE"):
        with asleep(store):
            looks = [
                asyncio.ensure_future(store.effect("acme", OperationKey("key-1"))),
                asyncio.ensure_future(store.stops()),
                asyncio.ensure_future(store.now()),
            ]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        found, fault, now = await asyncio.gather(*looks, return_exceptions=True)

    assert found == answer.effect
    assert type(fault) is StoreUnavailable
    assert not isinstance(now, BaseException)


# ---------------------------------------------------------------- opening


@placet.tool(effect="read")
async def look() -> str:
    return "seen"


async def test_opening_leaves_the_event_loop_to_others(databases: Any, tmp_path: Path) -> None:
    database = databases(is_empty=True)
    async with holding(database, f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})") as hog:

        async def opened_and_closed() -> None:
            async with placet.open(tools=[look], store=database.url, key=tmp_path / "key") as gate:
                assert await gate.store.stops() == ()

        opening = asyncio.ensure_future(opened_and_closed())
        await until(lambda: waits_since(database, 0.0))
        assert not opening.done()
        await hog.execute("ROLLBACK")
        await opening


async def test_a_caller_that_leaves_while_it_opens_leaves_no_store_behind(databases: Any, tmp_path: Path) -> None:
    database = databases(is_empty=True)
    async with holding(database, f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})") as hog:
        opening = asyncio.ensure_future(
            placet.open(tools=[look], store=database.url, key=tmp_path / "key").__aenter__()
        )
        await until(lambda: waits_since(database, 0.0))
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening  # at once: whoever makes the schema is still at it
        assert waits_since(database, 0.0)
        await hog.execute("ROLLBACK")

        others = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'placet' AND datname = current_database()"
        )
        await until(lambda: database.fetch(others) == [(0,)])


_WAITS_LONG = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database() "
    "AND clock_timestamp() - query_start >= $1::float8 * interval '1 second'"
)


@pytest.mark.usefixtures("impatient")
async def test_whoever_waits_for_a_migration_waits_longer_than_a_call_would(
    databases: Any, open_store: OpenStore
) -> None:
    database = databases(is_empty=True)
    async with holding(database, f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})") as hog:
        opening = asyncio.create_task(asyncio.to_thread(open_store, database.address()))
        await until(lambda: waits_since(database, 1.0))
        await hog.execute("ROLLBACK")
        assert isinstance(await (await opening).record((an_event(),)), Recorded)


@pytest.mark.usefixtures("impatient")
async def test_a_migration_has_more_time_than_a_call(
    database: Database, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = migrating.migrations()
    number = steps[-1][0] + 1
    monkeypatch.setattr(migrating, "migrations", lambda: [*steps, (number, "SELECT pg_sleep(1.5)")])
    monkeypatch.setattr(connection, "_COMMAND_SECONDS", 1.0, raising=False)

    store = await asyncio.to_thread(open_store, database.address())

    assert database.fetch("SELECT value FROM placet.placet_meta WHERE name = 'schema_version'") == [(str(number),)]
    await store._thread.carry(_assert_limits(store))


async def _assert_limits(store: Any) -> None:
    """What a migration may take, no call may."""
    limits = [await store._line._connection.fetchval(f"SHOW {name}") for name in ("statement_timeout", "lock_timeout")]
    assert limits == ["800ms", "400ms"]


# ---------------------------------------------------------------- statistics

_SLOW_ANALYZE = (
    "CREATE FUNCTION placet.dawdle(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN "
    "IF current_query() LIKE '%ANALYZE%' THEN PERFORM pg_sleep(20); END IF; RETURN t; END $$",
    "CREATE INDEX dawdling ON placet.effects (placet.dawdle(fingerprint))",
)


@pytest.mark.usefixtures("impatient")
async def test_statistics_that_take_long_hurt_no_caller(database: Database, open_store: OpenStore) -> None:
    store = open_store()
    database.execute(*_SLOW_ANALYZE)
    answers = [await store.claim(a_claim(f"key-{n}", token=f"t-{n}", step=a_step(f"c-{n}"))) for n in range(40)]

    assert all(isinstance(answer, Claimed) for answer in answers)


async def test_the_server_is_told_of_a_new_stores_sizes(database: Database, open_store: OpenStore) -> None:
    store = open_store()
    for n in range(18):
        await store.claim(a_claim(f"key-{n}", token=f"t-{n}", step=a_step(f"c-{n}")))
    told = "SELECT reltuples::int FROM pg_class WHERE oid = 'placet.effects'::regclass"

    await until(lambda: database.fetch(told)[0][0] >= 16)  # type: ignore[operator]


async def test_statistics_that_cannot_be_told_are_told_of(
    database: Database, open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_wire(database) as wire:
        store = await asyncio.to_thread(open_store, through(wire, database, patience_seconds=1.0))
        wire.is_down = True
        for n in range(16):
            await store.claim(a_claim(f"key-{n}", token=f"t-{n}", step=a_step(f"c-{n}")))
        await until(lambda: [record for record in caplog.records if "how large" in record.getMessage()])

    assert [getattr(record, "code", "") for record in caplog.records if record.levelname == "WARNING"] == [
        "store_unavailable"
    ]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("host", ["a" * 64, "a" * 64 + ".example", "é" * 62])
def test_a_host_whose_name_is_none_is_told_so(host: str, open_store: OpenStore) -> None:
    with pytest.raises(placet.PlacetError) as refused:
        open_store(address_of(f"postgresql://postgres@{host}/ledger", patience_seconds=1.0))
    assert type(refused.value) is StoreUnavailable
    assert "spelt" in refused.value.hint
