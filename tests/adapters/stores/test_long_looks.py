"""Whoever reads all of a SQLite store has threads read it: the event loop goes on, and nothing is left open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import placet
from placet import Gate, Principal
from placet.adapters.stores.sqlite.long_looks import ROWS_AT_ONCE, moment
from placet.errors import StoreCorrupt, StoreError
from placet.model.audit import AuditEvent, EventKind
from placet.testing import FakeClock, SeededIds

MARA = Principal.person("mara", tenant="acme", scopes=("audit.read",))
BATCHES = 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "placet.db"


@pytest.fixture
async def gate(path: Path) -> AsyncIterator[Gate]:
    async with placet.open(tools=[], store=path, clock=FakeClock(), ids=SeededIds(7), recovery="manual") as opened:
        await opened.store.record((an_event(opened),) * (BATCHES * ROWS_AT_ONCE))
        yield opened


def an_event(gate: Gate) -> AuditEvent:
    facts = gate._chronicle.of_principal(MARA)
    return gate._chronicle.event(EventKind.DECISION_REFUSED, facts, detail="x", model_suggested=False)


class Others:
    """Something else in the same event loop, which counts how often it had its turn."""

    def __init__(self) -> None:
        self.turns = 0
        self._task = asyncio.ensure_future(self._go_on())

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turns += 1

    def end(self) -> None:
        self._task.cancel()


async def is_held(gate: Gate, path: Path) -> bool:
    """Whether somebody still looks at a moment that is over, so that the log cannot be folded into the file."""
    await gate.store.record((an_event(gate),))
    with closing(apsw.Connection(str(path))) as other:
        (is_busy, *_), *_ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return bool(is_busy)


async def test_others_have_their_turn_between_one_batch_of_a_snapshot_and_the_next(gate: Gate) -> None:
    others, seen = Others(), []
    async with gate.store.snapshot() as audit:
        async for _ in audit.events:
            seen.append(others.turns)
    others.end()

    assert len(seen) == BATCHES * ROWS_AT_ONCE
    assert len(set(seen)) >= BATCHES


async def test_a_page_of_events_and_the_newest_ones_are_read_while_others_have_their_turn(gate: Gate) -> None:
    others = Others()
    before = others.turns
    page = await gate.store.events_after("acme", None, limit=1_000)
    between = others.turns
    newest = [event async for event in gate.store.chained(tenant="acme", newest=1_000)]
    after = others.turns
    others.end()

    assert (len(page), len(newest)) == (1_000, 1_000)
    assert before < between < after


async def test_whoever_breaks_off_or_is_cancelled_leaves_nothing_open(gate: Gate, path: Path) -> None:
    async with gate.store.snapshot() as audit:
        await anext(audit.events)
        assert await is_held(gate, path)
    assert not await is_held(gate, path)

    begun = asyncio.Event()

    async def read() -> None:
        async with moment(path) as look:
            while True:
                async for _ in look.each("chained"):
                    begun.set()

    reading = asyncio.ensure_future(read())
    await asyncio.wait_for(begun.wait(), 30)
    assert await is_held(gate, path)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert not await is_held(gate, path)


async def test_a_file_that_is_damaged_is_said_to_be_so_wherever_it_is_met(gate: Gate, path: Path) -> None:
    damaged = path.with_name("copy.db")
    damaged.write_bytes(b"this is no database, and never was one" * 100)
    faults: list[StoreError] = []
    for read in (lambda look: look.found("heads"), lambda look: anext(look.each("chained"))):
        try:
            async with moment(damaged) as look:
                await read(look)
        except StoreError as fault:
            faults.append(fault)

    assert [type(fault) for fault in faults] == [StoreCorrupt, StoreCorrupt]
