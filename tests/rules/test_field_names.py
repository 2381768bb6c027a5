"""The name of a field says whether its value is a secret, what somebody said, or the name of a thing."""

from __future__ import annotations

import pytest

from placet.rules import field_names
from placet.rules.field_names import KeyKind, KeyRules
from placet.rules.redaction import sanitise
from tests.rules.hostile_values import MARKER

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
    assert set(SECRET) == field_names.SECRET_WORDS
    assert set(SECRET_PARTS) == field_names.SECRET_PARTS
    assert set(CONTENT) == field_names.CONTENT_KEYS
    assert set(IDENTIFIERS) == field_names.IDENTIFIER_PARTS
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


@pytest.mark.req("B148")
@pytest.mark.parametrize(
    "key",
    [
        *("authorization", "api_key", "apikey", "password", "passwd", "secret", "token", "cookie", "credential"),
        *("private_key", "access_key", "X-Api-Key", "apiKey", "CLIENT_SECRET", "refreshTokenValue", "Set-Cookie"),
        *("db_pw", "otp", "ｐａｓｓｗｏｒｄ", "pass\u200bword", "登录密码", "Proxy-Authorization"),
    ],
)
def test_the_value_under_a_secret_key_is_redacted_wherever_it_is(key: str) -> None:
    assert sanitise({"a": [{key: {"b": MARKER}}]}) == {"a": [{sanitise(key): "[REDACTED]"}]}


@pytest.mark.req("B163", "B164")
@pytest.mark.parametrize("key", ["phone", "mobile", "Phone_Number", "userMobile", "手机号"])
def test_the_value_under_a_phone_key_is_redacted(key: str) -> None:
    assert sanitise({key: 13812345678}) == {key: "[REDACTED]"}


@pytest.mark.parametrize("key", ["shipping", "author", "opinion", "spinner", "order", "upward", "keyboard"])
def test_words_that_merely_look_similar_are_shown(key: str) -> None:
    assert sanitise({key: "shown"}) == {key: "shown"}


def test_a_deployment_can_add_secret_and_content_keys() -> None:
    keys = KeyRules(also_secret={"IBAN"}, also_content={"diagnosis"})

    assert sanitise({"customerIban": "DE89", "diagnosis": "flu", "token": "t"}, keys=keys) == {
        "customerIban": "[REDACTED]",
        "diagnosis": "[CONTENT:3 chars]",
        "token": "[REDACTED]",
    }


def test_counts_of_prompts_are_not_prompts() -> None:
    assert sanitise({"prompt_count": 12}) == {"prompt_count": 12}
