"""What is written down is plain, bounded and without secrets, whatever was given."""

from __future__ import annotations

import asyncio
import json
from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.rules import placeholders
from placet.rules.field_names import KeyRules
from placet.rules.redaction import sanitise
from tests.rules.hostile_values import (
    MARKER,
    Hostile,
    Talkative,
    Thrown,
    collection_raising,
    enum_raising,
    mapping_raising,
    nested,
    throwing,
)


def as_strict_json(value: object) -> str:
    return json.dumps(value, allow_nan=False)


@pytest.mark.req("B143")
def test_eight_containers_are_shown_and_the_ninth_is_a_placeholder() -> None:
    assert sanitise(nested(8)) == nested(8)
    assert sanitise(nested(9)) == nested(8, inside="[DEPTH_LIMIT]")
    assert sanitise([[[[[[[[[1]]]]]]]]]) == [[[[[[[["[DEPTH_LIMIT]"]]]]]]]]


@pytest.mark.req("B143")
def test_256_members_are_shown_and_then_a_placeholder() -> None:
    assert sanitise(list(range(256))) == list(range(256))
    assert sanitise(list(range(257))) == [*range(256), "[ITEM_LIMIT]"]
    wide = {f"k{n}": n for n in range(300)}
    assert sanitise(wide) == {**{f"k{n}": n for n in range(256)}, "[ITEM_LIMIT]": "[ITEM_LIMIT]"}


@pytest.mark.req("B143")
def test_2048_characters_are_shown_and_then_a_placeholder() -> None:
    assert sanitise("x" * 2048) == "x" * 2048
    assert sanitise("x" * 2049) == "x" * 2048 + "[TRUNCATED]"
    assert sanitise({"k" * 5000: 1}) == {"k" * 2048 + "[TRUNCATED]": "[REDACTED]"}


@pytest.mark.req("B143")
def test_members_that_are_each_small_enough_are_bounded_together() -> None:
    shared: object = "leaf"
    for _ in range(8):
        shared = [shared] * 256

    assert len(as_strict_json(sanitise(shared))) < 300_000
    assert len(as_strict_json(sanitise(["word " * 3000] * 256))) < 100_000


@pytest.mark.req("B143")
def test_4096_values_are_shown_in_all_and_then_placeholders() -> None:
    rows = [[7] * 256 for _ in range(20)]  # with the list around them, one value and 257 for each row
    mappings = [{f"k{n}": 7 for n in range(256)} for _ in range(20)]

    shown, limit = sanitise(rows), "[ITEM_LIMIT]"
    assert shown == [*([[7] * 256] * 15), [7] * 239 + [limit] * 17, *([limit] * 4)]
    cut = {f"k{n}": 7 if n < 239 else limit for n in range(256)}
    assert sanitise(mappings) == [*mappings[:15], cut, *([limit] * 4)]


@pytest.mark.req("B143")
def test_half_a_million_characters_are_looked_at_in_all_and_then_none() -> None:
    word = "word " * 3276 + "rest"  # 16,384 characters, as many as are looked at of one text

    shown = sanitise([word] * 33)
    assert shown == [*[word[:2048] + "[TRUNCATED]"] * 32, "[TRUNCATED]"]
    one_left = [*[word] * 31, word[1:], "x", "y"]
    assert sanitise(one_left)[-3:] == [word[1:2049] + "[TRUNCATED]", "x", "[TRUNCATED]"]  # type: ignore[index]
    assert sanitise([word] * 32 + [{"key": 1}]) == [*[word[:2048] + "[TRUNCATED]"] * 32, {"[TRUNCATED]": 1}]


@pytest.mark.req("B143", "B150")
def test_what_is_looked_at_of_a_long_text_ends_with_a_word() -> None:
    secret = "token=" + "a" * 16_300  # what is shown of it is short, and what follows it is shown too

    for length in (70, 78):
        assert sanitise(f"{secret} {'b' * 40} {'c' * length}") == f"token=[REDACTED] {'b' * 40}[TRUNCATED]"
    assert sanitise(f"{secret} {'b' * 77}") == f"token=[REDACTED] {'b' * 77}"
    assert sanitise(f"{secret} {'b' * 78}") == "token=[REDACTED][TRUNCATED]"
    assert sanitise("a" * 16_385) == "a" * 2048 + "[TRUNCATED]"
    assert sanitise("token=" + "a" * 16_377 + "\nbc") == "token=[REDACTED]\n[TRUNCATED]"


