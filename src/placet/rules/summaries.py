"""What audit events may say of arguments and results: six counts, and the bytes a keyed fingerprint is made of.

Both are bounded as what `placet.rules.redaction` writes is, and never raise on account of the data.
Values are normally plain JSON, which is read directly; anything else goes through `foreign.read`.

A fingerprint lets somebody who holds the key see that two records speak of the same values. It is lossy on purpose,
so it must never authorise: canonical digests live in `placet.rules.canonical` and share no form with it.

Source: REQUIREMENTS B116-B121, B129-B133; CASES N08.
"""

from __future__ import annotations

from typing import Final

from placet.rules.field_names import STANDARD_KEYS, KeyKind, KeyRules
from placet.rules.foreign import Items, Members, Scalar, Unreadable, Wrapped, plain_text, read
from placet.rules.placeholders import (
    CYCLE,
    DEPTH_LIMIT,
    GIANT_INTEGER,
    ITEM_LIMIT,
    MAX_DEPTH,
    MAX_INTEGER_BITS,
    MAX_ITEMS,
    MAX_NODES,
    NON_FINITE_FLOAT,
    REDACTED,
    UNSERIALIZABLE,
    UNSUPPORTED_KEY,
)

FINGERPRINT_PREFIX: Final = b"placet-audit-fingerprint-1\x00"
MAX_FINGERPRINT_TEXT: Final = 1024
"""Characters of one text that count; of what follows, only the length does."""

# Read once: looking a member up in its enum's class takes longer than the rest of the step.
_SECRET, _CONTENT, _IDENTIFIER = KeyKind.SECRET, KeyKind.CONTENT, KeyKind.IDENTIFIER


def summary(value: object, *, keys: KeyRules = STANDARD_KEYS) -> dict[str, int]:
    """Count what `value` is made of; none of the six counts says what is in it.

    field_count: members of mappings, at any depth.
    scalar_count: texts, numbers, booleans, nulls, and values that cannot be read.
    collection_count: mappings and lists, the outermost one included, and those too deep or too many to enter.
    redacted_field_count: fields whose key names a secret; their values are not looked into.
    content_field_count: fields whose key names what people or models said.
    identifier_field_count: fields whose key names a thing, such as `order_id`.

    A field is counted as secret, content or identifier at most once, in that order.

    Source: REQUIREMENTS B116, B120.
    """
    counting = _Counting(keys)
    try:
        counting.root(value)
    except Exception:  # memory or stack at an end in our own code; what was counted so far stands
        counting.scalars += 1
    return {
        "field_count": counting.fields,
        "scalar_count": counting.scalars,
        "collection_count": counting.collections,
        "redacted_field_count": counting.redacted,
        "content_field_count": counting.contents,
        "identifier_field_count": counting.identifiers,
    }


class _Counting:
    """One walk over one value."""

    __slots__ = ("_keys", "_left", "_open", "collections", "contents", "fields", "identifiers", "redacted", "scalars")

    def __init__(self, keys: KeyRules) -> None:
        self._keys = keys
        self._open: list[int] = []
        self._left = MAX_NODES
        self.fields = self.scalars = self.collections = 0
        self.redacted = self.contents = self.identifiers = 0

    def root(self, value: object) -> None:
        # Nearly every value is a small plain mapping; the general way would cost half as much again.
        if type(value) is dict and len(value) <= MAX_ITEMS:
            self.collections = 1
            self._open.append(id(value))
            self._pairs(list(value.items()), 1)
        else:
            self.value(value, 0)

    def value(self, value: object, depth: int) -> None:
        reading = read(value)
        if type(reading) is Scalar or type(reading) is Unreadable:
            self.scalars += 1
            return
        if type(reading) is not Wrapped:
            self.collections += 1
        if depth >= MAX_DEPTH or self._left <= 0 or id(value) in self._open:
            return
        self._open.append(id(value))
        if type(reading) is Members:
            self._pairs(reading.pairs[:MAX_ITEMS], depth + 1)
        elif type(reading) is Items:
            self._members(reading.values[:MAX_ITEMS], depth + 1)
        elif type(reading) is Wrapped:
            self.value(reading.value, depth + 1)
        self._open.pop()

    def _members(self, values: list[object], depth: int) -> None:
        self._left -= len(values)
        for member in values:
            self.value(member, depth)

    def _pairs(self, pairs: list[tuple[object, object]], depth: int) -> None:
        self._left -= len(pairs)
        self.fields += len(pairs)
        known = self._keys.known
        for key, member in pairs:
            name = key if type(key) is str else plain_text(key)
            if name is not None:
                kind = known.get(name) or self._keys.kind(name)
                if kind is _SECRET:
                    self.redacted += 1
                    continue
                if kind is _CONTENT:
                    self.contents += 1
                elif kind is _IDENTIFIER:
                    self.identifiers += 1
            if type(member) is str or type(member) is int:
                self.scalars += 1
            else:
                self.value(member, depth)


