"""The JSON of an answer's body, as far as everything that is done with it comes to an end."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

_DEEPEST = 300
"""Levels of an answer: the schema of arguments that are 64 deep is the deepest that is sent."""


def json_in(body: bytes) -> Any:
    """What it tells; None where it is no JSON, or none that is sent here: too deep, or with a number too large."""
    try:
        found = json.loads(body, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return found if _is_shallow(found) else None


def _refuse(_: str) -> None:
    raise ValueError


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def _is_shallow(document: Any) -> bool:
    """Whether its nesting is such that everything which walks it comes to an end."""
    level = [document]
    for _ in range(_DEEPEST):
        level = [child for each in level for child in _children(each)]
        if not level:
            return True
    return False


def _children(value: Any) -> Iterable[Any]:
    match value:
        case dict():
            return (child for child in value.values() if isinstance(child, dict | list))
        case list():
            return (child for child in value if isinstance(child, dict | list))
        case _:
            return ()
