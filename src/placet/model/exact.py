"""Whether a value is exactly what it should be, found out without running a method of it.

`type(value) in (int, float)` asks a foreign metaclass whether it equals `int`, `isinstance` asks a foreign object for
its class, an enum asks a foreign value for its hash and then for its text. Identity of types asks nobody.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from inspect import Signature
from math import isfinite
from types import FunctionType, MethodType
from typing import Any, Final, TypeGuard, TypeVar

Member = TypeVar("Member", bound=StrEnum)
Value = TypeVar("Value")

LONGEST_SECONDS = 36_525 * 86_400.0
"""A hundred years. Every span that people set is at most this, so that adding it to an instant always succeeds."""
MOST_LISTED = 10_000
"""Rows that one question may list."""
_MOST_WRAPPINGS: Final = 32
_DEEPEST: Final = 200
_PLAIN: Final = (str, int, float, bool)
_LINEAGE: Final = type.__dict__["__mro__"].__get__
_NAMESPACE: Final = type.__dict__["__dict__"].__get__
"""What a class is made of, past whatever its metaclass says of it."""


def is_seconds(value: object, *, most: float = LONGEST_SECONDS) -> TypeGuard[float]:
    """Whether `value` is an exact int or float above zero and not above `most`."""
    if type(value) is float:
        return isfinite(value) and 0.0 < value <= most
    return type(value) is int and 0 < value <= most


def is_limit(value: object) -> TypeGuard[int]:
    """Whether `value` is an exact int from 1 to the most that may be listed."""
    return type(value) is int and 1 <= value <= MOST_LISTED


def member_of(kind: type[Member], value: object) -> Member | None:
    """The member that `value` is, or whose exact text it is; None for everything else."""
    if type(value) is kind:
        return value
    if type(value) is not str:
        return None
    return next((member for member in kind if member.value == value), None)


def members_of(kind: type[Member], values: object) -> tuple[Member, ...] | None:
    """The members in an exact tuple, list, set or frozenset of nothing else; None for everything else."""
    found = items_of(values)
    if found is None or any(type(value) is not kind for value in found):
        return None
    return found


def is_whole(value: object, kind: type[Value]) -> TypeGuard[Value]:
    """Whether `value` is exactly of one of our own slotted kinds, with every field set."""
    return type(value) is kind and all(hasattr(value, name) for name in kind.__dict__["__slots__"])


def is_plain_json(value: object) -> bool:
    """Whether `value` is JSON of exact built-in types, not in a circle, and not deeper than any schema of ours."""
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        inner: dict[int, Any] = {}
        for each in level:
            if type(each) is dict:
                if not all(type(name) is str for name in each):
                    return False
                inner.update((id(child), child) for child in each.values())
            elif type(each) is list:
                inner.update((id(child), child) for child in each)
            elif not (each is None or any(type(each) is kind for kind in _PLAIN)):
                return False
        if not inner:
            return True
        level = list(inner.values())
    return False


def has_methods(value: object, *names: str) -> bool:
    """Whether the class of `value` defines all these names, or hands unknown ones on by a `__getattr__` of its own."""
    spaces = [_NAMESPACE(kind) for kind in _LINEAGE(type(value))]
    return all(any(name in space or "__getattr__" in space for space in spaces) for name in names)


def is_function(value: object) -> bool:
    """Whether `value` is a plain function, a method, or a part of one, down to whatever it wraps."""
    for _ in range(_MOST_WRAPPINGS):
        if type(value) is partial:
            value = value.func
        elif type(value) is MethodType:
            value = value.__func__
        elif type(value) is FunctionType:
            if "__signature__" in value.__dict__ and type(value.__dict__["__signature__"]) is not Signature:
                return False
            if "__wrapped__" not in value.__dict__:
                return True
            value = value.__dict__["__wrapped__"]
        else:
            return False
    return False


def ordered(values: object) -> tuple[Any, ...] | None:
    """What is in an exact tuple or list, in its order; None for everything else."""
    if type(values) is tuple or type(values) is list:
        return tuple(values)
    return None


def items_of(values: object) -> tuple[Any, ...] | None:
    """What is in an exact tuple, list, set or frozenset; None for everything else, a text above all."""
    if type(values) is tuple or type(values) is list or type(values) is set or type(values) is frozenset:
        return tuple(values)
    return None
