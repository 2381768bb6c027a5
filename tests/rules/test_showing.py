"""What people see is what is there: nothing invisible, nothing that moves the rest, nothing that pretends."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import MisuseError
from placet.rules.showing import escape_for_people, has_invisible
from tests.rules.hostile_values import MARKER, Hostile, Talkative, throwing


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ordinary text, 50% <b>", "ordinary text, 50% <b>"),
        ("Grüße 中文 العربية עברית हिन्दी ไทย", "Grüße 中文 العربية עברית हिन्दी ไทย"),
        ("rm -rf /data\r\x1b[2K   ls", r"rm -rf /data\r\u{1b}[2K   ls"),
        ("pay\u200b", r"pay\u{200b}"),
        ("a\u202eb\u2066c", r"a\u{202e}b\u{2066}c"),
        ("x\U000e0100\ufe0f", r"x\u{e0100}\u{fe0f}"),
        ("a\nb\tc", r"a\nb\tc"),
        ("a\u00a0b\u3000c\u2028d\u2029e\x85f", r"a\u{a0}b\u{3000}c\u{2028}d\u{2029}e\u{85}f"),
        ("\x00\x7f\ue000\ud800\u0378\u3164\u2800\u00ad", r"\u{0}\u{7f}\u{e000}\u{d800}\u{378}\u{3164}\u{2800}\u{ad}"),
        ("\u061c\u180e\u034f\u115f\U000e0041", r"\u{61c}\u{180e}\u{34f}\u{115f}\u{e0041}"),
        ("a" + " " * 8 + "b", "a" + " " * 8 + "b"),
        ("a" + " " * 9 + "b", "a[9 blanks]b"),
        ("a" + "\n" * 400 + "text", "a[400 blanks]text"),
        ("a" + "\r\n \u3000" * 10 + "b", "a[40 blanks]b"),
        ("[9 blanks]", r"\u{5b}9 blanks]"),
        (r"\[9 blanks]", r"\\\u{5b}9 blanks]"),
        (r"C:\data\new \u{202e}", r"C:\data\\new \\u{202e}"),
        ("\\\n", r"\\\n"),
        ("\\", "\\"),
    ],
)
@pytest.mark.case("F02")
def test_people_see_what_would_be_invisible(text: str, shown: str) -> None:
    assert escape_for_people(text) == shown


def read_back(shown: str) -> str:
    """Undo `escape_for_people`, which is possible where no run of blanks was marked."""
    names = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
    return re.sub(
        r"\\u\{([0-9a-f]+)\}|\\([nrt\\])", lambda found: chr(int(found[1], 16)) if found[1] else names[found[2]], shown
    )


@pytest.mark.case("F02")
@given(st.text(st.one_of(st.sampled_from("\\nrtu{}[0123 blanks]\n\r\u200b\u202e中"), st.characters()), max_size=40))
def test_different_texts_are_shown_differently_and_printably(text: str) -> None:
    shown = escape_for_people(text)

    assert shown.isprintable()
    if not re.search(r"\[\d+ blanks\]", shown):
        assert read_back(shown) == text


NOTHING_TO_SEE = [
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180D, 0x180F, 0x2800, 0x3164, 0xFE00, 0xFE0F, 0xFFA0, 0xE0100,
    0xE01EF,
]  # fmt: skip

FORMATTING = [0x00, 0x1B, 0x7F, 0x85, 0xAD, 0x200B, 0x200D, 0x200E, 0x2028, 0x2029, 0x202E, 0x2066, 0xFEFF, 0xE0041]

SPACES = [0xA0, 0x1680, 0x2000, 0x2003, 0x200A, 0x202F, 0x205F, 0x3000]


@pytest.mark.case("F02")
@pytest.mark.parametrize("number", [*NOTHING_TO_SEE, *FORMATTING, *SPACES], ids=hex)
def test_what_cannot_be_seen_is_shown_by_its_number(number: int) -> None:
    assert escape_for_people(f"a{chr(number)}b") == f"a\\u{{{number:x}}}b"


@pytest.mark.case("F02")
@pytest.mark.parametrize("number", [*NOTHING_TO_SEE, *FORMATTING], ids=hex)
def test_what_cannot_be_seen_is_told_of(number: int) -> None:
    assert has_invisible(f"a{chr(number)}b") is True


@pytest.mark.case("F02")
@pytest.mark.parametrize(
    "number",
    [0x034E, 0x0350, 0x115E, 0x17B3, 0x17B6, 0x1810, 0x2801, 0x3163, 0x3165, 0xFE10, 0xFFA1, 0xE9, 0x4E2D],
    ids=hex,
)
def test_letters_and_marks_beside_them_stay(number: int) -> None:
    assert escape_for_people(f"a{chr(number)}b") == f"a{chr(number)}b"
    assert has_invisible(f"a{chr(number)}b") is False


@pytest.mark.case("F02")
@pytest.mark.parametrize("blank", [" ", "\t", "\n", "\r", *map(chr, SPACES), "\u2028", "\u2029"], ids=ascii)
def test_more_than_eight_blanks_of_any_kind_are_counted(blank: str) -> None:
    assert escape_for_people(f"a{blank * 9}b") == "a[9 blanks]b"
    assert escape_for_people(f"a{blank * 4} {blank * 37}b") == "a[42 blanks]b"
    assert "blanks" not in escape_for_people(f"a{blank * 8}b")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\n\r\t", r"\n\r\t"),
        ("\\", "\\"),
        ("a\\b", "a\\b"),
        (r"\n", r"\\n"),
        (r"\r", r"\\r"),
        (r"\t", r"\\t"),
        (r"\u{e9}", r"\\u{e9}"),
        ("\\\\", "\\\\\\"),
        ("\\[9 blanks]", r"\\\u{5b}9 blanks]"),
        ("\\\n", r"\\\n"),
        ("\\é", "\\é"),
        ("[9 blanks]", r"\u{5b}9 blanks]"),
        ("[123456789 blanks]", r"\u{5b}123456789 blanks]"),
        ("[1234567890 blanks]", "[1234567890 blanks]"),
        ("[ blanks]", "[ blanks]"),
        ("[9 blank]", "[9 blank]"),
        ("~ !", "~ !"),
    ],
)
def test_no_text_can_pretend_to_have_been_escaped(text: str, shown: str) -> None:
    assert escape_for_people(text) == shown


def test_only_text_is_shown_as_text_and_none_of_its_methods_runs() -> None:
    assert escape_for_people(type("Text", (str,), {"__str__": throwing(), "__format__": throwing()})("a\nb")) == r"a\nb"
    for other in (None, 7, b"x", ["x"], Hostile(), Talkative()):
        with pytest.raises(MisuseError) as caught:
            escape_for_people(other)  # type: ignore[arg-type]
        assert MARKER not in str(caught.value)
