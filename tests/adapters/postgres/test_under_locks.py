"""What is decided under locks: however much it looks at, however slow the wire, and whoever else holds a row."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.postgres import PostgresStore
from placet.adapters.stores.postgres.connection import address_of
from placet.adapters.stores.postgres.memory import Memory
from placet.adapters.stores.postgres.orders import Intake, Order
from placet.adapters.stores.postgres.overlay import PredictedTables
from placet.adapters.stores.postgres.reading_wishes import Reading, Unread
from placet.engine.auditing import verify_store
from placet.errors import StoreCorrupt, StoreUnavailable
from placet.model.approval import ApprovalDecision
from placet.model.audit import AuditEvent, EventKind
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import OperationKey, OwnerId, RunId
from placet.model.ledger import Claimed, CoCommitted, Moved, NotYourRun, Recorded
from placet.model.retention import Grave, OldApproval, Purge
from placet.rules.transitions import apply_claim
from placet.testing.conformance import (
    LEASE_SECONDS,
    a_claim,
    a_settlement,
    a_step,
    a_turn,
    an_event,
    claimed,
    decided,
    fault_of,
    pending,
)
from placet.testing.conformance.samples import Subject
from placet.testing.fakes import FakeClock
from tests.adapters.postgres.conftest import OpenStore
from tests.adapters.postgres.proxy import a_wire, through
from tests.postgres.fixtures import Database, DatabaseClock

MANY = 40
"""More rows than an order is given rounds of reading."""
MARK = b"committed-word"


async def subject(store: PostgresStore, ring: KeyRing) -> Subject:
    return Subject(store=store, clock=FakeClock(await store.now()), linker=ChainLinker(ring))


def a_grave(effect: Effect) -> Grave:
    return Grave(
        tenant=effect.tenant,
        operation_key=effect.operation_key,
        state=effect.state,
        fence=effect.fence,
        updated_at=effect.updated_at,
        sealed_mark=b"mark",
    )


@contextmanager
def asleep(store: PostgresStore) -> Iterator[None]:
    """While the store's thread does nothing, so that what is handed over is one batch."""
    wake, is_asleep = threading.Event(), threading.Event()

    def sleep() -> None:
        is_asleep.set()
        wake.wait(20)

    store._thread.loop.call_soon_threadsafe(sleep)
    assert is_asleep.wait(20)
    try:
        yield
    finally:
        wake.set()


# ---------------------------------------------------------------- however much


async def test_a_purge_of_many_rows_reads_them_together(open_store: OpenStore, ring: KeyRing) -> None:
    store = open_store()
    here = await subject(store, ring)
    effects = [
        (
            await store.settle(a_settlement(await claimed(here, f"key-{n}", token=f"t-{n}", step=a_step(f"c-{n}"))))
        ).effect
        for n in range(MANY)
    ]
    approvals = [
        await decided(here, await pending(here, f"apr-{n}", run_id=RunId(f"run-{n}")), ApprovalDecision.DENY)
        for n in range(MANY)
    ]
    before = store.counts.copy()
    purge = Purge(
        holds=frozenset(),
        graves=tuple(map(a_grave, effects)),
        approvals=tuple(OldApproval(tenant="acme", approval_id=each.question.approval_id) for each in approvals),
        idle_before=await store.now(),
        events=(an_event(EventKind.RECORDS_PURGED),),
    )

    assert await store.purge(purge) is False, "the denials may be needed for a day"
    assert await store.purge(replace(purge, approvals=()))

    assert (store.counts - before)["locked"] == 2
    assert (store.counts - before)["reads"] == 5, (
        "holds, what was named, and the runs of denials; holds and what was named"
    )


async def test_an_order_that_never_has_enough_fails_and_keeps_nobody(open_store: OpenStore) -> None:
    store = open_store()
    rounds = iter(range(1_000_000))

    def greedy(_: PredictedTables) -> None:
        raise Unread(Reading("is_voided", (f"token-{next(rounds)}",)))

    before = store.counts.copy()

    fault = await fault_of(store._write(greedy))

    assert type(fault) is StoreUnavailable and "Ask for less" in fault.hint
    assert (store.counts - before)["reads"] < 64
    assert isinstance(await store.record((an_event(),)), Recorded)


# ---------------------------------------------------------------- however slow


