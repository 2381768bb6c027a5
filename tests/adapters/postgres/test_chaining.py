"""Co-commits where a handler does what it may not, and the chaining of their events beside everything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import asyncpg
import orjson
import pytest

import placet
from placet import Principal, Retention
from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.postgres import PostgresStore
from placet.engine.auditing import verify_store
from placet.errors import StoreUnavailable
from placet.model.audit import EventKind
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import OperationKey
from placet.model.ledger import Claimed, CoCommitted, Moved, NotSettled, Recorded
from placet.testing.conformance import a_claim, a_settlement, an_event
from tests.adapters.postgres.conftest import OpenStore
from tests.adapters.postgres.test_under_locks import asleep
from tests.postgres.fixtures import Database

GATE = "SELECT pg_advisory_lock(42)"
"""What somebody holds to keep a chosen statement of the store from ending."""


CHAINING = "SELECT pg_advisory_lock(hashtextextended('placet', 7021801))"
"""What a process holds that chains."""


@asynccontextmanager
async def handler(database: Database) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.url)
    try:
        yield connection
    finally:
        connection.terminate()


async def begun(store: PostgresStore, key: str = "key-1") -> Effect:
    answer = await store.claim(a_claim(key, token="co:token-1"))
    assert isinstance(answer, Claimed)
    return answer.effect


async def row(store: PostgresStore) -> Effect:
    found = await store.effect("acme", OperationKey("key-1"))
    assert found is not None
    return found


def said(effect: Effect, **changes: Any) -> Any:
    """A settle with an event of its own effect."""
    completed = an_event(EventKind.COMPLETED, call_id=effect.call_id, attempt=effect.attempt, fence=effect.fence)
    return a_settlement(effect, reason="co_committed", events=(completed,), late_events=(), **changes)


@asynccontextmanager
async def held_up(database: Database, table: str, when: str) -> AsyncIterator[asyncpg.Connection]:
    """While the gate is held, a statement on the table does not end."""
    database.execute(
        "CREATE FUNCTION wait_at_the_gate() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END'",
        f"CREATE TRIGGER gate AFTER {when} ON placet.{table} FOR EACH STATEMENT EXECUTE FUNCTION wait_at_the_gate()",
    )
    async with handler(database) as keeper:
        await keeper.execute(GATE)
        yield keeper


def waiting(database: Database) -> int:
    """How many connections wait for a lock."""
    return int(str(database.fetch("SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted")[0][0]))


async def somebody_waits(database: Database) -> None:
    async with asyncio.timeout(60):
        while not waiting(database):
            await asyncio.sleep(0.01)


# ---------------------------------------------------------------- savepoints


@pytest.mark.req("H032")
@pytest.mark.parametrize("way", ["nested transaction", "SAVEPOINT"])
async def test_a_co_commit_in_a_savepoint_is_refused_and_a_handler_that_goes_on_commits_nothing(
    database: Database, open_store: OpenStore, way: str
) -> None:
    store = open_store()
    database.execute("CREATE TABLE payments (order_id text)")
    effect = await begun(store)
    async with handler(database) as connection:
        with suppress(asyncpg.InterfaceError):
            async with connection.transaction():
                await connection.execute("INSERT INTO payments VALUES ('o-1')")
                with suppress(asyncpg.InterfaceError):
                    if way == "SAVEPOINT":
                        await connection.execute("SAVEPOINT mine")
                        answer = await store.co_commit(connection, said(effect, fence=effect.fence + 1))
                        await connection.execute("ROLLBACK TO SAVEPOINT mine")
                    else:
                        async with connection.transaction():
                            answer = await store.co_commit(connection, said(effect, fence=effect.fence + 1))
                            raise asyncpg.InterfaceError("the handler swallows the refusal")
                await connection.execute("INSERT INTO payments VALUES ('o-2')")

    assert database.fetch("SELECT * FROM payments") == []
    assert answer == NotSettled(reason="in_a_savepoint")
    assert await row(store) == effect


@pytest.mark.req("H032")
async def test_a_settle_that_a_savepoint_could_take_back_is_not_made(database: Database, open_store: OpenStore) -> None:
    """The rest of the transaction would commit, and the row would say that nothing did."""
    store = open_store()
    database.execute("CREATE TABLE payments (order_id text)")
    effect = await begun(store)
    async with handler(database) as connection:
        with suppress(asyncpg.InterfaceError):
            async with connection.transaction():
                await connection.execute("INSERT INTO payments VALUES ('o-1')")
                await connection.execute("SAVEPOINT mine")
                answer = await store.co_commit(connection, said(effect))
                await connection.execute("ROLLBACK TO SAVEPOINT mine")

    assert answer == NotSettled(reason="in_a_savepoint")
    assert database.fetch("SELECT * FROM payments") == []
    assert isinstance(await store.settle(a_settlement(effect, EffectState.FAILED)), Moved)


async def test_a_savepoint_that_is_over_is_none(database: Database, open_store: OpenStore) -> None:
    store = open_store()
    effect = await begun(store)
    async with handler(database) as connection, connection.transaction():
        async with connection.transaction():
            await connection.execute("SELECT 1")
        assert await store.co_commit(connection, said(effect)) == CoCommitted()

    assert (await row(store)).state is EffectState.COMMITTED


async def test_a_fault_in_a_savepoint_commits_nothing_either(database: Database, open_store: OpenStore) -> None:
    store = open_store()
    database.execute("CREATE TABLE payments (order_id text)")
    effect = await begun(store)
    async with handler(database) as hog, handler(database) as connection:
        await hog.execute("BEGIN; LOCK placet.unchained_events IN ACCESS EXCLUSIVE MODE")
        with suppress(asyncpg.InterfaceError):
            async with connection.transaction():
                await connection.execute("SET LOCAL lock_timeout = '100ms'")
                await connection.execute("INSERT INTO payments VALUES ('o-1')")
                await connection.execute("SAVEPOINT mine")
                with pytest.raises(StoreUnavailable):
                    await store.co_commit(connection, said(effect))
                await connection.execute("ROLLBACK TO SAVEPOINT mine")

    assert database.fetch("SELECT * FROM payments") == []


# ---------------------------------------------------------------- chaining


async def test_what_waits_to_be_chained_delays_no_answer(database: Database, open_store: OpenStore) -> None:
    store = open_store()
    effect = await begun(store)
    async with handler(database) as connection, connection.transaction():
        assert await store.co_commit(connection, said(effect)) == CoCommitted()
    async with held_up(database, "unchained_events", "DELETE") as keeper:
        answer = await store.record((an_event(call_id="call-9"),))
        assert isinstance(answer, Recorded)
        await somebody_waits(database)
        assert database.fetch("SELECT count(*) FROM placet.unchained_events") == [(1,)], "it is not chained yet"
        await keeper.execute("SELECT pg_advisory_unlock(42)")
    await store.record((an_event(call_id="call-10"),))

    assert database.fetch("SELECT count(*) FROM placet.unchained_events") == [(0,)]


async def test_callers_who_go_on_without_end_do_not_keep_events_waiting(
    database: Database, open_store: OpenStore
) -> None:
    store = open_store()
    effect = await begun(store)
    async with handler(database) as connection, connection.transaction():
        assert await store.co_commit(connection, said(effect)) == CoCommitted()
    with asleep(store):
        stops = [asyncio.ensure_future(store.stop(f"tenant:t-{n}", (an_event(EventKind.STOPPED),))) for n in range(40)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await asyncio.gather(*stops)

    kinds = [orjson.loads(event.body)["kind"] async for event in store.chained()]
    assert kinds.index("completed") < 20, "after sixteen batches of others at most"
    assert kinds.count("stopped") == 40


async def test_an_event_that_waits_twice_is_chained_once_however_many_chain_at_once(
    database: Database, open_store: OpenStore, ring: KeyRing
) -> None:
    """Each of the two would lock one copy, and see no other in the audit."""
    first, second = open_store(), open_store()
    effect = await begun(first)
    async with handler(database) as connection, connection.transaction():
        assert await first.co_commit(connection, said(effect)) == CoCommitted()
    database.execute(
        "INSERT INTO placet.unchained_events (body, key_id, mac) SELECT body, key_id, mac FROM placet.unchained_events"
    )
    database.execute("UPDATE placet.unchained_events SET is_refused = 1 WHERE number > 1")
    async with held_up(database, "audit_events", "INSERT") as keeper:
        one = asyncio.ensure_future(first.chain_waiting())
        await somebody_waits(database)
        database.execute("UPDATE placet.unchained_events SET is_refused = 0 WHERE number > 1")
        other = asyncio.ensure_future(second.chain_waiting())
        async with asyncio.timeout(60):
            while not other.done() and waiting(database) < 2:
                await asyncio.sleep(0.01)
        await keeper.execute("SELECT pg_advisory_unlock(42)")
        assert (await one, await other) == (1, 2), "each says how many waited when it looked, also for somebody else"

    await second.chain_waiting()
    await first.record(())
    copies = "SELECT number, is_refused FROM placet.unchained_events"
    assert database.fetch(copies) == [(2, 1)], "the copy is told of, and not chained"
    bodies = [str(found[0]) for found in database.fetch("SELECT body FROM placet.audit_events")]
    assert sum('"completed"' in body for body in bodies) == 1
    assert (await verify_store(first, ChainLinker(ring))).breaks == ()


async def test_what_another_process_is_chaining_still_waits(database: Database, open_store: OpenStore) -> None:
    """Whoever cuts the audit on the word that nothing waits would make copies of what is chained after."""
    store = open_store()
    effect = await begun(store)
    async with handler(database) as other:
        await other.execute(CHAINING)
        async with handler(database) as connection, connection.transaction():
            assert await store.co_commit(connection, said(effect)) == CoCommitted()

        assert (await store.chain_waiting(), await store.chain_waiting()) == (1, 1)
        assert database.fetch("SELECT count(*) FROM placet.unchained_events") == [(1,)]

        await other.execute("SELECT pg_advisory_unlock_all()")
        assert (await store.chain_waiting(), await store.chain_waiting()) == (1, 0)


async def test_no_audit_is_cut_while_another_process_chains(database: Database, tmp_path: Path) -> None:
    keep = Retention(seconds=90 * 86_400.0, audit_seconds=90 * 86_400.0)
    keeper = Principal.person("kim", tenant="ops", scopes=("ops.purge",))
    async with (
        handler(database) as other,
        placet.open(tools=(), store=database.url, key=tmp_path / "key", recovery=placet.Recovery.MANUAL) as gate,
    ):
        store = cast(PostgresStore, gate.store)
        effect = await begun(store)
        await other.execute(CHAINING)
        async with handler(database) as connection, connection.transaction():
            assert await store.co_commit(connection, said(effect)) == CoCommitted()

        assert (await gate.purger.purge(keep, by=keeper)).is_audit_waiting
        await other.execute("SELECT pg_advisory_unlock_all()")
        assert not (await gate.purger.purge(keep, by=keeper)).is_audit_waiting

    assert database.fetch("SELECT count(*) FROM placet.unchained_events") == [(0,)]


async def test_an_event_of_a_rolled_back_transaction_that_somebody_puts_there_changes_no_row(
    database: Database, open_store: OpenStore
) -> None:
    """A known gap, as ADR 0030 says: it was made by us, so it is chained beside the event of how it truly ended."""
    store = open_store()
    effect = await begun(store)
    async with handler(database) as connection:
        transaction = connection.transaction()
        await transaction.start()
        assert await store.co_commit(connection, said(effect)) == CoCommitted()
        captured = await connection.fetchrow("SELECT body, key_id, mac FROM placet.unchained_events")
        await transaction.rollback()
        settled = await store.settle(replace(said(effect), state=EffectState.FAILED))
        assert isinstance(settled, Moved)
        await connection.execute(
            "INSERT INTO placet.unchained_events (body, key_id, mac) VALUES ($1, $2, $3)", *captured
        )

    assert await store.chain_waiting() == 1

    assert await row(store) == settled.effect and settled.effect.state is EffectState.FAILED
    assert isinstance(await store.claim(a_claim("key-1", token="co:token-2", fence=1)), Claimed)
