"""Events that co-commits left to be chained, and a hand in the database that has no key: it slips nothing in.

Whatever is put there, altered or repeated is not chained; one alarm tells of it, and the row is kept as evidence. What
is taken away shows as an attempt that was never completed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker, ChainWriter
from placet.adapters.stores.co_commits import MOST_AT_ONCE
from placet.adapters.stores.sqlite import SqliteStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.engine.auditing import verify_store
from placet.model.approval import Mac
from placet.model.audit import AuditEvent, EventKind, UnchainedEvent
from placet.model.effect import Effect
from placet.model.identifiers import WriterId
from placet.model.ledger import CoCommitted
from placet.ports.keys import KeyPurpose
from placet.rules.audit import event_body
from placet.rules.chains import unchained_message
from placet.testing.conformance import a_settlement, a_step, an_event, claimed
from placet.testing.conformance.archiving import a_cut, a_purge
from placet.testing.fakes import FakeClock

pytestmark = pytest.mark.case("N03")


class Book:
    """What an actor with the database alone may do, and a store beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keys = KeyRing({"k-1": b"1" * 32}, current="k-1")
        self.clock = FakeClock()
        self.heard: list[AuditEvent] = []
        self.store = self.opened("w-1")

    def opened(self, writer: str) -> SqliteStore:
        return SqliteStore(
            self.path,
            keys=self.keys,
            clock=self.clock,
            writer=WriterId(writer),
            meter=QuietMeter(),
            heard=self.heard.extend,
        )

    async def co_committed(self, key: str = "key-1") -> Effect:
        effect = await claimed(self, key, token=f"co:{key}", step=a_step(f"call-{key}"))  # type: ignore[arg-type]
        self.heard.clear()
        database = apsw.Connection(str(self.path))
        with database:
            completed = an_event(EventKind.COMPLETED, call_id=effect.call_id)
            answer = self.store.co_commit(database, a_settlement(effect, events=(completed,)))
            assert answer == CoCommitted()
        return effect

    def tamper(self, statement: str, *bindings: Any) -> None:
        database = apsw.Connection(str(self.path))
        database.execute(statement, bindings)
        assert database.changes() == 1, statement
        database.close()

    def waiting(self) -> list[tuple[Any, ...]]:
        statement = "SELECT number, is_refused FROM unchained_events ORDER BY number"
        return apsw.Connection(str(self.path)).execute(statement).fetchall()

    async def told(self) -> list[tuple[str, str | None]]:
        bodies = [json.loads(event.body) async for event in self.store.chained()]
        return [(body["kind"], body.get("detail")) for body in bodies]

    async def unpaired(self) -> int:
        report = await verify_store(self.store, ChainLinker(self.keys))
        assert report.holds
        return report.unpaired


@pytest.fixture
async def book(tmp_path: Path) -> AsyncIterator[Book]:
    book = Book(tmp_path / "placet.db")
    yield book
    await book.store.close()


ALARM = ("record_altered", "unchained_event_altered")
ADD = "INSERT INTO unchained_events (body, key_id, mac) VALUES (?, ?, ?)"


def forged() -> str:
    return event_body(an_event(EventKind.COMPLETED)).decode()


async def test_an_event_that_waits_is_chained_and_heard_like_any_other(book: Book) -> None:
    await book.co_committed()
    assert book.waiting() == [(1, 0)] and book.heard == []

    assert await book.store.chain_waiting() == 1

    assert book.waiting() == []
    assert await book.told() == [("started", None), ("completed", None)]
    assert [event.kind for event in book.heard] == [EventKind.COMPLETED]
    assert await book.unpaired() == 0


LINK = KeyRing({"k-1": b"1" * 32}, current="k-1").mac(KeyPurpose.AUDIT_CHAIN, forged().encode())
OTHER_KEY = KeyRing({"k-1": b"2" * 32}, current="k-1").mac(KeyPurpose.AUDIT_CHAIN, unchained_message(forged().encode()))


@pytest.mark.parametrize(
    ("body", "key_id", "mac"),
    [
        (forged(), "k-1", "0" * 64),
        (forged(), "k-1", ""),
        (forged(), "k-1", LINK.value),
        (forged(), "k-1", OTHER_KEY.value),
        (forged(), "k-2", "0" * 64),
        (forged(), "", "é"),
        ("no JSON", "k-1", "0" * 64),
        ("", "", ""),
    ],
)
async def test_what_nobody_with_the_key_wrote_is_told_of_once_and_never_chained(
    book: Book, body: str, key_id: str, mac: str
) -> None:
    book.tamper(ADD, body, key_id, mac)

    assert await book.store.chain_waiting() == 1
    assert await book.store.chain_waiting() == 0

    assert await book.told() == [ALARM]
    assert [(event.kind, event.tenant, event.subject) for event in book.heard] == [
        (EventKind.RECORD_ALTERED, "unknown", "unknown")
    ]
    assert book.waiting() == [(1, 1)], "kept as evidence"