class SlowWire:
    """A connection over which every question takes longer than the clocks of a host and its database may differ."""

    def __init__(self, connection: Any, clock: DatabaseClock) -> None:
        self._connection = connection
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name not in ("execute", "fetch", "fetchrow", "fetchval"):
            return found

        async def slowly(*arguments: Any, **named: Any) -> Any:
            await asyncio.to_thread(self._clock.advance, 0.3)
            return await found(*arguments, **named)

        return slowly


async def test_a_stop_over_a_slow_wire_takes_hold(databases: Any, open_store: OpenStore) -> None:
    """Under locks the time is what the database said when it gave them, however long reading takes since."""
    database = databases(own_clock=True)
    clock = DatabaseClock(database)
    store = open_store(database.address(), clock=clock)

    async def slow_down() -> None:
        store._line._connection = SlowWire(store._line._connection, clock)  # type: ignore[assignment]

    await store._thread.carry(slow_down())

    assert await store.stop("all", (an_event(EventKind.STOPPED),)) == 0
    assert await store.stops() == ("all",)


# ---------------------------------------------------------------- whoever else


@pytest.mark.parametrize("way", ["cut_after", "cut_before"])
async def test_the_second_change_of_a_row_is_made_also_if_the_answer_to_the_first_is_lost(
    database: Database, open_store: OpenStore, ring: KeyRing, way: str
) -> None:
    async with a_wire(database) as wire:
        store = await asyncio.to_thread(open_store, through(wire, database))
        effect = await claimed(await subject(store, ring))
        turn = a_turn(effect)
        turn = replace(turn, events=(turn.events[0], replace(turn.events[1], detail=MARK.decode())))
        setattr(wire, way, MARK)
        with asleep(store):
            both = asyncio.gather(store.turn(turn), store.settle(a_settlement(replace(effect, attempt=2))))
            await asyncio.sleep(0)

        turned, settled = await both

        assert wire.cuts == 1
        assert isinstance(turned, Moved) and isinstance(settled, Moved)
        row = await store.effect("acme", OperationKey("key-1"))
        assert row is not None and (row.state, row.attempts) == (EffectState.COMMITTED, 2)
        assert (await verify_store(store, ChainLinker(ring))).breaks == ()


async def test_a_row_that_a_handlers_transaction_holds_keeps_no_other_lease_from_being_renewed(
    databases: Any, open_store: OpenStore, ring: KeyRing
) -> None:
    database = databases(own_clock=True)
    clock = DatabaseClock(database)
    store = open_store(database.address(), clock=clock)
    here = Subject(store=store, clock=clock, linker=ChainLinker(ring))
    held, _ = [await claimed(here, f"key-{n}", token=f"t-{n}", step=a_step(f"c-{n}")) for n in range(2)]
    clock.advance(LEASE_SECONDS / 3)
    handler = await asyncpg.connect(database.url)
    try:
        await handler.execute("BEGIN")
        await handler.execute("SELECT FROM placet.effects WHERE operation_key = 'key-0' FOR UPDATE")

        assert await store.heartbeat(OwnerId("owner-1"), lease_seconds=LEASE_SECONDS) == 1

        clock.advance(LEASE_SECONDS * 2 / 3)
        assert await store.stranded(limit=9) == ()
        await handler.execute("ROLLBACK")
        assert await store.stranded(limit=9) == (held,), "the other was renewed"
    finally:
        await handler.close()


async def test_what_another_writer_is_chaining_is_not_waited_for(
    database: Database, open_store: OpenStore, ring: KeyRing
) -> None:
    store = open_store()
    effect = await claimed(await subject(store, ring), token="co:1")
    other = await asyncpg.connect(database.url)
    try:
        async with other.transaction():
            assert isinstance(await store.co_commit(other, a_settlement(effect)), CoCommitted)
        await other.execute("BEGIN")
        await other.execute("SELECT FROM placet.unchained_events FOR UPDATE")

        assert await store.chain_waiting() == 1, "it waits, whoever chains it"
        assert database.fetch("SELECT count(*) FROM placet.unchained_events") == [(1,)]

        await other.execute("ROLLBACK")
    finally:
        await other.close()
    assert await store.chain_waiting() == 1
    assert database.fetch("SELECT count(*) FROM placet.unchained_events") == [(0,)]


