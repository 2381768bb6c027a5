"""Secrets planted on purpose, and the search for them in everything that was written.

A canary is found whole or by half, as plain text, UTF-16, hexadecimal or base64 at any alignment: what was cut or
transcoded is still a leak. The ticket desk's own file is not searched; the ticket belongs there.

Source: REQUIREMENTS B154, B199 to B202; DESIGN section 14.
"""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_LETTERS = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A canary where it must not be."""

    canary: str
    place: str
    spelling: str


@dataclass(slots=True, kw_only=True)
class Canaries:
    """The planted secrets by where they were put, and which of them really passed through.

    They are made of letters alone: no rule that knows the look of keys or numbers can hide one by chance.
    """

    words: Mapping[str, str]
    seen: set[str] = field(default_factory=set)

    def notice(self, text: str) -> None:
        """Note every canary in a text that was really handed over; one that never was proves nothing."""
        self.seen.update(where for where, word in self.words.items() if word in text)


def canaries(*places: str) -> Canaries:
    """Fresh canaries, one for each place they are to be put."""
    return Canaries(
        words={place: "".join(secrets.choice(string.ascii_lowercase) for _ in range(_LETTERS)) for place in places}
    )


def found_leaks(planted: Canaries, written: Iterable[tuple[str, bytes]]) -> list[Leak]:
    """Search every named place for every canary in every spelling."""
    needles = [(where, *spelling) for where, word in planted.words.items() for spelling in spellings(word)]
    leaks = [
        Leak(canary=where, place=place, spelling=name)
        for place, content in written
        for where, name, needle in needles
        if needle in content
    ]
    return list(dict.fromkeys(leaks))


def spellings(word: str) -> Iterator[tuple[str, bytes]]:
    """The forms a word is searched in; the halves stand for the whole."""
    middle = len(word) // 2
    for half in (word[:middle], word[middle:]):
        plain = half.encode()
        yield "text", plain
        yield "text", half.upper().encode()
        yield "UTF-16", half.encode("utf-16-le")
        yield "hexadecimal", plain.hex().encode()
        yield "hexadecimal", plain.hex().upper().encode()
        for offset in range(3):
            # Only whole groups of letters that no neighbour can change.
            encoded = base64.b64encode(bytes(offset) + plain)
            yield "base64", encoded[(0, 2, 3)[offset] : (len(plain) + offset) // 3 * 4]


def files_below(folder: Path, *, without: Path) -> Iterator[tuple[str, bytes]]:
    """Every file, with its path from the folder; databases, their write-ahead logs and logs alike."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_relative_to(without):
            yield str(path.relative_to(folder)), path.read_bytes()
