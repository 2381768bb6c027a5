"""Untrusted text to one JSON object with a single meaning.

    mapping ── encoding.encode_foreign ──┐
                                         ├── bytes ── decode_object ── JsonObject
    wire text ───────────────────────────┘

There is one parser, so nobody downstream can read the same text differently. It runs with hooks that
accept only what is unremarkable; anything else (a repeated member, a large number, an escape that may
hide a surrogate, a text near a limit) is parsed again with every literal kept as written, and that
closer look alone decides and names the place.

Invariants:
    Every refusal is `InvalidArguments` with a fixed reason and no cause; nothing foreign escapes.
    Depth is counted before parsing, so no interpreter's recursion limit decides what is accepted.

Source: DESIGN section 6; CASES A01 to A10, A18; REQUIREMENTS B011 to B018, B074 to B084.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Final, cast

from placet.errors import ConfigurationError, InvalidArguments
from placet.model.json import JsonObject, JsonValue
from placet.rules.integers import LARGEST_SAFE_INTEGER, LONGEST_INTEGER_DIGITS, read_integer

LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
MAX_POINTER_CHARACTERS: Final = 128
# Far from any interpreter's recursion limit, at up to three frames a level.
_DEEPEST_LIMIT: Final = 64

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingLimits:
    """What a decoder accepts at most. Each limit is inclusive: the value itself is accepted.

    Attributes:
        max_bytes: length of the raw text in UTF-8, before any canonical form.
        max_depth: nested objects and arrays; the root object is level 1. At most 64.
        max_members: object members and array items, in the whole text.
        max_string_characters: code points of one string or member name, after unescaping.
        max_number_digits: digits of one integer of a wide field. At most 4,300.
    """

    max_bytes: int = 262_144
    max_depth: int = 32
    max_members: int = 10_000
    max_string_characters: int = 65_536
    max_number_digits: int = 1_000

    def __post_init__(self) -> None:
        if any(type(value) is not int or value < 1 for value in (getattr(self, field.name) for field in fields(self))):
            raise ConfigurationError("Every decoding limit is a whole number of at least 1.")
        if self.max_depth > _DEEPEST_LIMIT or self.max_number_digits > LONGEST_INTEGER_DIGITS:
            raise ConfigurationError("max_depth is at most 64 and max_number_digits at most 4300.")


DEFAULT_LIMITS: Final = DecodingLimits()


def decode_object(
    text: bytes | str, *, limits: DecodingLimits = DEFAULT_LIMITS, wide: Collection[Path] = frozenset()
) -> JsonObject:
    """Read exactly one JSON object, or refuse.

    `wide` names the fields whose integers may pass 2^53-1; "*" stands for any array index or member
    name. Their integers are exact; floats are never wide. Text is kept as it is, without normalisation.
    Empty text is refused: turning it into `{}` belongs to the provider adapters.

    Raises:
        InvalidArguments: the text does not have exactly one meaning, or passes a limit. Reasons:
            unsupported_value, too_long, byte_order_mark, not_utf8, lone_surrogate, empty, too_deep,
            not_json, trailing_data, not_an_object, duplicate_member, too_many_members,
            string_too_long, null_character, number_not_finite, number_too_large.
    """
    document = _document(text, limits)
    value = _parse_plain(document, limits)
    return _parse_closely(document, limits, wide) if value is None else value


def wide_path_matches(path: Sequence[str], wide: Collection[Path]) -> bool:
    """Whether a place in the document is declared wide. Array indices are written in decimal."""
    return any(
        len(pattern) == len(path) and all(want in ("*", got) for want, got in zip(pattern, path, strict=True))
        for pattern in wide
    )


def json_pointer(path: Sequence[str]) -> str:
    """Name a place in a document, in printable ASCII and at most 128 characters.

    JSON Pointer with `~0` and `~1`, then backslash escapes for everything outside printable ASCII.
    """
    pointer = "".join(
        "/" + name[:MAX_POINTER_CHARACTERS].replace("~", "~0").replace("/", "~1").encode("unicode_escape").decode()
        for name in path
    )
    return pointer if len(pointer) <= MAX_POINTER_CHARACTERS else pointer[: MAX_POINTER_CHARACTERS - 3] + "..."


# --- before parsing -----------------------------------------------------------------------------

_JSON_WHITESPACE: Final = " \t\n\r"
# The possessive quantifiers keep this linear: no text makes it try a string twice.
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_LEVEL_STEPS: Final = [(byte in b"[{") - (byte in b"]}") for byte in range(256)]
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def _document(text: bytes | str, limits: DecodingLimits) -> str:
    """The text itself, known to be UTF-8, within its length, and no deeper than allowed."""
    document = _decoded(text, limits)
    if document.startswith("\ufeff"):
        raise InvalidArguments("byte_order_mark")
    document = document.strip(_JSON_WHITESPACE)
    if not document:
        raise InvalidArguments("empty")
    if document.count("{") + document.count("[") > limits.max_depth and _depth(document) > limits.max_depth:
        raise InvalidArguments("too_deep")
    return document


def _decoded(text: bytes | str, limits: DecodingLimits) -> str:
    if type(text) is bytes:
        if len(text) > limits.max_bytes:
            raise InvalidArguments("too_long")
        document = _utf8_text(text)
        if document is None:
            raise InvalidArguments("not_utf8")
        return document
    if type(text) is not str:
        raise InvalidArguments("unsupported_value")
    if len(text) > limits.max_bytes:
        raise InvalidArguments("too_long")
    if not text.isascii():
        if LONE_SURROGATE.search(text):
            raise InvalidArguments("lone_surrogate")
        if len(text.encode()) > limits.max_bytes:
            raise InvalidArguments("too_long")
    return text


def _utf8_text(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def _depth(document: str) -> int:
    """Levels of brackets outside strings; of a text that is not JSON, an estimate."""
    brackets = _STRING.sub("", document).encode().translate(None, _NO_BRACKETS)
    return max(accumulate(map(_LEVEL_STEPS.__getitem__, brackets)), default=0)


# --- the plain parse ----------------------------------------------------------------------------

_REMARKABLE_ESCAPE: Final = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
# Any literal this short is within the safe range, sign included.
_SURELY_SAFE_CHARACTERS: Final = 15


class _CloserLookNeeded(Exception):
    """The plain parse met something it does not judge."""


def _plain_object(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _CloserLookNeeded
    return members


def _plain_integer(literal: str) -> int:
    if len(literal) > _SURELY_SAFE_CHARACTERS:
        raise _CloserLookNeeded
    return int(literal)


def _plain_float(literal: str) -> float:
    number = float(literal)
    if not -LARGEST_SAFE_INTEGER <= number <= LARGEST_SAFE_INTEGER:
        raise _CloserLookNeeded
    return number


def _plain_constant(literal: str) -> float:
    raise _CloserLookNeeded


_PLAIN: Final = json.JSONDecoder(
    object_pairs_hook=_plain_object,
    parse_int=_plain_integer,
    parse_float=_plain_float,
    parse_constant=_plain_constant,
)


def _parse_plain(document: str, limits: DecodingLimits) -> JsonObject | None:
    """The object, if nothing about its text is remarkable."""
    length = len(document)
    if length > limits.max_string_characters or ("\\u" in document and _REMARKABLE_ESCAPE.search(document)):
        return None
    # Each member or item but the first of its container follows a comma, and takes two characters.
    if length > 2 * limits.max_members and (
        document.count(",") + document.count("{") + document.count("[") > limits.max_members
    ):
        return None
    try:
        value, end = _PLAIN.raw_decode(document)
    except (_CloserLookNeeded, ValueError, RecursionError):
        return None
    return value if end == length and type(value) is dict else None


# --- the closer look ----------------------------------------------------------------------------


class _Members(list[tuple[str, object]]):
    """An object as written: every member, in order, repeated ones too."""


class _IntegerLiteral(str):
    __slots__ = ()


class _FloatLiteral(str):
    __slots__ = ()


class _ConstantLiteral(str):
    __slots__ = ()


_CLOSE: Final = json.JSONDecoder(
    object_pairs_hook=_Members,
    parse_int=_IntegerLiteral,
    parse_float=_FloatLiteral,
    parse_constant=_ConstantLiteral,
)


def _parse_closely(document: str, limits: DecodingLimits, wide: Collection[Path]) -> JsonObject:
    try:
        root, end = _CLOSE.raw_decode(document)
        if end == len(document) and type(root) is _Members:
            return _Inspection(limits, wide).members_of(root, ())
        unusable = "not_an_object" if end == len(document) else "trailing_data"
    except RecursionError:  # the text's depth is bounded: the caller had nearly used up its own stack
        unusable = "too_deep"
    except ValueError:
        unusable = "not_json"
    # Outside the handlers, so that the refusal carries no context.
    raise InvalidArguments(unusable)


class _Inspection:
    """One document's literals, judged in the order they were written."""

    __slots__ = ("_limits", "_members", "_wide")

    def __init__(self, limits: DecodingLimits, wide: Collection[Path]) -> None:
        self._limits = limits
        self._wide = wide
        self._members = 0

    def members_of(self, written: _Members, path: Path) -> JsonObject:
        self._count(len(written), path)
        members: JsonObject = {}
        for name, node in written:
            here = (*path, name)
            self._text(name, here)
            if name in members:
                raise InvalidArguments("duplicate_member", path=json_pointer(here))
            members[name] = self._value(node, here)
        return members

    def _value(self, node: object, path: Path) -> JsonValue:
        kind = type(node)
        if kind is _IntegerLiteral:
            return self._integer(str(node), path)
        if kind is _FloatLiteral:
            return self._float(str(node), path)
        if kind is _ConstantLiteral:
            raise InvalidArguments("number_not_finite", path=json_pointer(path))
        if isinstance(node, _Members):
            return self.members_of(node, path)
        if isinstance(node, list):
            self._count(len(node), path)
            return [self._value(item, (*path, str(index))) for index, item in enumerate(node)]
        if isinstance(node, str):
            return self._text(node, path)
        return cast("bool | None", node)

    def _count(self, more: int, path: Path) -> None:
        self._members += more
        if self._members > self._limits.max_members:
            raise InvalidArguments("too_many_members", path=json_pointer(path))

    def _text(self, text: str, path: Path) -> str:
        if len(text) > self._limits.max_string_characters:
            raise InvalidArguments("string_too_long", path=json_pointer(path))
        if "\0" in text:
            raise InvalidArguments("null_character", path=json_pointer(path))
        if not text.isascii() and LONE_SURROGATE.search(text):
            raise InvalidArguments("lone_surrogate", path=json_pointer(path))
        return text

    def _integer(self, literal: str, path: Path) -> int:
        if len(literal.removeprefix("-")) <= self._limits.max_number_digits:
            number = read_integer(literal)
            if -LARGEST_SAFE_INTEGER <= number <= LARGEST_SAFE_INTEGER or wide_path_matches(path, self._wide):
                return number
        raise InvalidArguments("number_too_large", path=json_pointer(path))

    def _float(self, literal: str, path: Path) -> float:
        number = float(literal)
        if not -LARGEST_SAFE_INTEGER <= number <= LARGEST_SAFE_INTEGER:
            raise InvalidArguments("number_too_large", path=json_pointer(path))
        return number