def fingerprint_text(value: object, *, keys: KeyRules = STANDARD_KEYS) -> bytes:
    """Write `value` down, lossily and within bounds, for the audit's keyed MAC to be taken of.

    Every part carries its type and length, so different shown values never give the same bytes. Not shown are: values
    under secret keys, what follows the first 1,024 characters of a text (its length is), what lies beyond 256 members,
    eight containers or 4,096 values, and what is not data. The order of a mapping's keys does not matter, except that
    it decides which 256 of a larger mapping count.

    Never store, show or send the result: it holds the values. Key and MAC belong to the caller.

    Source: REQUIREMENTS B117, B118, B120, B129-B133.
    """
    try:
        text = _Writing(keys).root(value)
    except Exception:  # memory or stack at an end in our own code
        text = _placed(UNSERIALIZABLE)
    return FINGERPRINT_PREFIX + text.encode("utf-8", "surrogatepass")


def _placed(placeholder: str) -> str:
    return f"p{placeholder}"


_REDACTED, _TOO_MANY = _placed(REDACTED), _placed(ITEM_LIMIT)


class _Writing:
    """One walk over one value; each part is a letter for its type, then itself, told apart by length or by an end."""

    __slots__ = ("_keys", "_left", "_open")

    def __init__(self, keys: KeyRules) -> None:
        self._keys = keys
        self._open: list[int] = []
        self._left = MAX_NODES

    def root(self, value: object) -> str:
        # As in `_Counting.root`.
        if type(value) is dict and len(value) <= MAX_ITEMS:
            self._open.append(id(value))
            return self._mapping(list(value.items()), 1)
        return self.value(value, 0)

    def value(self, value: object, depth: int) -> str:
        if type(value) is str:
            return f"s{len(value)}:{value[:MAX_FINGERPRINT_TEXT]}"
        if type(value) is int:
            return f"i{value};" if value.bit_length() <= MAX_INTEGER_BITS else _placed(GIANT_INTEGER)
        if type(value) is float:
            return f"f{value!r};" if value - value == 0 else _placed(NON_FINITE_FLOAT)
        if value is None or value is True or value is False:
            return "n" if value is None else "t" if value else "b"
        return self._other(value, depth)

    def _other(self, value: object, depth: int) -> str:
        reading = read(value)
        if isinstance(reading, Scalar):
            return self.value(reading.value, depth)
        if isinstance(reading, Unreadable):
            return _placed(reading.placeholder)
        if id(value) in self._open:
            return _placed(CYCLE)
        if depth >= MAX_DEPTH:
            return _placed(DEPTH_LIMIT)
        if self._left <= 0:
            return _TOO_MANY
        self._open.append(id(value))
        try:
            if isinstance(reading, Members):
                return self._mapping(reading.pairs, depth + 1)
            if isinstance(reading, Items):
                return self._collection(reading.values, depth + 1, ordered=reading.ordered)
            return self.value(reading.value, depth + 1)
        finally:
            self._open.pop()

    def _mapping(self, pairs: list[tuple[object, object]], depth: int) -> str:
        self._left -= len(pairs)
        known = self._keys.known
        written: list[str] = []
        for key, member in pairs[:MAX_ITEMS]:
            name = key if type(key) is str else plain_text(key)
            if name is None:
                written.append(f"{_placed(UNSUPPORTED_KEY)}{self.value(member, depth)}")
                continue
            if (known.get(name) or self._keys.kind(name)) is _SECRET:
                text = _REDACTED
            elif type(member) is str:  # as `value` does; the call would cost more than the work
                text = f"s{len(member)}:{member[:MAX_FINGERPRINT_TEXT]}"
            else:
                text = self.value(member, depth)
            written.append(f"s{len(name)}:{name[:MAX_FINGERPRINT_TEXT]}{text}")
        written.sort()
        if len(pairs) > MAX_ITEMS:
            written.append(_TOO_MANY)
        return f"d{len(written)}:{''.join(written)}"

    def _collection(self, values: list[object], depth: int, *, ordered: bool) -> str:
        self._left -= len(values)
        written = [self.value(member, depth) for member in values[:MAX_ITEMS]]
        if not ordered:
            written.sort()
        if len(values) > MAX_ITEMS:
            written.append(_TOO_MANY)
        return f"{'l' if ordered else 'u'}{len(written)}:{''.join(written)}"
