"""A refusal of arguments, looked at from every side: it carries fixed words and a place, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placet.errors import InvalidArguments
from placet.rules.decoding import decode_object
from placet.rules.encoding import encode_foreign

MARKER = "marker-4fe1-do-not-show"

SAFE = 2**53 - 1


def refusal(act: Callable[[], object]) -> InvalidArguments:
    """The refusal, after checking that it carries nothing but its fixed words and a place."""
    with pytest.raises(InvalidArguments) as caught:
        act()
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert str(error) == f"The arguments were refused: {error.reason.replace('_', ' ')}."
    assert error.problems == ((error.problems[0][0], error.reason),)
    assert MARKER not in str(error) + repr(error) + repr(error.problems)
    assert error.problems[0][0].isascii() and len(error.problems[0][0]) <= 128
    return error


def refused(text: Any, **options: Any) -> tuple[str, str]:
    error = refusal(lambda: decode_object(text, **options))
    return error.reason, error.problems[0][0]


def not_encoded(value: object, **options: Any) -> tuple[str, str]:
    error = refusal(lambda: encode_foreign(value, **options))
    return error.reason, error.problems[0][0]


def exactly(value: object) -> object:
    """The value with its types, so that 1, 1.0 and True differ, and 0.0 and -0.0."""
    if type(value) is dict:
        return {name: exactly(member) for name, member in value.items()}
    if type(value) is list:
        return [exactly(item) for item in value]
    return type(value).__name__, repr(value)


def nested(levels: int, opening: str = "[", closing: str = "]") -> str:
    """An object with as many levels, its own included."""
    return '{"a":' + opening * (levels - 1) + closing * (levels - 1) + "}" if levels > 1 else "{}"
