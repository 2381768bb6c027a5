"""Arguments as a page draws them: every value, in its type, whole.

`"5"` and `5`, `null` and `"null"`, `1` and `1.0` are drawn differently, because they run differently. A long value is
folded in place and says how long it is; the whole of it is in the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from placet.model.json import JsonObject, JsonValue
from placet.rules.chips import Piece, is_deceptive, pieces_of

LONG_CHARACTERS = 400
LONG_LINES = 8
MANY_MEMBERS = 40
"""A value beyond one of these is folded."""


class ValueKind(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    NULL = "null"
    LIST = "list"
    OBJECT = "object"
    REDACTED = "redacted"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnValue:
    """One value with its name.

    Attributes:
        name: its member name, or its index in square brackets; empty for a root.
        text: of a number, boolean or null, as canonical JSON writes it.
        pieces: of a text.
        size: characters of a text, members of a list or an object.
        is_folded: whether it is drawn folded.
        is_deceptive: whether its name, or its text, hides something or looks like something else.
    """

    kind: ValueKind
    name: tuple[Piece, ...]
    text: str = ""
    pieces: tuple[Piece, ...] = ()
    members: tuple[DrawnValue, ...] = ()
    size: int = 0
    is_folded: bool = False
    is_deceptive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnArguments:
    """All arguments of a call.

    Attributes:
        deceptive_count: values that hide something or look like something else, at any depth.
        folded_count: values that are folded.
    """

    members: tuple[DrawnValue, ...]
    deceptive_count: int
    folded_count: int


def drawn_arguments(arguments: JsonObject, *, redacted: tuple[str, ...] = ()) -> DrawnArguments:
    """Arguments as they are drawn; of `redacted` fields only the name."""
    members = tuple(
        DrawnValue(kind=ValueKind.REDACTED, name=pieces_of(name)) if name in redacted else _drawn(name, value)
        for name, value in arguments.items()
    )
    every = [value for member in members for value in _with_members(member)]
    return DrawnArguments(
        members=members,
        deceptive_count=sum(value.is_deceptive for value in every),
        folded_count=sum(value.is_folded for value in every),
    )


def one_line(value: JsonValue, *, characters: int = 80) -> str:
    """A value in a row of a table, cut if need be: never where somebody decides."""
    text = value if type(value) is str else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def _drawn(name: str, value: JsonValue) -> DrawnValue:
    label = pieces_of(name)
    misleads = is_deceptive(name)
    match value:
        case str():
            return DrawnValue(
                kind=ValueKind.TEXT,
                name=label,
                pieces=pieces_of(value),
                size=len(value),
                is_folded=len(value) > LONG_CHARACTERS or value.count("\n") >= LONG_LINES,
                is_deceptive=misleads or is_deceptive(value),
            )
        case bool():
            return DrawnValue(kind=ValueKind.BOOLEAN, name=label, text=json.dumps(value), is_deceptive=misleads)
        case None:
            return DrawnValue(kind=ValueKind.NULL, name=label, text="null", is_deceptive=misleads)
        case list():
            members = tuple(_drawn(f"[{index}]", member) for index, member in enumerate(value))
            return _container(ValueKind.LIST, label, members, misleads)
        case dict():
            members = tuple(_drawn(key, member) for key, member in value.items())
            return _container(ValueKind.OBJECT, label, members, misleads)
        case _:
            return DrawnValue(kind=ValueKind.NUMBER, name=label, text=json.dumps(value), is_deceptive=misleads)


def _container(kind: ValueKind, name: tuple[Piece, ...], members: tuple[DrawnValue, ...], misleads: bool) -> DrawnValue:
    return DrawnValue(
        kind=kind,
        name=name,
        members=members,
        size=len(members),
        is_folded=len(members) > MANY_MEMBERS,
        is_deceptive=misleads,
    )


def _with_members(value: DrawnValue) -> Iterator[DrawnValue]:
    yield value
    for member in value.members:
        yield from _with_members(member)


# ---------------------------------------------------------------- differences


class Change(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One leaf that is not what it was; `before` or `after` is absent where there was, or is, none."""

    change: Change
    path: tuple[Piece, ...]
    before: DrawnValue | None
    after: DrawnValue | None


def differences(before: JsonObject, after: JsonObject) -> tuple[Difference, ...]:
    """What is different between two calls, by path, in the order of `after`; types count."""
    old, new = dict(_leaves("", before)), dict(_leaves("", after))
    found: list[Difference] = []
    for path, value in new.items():
        if path not in old:
            found.append(_difference(Change.ADDED, path, None, value))
        elif _exact(old[path]) != _exact(value):
            found.append(_difference(Change.CHANGED, path, old[path], value))
    found += [_difference(Change.REMOVED, path, value, None) for path, value in old.items() if path not in new]
    return tuple(found)


def _difference(change: Change, path: str, before: JsonValue, after: JsonValue) -> Difference:
    return Difference(
        change=change,
        path=pieces_of(path),
        before=None if change is Change.ADDED else _drawn("", before),
        after=None if change is Change.REMOVED else _drawn("", after),
    )


def _exact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=True)


def _leaves(path: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Scalars, and containers without members, by a path in which no member name can be taken for another's."""
    match value:
        case dict() if value:
            for name, member in value.items():
                step = name if name.isidentifier() else json.dumps(name, ensure_ascii=False)
                yield from _leaves(f"{path}.{step}" if path else step, member)
        case list() if value:
            for index, member in enumerate(value):
                yield from _leaves(f"{path}[{index}]", member)
        case _:
            yield path, value
