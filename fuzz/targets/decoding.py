"""The strict decoder, against a judge that looks at the same text in its own way, and against a second parser."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import orjson

from fuzz.checks import check_refusal, exactly
from placet.errors import InvalidArguments
from placet.model.json import JsonObject
from placet.rules.canonical import canonical_bytes
from placet.rules.decoding import DEFAULT_LIMITS, DecodingLimits, decode_object
from placet.rules.encoding import encode_foreign

REASONS = frozenset(
    {
        *("unsupported_value", "too_long", "byte_order_mark", "not_utf8", "lone_surrogate", "empty", "too_deep"),
        *("not_json", "trailing_data", "not_an_object", "duplicate_member", "too_many_members", "string_too_long"),
        *("null_character", "number_not_finite", "number_too_large"),
    }
)
LIMIT_REASONS = frozenset({"too_long", "too_deep", "too_many_members", "string_too_long", "number_too_large"})
NARROW = DecodingLimits(max_bytes=256, max_depth=4, max_members=9, max_string_characters=12, max_number_digits=20)
WIDE: Collection[tuple[str, ...]] = frozenset({("wide",), ("w", "*")})


def check(data: bytes) -> None:
    """The bytes are the text."""
    plain = _answer(data, DEFAULT_LIMITS, frozenset())
    for limits in (DEFAULT_LIMITS, NARROW):
        for wide in (frozenset(), WIDE):
            answer = plain if limits is DEFAULT_LIMITS and not wide else _answer(data, limits, wide)
            judged = _judged(data, limits, wide)
            assert (judged is None) is (type(answer) is str), f"the judge disagrees: {answer!r}, {judged!r}"
            assert judged is None or exactly(answer) == exactly(judged)
            _check_monotony(plain, answer, limits, wide)
    _check_text(data, plain)
    _check_second_parser(data, plain)
    if type(plain) is dict:
        _check_round_trips(plain)


def _answer(text: bytes | str, limits: DecodingLimits, wide: Collection[tuple[str, ...]]) -> JsonObject | str:
    try:
        return decode_object(text, limits=limits, wide=wide)
    except InvalidArguments as fault:
        check_refusal(fault, REASONS)
        return fault.reason


def _check_monotony(
    plain: JsonObject | str, answer: JsonObject | str, limits: DecodingLimits, wide: Collection[tuple[str, ...]]
) -> None:
    """Tighter limits only refuse, and say that a limit did; wide fields only allow larger numbers."""
    if type(answer) is dict and type(plain) is dict:
        assert exactly(answer) == exactly(plain)
    elif type(plain) is dict:
        assert limits is NARROW and answer in LIMIT_REASONS, answer
    elif type(answer) is dict:
        assert wide and plain == "number_too_large", plain


def _check_text(data: bytes, plain: JsonObject | str) -> None:
    """Text and its UTF-8 are one."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    answer = _answer(text, DEFAULT_LIMITS, frozenset())
    assert exactly(answer) == exactly(plain)


def _check_second_parser(data: bytes, plain: JsonObject | str) -> None:
    try:
        other = orjson.loads(data)
    except orjson.JSONDecodeError:
        assert type(plain) is not dict, "accepted what the second parser refuses"
        return
    if type(plain) is dict:
        assert exactly(other) == exactly(plain)
    else:
        assert plain != "not_json" and plain != "trailing_data" and plain != "empty", plain
        assert plain != "not_an_object" or type(other) is not dict


def _check_round_trips(value: JsonObject) -> None:
    assert exactly(decode_object(canonical_bytes(value))) == exactly(value)
    assert exactly(decode_object(encode_foreign(value))) == exactly(value)
    indented = json.dumps(value, ensure_ascii=True, indent=1)
    if len(indented) <= DEFAULT_LIMITS.max_bytes:
        assert exactly(decode_object(indented)) == exactly(value)


# ---------------------------------------------------------------- the judge


class _Refused(Exception):
    """The judge does not accept the text."""


class _Pairs(list[tuple[str, Any]]):
    """An object's members as written."""


class _Written(str):
    """A number's literal."""


def _no_constant(literal: str) -> object:
    raise _Refused(literal)


_JUDGE = json.JSONDecoder(
    object_pairs_hook=_Pairs,
    parse_int=_Written,
    parse_float=_Written,
    parse_constant=_no_constant,
)


def _judged(data: bytes, limits: DecodingLimits, wide: Collection[tuple[str, ...]]) -> JsonObject | None:
    """The object, or None; nothing is said about why."""
    if len(data) > limits.max_bytes:
        return None
    try:
        root = _JUDGE.decode(data.decode())
        if type(root) is not _Pairs:
            return None
        budget = [limits.max_members]
        value = _read(root, (), limits, wide, budget)
    except (_Refused, ValueError, RecursionError):
        return None
    assert type(value) is dict
    return value


def _read(
    node: Any, path: tuple[str, ...], limits: DecodingLimits, wide: Collection[tuple[str, ...]], budget: list[int]
) -> Any:
    if type(node) is _Written:
        return _number(str(node), path, limits, wide)
    if type(node) is str:
        return _text(node, limits)
    if type(node) is not _Pairs and type(node) is not list:
        return node
    budget[0] -= len(node)
    if budget[0] < 0 or len(path) >= limits.max_depth:
        raise _Refused
    if type(node) is _Pairs:
        names = [_text(name, limits) for name, _ in node]
        if len(set(names)) < len(names):
            raise _Refused
        return {name: _read(member, (*path, name), limits, wide, budget) for name, member in node}
    return [_read(item, (*path, str(place)), limits, wide, budget) for place, item in enumerate(node)]


def _number(literal: str, path: tuple[str, ...], limits: DecodingLimits, wide: Collection[tuple[str, ...]]) -> Any:
    if any(mark in literal for mark in ".eE"):
        number = float(literal)
        if abs(number) > 2**53 - 1:
            raise _Refused
        return number
    if len(literal.lstrip("-")) > limits.max_number_digits:
        raise _Refused
    is_wide = path == ("wide",) or (len(path) == 2 and path[0] == "w")
    if abs(int(literal)) > 2**53 - 1 and not (wide and is_wide):
        raise _Refused
    return int(literal)


def _text(text: str, limits: DecodingLimits) -> str:
    if len(text) > limits.max_string_characters or any(
        character == "\0" or "\ud800" <= character <= "\udfff" for character in text
    ):
        raise _Refused
    return text
