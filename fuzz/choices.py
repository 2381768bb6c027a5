"""Values made from bytes: the same bytes make the same value in every process, whatever feeds them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeVar

Option = TypeVar("Option")


class Choices:
    """Reads a byte string from its start, one choice at a time. When it is used up, every choice is the first one.

    So any byte string makes some value, and a shorter one makes a simpler one, which is what fuzzers count on.
    """

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_used_up(self) -> bool:
        return self._position >= len(self._data)

    def take(self, count: int) -> bytes:
        """The next bytes, as many as are left."""
        taken = self._data[self._position : self._position + count]
        self._position += count
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._data))

    def below(self, bound: int) -> int:
        """A number from 0 up to, and without, the bound; at most 65,536."""
        width = 1 if bound <= 256 else 2
        return int.from_bytes(self.take(width), "big") % bound

    def one_of(self, options: Sequence[Option]) -> Option:
        return options[self.below(len(options))]

    def yes(self) -> bool:
        return self.below(2) == 1

    def integer(self) -> int:
        """Small ones, those around the powers of two and ten where rules change, and any of up to 32 bytes."""
        match self.below(4):
            case 0:
                return self.below(256) - 128
            case 1:
                return self.one_of((-1, 1)) * ((1 << self.below(128)) + self.below(3) - 1)
            case 2:
                return self.one_of((-1, 1)) * (int("1" + "0" * self.below(64)) + self.below(3) - 1)
            case _:
                return int.from_bytes(self.take(self.below(32) + 1), "big", signed=True)

    def double(self) -> float:
        """Any bits, so also those that are no number."""
        number: float = struct.unpack(">d", self.take(8).ljust(8, b"\0"))[0]
        return number

    def text(self, *, longest: int = 24) -> str:
        """Text of every script, lone surrogates too."""
        size = self.below(longest + 1)
        if self.yes():
            return "".join(self.one_of(_ALPHABET) for _ in range(size))
        return self.take(size).decode("utf-8", "surrogateescape")

    def items(self, *, most: int = 5) -> range:
        """A number of things to make."""
        return range(self.below(most + 1))


_ALPHABET = (
    *"ab01_.:-/ \t\n\"'\\{}[],=&%@?",
    *"\0\x1b\x7f\u00e9\u0130\u0301\u200b\u202e\u2028\u754c\ud7ff\ue000\ufb33\ufeff\uffff\U00010000\U0001f600",
    "\ud800",
    "\udfff",
)
