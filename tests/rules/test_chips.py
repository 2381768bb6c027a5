"""A text is drawn whole, with a box where a person could not see, or would misread, what is there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import MisuseError
from placet.rules.chips import PieceKind, is_deceptive, pieces_of

PLAIN, HIDDEN, ALIKE, BLANKS = PieceKind


def cut(text: str) -> list[tuple[PieceKind, str]]:
    return [(piece.kind, piece.label or piece.text) for piece in pieces_of(text)]


@pytest.mark.case("F02")
@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("ordinary, 50% <b>", [(PLAIN, "ordinary, 50% <b>")]),
        ("Grüße 中文 العربية हिन्दी", [(PLAIN, "Grüße 中文 العربية हिन्दी")]),
        ("a\u202eb", [(PLAIN, "a"), (HIDDEN, "U+202E"), (PLAIN, "b")]),
        ("pay\u200bpal", [(PLAIN, "pay"), (HIDDEN, "U+200B"), (PLAIN, "pal")]),
        ("\x1b[2K", [(HIDDEN, "U+001B"), (PLAIN, "[2K")]),
        ("one\ntwo\t", [(PLAIN, "one"), (HIDDEN, "\\n"), (PLAIN, "two"), (HIDDEN, "\\t")]),
        ("a\u00a0b", [(PLAIN, "a"), (HIDDEN, "U+00A0"), (PLAIN, "b")]),
        ("\ud800\U000e0100", [(HIDDEN, "U+D800"), (HIDDEN, "U+E0100")]),
        ("a" + " " * 8 + "b", [(PLAIN, "a" + " " * 8 + "b")]),
        ("a" + " \n" * 200 + "b", [(PLAIN, "a"), (BLANKS, "400 blanks"), (PLAIN, "b")]),
        ("p\u0430ypal", [(PLAIN, "p"), (ALIKE, "U+0430"), (PLAIN, "ypal")]),
        ("\u0440\u0430\u0443l", [(ALIKE, "U+0440"), (ALIKE, "U+0430"), (ALIKE, "U+0443"), (PLAIN, "l")]),
        ("\u0441\u043e\u0440", [(ALIKE, "U+0441"), (ALIKE, "U+043E"), (ALIKE, "U+0440")]),
        ("москва Ελλάδα", [(PLAIN, "москва Ελλάδα")]),
        ("\uff11\uff12", [(ALIKE, "U+FF11"), (ALIKE, "U+FF12")]),
        ("\ufb01x", [(ALIKE, "U+FB01"), (PLAIN, "x")]),
    ],
)
def test_a_text_is_cut_where_something_would_be_missed_or_misread(
    text: str, pieces: list[tuple[PieceKind, str]]
) -> None:
    assert cut(text) == pieces


@pytest.mark.case("F02")
@given(st.text(st.one_of(st.sampled_from(" \n\u200b\u202e\u0430ab\uff11中"), st.characters()), max_size=60))
def test_the_pieces_are_the_whole_text_and_the_plain_ones_are_printable(text: str) -> None:
    pieces = pieces_of(text)

    assert "".join(piece.text for piece in pieces) == text
    assert all(piece.text.isprintable() for piece in pieces if piece.kind is PLAIN)
    assert all(
        piece.label and piece.label.isprintable() and piece.label.isascii()
        for piece in pieces
        if piece.kind is not PLAIN
    )
    assert all(piece.name.isprintable() for piece in pieces)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("plain", False),
        ("a\nb\tc\r", False),
        ("a" + " " * 99, False),
        ("a\u200b", True),
        ("p\u0430y", True),
        ("naïve", False),
    ],
)
def test_line_breaks_and_blanks_deceive_nobody(text: str, answer: bool) -> None:
    assert is_deceptive(text) is answer


def test_what_is_no_text_has_no_pieces() -> None:
    with pytest.raises(MisuseError):
        pieces_of(7)  # type: ignore[arg-type]
