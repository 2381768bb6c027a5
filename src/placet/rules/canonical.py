"""One spelling for each JSON value, and digests over it.

`placet-c14n-1` is RFC 8785 with one difference: a float with an integral value keeps its fraction.

    value     1     1.0    -0.0    1e16                    1e21     "1"    true
    here      1     1.0    -0.0    10000000000000000.0     1e+21    "1"    true
    RFC 8785  1     1      0       10000000000000000       1e+21    "1"    true

So values of different types or different content never share a spelling. Names are sorted by UTF-16
code units, integers are exact at any size up to 4,300 digits, text is never normalised, nothing is
truncated. The spelling is the same in every process, platform and Python.

Source: DESIGN section 6; RFC 8785 sections 3.2.2 and 3.2.3; REQUIREMENTS B070 to B084.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Any, Final

import orjson

from placet.errors import InvalidArguments, MisuseError
from placet.model.json import JsonValue
from placet.rules.decoding import LONE_SURROGATE
from placet.rules.integers import LARGEST_SAFE_INTEGER, write_integer

CANONICAL_VERSION: Final = "placet-c14n-1"
MAX_DEPTH: Final = 256
_MAX_MEMBERS: Final = 1_000_000


def canonical_bytes(value: JsonValue) -> bytes:
    """Spell a value in `placet-c14n-1`, as UTF-8. Different values never share a spelling.

    Raises:
        InvalidArguments: the value is not plain JSON. Reasons: unsupported_value, number_not_finite,
            number_too_large, lone_surrogate, too_deep, too_many_members.
    """
    if _survey(value):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return _spelling(value, write_integer, float_text)


def rfc8785_bytes(value: JsonValue) -> bytes:
    """Spell a value in RFC 8785 itself, where `1` and `1.0` are one. For interchange and tests, not for digests.

    Raises:
        InvalidArguments: as `canonical_bytes`; number_too_large also for integers beyond 2^53-1.
    """
    _survey(value)
    return _spelling(value, _safe_integer_text, _ecmascript_text)


def sha256_hex(domain: str, *parts: bytes) -> str:
    """Digest a sequence of byte strings for one purpose, as 64 lowercase hex digits.

    The domain ends with NUL and each part follows its length (8 bytes, big-endian), so neither two
    purposes nor two ways of cutting the same bytes share a digest.

    Raises:
        MisuseError: the domain is empty, not ASCII, or holds NUL.
    """
    message = [_opening(domain)]
    for part in parts:
        message += (len(part).to_bytes(8, "big"), part)
    return hashlib.sha256(b"".join(message)).hexdigest()


@lru_cache(maxsize=256)  # domains are ours, and few
def _opening(domain: str) -> bytes:
    if not domain or not domain.isascii() or "\0" in domain:
        raise MisuseError("A digest's domain is a non-empty ASCII name without NUL.")
    return domain.encode() + b"\0"


def float_text(number: float) -> str:
    """Spell a finite float with the shortest digits that read back, laid out as ECMAScript does, `.0` kept.

    Source: ECMA-262 Number::toString; `repr` finds the same digits and leaves plain notation earlier.
    """
    text = float.__repr__(number)
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    power = int(exponent)
    sign = "-" if number < 0 else ""
    digits = mantissa.lstrip("-").replace(".", "")
    if 0 < power < 21:
        return f"{sign}{digits.ljust(power + 1, '0')}.0"
    if -7 < power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    return f"{mantissa}e{power:+d}"


def _ecmascript_text(number: float) -> str:
    return "0" if number == 0 else float_text(number).removesuffix(".0")


def _safe_integer_text(number: int) -> str:
    if not -LARGEST_SAFE_INTEGER <= number <= LARGEST_SAFE_INTEGER:
        raise InvalidArguments("number_too_large")
    return str(number)


# --- what is in the value -----------------------------------------------------------------------

# Where orjson spells as we do: outside these magnitudes (and zero) it turns to exponents earlier than
# ECMAScript, its integers have 64 bits, and it gives up before our depth.
_PLAIN_FLOAT_FROM: Final = 1e-4
_PLAIN_FLOAT_TO: Final = 2**53 - 1
_PLAIN_INTEGER: Final = 2**63 - 1
_PLAIN_DEPTH: Final = 128


def _survey(root: JsonValue) -> bool:
    """Refuse what cannot be spelled; of the rest, tell whether orjson with sorted names spells it as we do."""
    agrees = True
    members = 0
    depth = 0
    level: list[Any] = [root]
    while level:
        below: list[Any] = []
        containers = False
        for node in level:
            # By identity only: a foreign class may lie about itself, and its metaclass may act.
            kind = type(node)
            if kind is str:
                if not node.isascii() and LONE_SURROGATE.search(node):
                    raise InvalidArguments("lone_surrogate")
            elif kind is bool or node is None:
                pass
            elif kind is int:
                if not -_PLAIN_INTEGER <= node <= _PLAIN_INTEGER:
                    agrees = False
            elif kind is float:
                if not (_PLAIN_FLOAT_FROM <= abs(node) <= _PLAIN_FLOAT_TO or node == 0):
                    if not isfinite(node):
                        raise InvalidArguments("number_not_finite")
                    agrees = False
            elif kind is dict:
                containers = True
                members += len(node)
                if members > _MAX_MEMBERS:
                    raise InvalidArguments("too_many_members")
                for name in node:
                    if type(name) is not str:
                        raise InvalidArguments("unsupported_value")
                    if not name.isascii():
                        if LONE_SURROGATE.search(name):
                            raise InvalidArguments("lone_surrogate")
                        agrees = False
                below.extend(node.values())
            elif kind is list:
                containers = True
                members += len(node)
                if members > _MAX_MEMBERS:
                    raise InvalidArguments("too_many_members")
                below.extend(node)
            else:
                raise InvalidArguments("unsupported_value")
        depth += containers
        if depth > MAX_DEPTH:
            raise InvalidArguments("too_deep")
        level = below
    return agrees and depth <= _PLAIN_DEPTH


# --- our own writer -----------------------------------------------------------------------------


class _Verbatim(bytes):
    """Text that is already spelled and only waits for its place."""

    __slots__ = ()


def _spelling(root: JsonValue, integer_text: Callable[[int], str], finite_float_text: Callable[[float], str]) -> bytes:
    """Spell a surveyed value, with a stack of its own instead of the interpreter's."""
    pieces: list[bytes] = []
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if kind is _Verbatim:
            pieces.append(node)
        elif kind is str:
            pieces.append(orjson.dumps(node))
        elif kind is bool:
            pieces.append(b"true" if node else b"false")
        elif kind is int:
            pieces.append(integer_text(node).encode())
        elif kind is float:
            pieces.append(finite_float_text(node).encode())
        elif kind is dict:
            _expect_members(node, waiting)
        elif kind is list:
            _expect_items(node, waiting)
        else:
            pieces.append(b"null")
    return b"".join(pieces)


def _expect_members(node: dict[str, Any], waiting: list[Any]) -> None:
    names = sorted(node, key=lambda name: name.encode("utf-16-be"))
    waiting.append(_Verbatim(b"}" if names else b"{}"))
    for position in range(len(names) - 1, -1, -1):
        name = names[position]
        waiting.append(node[name])
        waiting.append(_Verbatim((b"," if position else b"{") + orjson.dumps(name) + b":"))


def _expect_items(node: list[Any], waiting: list[Any]) -> None:
    waiting.append(_Verbatim(b"]" if node else b"[]"))
    for position in range(len(node) - 1, -1, -1):
        waiting.append(node[position])
        waiting.append(_Verbatim(b"," if position else b"["))
