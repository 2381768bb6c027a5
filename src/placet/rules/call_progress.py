"""What of a tool's words on its progress is passed on."""

from __future__ import annotations

from math import isfinite
from typing import Final

from placet.rules.decoding import LONE_SURROGATE
from placet.rules.showing import has_invisible

MAX_WORDS: Final = 200
BURST: Final = 20
"""Words of one attempt that are passed on at once."""
PER_SECOND: Final = 10.0
"""Words of one attempt that are passed on after that; what is more falls away."""


def number_of(value: object) -> float | None:
    """The number that it is; None for what is none, or beyond every number that can be told."""
    if type(value) is not float and type(value) is not int:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def words_of(value: object) -> str | None:
    """One line that can be shown as it is; None where there is none."""
    if type(value) is not str:
        return None
    line = " ".join(value[:MAX_WORDS].split())
    return None if not line or LONE_SURROGATE.search(line) or has_invisible(line) else line


class Allowance:
    """How many words of one attempt may still be passed on; refilled as time goes by."""

    def __init__(self, now: float) -> None:
        self._left = float(BURST)
        self._seen = now

    def takes_one(self, now: float) -> bool:
        """Whether one more may pass now."""
        self._left = min(float(BURST), self._left + max(0.0, now - self._seen) * PER_SECOND)
        self._seen = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
