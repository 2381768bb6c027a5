"""A page of a list is filled past rows that are not shown, and says whether more is there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

import placet
from placet import Principal
from placet.engine.pages import read_page
from placet.model.listing import Mark, Page
from placet.testing import FakeClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Row = int
"""Rows are numbers, the newest the highest; those below 0 cannot be read."""


def mark(row: Row) -> Mark:
    return Mark(at=NOW + timedelta(seconds=abs(row)), name="row")


class Rows:
    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = sorted(rows, key=abs, reverse=True)
        self.looks = 0

    async def fetch(self, after: Mark | None, count: int) -> Sequence[Row]:
        self.looks += 1
        return [row for row in self._rows if after is None or mark(row).place < after.place][:count]

    async def page(self, *, after: Mark | None = None, limit: int = 2) -> Page[str]:
        return await read_page(
            self.fetch,
            mark_of=lambda row: mark(row) if row > 0 else None,
            shown=lambda row: str(row) if row % 10 else None,
            after=after,
            limit=limit,
        )

    async def all(self, limit: int = 2) -> list[tuple[str, ...]]:
        found, after = [], None
        while True:
            page = await self.page(after=after, limit=limit)
            found.append(page.rows)
            after = page.after
            if after is None:
                return found


async def test_a_page_goes_on_after_its_last_row_if_there_is_more() -> None:
    rows = Rows([1, 2, 3])
    first = await rows.page()

    assert first == Page(rows=("3", "2"), after=mark(2))
    assert await rows.page(after=first.after) == Page(rows=("1",), after=None)
    assert await Rows([1, 2]).page() == Page(rows=("2", "1"), after=None)
    assert await Rows([]).page() == Page(rows=(), after=None)


async def test_rows_that_are_not_shown_or_cannot_be_read_do_not_shorten_a_page() -> None:
    rows = [9, 10, 20, 8, -7, 30, 6, -5, 4]

    assert await Rows(rows).all() == [("9", "8"), ("6", "4")]
    assert await Rows(rows).all(limit=1) == [("9",), ("8",), ("6",), ("4",)]


async def test_where_nothing_is_shown_for_long_a_page_ends_and_goes_on_from_there() -> None:
    rows = Rows([*range(1_000, 2_000, 10), 7])
    pages = await rows.all(limit=1)

    assert pages[-1] == ("7",)
    assert len(pages) > 1 and all(page == () for page in pages[:-1])
    assert rows.looks <= 20 * len(pages)


async def test_a_list_of_nothing_but_what_cannot_be_read_ends() -> None:
    rows = Rows([-number for number in range(1, 50)])

    assert await rows.page() == Page(rows=(), after=None)
    assert rows.looks == 4


async def test_a_store_that_gives_the_same_rows_again_ends_too() -> None:
    async def fetch(after: Mark | None, count: int) -> Sequence[Row]:
        return [30, 20, 10]

    page = await read_page(fetch, mark_of=mark, shown=lambda row: None, after=None, limit=2)

    assert page == Page(rows=(), after=None)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_whatever_the_limit_every_row_comes_once(limit: int) -> None:
    numbers = [number for number in range(1, 60)]
    found = [row for page in await Rows(numbers).all(limit) for row in page]

    assert found == [str(number) for number in reversed(numbers) if number % 10]


@pytest.mark.parametrize("unread", [1, 2, 9, 200])
@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_rows_that_cannot_be_read_hide_none_behind_them(unread: int, limit: int) -> None:
    rows = Rows([1, 2, 3, *(-4 - number for number in range(unread)), 1_001, 1_002])

    assert [row for page in await rows.all(limit) for row in page] == ["1002", "1001", "3", "2", "1"]


async def test_more_unread_rows_than_a_look_may_fetch_end_the_list() -> None:
    rows = Rows([1, *(-2 - number for number in range(5_000))])

    assert await rows.page(limit=2) == Page(rows=(), after=None)
    assert rows.looks < 10


async def test_an_event_whose_instant_was_altered_hides_none_behind_it(tmp_path: Path) -> None:
    """In the order of the database it stands where its text sorts; a mark made of it would stand after all others."""
    auditor = Principal.person("ada", tenant="acme", scopes=("audit.read",))
    agent = Principal.agent("bot", tenant="acme", roles=("viewer",))
    clock = FakeClock()
    file = tmp_path / "placet.db"
    async with placet.open(tools=[look], store=file, clock=clock, recovery="manual") as gate:
        for number in range(6):
            proposal = {"call_id": f"c{number}", "tool": "look", "arguments": {"word": str(number)}}
            await gate.submit(proposal, principal=agent, run="r")
            clock.advance(1)
        before = await _walked(gate, auditor)
        database = apsw.Connection(str(file))
        for (name,) in list(database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
            database.execute(f"DROP TRIGGER {name}")
        database.execute(
            "UPDATE audit_events SET body = replace(body, 'T00:00:03', 'T00:00:0x') WHERE sequence = ?", (before[4],)
        )
        assert database.changes() == 1
        database.close()

        after = await _walked(gate, auditor)

    assert len(before) == 12
    assert after == [sequence for sequence in before if sequence != before[4]]


async def _walked(gate: placet.Gate, by: Principal) -> list[int]:
    found: list[int] = []
    mark: Mark | None = None
    while True:
        page = await gate.auditor.page(by=by, limit=1, after=mark)
        found += [event.sequence for event in page.rows]
        mark = page.after
        if mark is None:
            return found


@placet.tool(effect="read")
async def look(word: str) -> str:
    """Look something up."""
    return word
