"""An untrusted Python mapping, written as JSON for `decoding.decode_object` to judge.

Invariants:
    Every refusal is `InvalidArguments` with a fixed reason and no cause; nothing foreign escapes.
    No method of a foreign object runs: types are compared by identity, keys are never hashed.

Source: DESIGN section 6; CASES A01 to A10; REQUIREMENTS B011 to B018.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import orjson

from placet.errors import InvalidArguments
from placet.rules.decoding import DEFAULT_LIMITS, LONE_SURROGATE, DecodingLimits, Path, json_pointer
from placet.rules.integers import LARGEST_SAFE_INTEGER, write_integer


def encode_foreign(value: object, *, limits: DecodingLimits = DEFAULT_LIMITS) -> bytes:
    """Write the mapping an SDK handed over as JSON, for `decode_object` to judge.

    Only exact built-in dict, list, str, int, float, bool and None pass. Member order is kept, integers
    are exact at any size up to `max_number_digits`, and the caller's objects are only read.

    Raises:
        InvalidArguments: reasons unsupported_value, not_an_object, cycle, too_deep, too_many_members,
            string_too_long, number_too_large, lone_surrogate, too_long.
    """
    encoded = _encode_plain(value, limits)
    return _encode_closely(value, limits) if encoded is None else encoded


def _encode_plain(root: object, limits: DecodingLimits) -> bytes | None:
    """The root written by orjson, if nothing in it is remarkable.

    A cycle has no bottom, so it ends at the depth or member limit and is left to the closer look.
    """
    if type(root) is not dict:
        return None
    try:
        if not _is_plain(root, limits):
            return None
        encoded = orjson.dumps(root)
    except (TypeError, RuntimeError):  # a lone surrogate; a dict that another thread is changing
        return None
    return encoded if len(encoded) <= limits.max_bytes else None


def _is_plain(root: dict[Any, Any], limits: DecodingLimits) -> bool:
    longest = limits.max_string_characters
    members_left = limits.max_members
    characters_left = limits.max_bytes
    level: list[Any] = [root]
    for _ in range(limits.max_depth):
        below: list[Any] = []
        for node in level:
            kind = type(node)
            if kind is str:
                if len(node) > longest:
                    return False
                characters_left -= len(node)
            elif kind is bool or node is None:
                pass
            elif kind is int:
                if not -LARGEST_SAFE_INTEGER <= node <= LARGEST_SAFE_INTEGER:
                    return False
            elif kind is dict:
                members_left -= len(node)
                if members_left < 0:
                    return False
                for name in node:
                    if type(name) is not str or len(name) > longest:
                        return False
                    characters_left -= len(name)
                below.extend(node.values())
            elif kind is list:
                members_left -= len(node)
                if members_left < 0:
                    return False
                below.extend(node)
            elif kind is not float or not isfinite(node):
                return False
        if characters_left < 0:
            return False
        if not below:
            return True
        level = below
    return False


def _encode_closely(root: object, limits: DecodingLimits) -> bytes:
    writer = _ForeignWriter(limits)
    kind = type(root)
    if kind is list or kind is str or kind is int or kind is float or kind is bool or root is None:
        raise InvalidArguments("not_an_object")
    try:
        writer.write(root, ())
    except RecursionError:
        unfinished = "too_deep"
    except RuntimeError:
        unfinished = "unsupported_value"
    else:
        return writer.encoded()
    # Outside the handlers, so that the refusal carries no context.
    raise InvalidArguments(unfinished)


class _ForeignWriter:
    """Writes one foreign value, depth first, and knows what it has spent and where it is."""

    __slots__ = ("_ancestors", "_limits", "_members", "_pieces", "_size")

    def __init__(self, limits: DecodingLimits) -> None:
        self._limits = limits
        self._pieces: list[bytes] = []
        self._size = 0
        self._members = 0
        self._ancestors: set[int] = set()

    def encoded(self) -> bytes:
        return b"".join(self._pieces)

    def write(self, node: Any, path: Path) -> None:
        kind = type(node)
        if kind is str:
            self._add(self._string(node, path), path)
        elif kind is bool:
            self._add(b"true" if node is True else b"false", path)
        elif node is None:
            self._add(b"null", path)
        elif kind is int:
            self._add(self._integer(node, path), path)
        elif kind is float and isfinite(node):
            self._add(float.__repr__(node).encode(), path)
        elif kind is dict:
            self._container(node, path, self._write_members)
        elif kind is list:
            self._container(node, path, self._write_items)
        else:
            raise InvalidArguments("unsupported_value", path=json_pointer(path))

    def _container(self, node: Any, path: Path, write_content: Callable[[Any, Path], None]) -> None:
        identity = id(node)
        if identity in self._ancestors:
            raise InvalidArguments("cycle", path=json_pointer(path))
        if len(self._ancestors) >= self._limits.max_depth:
            raise InvalidArguments("too_deep", path=json_pointer(path))
        self._members += len(node)
        if self._members > self._limits.max_members:
            raise InvalidArguments("too_many_members", path=json_pointer(path))
        self._ancestors.add(identity)
        write_content(node, path)
        self._ancestors.discard(identity)

    def _write_members(self, node: dict[Any, Any], path: Path) -> None:
        separator = b"{"
        for name, member in tuple(node.items()):
            if type(name) is not str:
                raise InvalidArguments("unsupported_value", path=json_pointer(path))
            here = (*path, name)
            self._add(separator + self._string(name, here) + b":", here)
            self.write(member, here)
            separator = b","
        self._add(b"}" if separator == b"," else b"{}", path)

    def _write_items(self, node: list[Any], path: Path) -> None:
        separator = b"["
        for index, item in enumerate(tuple(node)):
            here = (*path, str(index))
            self._add(separator, here)
            self.write(item, here)
            separator = b","
        self._add(b"]" if separator == b"," else b"[]", path)

    def _string(self, text: str, path: Path) -> bytes:
        if len(text) > self._limits.max_string_characters:
            raise InvalidArguments("string_too_long", path=json_pointer(path))
        if not text.isascii() and LONE_SURROGATE.search(text):
            raise InvalidArguments("lone_surrogate", path=json_pointer(path))
        return orjson.dumps(text)

    def _integer(self, number: int, path: Path) -> bytes:
        first_too_long = 10**self._limits.max_number_digits
        if not -first_too_long < number < first_too_long:
            raise InvalidArguments("number_too_large", path=json_pointer(path))
        return write_integer(number).encode()

    def _add(self, piece: bytes, path: Path) -> None:
        self._size += len(piece)
        if self._size > self._limits.max_bytes:
            raise InvalidArguments("too_long", path=json_pointer(path))
        self._pieces.append(piece)