@pytest.mark.parametrize("column", ["body", "key_id", "mac"])
async def test_what_is_no_text_is_told_of_and_hides_nothing(book: Book, column: str) -> None:
    others = {"body": "'{}'", "key_id": "'k-1'", "mac": "'0'"} | {column: "CAST(x'ff00fe' AS TEXT)"}
    book.tamper(f"INSERT INTO unchained_events (body, key_id, mac) VALUES ({', '.join(others.values())})")
    await book.co_committed()  # its claim meets it first

    assert await book.store.chain_waiting() == 1

    assert await book.told() == [ALARM, ("started", None), ("completed", None)]
    assert await book.unpaired() == 0


@pytest.mark.parametrize(
    "change",
    [
        "body = json_set(body, '$.outcome', 'error')",
        "body = json_set(body, '$.call_id', 'another')",
        "body = body || ' '",
        "mac = upper(mac)",
        "mac = substr(mac, 2)",
        "key_id = 'k-2'",
    ],
)
async def test_an_event_altered_while_it_waits_is_not_chained(book: Book, change: str) -> None:
    await book.co_committed()
    book.tamper(f"UPDATE unchained_events SET {change}")

    await book.store.chain_waiting()

    assert await book.told() == [("started", None), ALARM]
    assert await book.unpaired() == 1


async def test_an_event_taken_away_while_it_waits_leaves_its_attempt_open(book: Book) -> None:
    await book.co_committed()
    book.tamper("DELETE FROM unchained_events")

    assert await book.store.chain_waiting() == 0
    assert await book.unpaired() == 1


async def test_an_event_that_is_set_aside_by_hand_leaves_its_attempt_open(book: Book) -> None:
    await book.co_committed()
    book.tamper("UPDATE unchained_events SET is_refused = 1")

    assert await book.store.chain_waiting() == 0
    assert await book.unpaired() == 1


async def test_an_event_put_back_after_it_was_chained_is_not_chained_again(book: Book) -> None:
    await book.co_committed()
    database = apsw.Connection(str(book.path))
    row = database.execute("SELECT body, key_id, mac FROM unchained_events").fetchone()
    assert row is not None
    await book.store.chain_waiting()
    book.tamper(ADD, *row)

    await book.store.chain_waiting()

    assert await book.told() == [
        ("started", None),
        ("completed", None),
        ("record_altered", "unchained_event_repeated"),
    ]
    assert book.waiting() == [(1, 1)]


async def test_an_event_put_back_after_it_was_cut_from_the_audit_is_not_chained_again(book: Book) -> None:
    """What was cut is a day old at least, and whatever waited then was chained before: so this one is no honest one."""
    await book.co_committed()
    row = apsw.Connection(str(book.path)).execute("SELECT body, key_id, mac FROM unchained_events").fetchone()
    assert row is not None
    await book.store.chain_waiting()
    await book.store.record((an_event(),))
    _, completed, _ = [event async for event in book.store.chained()]
    at = book.clock.now() + timedelta(days=90)
    cut = a_cut(completed.writer, 1, completed.sequence, completed.link)
    cut = replace(cut, tombstone=replace(cut.tombstone, cut_at=at))
    assert await book.store.purge(a_purge(book, cut=cut))  # type: ignore[arg-type]
    book.tamper(ADD, *row)

    await book.store.chain_waiting()

    assert [told for told in await book.told() if told[0] in ("completed", "record_altered")] == [
        ("record_altered", "unchained_event_repeated"),
    ]


async def test_an_event_that_waits_after_a_cut_is_chained(book: Book) -> None:
    await book.store.record((an_event(),))
    await book.store.record((an_event(),))
    first, _ = [event async for event in book.store.chained()]
    cut = a_cut(first.writer, 1, 1, first.link)
    at = an_event().at + timedelta(hours=23)
    assert await book.store.purge(a_purge(book, cut=replace(cut, tombstone=replace(cut.tombstone, cut_at=at))))  # type: ignore[arg-type]
    await book.co_committed()

    await book.store.chain_waiting()

    assert [kind for kind, _ in await book.told()].count("completed") == 1


