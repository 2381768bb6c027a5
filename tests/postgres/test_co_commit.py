"""A handler that writes to the store's PostgreSQL database settles its effect in its own transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count, product
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest

import placet
from placet.adapters.keys import KeyRing
from placet.adapters.stores import rows
from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.postgres import PostgresStore
from placet.adapters.stores.postgres.co_commit import co_commit
from placet.adapters.telemetry.quiet import QuietMeter
from placet.bootstrap import stores
from placet.engine.gate import Gate
from placet.errors import CoCommitNotCovered, CoCommitRefused, StoreUnavailable
from placet.model.audit import AuditOutcome, EventKind
from placet.model.context import CallContext
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import Token, WriterId
from placet.model.ledger import Claimed, CoCommitted, Moved, NotCovered, NotMoved, NotSettled
from placet.model.outcome import Failed, InProgress, Outcome, Replayed, Succeeded, Unknown
from placet.model.retention import Purge
from placet.ports.store import nobody
from placet.rules.transitions import apply_claim, apply_co_commit
from placet.testing.conformance import EVERY_STATE, a_claim, a_settlement, an_event
from placet.testing.conformance.archiving import a_cut
from placet.testing.fakes import FakeClock
from tests.postgres.fixtures import Database

KEYS = KeyRing({"k-1": b"1" * 32}, current="k-1")
MARKED = Token("co:token-1")


@pytest.fixture
async def open_store(database: Database) -> AsyncIterator[Callable[[], PostgresStore]]:
    opened: list[PostgresStore] = []
    writers = count(1)

    def open_one() -> PostgresStore:
        writer = WriterId(f"w-{next(writers)}")
        opened.append(
            PostgresStore(
                database.address(), keys=KEYS, clock=FakeClock(), writer=writer, meter=QuietMeter(), heard=nobody
            )
        )
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
def store(open_store: Callable[[], PostgresStore], database: Database) -> PostgresStore:
    opened = open_store()
    database.execute("CREATE TABLE payments (order_id text PRIMARY KEY)")
    return opened


@asynccontextmanager
async def connected(database: Database, *, user: str = "postgres") -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.url.replace("postgres@", f"{user}@"))
    try:
        yield connection
    finally:
        await connection.close()


async def begun(store: PostgresStore, key: str = "key-1", **changes: Any) -> Effect:
    answer = await store.claim(a_claim(key, **({"token": MARKED} | changes)))
    assert isinstance(answer, Claimed), answer
    return answer.effect


async def row(store: PostgresStore, effect: Effect) -> Effect:
    found = await store.effect(effect.tenant, effect.operation_key)
    assert found is not None
    return found


def payments(database: Database) -> list[str]:
    return [str(found[0]) for found in database.fetch("SELECT order_id FROM payments ORDER BY 1")]


# ---------------------------------------------------------------- the statement decides as the rule does


CHANGES: list[dict[str, Any]] = [{}, {"fence": 2}, {"fence": 0}, {"token": Token("co:another")}, {"attempt": 2}]


@pytest.mark.req("H032", "H033")
async def test_the_statement_refuses_what_the_rule_refuses_and_writes_what_it_writes(
    store: PostgresStore, database: Database
) -> None:
    database.execute("ALTER TABLE placet.effects DISABLE TRIGGER USER")
    chain = ChainWriter(KEYS, WriterId("w-9"), opened_after=b"{}")
    async with connected(database) as connection:
        for number, (state, changes, has_ended) in enumerate(product(EVERY_STATE, CHANGES, (False, True))):
            effect = await begun(store, f"key-{number}", token=f"co:token-{number}")
            database.execute(f"UPDATE placet.effects SET state = '{state}' WHERE operation_key = 'key-{number}'")
            before = replace(effect, state=state)
            said = a_settlement(before, attempt_has_ended=has_ended, **changes)
            async with connection.transaction():
                pass
            transaction = connection.transaction()
            await transaction.start()
            answer = await co_commit(connection, said, address=database.address(), chain=chain)
            await transaction.commit()
            found = database.fetch(f"SELECT * FROM placet.effects WHERE operation_key = 'key-{number}'")
            after = rows.effect_from(found[0])
            match apply_co_commit(before, said, now=after.updated_at):
                case Moved(effect=expected):
                    assert (answer, after) == (CoCommitted(), expected)
                    if has_ended:
                        assert after.attempt_ended_at == after.updated_at
                case NotMoved(reason=reason):
                    assert (answer, after) == (NotSettled(reason=reason), before), (state, changes)


async def test_an_effect_that_is_not_there_is_another_s(store: PostgresStore, database: Database) -> None:
    effect = await begun(store)
    async with connected(database) as connection, connection.transaction():
        said = a_settlement(effect, operation_key="another")
        assert await store.co_commit(connection, said) == NotSettled(reason="taken_over")


# ---------------------------------------------------------------- what is no transaction of the store


async def test_what_is_no_transaction_of_the_store_is_not_covered(
    store: PostgresStore, database: Database, databases: Callable[..., Database]
) -> None:
    effect = await begun(store)
    elsewhere = databases(is_empty=True)
    async with connected(database) as connection:
        answer = await store.co_commit(connection, a_settlement(effect))
        assert answer == NotCovered(reason="no_transaction")
    assert await store.co_commit(connection, a_settlement(effect)) == NotCovered(reason="no_transaction"), (
        "it is closed"
    )
    async with connected(elsewhere) as other:
        await other.execute("CREATE TABLE payments (order_id text)")
        async with other.transaction():
            await other.execute("INSERT INTO payments VALUES ('o-1')")
            assert await store.co_commit(other, a_settlement(effect)) == NotCovered(reason="another_database")
        assert payments(elsewhere) == []
    for strange in (None, object(), database, "connection"):
        assert await store.co_commit(strange, a_settlement(effect)) == NotCovered(reason="not_an_asyncpg_connection")
    assert await row(store, effect) == effect


async def test_a_connection_of_a_pool_is_one(store: PostgresStore, database: Database) -> None:
    effect = await begun(store)
    async with (
        asyncpg.create_pool(database.url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        assert await store.co_commit(connection, a_settlement(effect)) == CoCommitted()
    assert (await row(store, effect)).state is EffectState.COMMITTED


async def test_a_role_that_was_let_may_settle_what_it_has_the_token_of_and_see_nothing(
    store: PostgresStore, database: Database
) -> None:
    name = f"shop_{database.name}"
    database.execute(f"CREATE ROLE {name} LOGIN", f"GRANT ALL ON payments TO {name}")
    effect = await begun(store)
    try:
        async with connected(database, user=name) as connection:
            with pytest.raises(asyncpg.InFailedSQLTransactionError):
                async with connection.transaction():
                    answer = await store.co_commit(connection, a_settlement(effect))
                    assert answer == NotCovered(reason="no_right_to_co_commit")
                    await connection.execute("INSERT INTO payments VALUES ('o-1')")

            database.execute(f"SELECT placet.let_co_commit('{name}')")
            for table in ("effects", "unchained_events", "audit_events", "placet_meta"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(f"SELECT * FROM placet.{table}")
            async with connection.transaction():
                guessed = a_settlement(effect, token=Token("co:guessed"))
                assert await store.co_commit(connection, guessed) == NotSettled(reason="taken_over")
            async with connection.transaction():
                await connection.execute("INSERT INTO payments VALUES ('o-1')")
                assert await store.co_commit(connection, a_settlement(effect)) == CoCommitted()
        assert payments(database) == ["o-1"]
        assert (await row(store, effect)).state is EffectState.COMMITTED
    finally:
        database.execute(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


async def test_a_role_that_may_only_read_may_not_settle(store: PostgresStore, database: Database) -> None:
    name = f"reader_{database.name}"
    database.execute(f"CREATE ROLE {name} LOGIN", f"SET search_path = placet; SELECT let_read('{name}')")
    effect = await begun(store)
    try:
        async with connected(database, user=name) as connection, connection.transaction():
            answer = await store.co_commit(connection, a_settlement(effect))
            assert answer == NotCovered(reason="no_right_to_co_commit")
    finally:
        database.execute(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


async def test_a_search_path_of_the_handler_s_own_changes_nothing(store: PostgresStore, database: Database) -> None:
    """What it has under our names is not what is written to."""
    database.execute(
        "CREATE TABLE effects (tenant text, operation_key text)",
        "CREATE FUNCTION clock_now() RETURNS bigint LANGUAGE sql AS 'SELECT 7'",
    )
    effect = await begun(store)
    async with connected(database) as connection:
        await connection.execute("CREATE TEMPORARY TABLE effects (tenant text)")
        async with connection.transaction():
            await connection.execute("SET LOCAL search_path = pg_temp, public")
            assert await store.co_commit(connection, a_settlement(effect)) == CoCommitted()
    settled = await row(store, effect)
    assert settled.state is EffectState.COMMITTED and settled.updated_at > effect.updated_at


# ---------------------------------------------------------------- locks, faults, isolation


async def waits_for_a_lock(database: Database) -> None:
    async with asyncio.timeout(30):
        while not database.fetch("SELECT 1 FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_settle_waits_for_the_handler_s_transaction_and_then_learns_the_truth(
    store: PostgresStore, database: Database, end: str
) -> None:
    effect = await begun(store)
    async with connected(database) as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("INSERT INTO payments VALUES ('o-1')")
        assert await store.co_commit(connection, a_settlement(effect)) == CoCommitted()
        settling = asyncio.ensure_future(store.settle(a_settlement(effect, EffectState.FAILED)))
        await waits_for_a_lock(database)
        await (transaction.commit() if end == "commit" else transaction.rollback())
        answer = await settling

    if end == "commit":
        assert isinstance(answer, NotMoved) and answer.reason == "already_settled"
        assert answer.effect.state is EffectState.COMMITTED and payments(database) == ["o-1"]
    else:
        assert isinstance(answer, Moved) and answer.effect.state is EffectState.FAILED
        assert payments(database) == []


async def test_a_handler_s_transaction_waits_for_a_settle_that_is_under_way(
    store: PostgresStore, database: Database
) -> None:
    """Whoever is second finds the row moved."""
    effect = await begun(store)
    async with connected(database) as first, connected(database) as second:
        outer, inner = first.transaction(), second.transaction()
        await outer.start()
        await inner.start()
        assert await store.co_commit(first, a_settlement(effect)) == CoCommitted()
        await second.execute("INSERT INTO payments VALUES ('twice')")
        later = asyncio.ensure_future(store.co_commit(second, a_settlement(effect)))
        await waits_for_a_lock(database)
        await outer.commit()
        assert await later == NotSettled(reason="already_settled")
        await inner.commit()
    assert payments(database) == []


async def test_a_row_that_changed_under_a_stricter_isolation_is_a_refusal_and_nothing_commits(
    store: PostgresStore, database: Database
) -> None:
    effect = await begun(store)
    async with connected(database) as connection:
        transaction = connection.transaction(isolation="repeatable_read")
        await transaction.start()
        await connection.execute("INSERT INTO payments VALUES ('o-1')")
        assert await store.heartbeat(effect.owner, lease_seconds=100.0) == 1
        with pytest.raises(StoreUnavailable) as caught:
            await store.co_commit(connection, a_settlement(effect))
        assert caught.value.__cause__ is None and caught.value.__context__ is None
        await transaction.commit()
    assert payments(database) == []
    assert (await row(store, effect)).state is EffectState.DISPATCHED


@pytest.mark.parametrize("when", ["before the co-commit", "before the commit"])
async def test_a_connection_that_is_cut_takes_everything_with_it(
    store: PostgresStore, database: Database, when: str
) -> None:
    effect = await begun(store)
    async with connected(database) as connection:
        with pytest.raises((StoreUnavailable, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            async with connection.transaction():
                await connection.execute("INSERT INTO payments VALUES ('o-1')")
                process = connection.get_server_pid()
                if when == "before the co-commit":
                    database.fetch("SELECT pg_terminate_backend($1)", process)
                await store.co_commit(connection, a_settlement(effect))
                database.fetch("SELECT pg_terminate_backend($1)", process)
                await connection.execute("SELECT 1")
    assert payments(database) == []
    assert await row(store, effect) == effect
    assert database.fetch("SELECT count(*) FROM placet.unchained_events") == [(0,)]


# ---------------------------------------------------------------- what waits, and who may put it there


@pytest.mark.case("N03")
async def test_what_nobody_with_the_key_wrote_is_told_of_once_and_what_is_repeated_too(
    store: PostgresStore, database: Database
) -> None:
    effect = await begun(store)
    async with connected(database) as connection, connection.transaction():
        completed = an_event(EventKind.COMPLETED, outcome=AuditOutcome.SUCCESS)
        assert await store.co_commit(connection, a_settlement(effect, events=(completed,))) == CoCommitted()
    columns = "(body, key_id, mac)"
    database.execute(
        f"INSERT INTO placet.unchained_events {columns} SELECT body, key_id, mac FROM placet.unchained_events",
        f"INSERT INTO placet.unchained_events {columns} VALUES ('{{}}', 'k-1', '0'), ('no JSON', 'k-é', '')",
    )

    assert await store.chain_waiting() == 4
    assert await store.chain_waiting() == 0

    bodies = [orjson.loads(event.body) async for event in store.chained()]
    assert [(body["kind"], body.get("detail")) for body in bodies] == [
        ("started", None),
        ("completed", None),
        ("record_altered", "unchained_event_repeated"),
        ("record_altered", "unchained_event_altered"),
        ("record_altered", "unchained_event_altered"),
    ]
    assert database.fetch("SELECT count(*) FROM placet.unchained_events WHERE is_refused = 1") == [(3,)]


async def test_what_waits_is_chained_before_the_audit_is_cut(database: Database, tmp_path: Path) -> None:
    """Its process died behind the handler's commit, and nobody was there since: the first to come is a purge."""
    now = datetime.now(UTC)
    key = tmp_path / "placet.key"
    _, store = await asyncio.to_thread(stores.open_store, database.url, key=key)
    await store.record((replace(an_event(), at=now - timedelta(days=5)),))
    effect = await begun(store, events=(replace(an_event(), at=now - timedelta(days=3)),))
    said = an_event(kind=EventKind.COMPLETED, outcome=AuditOutcome.SUCCESS)
    said = replace(said, at=now - timedelta(days=3))
    async with connected(database) as connection, connection.transaction():
        assert await store.co_commit(connection, a_settlement(effect, events=(said,))) == CoCommitted()
    await store.close()
    person = placet.Principal.person("mara", tenant="acme", roles=["admin"], scopes=["ops.purge"])

    async with placet.open(tools=[], store=database.url, key=key, recovery=placet.Recovery.MANUAL) as gate:
        await gate.purger.purge(placet.Retention(audit_seconds=4 * 86_400.0), by=person)

    kinds = [row[0] for row in database.fetch("SELECT body::json ->> 'kind' FROM placet.audit_events")]
    assert sorted(map(str, kinds)) == ["audit_cut", "completed", "started"]
    assert database.fetch("SELECT count(*) FROM placet.unchained_events") == [(0,)]


