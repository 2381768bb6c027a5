"""The words by which keys are judged, the characters that are never shown as they are, and the names that are told."""

from __future__ import annotations

import pytest

from placet.errors import PlacetError
from placet.rules import redaction
from placet.rules.redaction import (
    UNTRUSTED_EXCEPTION,
    KeyKind,
    KeyRules,
    escape_for_people,
    has_invisible,
    known_exception_name,
)

SECRET = [
    "authorization", "api_key", "apikey", "access_key", "private_key", "credential", "cookie", "secret",
    "token", "password", "passwd", "passphrase", "pwd", "phone", "mobile", "msisdn", "密码", "密钥", "令牌", "手机",
    "电话",
]  # fmt: skip
SECRET_PARTS = ["auth", "bearer", "cvc", "cvv", "jwt", "otp", "pin", "pw", "ssn"]
CONTENT = [
    "question", "answer", "prompt", "completion", "query", "transcript", "messages", "message_text",
    "document_text", "text", "arguments", "args", "kwargs", "input", "result", "results", "output", "content",
    "contents", "body", "reason", "comment", "note", "justification",
]  # fmt: skip
IDENTIFIERS = ["id", "ids", "uuid", "guid", "no", "number", "ref"]


def kind(key: str) -> KeyKind:
    return KeyRules().kind(key)


# ---------------------------------------------------------------- keys


@pytest.mark.req("B120")
@pytest.mark.parametrize("word", SECRET)
def test_a_secret_word_is_one_anywhere_in_a_key_in_any_spelling(word: str) -> None:
    bare = word.replace("_", "")
    for key in (word, word.upper(), f"my{bare}s", f"x-{word}", word.replace("_", "-"), "_".join(bare), f"{word}_id"):
        assert kind(key) is KeyKind.SECRET, key


@pytest.mark.req("B120")
@pytest.mark.parametrize("word", SECRET_PARTS)
def test_a_short_secret_word_is_one_as_a_whole_part_and_inside_other_words_it_is_not(word: str) -> None:
    for key in (word, word.upper(), f"db_{word}", f"{word}-1", f"db{word.capitalize()}", f"{word}_id"):
        assert kind(key) is KeyKind.SECRET, key
    assert kind(f"zz{word}zz") is KeyKind.PLAIN


@pytest.mark.req("B116")
@pytest.mark.parametrize("word", CONTENT)
def test_a_content_word_is_one_as_the_whole_key_and_at_its_end(word: str) -> None:
    for key in (word, word.upper(), f"system_{word}", f"system-{word}", f"my{word.title().replace('_', '')}"):
        assert kind(key) is KeyKind.CONTENT, key
    for key in (f"zz{word.replace('_', '')}", f"{word}zz", f"{word}_zz"):
        assert kind(key) is KeyKind.PLAIN, key


@pytest.mark.req("B116")
@pytest.mark.parametrize("word", IDENTIFIERS)
def test_an_identifier_is_told_by_its_last_part(word: str) -> None:
    for key in (word, f"order_{word}", f"order-{word.upper()}", f"order{word.capitalize()}"):
        assert kind(key) is KeyKind.IDENTIFIER, key
    for key in (f"zz{word}", f"{word}_zz"):
        assert kind(key) is KeyKind.PLAIN, key


def test_the_tables_hold_these_words_and_no_others() -> None:
    assert set(SECRET) == redaction.SECRET_WORDS
    assert set(SECRET_PARTS) == redaction.SECRET_PARTS
    assert set(CONTENT) == redaction.CONTENT_KEYS
    assert set(IDENTIFIERS) == redaction.IDENTIFIER_PARTS
    assert [each.value for each in KeyKind] == ["secret", "content", "identifier", "plain"]


def test_a_deployment_s_words_come_beside_ours() -> None:
    rules = KeyRules(also_secret=["iban", "tax-no", "--"], also_content=["minutes"])

    assert [rules.kind(key) for key in ("myIban", "tax_no", "password")] == [KeyKind.SECRET] * 3
    assert [rules.kind(key) for key in ("meeting_minutes", "prompt")] == [KeyKind.CONTENT] * 2
    assert [rules.kind(key) for key in ("zzminutes", "colour")] == [KeyKind.PLAIN] * 2


def test_a_key_longer_than_any_text_that_is_shown_is_a_secret() -> None:
    assert kind("a" * 2_048) is KeyKind.PLAIN
    assert kind("a" * 2_049) is KeyKind.SECRET


def test_kinds_are_remembered_within_bounds() -> None:
    rules = KeyRules()
    for key in ("a" * 128, "b" * 129):
        assert rules.kind(key) is KeyKind.PLAIN
    assert rules.known == {"a" * 128: KeyKind.PLAIN}
    for number in range(4_095):
        rules.kind(f"k{number}")
    assert len(rules.known) == 4_096
    rules.kind("k0")
    assert len(rules.known) == 4_096
    assert rules.kind("one more id") is KeyKind.IDENTIFIER
    assert rules.known == {"one more id": KeyKind.IDENTIFIER}
    rules.known["one more id"] = KeyKind.SECRET
    assert rules.kind("one more id") is KeyKind.SECRET


# ---------------------------------------------------------------- text for people

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


# ---------------------------------------------------------------- names of exceptions


def test_only_names_of_built_in_exceptions_and_of_ours_are_told() -> None:
    for kind_ in (ValueError, KeyboardInterrupt, PlacetError):
        assert known_exception_name(kind_.__name__) == kind_.__name__
        assert redaction.safe_exception_name(kind_) == redaction.safe_exception_name(kind_("x")) == kind_.__name__
    for other in ("Stranger", "", "valueerror", "placet.errors.PlacetError"):
        assert known_exception_name(other) == UNTRUSTED_EXCEPTION == "untrusted_exception"


def test_placeholders_and_limits_are_what_is_written_everywhere() -> None:
    assert [
        redaction.DEPTH_LIMIT, redaction.ITEM_LIMIT, redaction.CYCLE, redaction.REDACTED, redaction.UNSERIALIZABLE,
        redaction.UNSUPPORTED_KEY, redaction.NON_FINITE_FLOAT, redaction.GIANT_INTEGER,
        redaction.TRUNCATED, redaction.UNREADABLE_MAPPING, redaction.UNREADABLE_COLLECTION, redaction.UNREADABLE_ENUM,
    ] == [
        "[DEPTH_LIMIT]", "[ITEM_LIMIT]", "[CYCLE]", "[REDACTED]", "[UNSERIALIZABLE]", "[UNSUPPORTED_KEY]",
        "[NON_FINITE_FLOAT]", "[GIANT_INTEGER]",
        "[TRUNCATED]", "[UNREADABLE_MAPPING]", "[UNREADABLE_COLLECTION]", "[UNREADABLE_ENUM]",
    ]  # fmt: skip
    assert (redaction.MAX_DEPTH, redaction.MAX_ITEMS, redaction.MAX_TEXT) == (8, 256, 2_048)
    assert (redaction.MAX_INTEGER_BITS, redaction.MAX_NODES) == (64, 4_096)
