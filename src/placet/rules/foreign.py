"""Reads values that may be hostile, one level deep, and names exceptions; what it gives out is exact and ours.

Invariants:
- Nothing here raises because of the data. Foreign code is reached only through `items()`, iteration and an enum's
  `value`; whatever comes out of it, `BaseException` included, is a failure of the data and becomes a placeholder.
- A class is recognised by identity in its real method resolution order. `isinstance` would ask the object's own
  `__class__`, and a lookup by class would ask its metaclass for `__hash__` and `__eq__`.
- Text is taken only from values that really are text, never from `__str__`, `__repr__` or `__format__`.

Source: REQUIREMENTS B134, B149, B152-B154; CASES M01.
"""

from __future__ import annotations

import builtins
import math
from collections import deque
from collections.abc import Collection, Mapping
from datetime import date, datetime, time, timezone
from decimal import Decimal
from enum import Enum
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

from placet import errors
from placet.rules.placeholders import (
    GIANT_INTEGER,
    MAX_INTEGER_BITS,
    MAX_ITEMS,
    NON_FINITE_FLOAT,
    UNREADABLE_COLLECTION,
    UNREADABLE_ENUM,
    UNREADABLE_MAPPING,
    UNSERIALIZABLE,
)

UNTRUSTED_EXCEPTION: Final = "untrusted_exception"


class Scalar(NamedTuple):
    """A leaf of an exact built-in type; numbers are finite and of at most 64 bits."""

    value: bool | int | float | str | None


class Members(NamedTuple):
    """A mapping's pairs: the first ones, and one more than was asked for if there are more."""

    pairs: list[tuple[object, object]]


class Items(NamedTuple):
    """A collection's members, likewise; a set has no order."""

    values: list[object]
    ordered: bool


class Wrapped(NamedTuple):
    """What an enum member stands for."""

    value: object


class Unreadable(NamedTuple):
    """A value we cannot or will not read, and the placeholder that says so."""

    placeholder: str


Reading: TypeAlias = Scalar | Members | Items | Wrapped | Unreadable

_mro_of = type.__dict__["__mro__"].__get__
_MAPPINGS: Final = frozenset(map(id, (dict, Mapping, MappingProxyType)))
_EMPTY: Final[dict[str, str]] = {}
_VIEWS: Final = (type(_EMPTY.keys()), type(_EMPTY.values()), type(_EMPTY.items()))
_SETS: Final = frozenset(map(id, (set, frozenset)))
_COLLECTIONS: Final = _SETS | frozenset(map(id, (list, tuple, deque, Collection, *_VIEWS)))


def read(value: object, *, limit: int = MAX_ITEMS) -> Reading:
    """Look at one value, one level deep, without trusting it; never raises on account of the data."""
    if type(value) is dict:
        return Members(list(value.items() if len(value) <= limit else islice(value.items(), limit + 1)))
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return Scalar(value)  # type: ignore[arg-type]  # mypy does not narrow by identity of a stored type
    if type(value) is int:
        return Scalar(value) if value.bit_length() <= MAX_INTEGER_BITS else Unreadable(GIANT_INTEGER)
    if type(value) is float:
        return Scalar(value) if math.isfinite(value) else Unreadable(NON_FINITE_FLOAT)
    if type(value) is list:
        return Items(value[: limit + 1], True)
    try:
        return _read_foreign(value, limit)
    except Exception:  # no foreign code runs there, yet a class may lie about what it is
        return Unreadable(UNSERIALIZABLE)


def _read_foreign(value: Any, limit: int) -> Reading:
    bases = {id(base) for base in _mro_of(type(value))}
    if id(Enum) in bases:
        return _enum(value)
    if id(str) in bases:
        return Scalar(str.__str__(value))
    if id(int) in bases:
        return read(int.__int__(value))
    if id(float) in bases:
        return read(float.__float__(value))
    if not _MAPPINGS.isdisjoint(bases):
        return _members(value, limit)
    if not _COLLECTIONS.isdisjoint(bases):
        return _items(value, limit, ordered=_SETS.isdisjoint(bases))
    if id(BaseException) in bases:
        return Scalar(safe_exception_name(value))
    return _known_leaf(value)


def _enum(value: Any) -> Reading:
    try:
        return Wrapped(value.value)
    except BaseException:  # a foreign object raises what it likes
        return Unreadable(UNREADABLE_ENUM)


def _members(value: Any, limit: int) -> Reading:
    try:
        pairs = list(islice(iter(value.items()), limit + 1))
    except BaseException:  # a foreign object raises what it likes
        return Unreadable(UNREADABLE_MAPPING)
    if all(type(pair) is tuple and len(pair) == 2 for pair in pairs):
        return Members(pairs)
    return Unreadable(UNREADABLE_MAPPING)


def _items(value: Any, limit: int, *, ordered: bool) -> Reading:
    try:
        return Items(list(islice(iter(value), limit + 1)), ordered)
    except BaseException:  # a foreign object raises what it likes
        return Unreadable(UNREADABLE_COLLECTION)


def _known_leaf(value: object) -> Reading:
    """Render the few standard classes whose text is made by C code, or by us, from exact parts."""
    if type(value) is datetime or type(value) is time:
        zone = value.tzinfo  # a foreign zone would be asked for its offset while rendering
        if zone is None or type(zone) is timezone or type(zone) is ZoneInfo:
            return Scalar(value.isoformat())
    if type(value) is date:
        return Scalar(value.isoformat())
    if type(value) is Decimal:
        return Scalar(str(value)) if value.is_finite() else Unreadable(NON_FINITE_FLOAT)
    if type(value) is UUID and type(value.int) is int and 0 <= value.int < 1 << 128:
        return Scalar(str(value))
    return Unreadable(UNSERIALIZABLE)


def plain_text(value: object) -> str | None:
    """Return the characters of a `str` of any class, or of an enum's text, as an exact `str`; None for the rest."""
    if type(value) is str:
        return value
    try:
        bases = {id(base) for base in _mro_of(type(value))}
        reading = _read_foreign(value, 0) if id(Enum) in bases or id(str) in bases else None
    except Exception:  # as in `read`
        return None
    text = reading.value if type(reading) is Scalar or type(reading) is Wrapped else None
    return text if type(text) is str else None


# Names of exceptions


def _names_of_exceptions() -> dict[int, str]:
    ours = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    built_in = [kind for kind in vars(builtins).values() if isinstance(kind, type)]
    return {id(kind): kind.__name__ for kind in (*built_in, *ours) if issubclass(kind, BaseException)}


# By id: these classes live as long as the process, and asking a foreign class for its hash would run its metaclass.
_EXCEPTION_NAMES: Final = _names_of_exceptions()


def safe_exception_name(exc_type: object) -> str:
    """Name an exception, or its class, if the very class is a built-in one or ours; else `untrusted_exception`.

    Source: REQUIREMENTS B134, B152, B153; CASES M01.
    """
    return _EXCEPTION_NAMES.get(id(exc_type)) or _EXCEPTION_NAMES.get(id(type(exc_type)), UNTRUSTED_EXCEPTION)


def known_exception_name(name: str) -> str:
    """The name another process gave an exception, if `safe_exception_name` could have; else `untrusted_exception`."""
    return name if name in _EXCEPTION_NAMES.values() else UNTRUSTED_EXCEPTION
