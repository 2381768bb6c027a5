"""A page of a list is filled past rows that are not shown, and says whether more is there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from placet.engine.pages import read_page
from placet.model.listing import Mark, Page

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
    assert rows.looks == 1


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
