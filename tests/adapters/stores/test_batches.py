"""Verbs that are committed together answer as if each had been alone, whatever the others do."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores import verbs
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.sqlite import SqliteStore
from placet.adapters.stores.sqlite.tables import SqliteTables
from placet.adapters.telemetry.quiet import QuietMeter
from placet.errors import NotFound, StoreUnavailable
from placet.model.audit import AuditEvent
from placet.model.identifiers import WriterId
from placet.model.ledger import Claimed, Held, Stopped
from placet.rules.audit import EventRefused, event_body
from placet.testing.conformance import a_claim, a_forbidden_event, a_settlement, an_event
from placet.testing.conformance.samples import Subject
from placet.testing.fakes import FakeClock

KEYS = KeyRing.ephemeral()
Heard = list[tuple[AuditEvent, ...]]


class Place:
    """One store whose writing thread can be held, so that what is asked meanwhile is one batch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heard: Heard = []
        self.clock = FakeClock()
        self.store = self.opened("w-1")

    def opened(self, writer: str) -> SqliteStore:
        return SqliteStore(
            self.path,
            keys=KEYS,
            clock=self.clock,
            writer=WriterId(writer),
            meter=QuietMeter(),
            heard=self.heard.append,
        )

    async def together(self, *asks: Callable[[], Any]) -> list[Any]:
        """The answers, or faults, of verbs that are served in one batch."""
        held, go_on = threading.Event(), threading.Event()

        def hold(tables: SqliteTables) -> None:
            held.set()
            assert go_on.wait(30)

        holding = asyncio.ensure_future(self.store._writer.transact(hold))
        assert await asyncio.to_thread(held.wait, 30)
        tasks = [asyncio.ensure_future(ask()) for ask in asks]
        await asyncio.sleep(0)  # each hands over in its first step
        before = self.store.commits
        go_on.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        await holding
        assert self.store.commits - before <= 1, "they were one batch"
        return answers

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path / "placet.db")
    yield made
    await made.store.close()


@pytest.mark.req("B112")
async def test_one_verb_that_fails_takes_nothing_from_the_others(place: Place) -> None:
    good = [lambda key=key: place.store.claim(a_claim(key, token=f"t-{key}")) for key in ("a", "b", "c")]
    bad = lambda: place.store.record((an_event(), a_forbidden_event()))  # noqa: E731 - one line, one use

    answers = await place.together(good[0], bad, good[1], good[2])

    assert [type(answer) for answer in answers] == [Claimed, EventRefused, Claimed, Claimed]
    assert place.rows("SELECT operation_key, fence, attempts FROM effects ORDER BY operation_key") == [
        ("a", 1, 1),
        ("b", 1, 1),
        ("c", 1, 1),
    ]
    assert place.rows("SELECT sequence FROM audit_events ORDER BY sequence") == [(1,), (2,), (3,)]
    assert len(place.heard) == 3, "what was taken back is not heard, and what stands is heard once"


async def test_a_verb_that_fails_first_and_one_that_fails_last_leave_the_middle(place: Place) -> None:
    nobody = a_settlement((await place.store.claim(a_claim("known", token="t"))).effect, operation_key="nobody")
    place.heard.clear()

    answers = await place.together(
        lambda: place.store.settle(nobody),
        lambda: place.store.claim(a_claim("a", token="t-a")),
        lambda: place.store.record((an_event(),)),
        lambda: place.store.settle(nobody),
    )

    assert [type(answer).__name__ for answer in answers] == ["NotFound", "Claimed", "Recorded", "NotFound"]
    assert isinstance(answers[0], NotFound)
    assert len(place.heard) == 2


async def test_later_verbs_of_a_batch_see_what_earlier_ones_wrote(place: Place) -> None:
    answers = await place.together(
        lambda: place.store.claim(a_claim("a", token="t-1")),
        lambda: place.store.claim(a_claim("a", token="t-2")),
        lambda: place.store.stop("tool:pay", (an_event(),)),
        lambda: place.store.claim(a_claim("b", token="t-3")),
        lambda: place.store.resume("tool:pay", (an_event(),)),
        lambda: place.store.claim(a_claim("c", token="t-4")),
    )

    assert [type(answers[n]) for n in (0, 1, 3, 5)] == [Claimed, Held, Stopped, Claimed]
    assert answers[1].effect.token == "t-1"


