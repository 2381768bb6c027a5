"""Values that raise or talk whenever they are asked anything."""

import asyncio
from collections.abc import Iterator
from enum import Enum
from typing import Any

MARKER = "LEAKED-7f3a91"


class Thrown(BaseException):
    """Not an Exception: a guard that catches those alone lets it through."""


THROWN: list[Any] = [Thrown, RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]


def throwing(kind: type[BaseException] = Thrown) -> Any:
    def throw(*_: object, **__: object) -> Any:
        raise kind(MARKER)

    return throw


class HostileType(type):
    """Raises whenever anything is asked of the class; its own text is the marker."""

    __hash__ = throwing()
    __eq__ = throwing()
    __instancecheck__ = throwing()
    __subclasscheck__ = throwing()
    __name__ = property(throwing())
    __module__ = property(throwing())
    __str__ = throwing()
    __repr__ = throwing()


class Hostile(metaclass=HostileType):
    """Raises for whatever a value can be asked."""

    __class__ = property(throwing())
    __str__ = throwing()
    __repr__ = throwing()
    __format__ = throwing()
    __hash__ = throwing()
    __eq__ = throwing()
    __lt__ = throwing()
    __bool__ = throwing()
    __len__ = throwing()
    __iter__ = throwing()
    __getattribute__ = throwing()


class Talkative:
    """Answers everything, with the marker."""

    def __str__(self) -> str:
        return MARKER

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        return MARKER

    def __iter__(self) -> Iterator[str]:
        return iter([MARKER])

    def items(self) -> list[tuple[str, str]]:
        return [(MARKER, MARKER)]


def mapping_raising(kind: type[BaseException]) -> object:
    return type("M", (dict,), {"items": throwing(kind)})({"a": MARKER})


def collection_raising(kind: type[BaseException]) -> object:
    return type("C", (list,), {"__iter__": throwing(kind)})([MARKER])


def enum_raising(kind: type[BaseException]) -> object:
    class Bad(Enum):
        ONE = MARKER
        value = property(throwing(kind))

    return Bad.ONE


def nested(depth: int, *, inside: object = "bottom") -> object:
    value = inside
    for _ in range(depth):
        value = {"in": value}
    return value
