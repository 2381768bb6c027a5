"""How many of a list, and where it goes on."""

from __future__ import annotations

from typing import Annotated, TypeVar

from fastapi import Query

from placet.engine.pages import MOST_IN_A_PAGE
from placet.http_api.door import Door
from placet.model.json import JsonValue
from placet.model.listing import Mark, Page
from placet.model.principal import Principal

Row = TypeVar("Row")
_MOST_CURSOR = 4_096

LIMIT = Annotated[int, Query(ge=1, le=MOST_IN_A_PAGE, description="How many at most.")]
CURSOR = Annotated[
    str | None, Query(max_length=_MOST_CURSOR, description="`next` of the page before; good for an hour, and for you.")
]


async def mark_of(door: Door, cursor: str | None, *, of: JsonValue, by: Principal) -> Mark | None:
    """Where to go on.

    Raises:
        CursorRefused: not from there.
    """
    return None if cursor is None else await door.gate.cursors.take(cursor, of=of, by=by)


async def cursor_of(door: Door, page: Page[Row], *, of: JsonValue, by: Principal) -> str | None:
    """What to go on with after the page; None if nothing more was there."""
    return None if page.after is None else await door.gate.cursors.give(page.after, of=of, by=by)