@pytest.mark.parametrize("body", [r'{"tenant": "\u0000", "at": "x"}', "[" * 200_000 + "]" * 200_000])
async def test_a_body_that_the_database_cannot_read_keeps_no_other_event_waiting(
    store: PostgresStore, database: Database, body: str
) -> None:
    effect = await begun(store)
    database.fetch("INSERT INTO placet.unchained_events (body, key_id, mac) VALUES ($1, 'k-1', '0') RETURNING 1", body)
    completed = an_event(kind=EventKind.COMPLETED, outcome=AuditOutcome.SUCCESS)
    async with connected(database) as connection, connection.transaction():
        assert await store.co_commit(connection, a_settlement(effect, events=(completed,))) == CoCommitted()

    assert await store.chain_waiting() == 2

    kinds = [orjson.loads(event.body)["kind"] async for event in store.chained()]
    assert kinds == ["started", "record_altered", "completed"]
    assert database.fetch("SELECT is_refused FROM placet.unchained_events") == [(1,)]


async def test_an_event_put_back_after_it_was_cut_from_the_audit_is_not_chained_again(
    store: PostgresStore, database: Database
) -> None:
    effect = await begun(store)
    async with connected(database) as connection, connection.transaction():
        completed = an_event(EventKind.COMPLETED, outcome=AuditOutcome.SUCCESS)
        assert await store.co_commit(connection, a_settlement(effect, events=(completed,))) == CoCommitted()
    ((body, key_id, mac),) = database.fetch("SELECT body, key_id, mac FROM placet.unchained_events")
    await store.chain_waiting()
    await store.record((an_event(),))
    gone = [event async for event in store.chained()][1]
    cut = a_cut(gone.writer, 1, gone.sequence, gone.link)
    cut = replace(cut, tombstone=replace(cut.tombstone, cut_at=await store.now() + timedelta(days=90)))
    purge = Purge(holds=frozenset(), idle_before=await store.now(), cut=cut, events=(an_event(),))
    assert await store.purge(purge)
    database.execute(f"INSERT INTO placet.unchained_events (body, key_id, mac) VALUES ('{body}', '{key_id}', '{mac}')")

    assert await store.chain_waiting() == 1

    told = [orjson.loads(event.body) async for event in store.chained()]
    assert [each.get("detail") for each in told if each["kind"] in ("completed", "record_altered")] == [
        "unchained_event_repeated"
    ]


