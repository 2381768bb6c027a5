"""Integers of any length, read and written in decimal.

int() and str() refuse long integers at a limit that the environment can lower to 640 digits (PYTHONINTMAXSTRDIGITS).
Working in shorter groups makes the answer the same in every process.
"""

from __future__ import annotations

from typing import Final

from placet.errors import InvalidArguments

LARGEST_SAFE_INTEGER: Final = 2**53 - 1
"""The largest that every reader of JSON keeps exact."""
LONGEST_INTEGER_DIGITS: Final = 4_300

_GROUP_DIGITS: Final = 600
_GROUP: Final = 10**_GROUP_DIGITS
_FIRST_TOO_LONG: Final = 10**LONGEST_INTEGER_DIGITS


def read_integer(literal: str) -> int:
    """Read a JSON integer literal exactly, whatever its length."""
    if len(literal) <= _GROUP_DIGITS:
        return int(literal)
    digits = literal.removeprefix("-")
    total = 0
    for start in range(0, len(digits), _GROUP_DIGITS):
        group = digits[start : start + _GROUP_DIGITS]
        total = total * 10 ** len(group) + int(group)
    return -total if literal.startswith("-") else total


def write_integer(number: int) -> str:
    """Write an integer exactly, in decimal.

    Raises:
        InvalidArguments: number_too_large: more than 4,300 digits.
    """
    if -_GROUP < number < _GROUP:
        return str(number)
    if not -_FIRST_TOO_LONG < number < _FIRST_TOO_LONG:
        raise InvalidArguments("number_too_large")
    groups: list[str] = []
    rest = abs(number)
    while rest:
        rest, group = divmod(rest, _GROUP)
        groups.append(str(group).zfill(_GROUP_DIGITS))
    digits = "".join(reversed(groups)).lstrip("0")
    return "-" + digits if number < 0 else digits