@pytest.mark.req("B143")
def test_a_secret_cut_by_the_limit_is_not_shown_in_part() -> None:
    password = "hunter2" * 40
    shown = sanitise("x" * 2030 + f" redis://:{password}@host")

    assert type(shown) is str and "hunter2" not in shown
    shown = sanitise("token=" + "a" * 16_000 + f" redis://:{password * 4}@host")
    assert shown == "token=[REDACTED][TRUNCATED]"


@pytest.mark.req("B145")
def test_cycles_are_placeholders() -> None:
    mapping: dict[str, object] = {}
    mapping["self"] = mapping
    members: list[object] = [1]
    members.append((members,))

    assert sanitise(mapping) == {"self": "[CYCLE]"}
    assert sanitise(members) == [1, ["[CYCLE]"]]


def test_a_value_that_appears_twice_is_no_cycle() -> None:
    shared = {"a": 1}

    assert sanitise([shared, shared]) == [{"a": 1}, {"a": 1}]


@pytest.mark.req("B130")
def test_keys_that_are_not_text_are_placeholders_and_none_is_lost() -> None:
    class Key:
        __eq__ = throwing()

        def __hash__(self) -> int:
            return 2

    assert sanitise({1: "a", Key(): "b", "c": "d"}) == {
        "[UNSUPPORTED_KEY]": "a",
        "[UNSUPPORTED_KEY]#1": "b",
        "c": "d",
    }


def test_texts_that_are_the_same_once_they_are_scrubbed_are_two_keys_all_the_same() -> None:
    assert sanitise({"sk-abcdefgh1": 1, "sk-abcdefgh2": 2, "sk-abcdefgh3": 3}) == {
        "[REDACTED]": 1,
        "[REDACTED]#1": 2,
        "[REDACTED]#2": 3,
    }


def test_a_header_given_as_a_pair_is_redacted() -> None:
    assert sanitise([("X-Api-Key", "k-1"), ("Accept", "json")]) == [["X-Api-Key", "[REDACTED]"], ["Accept", "json"]]


@pytest.mark.req("B149")
@pytest.mark.parametrize(
    "key", ["question", "answer", "document_text", "prompt", "arguments", "result", "Prompt", "ｐｒｏｍｐｔ"]
)
def test_content_is_replaced_by_its_length(key: str) -> None:
    assert sanitise({"a": {key: "four"}}) == {"a": {key: "[CONTENT:4 chars]"}}


def test_a_fault_of_our_own_is_a_placeholder_too() -> None:
    class Broken(KeyRules):
        def kind(self, key: str) -> Any:
            raise MemoryError

    assert sanitise({"a": 1}, keys=Broken()) == "[UNSERIALIZABLE]"


@pytest.mark.req("B149")
@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ({"a": 1, "b": 2}, "[CONTENT:2 items]"),
        ([1], "[CONTENT:1 items]"),
        ((1, 2, 3), "[CONTENT:3 items]"),
        ("", "[CONTENT:0 chars]"),
        (type("Text", (str,), {})("four"), "[CONTENT:4 chars]"),
        (Enum("Said", {"YES": "yes"}).YES, "[CONTENT:3 chars]"),  # type: ignore[attr-defined]
        (7, "[CONTENT]"),
        (True, "[CONTENT]"),
        ({1, 2}, "[CONTENT]"),
        (UserDict(a=1), "[CONTENT]"),
        (None, None),
        (Hostile(), "[CONTENT]"),
    ],
    ids=map(str, range(12)),
)
def test_content_that_is_not_text_says_its_size_or_nothing(content: object, shown: str | None) -> None:
    assert sanitise({"result": content, "x": {"systemPrompt": content}}) == {
        "result": shown,
        "x": {"systemPrompt": shown},
    }


@pytest.mark.req("B149")
def test_a_placeholder_for_content_is_kept_and_a_forged_one_is_not() -> None:
    for placed in ("[CONTENT]", "[CONTENT:12 chars]", "[CONTENT:0 items]", f"[CONTENT:{'9' * 20} chars]"):
        assert sanitise({"prompt": placed}) == {"prompt": placed}
    for forged in (
        f"[CONTENT:{MARKER} chars]",
        f"[CONTENT:1 chars] {MARKER}",
        f"{MARKER}[CONTENT]",
        "[CONTENT:1 words]",
    ):
        assert sanitise({"prompt": forged}) == {"prompt": f"[CONTENT:{len(forged)} chars]"}
    for forged in ("[CONTENT: chars]", "[CONTENT:1chars]", f"[CONTENT:{'9' * 21} chars]", "[CONTENT:1 chars"):
        assert sanitise({"prompt": forged}) == {"prompt": f"[CONTENT:{len(forged)} chars]"}