# ---------------------------------------------------------------- through a gate

SCOPE = "ops.write"
AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=(SCOPE,))
Handler = Callable[["Shop", str, CallContext], Awaitable[Any]]


@dataclass
class Shop:
    """A database with the shop's payments beside the ledger, and a handler that a test writes."""

    database: Database
    handler: Handler
    folder: Path
    raised: list[BaseException] = field(default_factory=list)

    def open(self, **settings: Any) -> Any:
        @placet.tool(
            effect="write", risk="medium", permission=SCOPE, operation_key="pay:{order}",
            remote=placet.Remote(co_commits=True), timeout_seconds=5.0,
        )  # fmt: skip
        async def pay(order: str, call: CallContext) -> dict[str, str]:
            try:
                return await self.handler(self, order, call)  # type: ignore[no-any-return]
            except BaseException as error:
                self.raised.append(error)
                raise

        return placet.open(
            tools=[pay],
            store=self.database.url,
            key=self.folder / "shop.key",
            settings=placet.GateSettings(lease_seconds=0.5, pause_seconds=0.1, grace_seconds=0.1, **settings),
            recovery="manual",
        )

    async def pay(self, gate: Gate, order: str = "o-1", call_id: str = "c1", **how: Any) -> Outcome:
        proposal = {"call_id": call_id, "tool": "pay", "arguments": {"order": order}}
        return await gate.submit(proposal, principal=AGENT, run="r1", **how)


