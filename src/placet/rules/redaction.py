"""Turns values we did not make into values that are safe to write down.

    rules/placeholders   what stands for what is not shown, and the limits
    rules/field_names    what the name of a field says about its value
    rules/foreign        one look at a value that may be hostile
    rules/scrubbing      what of a text may be logged

Nothing here raises because of the data, and work is bounded for each collection and in total.

Source: REQUIREMENTS B143-B150, B163-B167; CASES N07.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from placet.rules.field_names import STANDARD_KEYS, KeyKind, KeyRules
from placet.rules.foreign import Items, Members, Scalar, Unreadable, Wrapped, plain_text, read
from placet.rules.placeholders import (
    CYCLE,
    DEPTH_LIMIT,
    ITEM_LIMIT,
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_NODES,
    MAX_TEXT,
    REDACTED,
    TRUNCATED,
    UNSERIALIZABLE,
    UNSUPPORTED_KEY,
)
from placet.rules.scrubbing import scrub_text

JsonSafe: TypeAlias = bool | int | float | str | list["JsonSafe"] | dict[str, "JsonSafe"] | None

_MAX_SCANNED: Final = 8 * MAX_TEXT
_MAX_SCANNED_IN_ALL: Final = MAX_ITEMS * MAX_TEXT


def sanitise(value: object, *, keys: KeyRules = STANDARD_KEYS) -> JsonSafe:
    """Copy `value` into plain JSON that may be logged; what may not, or cannot, be shown becomes a placeholder.

    At most eight containers deep, 256 members each and 4,096 values in all, 2,048 characters a text. Content becomes
    its size, secrets vanish by key and by pattern. The result is finite, shares nothing with `value`, and holds only
    exact built-in types and well-formed text. Placeholders in `value` stay as they are.

    Source: REQUIREMENTS B143-B150, B163-B167.
    """
    try:
        return _Sanitiser(keys).value(value, 0)
    except Exception:  # memory or stack at an end in our own code; foreign code never gets this far
        return UNSERIALIZABLE


_PLACED = re.compile(r"\[CONTENT(?::\d{1,20} (?:chars|items))?\]")


class _Sanitiser:
    """One walk over one value: what is open above us, and what may still be spent."""

    def __init__(self, keys: KeyRules) -> None:
        self._keys = keys
        self._open: list[int] = []
        self._nodes = MAX_NODES
        self._characters = _MAX_SCANNED_IN_ALL

    def value(self, value: object, depth: int) -> JsonSafe:
        if self._nodes <= 0:
            return ITEM_LIMIT
        self._nodes -= 1
        reading = read(value)
        if isinstance(reading, Scalar):
            return self._scalar(reading.value)
        if isinstance(reading, Unreadable):
            return reading.placeholder
        if id(value) in self._open:
            return CYCLE
        if depth >= MAX_DEPTH:
            return DEPTH_LIMIT
        self._open.append(id(value))
        try:
            return self._inside(reading, depth + 1)
        finally:
            self._open.pop()

    def _inside(self, reading: Members | Items | Wrapped, depth: int) -> JsonSafe:
        match reading:
            case Members(pairs):
                return self._mapping(pairs, depth)
            case Items(values):
                return self._collection(values, depth)
            case Wrapped(inner):
                return self.value(inner, depth)

    def _mapping(self, pairs: list[tuple[object, object]], depth: int) -> JsonSafe:
        shown: dict[str, JsonSafe] = {}
        for key, member in pairs[:MAX_ITEMS]:
            text = plain_text(key)
            name = UNSUPPORTED_KEY if text is None else self._text(text)
            if name in shown:
                name = f"{name}#{len(shown)}"
            shown[name] = self.value(member, depth) if text is None else self._member(text, member, depth)
        if len(pairs) > MAX_ITEMS:
            shown[ITEM_LIMIT] = ITEM_LIMIT
        return shown

    def _member(self, key: str, member: object, depth: int) -> JsonSafe:
        match self._keys.kind(key):
            case KeyKind.SECRET:
                return REDACTED
            case KeyKind.CONTENT:
                return _size_of_content(member)
            case _:
                return self.value(member, depth)

    def _collection(self, values: list[object], depth: int) -> JsonSafe:
        shown = [self.value(member, depth) for member in values[:MAX_ITEMS]]
        # A header or form field is often a pair, and then its key is a value to us.
        if len(shown) == 2 and type(shown[0]) is str and self._keys.kind(shown[0]) is KeyKind.SECRET:
            shown[1] = REDACTED
        return [*shown, ITEM_LIMIT] if len(values) > MAX_ITEMS else shown

    def _scalar(self, plain: bool | int | float | str | None) -> JsonSafe:
        if type(plain) is str:
            return self._text(plain)
        if (type(plain) is int or type(plain) is float) and 13_000_000_000 <= plain < 20_000_000_000:
            return REDACTED  # a mobile number that lost its quotes
        return plain

    def _text(self, text: str) -> str:
        if self._characters <= 0:
            return TRUNCATED
        scanned = text[:_MAX_SCANNED]
        self._characters -= len(scanned)
        if len(text) > _MAX_SCANNED:
            scanned = scanned.rpartition(" ")[0] or scanned  # half a secret may not look like one
        clean = scrub_text(well_formed(scanned))
        return clean[:MAX_TEXT] + TRUNCATED if len(text) > _MAX_SCANNED or len(clean) > MAX_TEXT else clean


def _size_of_content(value: object) -> JsonSafe:
    if value is None:
        return None
    text = plain_text(value)
    if text is not None:
        return text if _PLACED.fullmatch(text) else f"[CONTENT:{len(text)} chars]"
    if type(value) is dict or type(value) is list or type(value) is tuple:
        return f"[CONTENT:{len(value)} items]"
    return "[CONTENT]"


def well_formed(text: str) -> str:
    """Spell out lone surrogates, which no UTF-8 writer and no strict JSON reader accepts."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