async def test_what_could_not_be_chained_is_heard_by_nobody(
    database: Database, open_store: OpenStore, ring: KeyRing
) -> None:
    heard: list[AuditEvent] = []
    store = open_store(heard=heard.extend)
    effect = await claimed(await subject(store, ring), token="co:1")
    database.execute(
        "CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$",
        "CREATE TRIGGER disk_full BEFORE DELETE ON placet.unchained_events FOR EACH ROW EXECUTE FUNCTION disk_full()",
    )
    handler = await asyncpg.connect(database.url)
    try:
        async with handler.transaction():
            assert isinstance(await store.co_commit(handler, a_settlement(effect)), CoCommitted)
    finally:
        await handler.close()
    heard.clear()
    event = an_event(call_id="call-9")

    await store.record((event,))
    await store.record(())  # answers of one batch come before the next
    assert heard == [event]

    database.execute("DROP TRIGGER disk_full ON placet.unchained_events")
    await store.chain_waiting()  # unless it was tried again in passing meanwhile
    await store.record(())
    assert heard == [event, *a_settlement(effect).events]


# ---------------------------------------------------------------- rows and names as they may be


async def test_columns_that_a_newer_placet_added_are_passed_over(
    database: Database, open_store: OpenStore, ring: KeyRing
) -> None:
    """A host of before goes on while another has made the schema wider."""
    store = open_store()
    here = await subject(store, ring)
    effect = await claimed(here)
    asked = await pending(here)
    assert await store.effect("acme", OperationKey("key-1")) == effect
    database.execute(
        "ALTER TABLE placet.effects ADD COLUMN later text", "ALTER TABLE placet.approvals ADD COLUMN later text"
    )

    assert await store.effect("acme", OperationKey("key-1")) == effect
    assert await store.approval("acme", asked.question.approval_id) == asked
    assert await open_store().effects(tenant="acme", states=tuple(EffectState), limit=9) == (effect,)
    assert isinstance(await open_store().settle(a_settlement(effect)), Moved)
    assert await store.begin_probe(effect, seconds=1.0) is False
    assert isinstance(await store.claim(a_claim("key-2", token="t-2", step=a_step("call-2"))), Claimed)


async def test_a_row_that_could_not_be_read_is_read_again_once_it_was_put_right(
    database: Database, open_store: OpenStore, ring: KeyRing
) -> None:
    effect = await claimed(await subject(open_store(), ring))
    store = open_store()
    ((until,),) = database.fetch("SELECT lease_until FROM placet.effects")
    database.execute("UPDATE placet.effects SET lease_until = 9223372036854775807")
    assert type(await fault_of(store.settle(a_settlement(effect)))) is StoreCorrupt
    assert type(await fault_of(store.effect("acme", OperationKey("key-1")))) is StoreCorrupt

    database.execute(f"UPDATE placet.effects SET lease_until = {until}")

    assert await store.effect("acme", OperationKey("key-1")) == effect
    assert isinstance(await store.settle(a_settlement(effect)), Moved)


async def test_a_schema_may_have_capitals_in_its_name(databases: Any, open_store: OpenStore) -> None:
    url = databases(is_empty=True).url
    store = open_store(address_of(f"{url}{'&' if '?' in url else '?'}placet_schema=Ledger"))

    assert isinstance(await store.claim(a_claim("key-1")), Claimed)


async def test_nothing_is_put_where_nobody_serves_any_more() -> None:
    loop = asyncio.get_running_loop()
    intake = Intake(loop)
    intake.put(Order(work=None, loop=loop, future=None))
    intake.close()

    with pytest.raises(StoreUnavailable):
        intake.put(Order(work=None, loop=loop, future=None))

    assert await intake.wait() and len(intake.take(9)) == 1
    assert not await intake.wait()


