"""A text that fits a regular expression, for the patterns that schemas have in practice.

What Python's own parser reads is walked once and the shortest way through it is taken; look-arounds and back
references are not, and whoever asks holds the text against the pattern before it is used.
"""

from __future__ import annotations

import re
import string
from importlib import import_module
from typing import Any

_MOST_CHARACTERS = 2_000
_MOST_STRETCH = 256
_PLAIN = string.ascii_lowercase + string.digits + string.ascii_uppercase + "-_ .:/@"


def text_for(pattern: str, *, salt: int, least: int = 0, most: int = _MOST_CHARACTERS) -> str | None:
    """A text of at least and at most so many characters that the pattern is found in.

    Other salts prefer other characters. None if no way was found.
    """
    try:
        parser: Any = import_module("re._parser")
        parts = parser.parse(pattern)
        for stretch in range(min(least, _MOST_STRETCH) + 1):
            made = _Maker(salt, stretch).sequence(parts)
            if least <= len(made) <= most and re.search(pattern, made) is not None:
                return made
    except (ImportError, re.error, _NoWay, RecursionError, OverflowError):
        pass
    return None


class _NoWay(Exception):
    """This part of a pattern is not walked."""


class _Maker:
    """One walk; whatever may be repeated is repeated `stretch` times more than it has to be."""

    def __init__(self, salt: int, stretch: int) -> None:
        self._salt = salt
        self._stretch = stretch

    def sequence(self, parts: Any) -> str:
        return "".join(self._part(str(operation), operand) for operation, operand in parts)

    def _part(self, operation: str, operand: Any) -> str:
        match operation:
            case "LITERAL":
                return chr(operand)
            case "NOT_LITERAL":
                return self._one(lambda character: ord(character) != operand)
            case "ANY":
                return self._one(lambda _: True)
            case "IN":
                return self._one(lambda character: _is_in(character, operand))
            case "AT":
                return ""
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = operand
                count = min(
                    int(most), max(least, 1) + self._stretch
                )  # a text of nothing tells two calls apart by nothing
                if count > _MOST_CHARACTERS:
                    raise _NoWay
                return "".join(self.sequence(inner) for _ in range(count))
            case "SUBPATTERN" | "ATOMIC_GROUP":
                return self.sequence(operand[-1] if operation == "SUBPATTERN" else operand)
            case "BRANCH":
                branches = operand[1]
                return self.sequence(branches[self._salt % len(branches)])
            case _:
                raise _NoWay

    def _one(self, fits: Any) -> str:
        """A character that fits, one the salt prefers; the salt turns, so that neighbours differ."""
        found = [character for character in _PLAIN if fits(character)]
        found = found or [chr(code) for code in range(0x20, 0x3000) if fits(chr(code))]
        if not found:
            raise _NoWay
        self._salt, chosen = self._salt // 7 if self._salt else 0, found[self._salt % len(found)]
        return chosen


def _is_in(character: str, operand: Any) -> bool:
    negated = any(str(kind) == "NEGATE" for kind, _ in operand)
    hit = any(_is_one(character, str(kind), value) for kind, value in operand if str(kind) != "NEGATE")
    return bool(hit is not negated)


def _is_one(character: str, kind: str, value: Any) -> bool:
    match kind:
        case "LITERAL":
            return bool(ord(character) == value)
        case "RANGE":
            return bool(value[0] <= ord(character) <= value[1])
        case "CATEGORY":
            return _is_of(character, str(value))
        case _:
            raise _NoWay


def _is_of(character: str, category: str) -> bool:
    name = category.removeprefix("CATEGORY_").removeprefix("UNI_")
    is_not = name.startswith("NOT_")
    match name.removeprefix("NOT_"):
        case "DIGIT":
            found = character.isdigit()
        case "SPACE":
            found = character.isspace()
        case "WORD":
            found = character.isalnum() or character == "_"
        case _:
            raise _NoWay
    return found is not is_not
