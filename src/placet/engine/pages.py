"""One page of a list from a store, past rows that are not shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from placet.model.listing import Mark, Page

Stored = TypeVar("Stored")
Shown = TypeVar("Shown")

MOST_IN_A_PAGE = 1_000
_MOST_LOOKS = 20
"""How often one page asks the store: a tenant whose rows were nearly all altered costs no more than that."""
_MOST_AT_ONCE = 4_096
"""Rows that one look fetches at most to get past those that cannot be read, of which no mark can be made."""


async def read_page(
    fetch: Callable[[Mark | None, int], Awaitable[Sequence[Stored]]],
    *,
    mark_of: Callable[[Stored], Mark | None],
    shown: Callable[[Stored], Shown | None],
    after: Mark | None,
    limit: int,
) -> Page[Shown]:
    """
    A page that would take too many looks to fill is given as it is, and goes on from where it was looked at last.

    Args:
        fetch: so many rows after a mark, in the order of the list.
        mark_of: where a row stands; None where it cannot be read.
        shown: what is shown of a row; None leaves it out.
    """
    found: list[tuple[Shown, Mark]] = []
    mark, has_more, count = after, True, limit + 1
    for _ in range(_MOST_LOOKS):
        rows = await fetch(mark, count)
        marks = [mark_of(row) for row in rows]
        for row, place in zip(rows, marks, strict=True):
            view = shown(row) if place is not None else None
            if view is not None and place is not None:
                found.append((view, place))
        if len(found) > limit:
            return Page(rows=tuple(view for view, _ in found[:limit]), after=found[limit - 1][1])
        last = next((place for place in reversed(marks) if place is not None), None)
        is_further = last is not None and (mark is None or last.place < mark.place)
        is_unread = last is None and count < _MOST_AT_ONCE
        has_more = len(rows) == count and (is_further or is_unread)
        if not has_more:
            break
        if is_further:
            mark, count = last, limit + 1
        else:  # nothing but rows that cannot be read: look past them
            count = min(4 * count, _MOST_AT_ONCE)
    return Page(rows=tuple(view for view, _ in found), after=mark if has_more else None)