async def settles(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
    """As a user would write it."""
    async with connected(shop.database) as connection, connection.transaction():
        await connection.execute("INSERT INTO payments VALUES ($1)", order)
        return await call.co_commit(connection, {"paid": order})


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Shop:
    database.execute("CREATE TABLE payments (order_id text PRIMARY KEY)")
    return Shop(database=database, handler=settles, folder=tmp_path)


async def words(gate: Gate) -> list[str]:
    bodies = [orjson.loads(event.body) async for event in gate.store.chained()]
    return [body.get("outcome", body["kind"]) for body in bodies if body["kind"] in ("started", "completed")]


async def chained(gate: Gate) -> None:
    """Nobody asks for it here: it comes by itself."""
    async with asyncio.timeout(30):
        while not (report := await gate.verify_audit()).holds or report.unpaired:
            await asyncio.sleep(0.01)


async def the_effect(gate: Gate) -> Effect:
    (effect,) = await gate.store.effects(tenant=None, states=EVERY_STATE, limit=9)
    assert isinstance(effect, Effect)
    return effect


async def test_effect_and_ledger_commit_together_and_are_told_once(shop: Shop) -> None:
    async with shop.open() as gate:
        outcome = await shop.pay(gate)

        assert type(outcome) is Succeeded and outcome.result == {"paid": "o-1"}
        assert payments(shop.database) == ["o-1"]
        assert (await the_effect(gate)).reason == "co_committed"
        assert type(await shop.pay(gate, call_id="c2")) is Replayed
        assert await words(gate) == ["started", "success", "started", "replayed"]
        assert (await gate.verify_audit()).holds


@pytest.mark.req("H037")
@pytest.mark.parametrize("when", ["before", "after", "after the commit"])
async def test_a_handler_that_raises_has_done_what_its_transaction_has(shop: Shop, when: str) -> None:
    async def handler(shop: Shop, order: str, call: CallContext) -> None:
        async with connected(shop.database) as connection:
            async with connection.transaction():
                await connection.execute("INSERT INTO payments VALUES ($1)", order)
                if when != "before":
                    await call.co_commit(connection, {"paid": order})
                if when != "after the commit":
                    raise ValueError("never mind")
            raise ValueError("too late")

    shop.handler = handler
    async with shop.open() as gate:
        outcome = await shop.pay(gate)

        is_done = when == "after the commit"
        assert type(outcome) is (Succeeded if is_done else Failed)
        assert payments(shop.database) == (["o-1"] if is_done else [])
        await chained(gate)
        assert await words(gate) == ["started", "success" if is_done else "error"]


async def test_a_refusal_that_is_swallowed_commits_nothing(shop: Shop) -> None:
    async def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        result = await settles(shop, order, call)
        async with connected(shop.database) as connection, connection.transaction():
            await connection.execute("INSERT INTO payments VALUES ('again')")
            with pytest.raises(CoCommitRefused, match="already settled"):
                await call.co_commit(connection, {"paid": "again"})
        return result

    shop.handler = handler
    async with shop.open() as gate:
        assert type(await shop.pay(gate)) is Succeeded
        assert payments(shop.database) == ["o-1"]


async def test_a_refusal_for_a_savepoint_says_what_to_change(shop: Shop) -> None:
    refusals: list[CoCommitRefused] = []

    async def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        async with connected(shop.database) as connection, connection.transaction(), connection.transaction():
            try:
                return await call.co_commit(connection, {"paid": order})
            except CoCommitRefused as refusal:
                refusals.append(refusal)
                raise

    shop.handler = handler
    async with shop.open() as gate:
        assert type(await shop.pay(gate)) is Failed
    assert ["outside of every savepoint" in refusal.hint for refusal in refusals] == [True]
    assert payments(shop.database) == []


async def test_what_was_written_outside_a_transaction_is_unknown(shop: Shop) -> None:
    async def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        async with connected(shop.database) as connection:
            await connection.execute("INSERT INTO payments VALUES ($1)", order)
            return await call.co_commit(connection, {"paid": order})

    shop.handler = handler
    async with shop.open() as gate:
        assert type(await shop.pay(gate)) is Unknown
        assert type(shop.raised[0]) is CoCommitNotCovered and shop.raised[0].may_have_acted
        assert (await the_effect(gate)).state is EffectState.UNKNOWN
        assert payments(shop.database) == ["o-1"]


async def test_a_slow_owner_whose_row_was_taken_over_commits_nothing(shop: Shop) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        async with connected(shop.database) as connection, connection.transaction():
            await connection.execute("INSERT INTO payments VALUES ('of the slow one')")
            begun.set()
            await release.wait()
            return await call.co_commit(connection, {"paid": order})

    shop.handler = handler
    async with shop.open() as gate, shop.open() as other:
        asking = asyncio.ensure_future(shop.pay(gate))
        await begun.wait()
        shop.database.execute("UPDATE placet.effects SET lease_until = 0")
        async with asyncio.timeout(30):
            while (await other.reconciler.recover()).taken_over == 0:
                await asyncio.sleep(0.01)
                shop.database.execute("UPDATE placet.effects SET lease_until = 0 WHERE state = 'dispatched'")
        assert (await the_effect(other)).state is EffectState.RECONCILED_ABSENT

        shop.handler = settles
        assert type(await shop.pay(other, call_id="c2")) is Succeeded
        release.set()
        assert type(await asking) is InProgress
        assert payments(shop.database) == ["o-1"]
        await chained(gate)


async def test_at_the_deadline_a_cancelled_transaction_has_done_nothing(shop: Shop) -> None:
    async def handler(shop: Shop, order: str, call: CallContext) -> dict[str, str]:
        async with connected(shop.database) as connection, connection.transaction():
            await connection.execute("INSERT INTO payments VALUES ($1)", order)
            result = await call.co_commit(connection, {"paid": order})
            await asyncio.Event().wait()
        return result

    shop.handler = handler
    async with shop.open() as gate:
        outcome = await shop.pay(gate, timeout_seconds=0.3)

        assert type(outcome) is Failed and outcome.code == "rolled_back"
        assert payments(shop.database) == []
        assert (await the_effect(gate)).state is EffectState.FAILED


async def test_many_calls_at_once_settle_each_in_its_own_transaction(shop: Shop) -> None:
    async with shop.open() as gate:
        outcomes = await asyncio.gather(
            *(shop.pay(gate, f"o-{n % 20}", call_id=f"c-{n}", timeout_seconds=20.0) for n in range(40))
        )

        assert [outcome for outcome in outcomes if not outcome.is_success] == []
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Replayed"] * 20 + ["Succeeded"] * 20
        assert len(payments(shop.database)) == 20
        await chained(gate)


def test_the_samples_of_this_file_are_of_co_commits() -> None:
    answer = apply_claim(None, a_claim(token=MARKED), now=FakeClock().now())
    assert isinstance(answer, Claimed) and answer.effect.co_commits
