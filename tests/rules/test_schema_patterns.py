"""Patterns: each piece that ECMA-262 and the engine read alike is let in, each other is not, and all are weighed."""

from __future__ import annotations

from itertools import count, takewhile

import pytest

from placet.rules.contracts.schema_patterns import (
    PATTERN_BYTES,
    STATE_BYTES,
    compiled_bytes,
    fitting,
    is_common,
)

PUNCTUATION = "!\"#$%&'()*+,-./:;=?@[\\]^_`{|}~ "
GENERAL_CATEGORIES = [
    "L", "Lu", "Ll", "Lt", "Lm", "Lo", "LC", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Co", "Letter",
    "Lowercase_Letter", "Uppercase_Letter", "Number", "Decimal_Number", "Mark", "Punctuation", "Symbol", "Separator",
]  # fmt: skip
PROPERTIES = [
    "Alphabetic", "Lowercase", "Uppercase", "White_Space", "ASCII", "Any",
    "Script=Greek", "sc=Latin", "Script_Extensions=Han", "scx=Old_Italic",
]  # fmt: skip


@pytest.mark.parametrize(
    "escape",
    [
        *(f"\\{letter}" for letter in "dDwWsStnvfr"),
        *(f"\\{mark}" for mark in PUNCTUATION),
        *(f"\\p{{{name}}}" for name in (*GENERAL_CATEGORIES, *PROPERTIES)),
        r"\P{Lu}",
        r"\cA",
        r"\cZ",
        r"\ca",
        r"\cz",
        r"\x00",
        r"\x9F",
        r"\xaF",
        r"\xfA",
        r"\u0000",
        r"\u9aFf",
        r"\uFA0f",
        r"\u{0}",
        r"\u{10FFFF}",
        r"\u{aF9}",
    ],
)
@pytest.mark.parametrize("around", ["^{}$", "{}+", "[{}]", "[^a{}-]"])
def test_an_escape_that_both_read_alike_is_common_outside_and_inside_a_class(escape: str, around: str) -> None:
    assert is_common(around.replace("{}", escape))


@pytest.mark.parametrize(
    "escape",
    [
        *(f"\\{letter}" for letter in "aeghijklmoqyzABCEFGHIJKLMNOPQRTUVXYZ<>é0129"),
        r"\c",
        r"\c1",
        r"\c_",
        r"\x",
        r"\x4",
        r"\xg0",
        r"\x0g",
        r"\u",
        r"\u004",
        r"\ug041",
        r"\u{}",
        r"\u{1234567}",
        r"\u{g}",
        r"\pL",
        r"\p",
        r"\p{}",
        r"\p{l}",
        r"\p{La}",
        r"\p{Lul}",
        r"\p{Ma}",
        r"\p{Na}",
        r"\p{Pa}",
        r"\p{Sa}",
        r"\p{Za}",
        r"\p{Cs}",
        r"\p{Greek}",
        r"\p{Case_Letter}",
        r"\p{Script}",
        r"\p{Script=}",
        r"\p{Script=greek}",
        r"\p{Script=Greek1}",
        r"\p{Block=Greek}",
        r"\p{letter}",
    ],
)
@pytest.mark.parametrize("around", ["^{}$", "[{}]"])
def test_an_escape_that_one_of_them_reads_otherwise_or_not_at_all_is_not_common(escape: str, around: str) -> None:
    assert not is_common(around.replace("{}", escape))


@pytest.mark.parametrize("name", ["n", "N", "_", "year", "YEAR", "y2K", "_9", "yEar_2A"])
def test_a_group_may_have_any_ascii_name(name: str) -> None:
    assert is_common(f"^(?<{name}>a)$")


@pytest.mark.parametrize("name", ["", "9", "a-b", "é", "aé", "a b", "$"])
def test_a_group_has_no_other_name(name: str) -> None:
    assert not is_common(f"^(?<{name}>a)$")


def test_a_word_boundary_is_not_common() -> None:
    assert not is_common(r"\bok\b")
    assert not is_common(r"ok\B")


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a",
        "é\n\u2028😀",
        "ab",
        ".",
        "a]}",
        "^$",
        "a|b|",
        "|",
        "a*",
        "a+",
        "a?",
        "a{0}",
        "a{12}",
        "a{12,}",
        "a{12,34}",
        "a*?b+?c??d{1}?e{1,}?f{1,2}?",
        "(a)*",
        "(?:a)+b",
        "(?<name>a)?",
        "(?<A>a)(?<_>b)(?<Z9_a>c)(?<z0>d)",
        "((a)|(?:b))",
        "()",
        "[a]",
        "[^a]",
        "[^^]",
        "[a-z0-9_]",
        "[-a]",
        "[a-]",
        "[&]",
        "[a&b~c]",
        "[(){}*+?|^$.]",
        "[a]*[b]+?",
        "[\n]",
    ],
)
def test_the_common_part_is_common(pattern: str) -> None:
    assert is_common(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "*", "+", "?", "{1}", "a**", "a++", "a?+", "a{1}{2}", "a{1}*", "a*{1}", "a{", "a{}", "a{,2}", "a{b}", "a{1,b}",
        "a{1", "^*", "$+", "a|*", "(*)", "(+a)", "a???", "a{1}??",
        "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?P<n>a)", "(?>a)", "(?i)a", "(?i:a)", "(?-i:a)", "(?#a)", "(?<>a)",
        "(?", "(?<1a>a)", "(?<a-b>a)", "(?<é>a)", "(?<a", "(?<a )b",
        "[", "[]", "[^]", "[^]a]", "a\\", "[a", "[[a]]", "[[:alpha:]]", "[a[b]", "[a&&b]", "[&&a]", "[a--b]", "[~~a]",
        "[a~~]", "[^&&]", "[\\b]", "[a\\]", "[\\",
    ],
)  # fmt: skip
def test_what_is_not_the_common_part_is_not_common(pattern: str) -> None:
    assert not is_common(pattern)


# ---------------------------------------------------------------- weight


def test_a_size_is_told_in_steps_each_half_of_itself_larger_at_most() -> None:
    fit = takewhile(lambda size: size is not None, (_size_of(length) for length in count(1)))

    assert sorted(set(fit)) == [
        256, 768, 1_024, 1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ]  # fmt: skip


def _size_of(length: int) -> int | None:
    pattern = f"a{{{length}}}"
    return None if fitting(pattern) is None else compiled_bytes(pattern)


def test_the_bounds_are_what_they_are_said_to_be() -> None:
    assert (PATTERN_BYTES, STATE_BYTES) == (48 * 1024, 256 * 1024)


def test_a_pattern_that_needs_more_cannot_be_matched() -> None:
    assert fitting("a{1000}") is not None
    assert fitting("a{2000}") is None
    assert fitting("(a") is None


def test_a_text_fits_a_pattern_that_is_found_anywhere_in_it() -> None:
    fits = fitting("b+")
    assert fits is not None
    assert fits("abbc")
    assert not fits("ac")
