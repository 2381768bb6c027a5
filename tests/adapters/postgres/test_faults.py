"""What a server may do to a store: each ends as nothing committed, or in doubt, in our own words; then all goes on."""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import Any

import asyncpg
import orjson
import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.postgres.connection import is_lost
from placet.engine.auditing import verify_store
from placet.errors import PlacetError, StoreInDoubt, StoreUnavailable
from placet.model.effect import EffectState
from placet.model.identifiers import OperationKey
from placet.model.ledger import Claimed, Moved, Recorded
from placet.testing.conformance import a_claim, a_settlement, a_step, an_event, fault_of
from tests.adapters.postgres.conftest import OpenStore
from tests.postgres.fixtures import Cluster, Database, folder_of
from tests.postgres.server import Server


@pytest.fixture
def own_server(cluster: Cluster) -> Iterator[Cluster]:
    """A server that the test may stop, whose commits survive it."""
    if cluster.server is None:
        pytest.fail("a server that a test may stop is one of its own")
    server = Server(folder_of(cluster.version), fsync=True)
    mine = Cluster(cluster.version, server.url(), server)
    yield mine
    mine.close()


def assert_only_our_words(fault: PlacetError | None) -> None:
    assert fault is not None
    text = "".join(traceback.format_exception(fault))
    for foreign in ("asyncpg", "canceling", "duplicate key", "terminating", "connection was closed", "could not"):
        assert foreign not in text, text
    assert fault.__cause__ is None


async def test_a_row_that_somebody_holds_is_waited_for_so_long_and_no_longer(
    database: Database, open_store: OpenStore
) -> None:
    database.execute(f"ALTER DATABASE {database.name} SET lock_timeout = '10s'")
    store = open_store()
    answer = await store.claim(a_claim("key-1"))
    assert isinstance(answer, Claimed)
    await store._thread.carry(_set(store, "statement_timeout", "300ms"))
    hog = await asyncpg.connect(database.url)
    await hog.execute("BEGIN")
    await hog.execute("SELECT * FROM placet.effects FOR UPDATE")

    fault = await fault_of(store.settle(a_settlement(answer.effect)))

    assert type(fault) is StoreUnavailable and not fault.may_have_acted
    assert_only_our_words(fault)
    await hog.execute("ROLLBACK")
    await hog.close()
    assert isinstance(await store.settle(a_settlement(answer.effect)), Moved)


async def _set(store: Any, name: str, value: str) -> None:
    await store._line._connection.execute(f"SET {name} = '{value}'")


async def test_a_standby_takes_no_changes_and_says_so(database: Database, open_store: OpenStore) -> None:
    store = open_store(patience_seconds=2.0)
    await store._thread.carry(_set(store, "default_transaction_read_only", "on"))

    fault = await fault_of(store.record((an_event(),)))

    assert type(fault) is StoreUnavailable and "primary" in (fault.hint or "")
    assert_only_our_words(fault)
    await store._thread.carry(_set(store, "default_transaction_read_only", "off"))
    assert isinstance(await store.record((an_event(),)), Recorded)


async def test_a_full_disk_commits_nothing_and_names_itself(database: Database, open_store: OpenStore) -> None:
    """As the server words it: a real full disk would take the whole machine's tests with it."""
    store = open_store()
    database.execute(
        "CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$",
        "CREATE TRIGGER disk_full BEFORE INSERT ON placet.audit_events FOR EACH ROW EXECUTE FUNCTION disk_full()",
    )

    fault = await fault_of(store.claim(a_claim("key-1")))

    assert type(fault) is StoreUnavailable and "disk" in str(fault)
    assert_only_our_words(fault)
    assert await store.effect("acme", OperationKey("key-1")) is None
    database.execute("DROP TRIGGER disk_full ON placet.audit_events")
    assert isinstance(await store.claim(a_claim("key-1")), Claimed)


async def test_a_server_without_room_for_connections_is_told_and_tried_again(
    database: Database, open_store: OpenStore
) -> None:
    store = open_store(patience_seconds=2.0)
    role = f"limited_{database.name}"
    database.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 0", f"CREATE ROLE {role} LOGIN")
    fault = None
    try:
        address = database.address(patience_seconds=2.0)
        limited = type(address)(
            url=address.url.replace("postgres@", f"{role}@"), shown=address.shown, patience_seconds=2.0
        )
        with pytest.raises(StoreUnavailable) as refused:
            await asyncio.to_thread(open_store, limited)
        fault = refused.value
    finally:
        database.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1", f"DROP ROLE {role}")

    assert "no more connections" in str(fault) and "max_connections" in (fault.hint or "")
    assert_only_our_words(fault)
    assert isinstance(await store.record((an_event(),)), Recorded)


