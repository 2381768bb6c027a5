"""No method of an object that is handed over as arguments ever runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rules.refusals import MARKER, not_encoded, refused


class Raised(BaseException):
    pass


def raise_marker(*_: object, **__: object) -> Any:
    raise Raised(MARKER)


def raise_cancelled(*_: object, **__: object) -> Any:
    raise asyncio.CancelledError(MARKER)


def raise_interrupt(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt(MARKER)


def raise_exit(*_: object, **__: object) -> Any:
    raise SystemExit(MARKER)


ACTS = (raise_marker, raise_cancelled, raise_interrupt, raise_exit)

MAGIC = """
    __getattribute__ __iter__ __len__ __bool__ __eq__ __ne__ __lt__ __str__ __repr__ __format__ __int__ __index__
    __float__ __contains__ __getitem__ __reduce__ __copy__ __deepcopy__ __buffer__ __bytes__ __next__ __call__
    keys items values get encode decode isascii strip startswith
"""  # the hash is left alone, so that each can be a key


def hostile_values() -> Iterator[object]:
    """Objects of each shape whose every method, and whose class, does harm when touched."""

    harm = ("__eq__", "__hash__", "__getattribute__", "__instancecheck__", "__subclasscheck__")
    metadata = dict.fromkeys(("__name__", "__module__"), property(raise_marker))
    meta: Any = type("Meta", (type,), {**dict.fromkeys(harm, raise_marker), **metadata})
    shapes: tuple[tuple[Any, tuple[object, ...]], ...] = (
        (object, ()),
        (str, (MARKER,)),
        (int, (7,)),
        (float, (7.5,)),
        (bytes, (MARKER.encode(),)),
        (dict, ()),
        (list, ()),
    )
    for act in ACTS:
        for base, content in shapes:
            body: dict[str, Any] = {**dict.fromkeys(MAGIC.split(), act), "__hash__": object.__hash__}
            yield base.__new__(meta("Hostile", (base,), body), *content)

    yield type("Lying", (), {"__class__": property(lambda _: dict)})()
    yield type("Raising", (), {"__class__": property(raise_marker)})()


UNSUPPORTED: list[object] = [
    (1, 2),
    {1},
    frozenset({1}),
    b"x",
    bytearray(b"x"),
    1j,
    float("nan"),
    float("inf"),
    float("-inf"),
    object(),
    range(3),
    type,
    ...,
    json,
    Path("x"),
    iter([1]),
]


@pytest.mark.req("B011", "B012", "B017", "B018", "B078", "B080")
def test_hostile_object_is_refused_in_every_place_without_running_it() -> None:
    for hostile in hostile_values():
        assert not_encoded(hostile) == ("unsupported_value", "")
        assert not_encoded({"a": hostile}) == ("unsupported_value", "/a")
        assert not_encoded({"a": [0, {"b": hostile}]}) == ("unsupported_value", "/a/1/b")
        assert refused(hostile) == ("unsupported_value", "")


@pytest.mark.req("B018", "B077", "B080")
def test_hostile_member_name_is_refused_without_running_it() -> None:
    for hostile in hostile_values():
        assert not_encoded({hostile: 1}) == ("unsupported_value", "")
        assert not_encoded({"a": {"b": 1, hostile: 1}}) == ("unsupported_value", "/a")


class KeyThatTurns:
    """Hashable until it sits in a dict; after that neither hash nor equality may run."""

    armed = False

    def __hash__(self) -> int:
        if self.armed:
            raise Raised(MARKER)
        return 7

    def __eq__(self, other: object) -> bool:
        raise Raised(MARKER)


@pytest.mark.req("B018", "B077")
def test_foreign_key_is_neither_hashed_nor_compared() -> None:
    key = KeyThatTurns()
    mapping = {"first": 1, key: 2}
    key.armed = True
    assert not_encoded(mapping) == ("unsupported_value", "")
    assert not_encoded({"a": [mapping]}) == ("unsupported_value", "/a/0")


@pytest.mark.req("B004", "B077", "B079", "B080")
@pytest.mark.parametrize("value", UNSUPPORTED, ids=lambda value: type(value).__name__)
def test_python_only_value_is_refused_with_its_place(value: object) -> None:
    assert not_encoded({"a": [value]}) == ("unsupported_value", "/a/0")
    assert not_encoded({"ok": 1, "b": {"c": value}}) == ("unsupported_value", "/b/c")


@pytest.mark.case("A10")
@pytest.mark.req("B077")
@pytest.mark.parametrize("key", [1, None, True, 1.0, (1,), b"a"])
def test_name_that_is_no_string_is_refused(key: object) -> None:
    assert not_encoded({key: "a", "1": "b"}) == ("unsupported_value", "")


class CustomMapping(dict[str, int]):
    def __iter__(self) -> Iterator[str]:
        raise Raised(MARKER)


@pytest.mark.req("B004", "B011")
@pytest.mark.parametrize("value", [CustomMapping(a=1), type("S", (str,), {})("x"), type("I", (int,), {})(1)])
def test_subclass_of_a_built_in_type_is_refused(value: object) -> None:
    assert not_encoded(value) == ("unsupported_value", "")
    assert not_encoded({"a": value}) == ("unsupported_value", "/a")


@pytest.mark.req("B004")
@pytest.mark.parametrize("value", [None, True, 7, 1.5, "x", "{}", [], [{}]])
def test_root_that_is_no_mapping_is_refused(value: object) -> None:
    assert not_encoded(value) == ("not_an_object", "")
