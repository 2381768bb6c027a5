"""A connection that breaks while a commit is on its way: the caller learns the truth, or that nobody knows it yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.engine.auditing import verify_store
from placet.errors import StoreInDoubt, StoreUnavailable
from placet.model.effect import EffectState
from placet.model.identifiers import OperationKey
from placet.model.ledger import Claimed, Moved, Recorded
from placet.testing.conformance import a_claim, a_settlement, an_event
from placet.testing.conformance.samples import fault_of
from tests.adapters.postgres.conftest import OpenStore
from tests.adapters.postgres.proxy import a_wire, through
from tests.postgres.fixtures import Database, DatabaseClock

MARK = b"committed-word"
"""What is in the bytes of one settlement and of nothing else."""


@pytest.fixture
def database(databases: Callable[..., Database]) -> Database:
    """Its time stands still: no batch is decided again because a busy machine took a quarter of a second to send it."""
    return databases(own_clock=True)


@pytest.fixture
def clock(database: Database) -> DatabaseClock:
    return DatabaseClock(database)


async def claimed(store: object, key: str = "key-1") -> object:
    answer = await store.claim(a_claim(key))  # type: ignore[attr-defined]
    assert isinstance(answer, Claimed)
    return answer.effect


@pytest.mark.parametrize("way", ["cut_before", "cut_after"])
async def test_a_lost_answer_is_asked_after_and_the_caller_gets_the_truth(
    database: Database, open_store: OpenStore, ring: KeyRing, way: str
) -> None:
    async with a_wire(database) as wire:
        store = await asyncio.to_thread(open_store, through(wire, database))
        effect = await claimed(store)
        setattr(wire, way, MARK)

        answer = await store.settle(a_settlement(effect, EffectState.COMMITTED, reason=MARK.decode()))

        assert wire.cuts == 1
        assert isinstance(answer, Moved) and answer.is_news
        assert store.counts["in_doubt"] == 1
        assert (await store.effect("acme", OperationKey("key-1"))) == answer.effect
        report = await verify_store(store, ChainLinker(ring))
        assert (report.breaks, report.events, report.unpaired) == ((), 2, 0)
        assert store.commits == 2
        assert isinstance(await store.record((an_event(),)), Recorded)


async def test_a_batch_in_doubt_is_durable_as_a_whole_or_sent_again_as_a_whole(
    database: Database, open_store: OpenStore, ring: KeyRing
) -> None:
    async with a_wire(database) as wire:
        store = await asyncio.to_thread(open_store, through(wire, database))
        effects = [await claimed(store, f"key-{number}") for number in range(8)]
        for way in ("cut_after", "cut_before"):
            setattr(wire, way, MARK)
            half, effects = effects[:4], effects[4:] or effects
            words = [a_settlement(each, EffectState.COMMITTED, reason=MARK.decode()) for each in half]
            answers = await asyncio.gather(*(store.settle(word) for word in words))
            assert all(isinstance(answer, Moved) and answer.is_news for answer in answers)

        report = await verify_store(store, ChainLinker(ring))
        assert (report.breaks, report.events, report.unpaired, wire.cuts) == ((), 16, 0, 2)


@pytest.mark.parametrize(("way", "is_durable"), [("cut_before", False), ("cut_after", True)])
async def test_what_cannot_be_asked_after_is_in_doubt_and_found_out_later(
    database: Database, open_store: OpenStore, ring: KeyRing, way: str, is_durable: bool
) -> None:
    async with a_wire(database) as wire:
        store = await asyncio.to_thread(open_store, through(wire, database, patience_seconds=2.0))
        effect = await claimed(store)
        word = a_settlement(effect, EffectState.COMMITTED, reason=MARK.decode())
        setattr(wire, way, MARK)
        wire.stays_down = True

        assert type(await fault_of(store.settle(word))) is StoreInDoubt
        assert type(await fault_of(store.record((an_event(),)))) is StoreUnavailable, "it was never sent"

        wire.is_down = False
        again = await store.settle(word)
        assert isinstance(again, Moved) and again.is_news is not is_durable
        assert again.effect.state is EffectState.COMMITTED
        report = await verify_store(store, ChainLinker(ring))
        assert (report.breaks, report.events, report.unpaired) == ((), 2, 0)


@pytest.mark.case("O03")
async def test_a_lost_connection_of_the_reader_is_looked_through_again(
    database: Database, open_store: OpenStore
) -> None:
    store = open_store()
    effect = await claimed(store)
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'placet' AND datname = current_database()"
    )

    assert await store.effect("acme", OperationKey("key-1")) == effect
    assert isinstance(await store.record((an_event(),)), Recorded)


async def test_a_transaction_that_is_still_alive_is_waited_for_before_anything_is_said(
    database: Database, open_store: OpenStore
) -> None:
    """The answer is lost while the server still works on it: raising the epoch waits for its end."""
    async with a_wire(database) as wire:
        store = await asyncio.to_thread(open_store, through(wire, database))
        effect = await claimed(store)
        database.execute(
            "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN PERFORM pg_sleep(0.7); RETURN NULL; END'",
            "CREATE TRIGGER slow AFTER UPDATE ON placet.audit_heads FOR EACH ROW WHEN (NEW.epoch = OLD.epoch) "
            "EXECUTE FUNCTION slowly()",
        )
        wire.cut_behind = MARK

        answer = await store.settle(a_settlement(effect, EffectState.COMMITTED, reason=MARK.decode()))

        assert isinstance(answer, Moved) and answer.is_news
        assert store.commits == 2


async def test_a_statement_that_arrives_after_its_writer_asked_about_it_writes_nothing(
    database: Database, open_store: OpenStore, ring: KeyRing
) -> None:
    """The network held it back: the epoch has been raised meanwhile, and the batch is about to be sent again."""
    async with a_wire(database) as wire:
        store = await asyncio.to_thread(open_store, through(wire, database))
        effect = await claimed(store)
        wire.hold = MARK

        answer = await store.settle(a_settlement(effect, EffectState.COMMITTED, reason=MARK.decode()))

        assert wire.cuts == 1 and b"PL410" in wire.late_answer
        assert isinstance(answer, Moved) and answer.is_news
        report = await verify_store(store, ChainLinker(ring))
        assert (report.breaks, report.events, report.unpaired) == ((), 2, 0)