@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_what_the_server_gives_up_for_another_transaction_is_decided_again(
    database: Database, open_store: OpenStore, ring: KeyRing, code: str
) -> None:
    store = open_store()
    database.execute(
        "CREATE SEQUENCE tries",
        "CREATE FUNCTION give_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('public.tries') <= 3 THEN "
        f"RAISE EXCEPTION 'deadlock' USING ERRCODE = '{code}'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER give_up BEFORE INSERT ON placet.audit_events FOR EACH ROW EXECUTE FUNCTION give_up()",
    )

    assert isinstance(await store.claim(a_claim("key-1")), Claimed)

    report = await verify_store(store, ChainLinker(ring))
    assert (report.breaks, report.events) == ((), 1)


async def test_what_is_given_up_every_time_is_told_after_a_bounded_number_of_times(
    database: Database, open_store: OpenStore
) -> None:
    store = open_store()
    database.execute(
        "CREATE FUNCTION give_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$",
        "CREATE TRIGGER give_up BEFORE INSERT ON placet.audit_events FOR EACH ROW EXECUTE FUNCTION give_up()",
    )

    fault = await fault_of(store.claim(a_claim("key-1")))

    assert type(fault) is StoreUnavailable and fault.retryable
    assert_only_our_words(fault)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "restarted"])
async def test_a_server_that_dies_under_load_loses_nothing_it_confirmed_and_nothing_is_done_twice(
    own_server: Cluster, open_store: OpenStore, ring: KeyRing, how: str
) -> None:
    database = own_server.database()
    store = open_store(database.address(patience_seconds=30.0))
    server = own_server.server
    assert server is not None
    confirmed: list[str] = []

    async def write(number: int) -> None:
        key = f"key-{number}"
        claim = a_claim(key, token=f"t-{number}", step=a_step(f"call-{number}", max_steps=100_000))
        while True:  # as the engine does: the same claim with the same token
            try:
                answer = await store.claim(claim)
                break
            except (StoreInDoubt, StoreUnavailable):
                continue
        assert isinstance(answer, Claimed), answer
        settlement = a_settlement(answer.effect)
        while True:
            try:
                assert isinstance(await store.settle(settlement), Moved)
                break
            except (StoreInDoubt, StoreUnavailable):
                continue
        confirmed.append(key)

    async def load() -> None:
        for start in range(0, 480, 16):
            await asyncio.gather(*(write(number) for number in range(start, start + 16)))

    loading = asyncio.ensure_future(load())
    for _ in range(3):
        before = len(confirmed)
        while len(confirmed) < before + 40 and not loading.done():
            await asyncio.sleep(0.001)
        await asyncio.to_thread(server.kill if how == "killed" else server.terminate)
        await asyncio.to_thread(server.start)
    await loading

    rows = await store.effects(tenant="acme", states=tuple(EffectState), limit=1_000)
    assert (len(confirmed), len(rows)) == (480, 480)
    assert {(row.state, row.fence, row.attempts) for row in rows} == {(EffectState.COMMITTED, 1, 1)}  # type: ignore[union-attr]
    report = await verify_store(store, ChainLinker(ring))
    kinds = Counter([orjson.loads(event.body)["kind"] async for event in store.chained()])
    assert (report.breaks, kinds) == ((), {"started": 480, "completed": 480})


@pytest.mark.slow
async def test_a_server_that_is_away_is_told_at_once_to_whoever_asks_after_its_time(
    own_server: Cluster, open_store: OpenStore
) -> None:
    store = open_store(own_server.database().address(patience_seconds=2.0))
    server = own_server.server
    assert server is not None
    await asyncio.to_thread(server.terminate, signal.SIGINT)

    faults = [await fault_of(store.record((an_event(),))), await fault_of(store.effect("acme", OperationKey("key-1")))]

    assert [type(fault) for fault in faults] == [StoreUnavailable] * 2
    for fault in faults:
        assert_only_our_words(fault)
    await asyncio.to_thread(server.start)
    assert isinstance(await store.record((an_event(),)), Recorded)


def test_a_connection_that_is_out_of_step_is_lost() -> None:
    """What was on its way may have been committed, so it has to be asked after."""
    assert is_lost(asyncpg.InternalClientError("cannot switch to state 12"))
