"""The canonical form, against an independent implementation of RFC 8785, and against itself on other values."""

from __future__ import annotations

import json
from typing import Any

import rfc8785

from fuzz.checks import MARKER, check_refusal, depth_of, exactly
from fuzz.choices import Choices
from placet.errors import InvalidArguments
from placet.rules.canonical import MAX_DEPTH, canonical_bytes, rfc8785_bytes
from placet.testing.hostile import HostileValues

REASONS = frozenset(
    {"unsupported_value", "number_not_finite", "number_too_large", "lone_surrogate", "too_deep", "too_many_members"}
)
SAFE = 2**53 - 1
LARGE = frozenset({"wide list", "wide dict", "long text"})
"""Plain, and spelled in full each time; their limits have tests of their own."""
FROM_TEXT = 0x7B  # an opening brace: the input is JSON text, as lenient as the standard library reads it


def check(data: bytes) -> None:
    """Text that begins with a brace is read as JSON; of all other bytes a value and a second one are made."""
    if data[:1] == bytes([FROM_TEXT]):
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return
        _check_value(value)
        return
    choices = Choices(data)
    hostile = HostileValues(MARKER)
    value = _value(choices, 0, hostile)
    other = _changed(value, choices)
    spelled, spelled_otherwise = _check_value(value), _check_value(other)
    if spelled is not None and spelled_otherwise is not None:
        assert (spelled == spelled_otherwise) is (exactly(value) == exactly(other)), "two values, one spelling"
    assert not hostile.ran, hostile.ran


def _check_value(value: Any) -> bytes | None:
    spelled = _spelled(canonical_bytes, value)
    interchange = _spelled(rfc8785_bytes, value)
    if spelled is None:
        assert interchange is None
        return None
    read = json.loads(spelled)
    assert exactly(read) == exactly(value), "the spelling reads back as another value"
    assert canonical_bytes(read) == spelled
    assert canonical_bytes(_reversed(value)) == spelled, "the order of names shows"
    if depth_of(value) < MAX_DEPTH:  # the long integer sends the same value through the other writer
        assert canonical_bytes([value, 10**30]) == b"[%s,%d]" % (spelled, 10**30)
    theirs = _their_spelling(value)
    assert interchange == theirs, "not RFC 8785"
    alike = _without_the_difference(value)
    assert canonical_bytes(alike) == _their_spelling(alike)
    return spelled


def _spelled(spell: Any, value: Any) -> bytes | None:
    try:
        spelled: bytes = spell(value)
    except InvalidArguments as fault:
        check_refusal(fault, REASONS)
        return None
    return spelled


def _their_spelling(value: Any) -> bytes | None:
    """None for integers that RFC 8785 cannot carry, the one thing it refuses and we do not."""
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        return None


def _without_the_difference(node: Any) -> Any:
    """The nearest value that both forms spell alike: no integral float below 1e21, no long integer."""
    if type(node) is dict:
        return {name: _without_the_difference(member) for name, member in node.items()}
    if type(node) is list:
        return [_without_the_difference(item) for item in node]
    if type(node) is float:
        return node if not node.is_integer() or abs(node) >= 1e21 else 0.5
    return node if type(node) is not int or abs(node) <= SAFE else 7


def _reversed(node: Any) -> Any:
    if type(node) is dict:
        return {name: _reversed(node[name]) for name in reversed(node)}
    return [_reversed(item) for item in node] if type(node) is list else node


def _value(choices: Choices, depth: int, hostile: HostileValues) -> Any:
    match choices.below(10 if depth < 5 else 7):
        case 0:
            return choices.one_of((None, True, False))
        case 1:
            return choices.integer()
        case 2:
            return choices.double()
        case 3:
            return float(choices.below(4096) - 2048)
        case 4 | 5:
            return choices.text()
        case 6:
            if choices.below(64) != 63:
                return choices.below(16)
            return choices.one_of([make for name, make in hostile.values().items() if name not in LARGE])()
        case 7:
            return [_value(choices, depth + 1, hostile) for _ in choices.items()]
        case 8:
            return {choices.text(longest=4): _value(choices, depth + 1, hostile) for _ in choices.items()}
        case _:
            return _wrapped(
                _value(choices, depth + 1, hostile), choices.one_of((1, 2, 60, 125, 126, 127, 250, 251, 255, 256))
            )


def _wrapped(value: Any, times: int) -> Any:
    for _ in range(times):
        value = [value]
    return value


def _changed(node: Any, choices: Choices) -> Any:
    """The same value, or one that differs a little where two values might be taken for one."""
    match choices.below(6):
        case 0 if type(node) is int and abs(node) < 10**4000:
            return choices.one_of((float(node) if abs(node) < 2**60 else node, str(node), node + 1, -node, [node]))
        case 1 if type(node) is float:
            return choices.one_of((-node, str(node), node + 1, None if node != node else node, [node]))
        case 2 if type(node) is str:
            return choices.one_of((node + "\u0301", node.upper(), [node], node + " ", {node: None}))
        case 3 if type(node) is list:
            return choices.one_of(
                (node[::-1], [node], [*node, None], node[1:], dict.fromkeys(map(str, range(len(node)))))
            )
        case 4 if type(node) is dict and node:
            name = choices.one_of(tuple(node))
            return {**node, name: _changed(node[name], choices)}
        case 5 if type(node) is list and node:
            place = choices.below(len(node))
            return [*node[:place], _changed(node[place], choices), *node[place + 1 :]]
        case _:
            return node
