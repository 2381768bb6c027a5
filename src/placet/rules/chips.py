"""A text cut into what may be drawn as it stands and what has to be drawn as something else.

For surfaces that can draw a box with a label in it, where a terminal has only `escape_for_people`. The pieces together
are the whole text, in order, and nothing else.

Source: CASES F02; DESIGN section 9.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from placet.errors import MisuseError
from placet.rules.showing import has_invisible

MANY_BLANKS: Final = 8
"""More blanks in a row than these are counted instead of drawn."""
_NAMED: Final = {"\n": "newline", "\r": "carriage return", "\t": "tab"}
_BLANK: Final = " \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_PIECES: Final = re.compile(rf"(?P<blanks>[{_BLANK}]{{{MANY_BLANKS + 1},}}+)|(?P<word>[^\W_]+)|(?P<other>.)", re.DOTALL)
_LIKE_ASCII: Final = frozenset(
    "аеорсухіјѕһԁԛԝѵӏ"  # Cyrillic, small
    "АВЕКМНОРСТУХЅІЈԌԚԜ"  # Cyrillic, capital
    "οναικρτυχϲϳ"  # Greek, small
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿ"  # Greek, capital
    "ıɑɡɩʋⅼօսհոցքԁ"  # Latin, Roman numerals, Armenian
)
"""Letters of other alphabets, and odd ones of ours, that are drawn like a letter of ASCII."""


class PieceKind(StrEnum):
    """plain: draw it. hidden: nothing would be drawn, or the rest would move. look_alike: another letter would be read.
    blanks: so many that what follows them would be out of sight.
    """

    PLAIN = "plain"
    HIDDEN = "hidden"
    LOOK_ALIKE = "look_alike"
    BLANKS = "blanks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of a text.

    Attributes:
        text: the characters themselves; of a hidden one never to be drawn.
        label: what to draw instead, or beside it: `U+202E`, `\\n`, `42 blanks`; empty for a plain one.
        name: the character's name, for whoever asks what the label is.
    """

    kind: PieceKind
    text: str
    label: str = ""
    name: str = ""


def pieces_of(text: str) -> tuple[Piece, ...]:
    """Cut a text so that each piece can be drawn without hiding or moving anything, or pretending to be another.

    Control, format, bidirectional, zero-width, private, unassigned, surrogate and ignorable characters, and every
    space but U+0020, are pieces of their own. So are letters of another alphabet in a word that also has letters of
    ours, every letter of a word that could be read as one of ours from end to end, and fullwidth, mathematical and
    other variants of ASCII letters and digits.

    Raises:
        MisuseError: it is not text.
    """
    if type(text) is not str:
        raise MisuseError("Only text can be cut into pieces.")
    return tuple(_joined(_cut(text)))


def is_deceptive(text: str) -> bool:
    """Whether any of it is hidden, or drawn like something else. Line breaks, tabs and runs of blanks are not."""
    return any(
        piece.kind is PieceKind.LOOK_ALIKE or (piece.kind is PieceKind.HIDDEN and piece.text not in _NAMED)
        for piece in pieces_of(text)
    )


def _cut(text: str) -> Iterator[Piece]:
    for match in _PIECES.finditer(text):
        if blanks := match["blanks"]:
            yield Piece(kind=PieceKind.BLANKS, text=blanks, label=f"{len(blanks)} blanks")
        elif word := match["word"]:
            yield from _cut_word(word)
        else:
            yield _piece(match["other"])


def _cut_word(word: str) -> Iterator[Piece]:
    if word.isascii():
        yield Piece(kind=PieceKind.PLAIN, text=word)
        return
    has_ours = any(character.isascii() and character.isalpha() for character in word)
    could_be_ours = all(character in _LIKE_ASCII or character.isascii() for character in word)
    for character in word:
        if (
            (could_be_ours and character in _LIKE_ASCII)
            or _is_variant(character)
            or (has_ours and _is_foreign(character))
        ):
            yield _labelled(PieceKind.LOOK_ALIKE, character)
        else:
            yield _piece(character)


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Plain neighbours as one piece."""
    plain: list[str] = []
    for piece in pieces:
        if piece.kind is PieceKind.PLAIN:
            plain.append(piece.text)
            continue
        if plain:
            yield Piece(kind=PieceKind.PLAIN, text="".join(plain))
            plain = []
        yield piece
    if plain:
        yield Piece(kind=PieceKind.PLAIN, text="".join(plain))


@lru_cache(maxsize=2048)
def _piece(character: str) -> Piece:
    is_drawn = character.isprintable() and not has_invisible(character)
    return Piece(kind=PieceKind.PLAIN, text=character) if is_drawn else _labelled(PieceKind.HIDDEN, character)


def _labelled(kind: PieceKind, character: str) -> Piece:
    code = f"U+{ord(character):04X}"
    known = _NAMED.get(character)
    label = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, code)
    return Piece(
        kind=kind, text=character, label=label, name=known or f"{code} {unicodedata.name(character, 'unnamed')}"
    )


@lru_cache(maxsize=2048)
def _is_variant(character: str) -> bool:
    """Fullwidth, mathematical, circled, superscript: drawn as a letter or digit of ASCII that it is not."""
    plain = unicodedata.normalize("NFKC", character)
    return plain != character and plain.isascii() and plain.isalnum()


@lru_cache(maxsize=2048)
def _is_foreign(character: str) -> bool:
    """A letter of an alphabet whose letters are taken for ours; other scripts are never mistaken for it."""
    name = unicodedata.name(character, "")
    return character.isalpha() and name.split(" ", 1)[0] in _MISTAKEN


_MISTAKEN: Final = frozenset(("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"))