async def test_what_is_remembered_is_bounded_in_bytes() -> None:
    """Results may be large: ten thousand of them would be all of a host's memory."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    answer = apply_claim(None, a_claim("key-1"), now=now)
    large = replace(answer.effect, sealed_result=bytes(1024 * 1024))
    memory = Memory()

    for number in range(100):
        memory.see_effect(("acme", f"key-{number % 60}"), large, 7 + number)  # the first forty twice

    kept = [number for number in range(60) if ("acme", f"key-{number}") in memory.effects]
    assert 20 <= len(kept) <= 32 and kept == list(range(40 - len(kept), 40))
    memory.effects.drop(("acme", "key-39"))
    memory.see_effect(("acme", "key-0"), large, 200)
    assert sum(("acme", f"key-{number}") in memory.effects for number in range(60)) == len(kept)


async def test_a_writer_that_wrote_no_event_leaves_no_row_behind(database: Database, open_store: OpenStore) -> None:
    writing, looking = open_store(), open_store()
    await writing.record((an_event(),))
    assert await looking.effect("acme", OperationKey("key-1")) is None

    await looking.close()
    await writing.close()

    assert database.fetch("SELECT writer, sequence FROM placet.audit_heads") == [("w-1", 1)]


async def test_a_row_that_a_handlers_transaction_holds_fails_its_own_order_and_no_other_of_its_batch(
    database: Database, open_store: OpenStore, ring: KeyRing
) -> None:
    store = open_store()
    here = await subject(store, ring)
    held = await claimed(here, "key-0", token="t-0", step=a_step("c-0"))
    handler = await asyncpg.connect(database.url)
    try:
        await handler.execute("BEGIN")
        await handler.execute("SELECT FROM placet.effects WHERE operation_key = 'key-0' FOR UPDATE")
        with asleep(store):
            settling = asyncio.ensure_future(store.settle(a_settlement(held)))
            claiming = asyncio.ensure_future(store.claim(a_claim("key-1", token="t-1", step=a_step("c-1"))))
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        assert isinstance(await fault_of(settling), StoreUnavailable)
        assert isinstance(await claiming, Claimed)
        await handler.execute("ROLLBACK")
        assert isinstance(await store.settle(a_settlement(held)), Moved)
    finally:
        await handler.close()


async def test_a_run_that_cannot_be_read_fails_its_own_order_and_no_other_of_a_batch_under_locks(
    database: Database, open_store: OpenStore
) -> None:
    store, other = open_store(), open_store()
    tenants = ("acme", "evil", "globex")
    for tenant in tenants:
        await store.record((an_event(),), step=a_step("c-0", tenant=tenant))
    database.execute("UPDATE placet.runs SET opened_at = -9223372036854775807 WHERE tenant = 'evil'")
    locked = store.counts["locked"]
    with asleep(store):
        await other.stop("tool:none", (an_event(),))  # the batch finds it out, and is decided under locks
        claims = [a_claim(tenant, token=tenant, tenant=tenant, step=a_step("c-1", tenant=tenant)) for tenant in tenants]
        claiming = [asyncio.ensure_future(store.claim(claim)) for claim in claims]
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    faults = [await fault_of(each) for each in claiming]

    assert [type(fault) for fault in faults] == [type(None), StoreCorrupt, type(None)]
    assert store.counts["locked"] == locked + 1, "they were one batch"


async def test_a_step_that_another_host_takes_at_the_same_moment_gives_nobody_its_run(
    database: Database, open_store: OpenStore
) -> None:
    store = open_store()
    await store.record((an_event(),))  # it is open, and has read what every batch compares
    step = a_step("c-1")
    other = await asyncpg.connect(database.url)
    try:
        await other.execute("SET search_path = placet")
        await other.execute("BEGIN")
        await other.execute(
            "INSERT INTO step_fingerprints VALUES ($1, $2, $3, $4)",
            *(step.tenant, step.run_id, step.call_id, step.fingerprint),
        )
        await other.execute(
            "INSERT INTO runs (tenant, run_id, subject, policy_version, max_steps, steps, opened_at)"
            " VALUES ($1, $2, 'somebody else', 'p', 50, 1, 1)",
            *(step.tenant, step.run_id),
        )
        claiming = asyncio.ensure_future(store.claim(a_claim("key-1", step=step)))
        await somebody_waits(database)
        await other.execute("COMMIT")

        assert isinstance(await claiming, NotYourRun)
    finally:
        await other.close()


async def test_a_purge_says_that_somebody_holds_a_row_of_it(
    database: Database, open_store: OpenStore, ring: KeyRing
) -> None:
    store = open_store()
    effect = await claimed(await subject(store, ring))
    settled = (await store.settle(a_settlement(effect))).effect
    purge = Purge(
        holds=frozenset(),
        graves=(a_grave(settled),),
        idle_before=await store.now(),
        events=(an_event(EventKind.RECORDS_PURGED),),
    )
    handler = await asyncpg.connect(database.url)
    try:
        await handler.execute("BEGIN")
        await handler.execute("SELECT FROM placet.effects FOR UPDATE")
        fault = await fault_of(store.purge(purge))
        assert type(fault) is StoreUnavailable
        assert fault.is_row_held
        assert await store.effect("acme", effect.operation_key) == settled
    finally:
        await handler.close()
    assert await store.purge(purge)


async def somebody_waits(database: Database) -> None:
    """Until a transaction waits for another one's lock."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    async with asyncio.timeout(30):
        while database.fetch(waiting) == [(0,)]:
            await asyncio.sleep(0.01)
