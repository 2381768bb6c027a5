"""What a server says of its tools now: all pages of it, within bounds, as definitions.

Source: CASES K04, L01.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from placet.model.json import JsonObject
from placet.model.pins import Definition
from placet.model.upstreams import UpstreamBounds

MOST_PAGES: Final = 100
_MOST_CURSOR_CHARACTERS: Final = 4_096

Ask = Callable[[str, JsonObject], Awaitable[tuple[JsonObject, int]]]
"""Sends a request and gives its result, and how many bytes it took."""


class ListingBroken(Exception):
    """The list of tools cannot be believed.

    Attributes:
        reason: one of a few fixed words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a server says of its tools.

    Attributes:
        definitions: what stands twice is there twice.
        malformed: names of which it says what is no definition.
    """

    definitions: tuple[Definition, ...]
    malformed: frozenset[str]


async def listing(server: str, ask: Ask, bounds: UpstreamBounds) -> Listing:
    """Every page of the list; of what is no definition nothing but its name.

    Raises:
        ListingBroken: a cursor came twice, there are more pages, tools or bytes than are read, or no list at all.
    """
    definitions: list[Definition] = []
    malformed: set[str] = set()
    async for tool in _entries(ask, bounds):
        if (definition := _definition(server, tool)) is not None:
            definitions.append(definition)
        elif (name := _name(tool)) is not None:
            malformed.add(name)
    return Listing(definitions=tuple(definitions), malformed=frozenset(malformed))


async def _entries(ask: Ask, bounds: UpstreamBounds) -> AsyncIterator[object]:
    cursor: str | None = None
    seen: set[str] = set()
    total = count = 0
    for _ in range(MOST_PAGES):
        result, size = await ask("tools/list", {} if cursor is None else {"cursor": cursor})
        total += size
        tools, cursor = result.get("tools"), _cursor(result)
        if type(tools) is not list:
            raise ListingBroken("no_list")
        count += len(tools)
        if total > bounds.max_definition_bytes or count > bounds.max_tools:
            raise ListingBroken("too_large")
        for tool in tools:
            yield tool
        if cursor is None:
            return
        if cursor in seen:
            raise ListingBroken("cursor_repeats")
        seen.add(cursor)
    raise ListingBroken("too_many_pages")


def _cursor(result: JsonObject) -> str | None:
    cursor = result.get("nextCursor")
    if cursor is None:
        return None
    if type(cursor) is not str or len(cursor) > _MOST_CURSOR_CHARACTERS:
        raise ListingBroken("strange_cursor")
    return cursor


def _name(said: object) -> str | None:
    """Whom an entry is about; None for what is about nobody."""
    name = said.get("name") if type(said) is dict else None
    return name if type(name) is str and name else None


def _definition(server: str, said: object) -> Definition | None:
    """One entry, or None for what is none. What it says besides decides nothing, and nobody is shown it."""
    name = _name(said)
    if type(said) is not dict or name is None:
        return None
    title, description = said.get("title"), said.get("description")
    takes: Any = said.get("inputSchema")
    gives, hints = said.get("outputSchema"), said.get("annotations")
    is_text = all(each is None or type(each) is str for each in (title, description))
    is_schema = type(takes) is dict and (gives is None or type(gives) is dict)
    if not is_text or not is_schema or not (hints is None or type(hints) is dict):
        return None
    return Definition(
        server=server,
        tool=name,
        title=title,
        description=description,
        input_schema=takes,
        output_schema=gives,
        annotations=hints or {},
    )