async def test_a_stop_that_is_taken_back_stops_nothing_in_its_batch(place: Place) -> None:
    """The verb that fails comes after the stop was written and looked up."""

    def stop_and_fail(tables: SqliteTables) -> None:
        verbs.stop(tables, "all", (an_event(),), place.clock.now())
        assert tables.stops() == ("all",)
        raise StoreUnavailable("as asked")

    answers = await place.together(
        lambda: place.store.claim(a_claim("a", token="t-1")),
        lambda: place.store._writer.transact(stop_and_fail),
        lambda: place.store.claim(a_claim("b", token="t-2")),
    )

    assert [type(answer) for answer in answers] == [Claimed, StoreUnavailable, Claimed]
    assert place.rows("SELECT * FROM stops") == []


async def test_a_stop_of_another_process_is_seen_by_the_next_batch(place: Place) -> None:
    assert type(await place.store.claim(a_claim("a", token="t-1"))) is Claimed
    other = place.opened("w-2")

    await other.stop("all", (an_event(),))
    assert type(await place.store.claim(a_claim("b", token="t-2"))) is Stopped
    await other.resume("all", (an_event(),))
    assert type(await place.store.claim(a_claim("c", token="t-3"))) is Claimed
    await other.close()


async def test_a_batch_that_only_looked_keeps_no_snapshot(place: Place) -> None:
    """Left open, it would make the next transaction fail as soon as another process has written."""
    claim = a_claim("a", token="t-1")
    await place.store.claim(claim)
    other = place.opened("w-2")
    for n in range(3):
        assert type(await place.store.claim(a_claim("a", token=f"late-{n}"))) is Held
        await other.record((an_event(),))
        assert type(await place.store.claim(a_claim(f"new-{n}", token=f"new-{n}"))) is Claimed
    await other.close()


async def test_a_verb_that_fails_alone_leaves_nothing_and_the_next_goes_on_from_there(place: Place) -> None:
    await place.store.record((an_event(),))
    before = place.store.commits
    for _ in range(2):
        with pytest.raises(EventRefused):
            await place.store.record((an_event(), a_forbidden_event()))
    with pytest.raises(NotFound):
        settled = a_settlement((await place.store.claim(a_claim("known", token="t"))).effect, operation_key="nobody")
        await place.store.settle(settled)

    assert place.store.commits == before + 1
    assert place.rows("SELECT sequence FROM audit_events ORDER BY sequence") == [(1,), (2,)]
    assert len(place.heard) == 2
    report = await Subject(store=place.store, clock=place.clock, linker=ChainLinker(KEYS)).verified()
    assert (report.holds, report.events) == (True, 2)


async def test_a_full_disk_is_told_to_the_verb_that_met_it_and_what_fits_is_written_again(place: Place) -> None:
    """The file may not grow: SQLite gives the whole transaction up, and nobody of the batch is told a success."""
    await place.store.record((an_event(),))
    pages = place.store._writer._connection.pragma("page_count")
    place.store._writer._connection.pragma("max_page_count", pages)
    large = [a_claim(f"k-{n}", token=f"t-{n}", sealed_arguments=bytes(9_000)) for n in range(3)]

    answers = await place.together(*(lambda claim=claim: place.store.claim(claim) for claim in large))

    assert {type(answer) for answer in answers} == {StoreUnavailable}
    assert any("disk of the store is full" in str(answer) for answer in answers)
    assert place.rows("SELECT * FROM effects") == []
    place.store._writer._connection.pragma("max_page_count", 1_000_000)
    assert type(await place.store.claim(large[0])) is Claimed
    report = await Subject(store=place.store, clock=place.clock, linker=ChainLinker(KEYS)).verified()
    assert (report.holds, report.events) == (True, 2)


async def test_the_chain_of_batches_with_faults_in_them_verifies(place: Place) -> None:
    for n in range(4):
        await place.together(
            lambda n=n: place.store.claim(a_claim(f"k-{n}", token=f"t-{n}")),
            lambda: place.store.record((an_event(), a_forbidden_event())),
            lambda: place.store.record((an_event(),)),
        )
    report = await Subject(store=place.store, clock=place.clock, linker=ChainLinker(KEYS)).verified()

    assert (report.holds, report.events) == (True, 8)
    stored = [row[0].encode() for row in place.rows("SELECT body FROM audit_events ORDER BY sequence")]
    assert stored == [event_body(event) for events in place.heard for event in events]