async def test_an_event_put_there_twice_while_it_waits_is_chained_once(book: Book) -> None:
    await book.co_committed()
    book.tamper("INSERT INTO unchained_events (body, key_id, mac) SELECT body, key_id, mac FROM unchained_events")

    await book.store.chain_waiting()

    assert [kind for kind, _ in await book.told()] == ["started", "completed", "record_altered"]


async def test_more_than_a_batch_of_forgeries_does_not_keep_a_true_event_waiting_for_ever(book: Book) -> None:
    database = apsw.Connection(str(book.path))
    with database:
        database.executemany(ADD, [("{}", "k-1", "0")] * (MOST_AT_ONCE + 10))
    await book.co_committed()  # its claim is a batch already

    await book.store.chain_waiting()

    assert [kind for kind, _ in await book.told()].count("completed") == 1
    assert await book.unpaired() == 0
    assert len(book.waiting()) == MOST_AT_ONCE + 10


async def test_an_event_written_under_a_key_that_is_rotated_meanwhile_is_chained(book: Book) -> None:
    await book.co_committed()
    before = book.keys
    book.keys = KeyRing({"k-1": b"1" * 32, "k-2": b"2" * 32}, current="k-2")
    book.store._chain._keys = book.keys

    await book.store.chain_waiting()

    assert before.current == "k-1"
    assert await book.told() == [("started", None), ("completed", None)]
    assert [event.key_id async for event in book.store.chained()] == ["k-1", "k-2"]
    assert await book.unpaired() == 0


async def test_an_event_of_another_version_is_chained_and_not_announced(book: Book) -> None:
    body = json.dumps({**json.loads(forged()), "of_a_later_version": 1}).encode()
    mac = book.keys.mac(KeyPurpose.AUDIT_CHAIN, unchained_message(body))
    book.tamper(ADD, body.decode(), mac.key_id, mac.value)

    await book.store.chain_waiting()

    assert await book.told() == [("completed", None)]
    assert book.heard == []


async def test_a_batch_whose_verbs_all_fail_still_chains_what_waits(book: Book) -> None:
    await book.co_committed()
    effect = await book.store.effect("acme", "key-1")  # type: ignore[arg-type]
    assert effect is not None

    with pytest.raises(Exception, match="no such effect"):
        await book.store.settle(a_settlement(effect, operation_key="another"))

    assert await book.told() == [("started", None), ("completed", None)]
    assert [event.kind for event in book.heard] == [EventKind.COMPLETED]


async def test_a_fault_of_the_chaining_is_not_the_fault_of_the_batch(book: Book) -> None:
    """An alarm needs the time; without it nothing of what waits is chained now, and all that was asked for is done."""
    book.tamper(ADD, "{}", "k-1", "0")

    def broken() -> Any:
        raise RuntimeError("clock")

    instant = book.clock.now
    book.clock.now = broken  # type: ignore[method-assign]
    await book.store.record((an_event(),))
    assert await book.told() == [("started", None)] and book.waiting() == [(1, 0)]

    book.clock.now = instant  # type: ignore[method-assign]
    await book.store.chain_waiting()
    assert await book.told() == [("started", None), ALARM]


async def test_one_of_several_processes_chains_an_event(book: Book) -> None:
    await book.co_committed()
    other = book.opened("w-2")
    try:
        await asyncio.gather(book.store.chain_waiting(), other.chain_waiting(), book.store.record((an_event(),)))
        assert [kind for kind, _ in await book.told()].count("completed") == 1
    finally:
        await other.close()


def test_a_mac_of_an_event_that_waits_is_over_its_body_alone_and_its_maker_checks_the_event() -> None:
    keys = KeyRing({"k-1": b"1" * 32}, current="k-1")
    chain = ChainWriter(keys, WriterId("w-1"), opened_after=b"{}")
    said = an_event(EventKind.COMPLETED)

    body, mac = chain.unchained(said)

    assert body == event_body(said)
    assert mac == keys.mac(KeyPurpose.AUDIT_CHAIN, unchained_message(body))
    assert chain.is_ours(UnchainedEvent(number=1, body=body, mac=mac))
    assert not chain.is_ours(UnchainedEvent(number=1, body=body, mac=Mac(key_id="k-1", value="")))
    assert chain.end == (0, "0" * 64), "nothing was linked"
    with pytest.raises(Exception, match="outcome"):
        chain.unchained(an_event(EventKind.COMPLETED, outcome=None))