@pytest.mark.req("B164")
def test_a_mobile_number_that_is_a_number_is_redacted() -> None:
    for number in (13_000_000_000, 13_812_345_678, 19_999_999_999, 13_812_345_678.0, 19_999_999_999.5):
        assert sanitise([number]) == ["[REDACTED]"]
    for number in (
        12_999_999_999,
        20_000_000_000,
        12_999_999_999.5,
        20_000_000_000.0,
        1_700_000_000_000,
        -13_812_345_678,
    ):
        assert sanitise([number]) == [number]


def test_what_an_enum_stands_for_is_shown_like_any_other_value_and_is_one_level_deeper() -> None:
    kind = Enum("Kind", {"LIST": [1, {"token": "x"}], "TEXT": "token=x"})

    assert sanitise([kind.LIST, kind.TEXT]) == [[1, {"token": "[REDACTED]"}], "token=[REDACTED]"]  # type: ignore[attr-defined]
    assert sanitise(nested(7, inside=kind.TEXT)) == nested(7, inside="token=[REDACTED]")  # type: ignore[attr-defined]
    assert sanitise(nested(8, inside=kind.TEXT)) == nested(8, inside="[DEPTH_LIMIT]")  # type: ignore[attr-defined]


def test_lone_surrogates_are_spelt_out() -> None:
    assert sanitise({"a\ud800": "b\udc00"}) == {"a\\ud800": "b\\udc00"}


# One value of every kind that goes wrong, with the marker in every place it must not come out of.
MAKERS: list[Callable[[], object]] = [
    Hostile,
    lambda: Hostile,
    Talkative,
    lambda: mapping_raising(Thrown),
    lambda: collection_raising(asyncio.CancelledError),
    lambda: enum_raising(KeyboardInterrupt),
    lambda: ValueError(MARKER),
    MARKER.encode,
    lambda: float("nan"),
    lambda: 10**5000,
    lambda: f"token={MARKER}",
    lambda: f"redis://:{MARKER}@host",
    lambda: f"Bearer {MARKER}",
    lambda: {"X-Token": MARKER, "prompt": MARKER},
    lambda: UserDict({"password": MARKER}),
]


@dataclass(frozen=True)
class Made:
    """Stands for a hostile value while hypothesis, which asks values for hash and repr, has it in hand."""

    number: int


def made(value: object) -> object:
    """Put the hostile values in their places."""
    match value:
        case Made(number):
            return MAKERS[number]()
        case dict():
            return {key: made(member) for key, member in value.items()}
        case list():
            return [made(member) for member in value]
        case tuple():
            return tuple(made(member) for member in value)
        case _:
            return value


KEYS = st.one_of(st.text(max_size=5), st.integers(), st.none(), st.sampled_from(["order", "note_2"]))

HOSTILE = st.integers(0, len(MAKERS) - 1).map(Made)

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), HOSTILE),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
    ),
    max_leaves=12,
)


@pytest.mark.req("B143", "B146", "B166", "B167")
@given(VALUES)
def test_whatever_is_sanitised_is_strict_json_without_secrets(plan: object) -> None:
    shown = sanitise(made(plan))
    text = json.dumps(shown, allow_nan=False, ensure_ascii=False)

    assert MARKER not in text
    assert json.loads(text.encode("utf-8")) == shown


PLACEHOLDERS = [
    "CYCLE", "DEPTH_LIMIT", "GIANT_INTEGER", "ITEM_LIMIT", "NON_FINITE_FLOAT", "REDACTED", "TRUNCATED",
    "UNREADABLE_COLLECTION", "UNREADABLE_ENUM", "UNREADABLE_MAPPING", "UNSERIALIZABLE", "UNSUPPORTED_KEY",
]  # fmt: skip


def test_placeholders_and_limits_are_what_is_written_everywhere() -> None:
    texts = {name: value for name, value in vars(placeholders).items() if name.isupper() and type(value) is str}
    assert texts == {name: f"[{name}]" for name in PLACEHOLDERS}
    assert (placeholders.MAX_DEPTH, placeholders.MAX_ITEMS, placeholders.MAX_TEXT) == (8, 256, 2_048)
    assert (placeholders.MAX_INTEGER_BITS, placeholders.MAX_NODES) == (64, 4_096)
