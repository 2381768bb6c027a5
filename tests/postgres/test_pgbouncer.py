"""Behind PgBouncer: sessions work, transactions from a pool are refused by name, and a handler's one may be such."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import pytest

from placet.adapters.clock import SystemClock
from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.postgres import PostgresStore, address_of
from placet.adapters.stores.postgres.connection import connect, settings_of
from placet.adapters.telemetry.quiet import QuietMeter
from placet.engine.auditing import verify_store
from placet.errors import StoreUnavailable
from placet.model.audit import EventKind
from placet.model.effect import EffectState
from placet.model.identifiers import OperationKey, WriterId
from placet.model.ledger import Claimed, CoCommitted, Moved
from placet.model.waking import effect_topic
from placet.ports.store import nobody
from placet.testing.conformance import a_claim, a_settlement, an_event
from tests.postgres.fixtures import Database
from tests.postgres.pgbouncer import PgBouncer

KEYS = KeyRing({"k-1": b"1" * 32}, current="k-1")
TOLD = "statement_timeout,lock_timeout,idle_in_transaction_session_timeout,enable_seqscan,enable_hashjoin,"
TOLD += "enable_mergejoin,plan_cache_mode,synchronous_commit,default_transaction_isolation,jit,search_path"


@pytest.fixture
def bouncer(database: Database) -> Iterator[Callable[..., PgBouncer]]:
    made: list[PgBouncer] = []

    def start(pool_mode: str, **settings: str) -> PgBouncer:
        if database.server is None:
            pytest.skip("a pooler is put before a server of our own")
        made.append(PgBouncer(database.server, pool_mode=pool_mode, settings=settings))
        return made[-1]

    yield start
    for each in made:
        each.remove()


def a_store(url: str, name: str = "w-1") -> PostgresStore:
    return PostgresStore(
        address_of(url), keys=KEYS, clock=SystemClock(), writer=WriterId(name), meter=QuietMeter(), heard=nobody
    )


@pytest.mark.case("O03")
@pytest.mark.parametrize("ignored", ["", TOLD], ids=["as it comes", "ignoring what it does not know"])
@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_gives_transactions_is_refused_by_name(
    database: Database, bouncer: Callable[..., PgBouncer], mode: str, ignored: str
) -> None:
    pooler = bouncer(mode, **({"ignore_startup_parameters": ignored} if ignored else {}))

    with pytest.raises(StoreUnavailable) as refused:
        a_store(pooler.url(database.name))

    assert "pooler" in str(refused.value) and "pool_mode = session" in (refused.value.hint or "")
    assert database.fetch("SELECT count(*) FROM placet.audit_heads") == [(0,)], "nothing was written through it"


def test_a_pooler_that_has_one_session_for_all_is_refused_too(
    database: Database, bouncer: Callable[..., PgBouncer]
) -> None:
    pooler = bouncer("transaction", default_pool_size="1")

    with pytest.raises(StoreUnavailable, match="pooler"):
        a_store(pooler.url(database.name))


def test_a_pooler_that_takes_its_sessions_in_turn_is_refused_too(
    database: Database, bouncer: Callable[..., PgBouncer]
) -> None:
    pooler = bouncer("transaction", server_round_robin="1", min_pool_size="2", default_pool_size="3")
    asyncio.run(_warmed(pooler.url(database.name)))

    with pytest.raises(StoreUnavailable, match="pooler"):
        a_store(pooler.url(database.name))


@pytest.mark.parametrize(
    ("mode", "settings"),
    [
        ("transaction", {"max_client_conn": "1"}),
        ("transaction", {"max_client_conn": "3", "server_round_robin": "1"}),
        ("session", {"default_pool_size": "1"}),
    ],
)
def test_a_pooler_that_is_too_full_to_be_tried_is_refused_and_says_so(
    database: Database, bouncer: Callable[..., PgBouncer], mode: str, settings: dict[str, str]
) -> None:
    """No witness is no proof: whether a session stays where it was is seen while others hold transactions."""
    pooler = bouncer(mode, ignore_startup_parameters=TOLD, **settings)

    with pytest.raises(StoreUnavailable, match="pooler") as refused:
        a_store(pooler.url(database.name))

    if mode == "session":
        assert "full" in str(refused.value) and "max_client_conn" in (refused.value.hint or "")
    assert database.fetch("SELECT count(*) FROM placet.audit_heads") == [(0,)], "nothing was written through it"


async def _warmed(url: str) -> None:
    several = [await asyncpg.connect(url, statement_cache_size=0) for _ in range(2)]
    for each in several:
        await each.execute("BEGIN")
    for each in several:
        await each.execute("COMMIT")
        await each.close()


@pytest.mark.case("O03")
@pytest.mark.parametrize("ignored", ["", TOLD], ids=["as it comes", "ignoring what it does not know"])
async def test_a_pooler_that_gives_sessions_carries_a_whole_store(
    database: Database, bouncer: Callable[..., PgBouncer], ignored: str
) -> None:
    pooler = bouncer("session", **({"ignore_startup_parameters": ignored} if ignored else {}))
    store = await asyncio.to_thread(a_store, pooler.url(database.name))
    try:
        answer = await store.claim(a_claim("key-1"))
        assert isinstance(answer, Claimed)
        with store.waiting_for(effect_topic("acme", OperationKey("key-1"))) as wakeup:
            assert isinstance(await store.settle(a_settlement(answer.effect)), Moved)
            async with asyncio.timeout(30):
                await wakeup.wait()
        assert await store.stop("all", (an_event(EventKind.STOPPED),)) == 0
        found = await store.effect("acme", OperationKey("key-1"))
        assert found is not None and found.state is EffectState.COMMITTED
        report = await verify_store(store, ChainLinker(KEYS))
        assert (report.breaks, report.unpaired) == ((), 0)
    finally:
        await store.close()


async def test_a_session_from_a_pooler_has_every_setting_that_a_store_needs(
    database: Database, bouncer: Callable[..., PgBouncer]
) -> None:
    address = address_of(bouncer("session", ignore_startup_parameters=TOLD).url(database.name))
    direct, pooled = await connect(database.address()), await connect(address)
    try:
        for name in settings_of(address):
            assert await pooled.fetchval(f"SHOW {name}") == await direct.fetchval(f"SHOW {name}"), name
    finally:
        direct.terminate()
        pooled.terminate()


async def test_a_handler_may_co_commit_through_a_pooler_that_gives_transactions(
    database: Database, bouncer: Callable[..., PgBouncer]
) -> None:
    """All of it is in one transaction, and so in one session."""
    pooler = bouncer("transaction")
    store = await asyncio.to_thread(a_store, database.url)
    database.execute("CREATE TABLE payments (order_id text)")
    try:
        answer = await store.claim(a_claim("key-1", token="co:token-1"))
        assert isinstance(answer, Claimed)
        handler: Any = await asyncpg.connect(pooler.url(database.name), statement_cache_size=0)
        async with handler.transaction():
            await handler.execute("INSERT INTO payments VALUES ('o-1')")
            assert await store.co_commit(handler, a_settlement(answer.effect)) == CoCommitted()
        await handler.close()

        assert database.fetch("SELECT * FROM payments") == [("o-1",)]
        found = await store.effect("acme", OperationKey("key-1"))
        assert found is not None and found.state is EffectState.COMMITTED
    finally:
        await store.close()
