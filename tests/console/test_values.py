"""What a person approves is drawn in its type and whole; what is different from before is said leaf by leaf."""

from __future__ import annotations

from typing import Any

import pytest

from placet.console.values import Change, DrawnValue, ValueKind, differences, drawn_arguments


def one(value: Any) -> DrawnValue:
    return drawn_arguments({"value": value}).members[0]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (5, ValueKind.NUMBER, "5"),
        (1.0, ValueKind.NUMBER, "1.0"),
        (2**60, ValueKind.NUMBER, str(2**60)),
        (True, ValueKind.BOOLEAN, "true"),
        (None, ValueKind.NULL, "null"),
    ],
)
def test_a_scalar_is_drawn_as_what_it_is(value: Any, kind: ValueKind, text: str) -> None:
    assert (one(value).kind, one(value).text) == (kind, text)


@pytest.mark.parametrize("text", ["5", "1.0", "true", "null", "[]"])
def test_a_text_that_looks_like_another_type_is_a_text(text: str) -> None:
    assert one(text).kind is ValueKind.TEXT


def test_long_values_are_folded_and_complete() -> None:
    words = "word " * 300
    drawn = drawn_arguments({"note": words, "lines": "a\n" * 20, "short": "x", "many": list(range(41)), "few": [1, 2]})

    assert [member.is_folded for member in drawn.members] == [True, True, False, True, False]
    assert "".join(piece.text for piece in drawn.members[0].pieces) == words
    assert drawn.members[3].size == 41 and len(drawn.members[3].members) == 41
    assert drawn.folded_count == 3


def test_values_that_deceive_are_counted_at_any_depth_and_in_names() -> None:
    drawn = drawn_arguments({"a": {"b": ["p\u0430y"]}, "na\u200bme": 1, "fine": "x"})

    assert drawn.deceptive_count == 2


def test_of_a_redacted_field_only_the_name_is_drawn() -> None:
    drawn = drawn_arguments({"card": "4111111111111111"}, redacted=("card",))

    assert drawn.members[0].kind is ValueKind.REDACTED
    assert "4111" not in repr(drawn)


def test_differences_are_told_by_leaf_and_types_count() -> None:
    before = {"amount": 40, "to": "a", "tags": ["x", "y"], "same": {"k": 1}, "one": 1}
    after = {"amount": 4000, "to": "a", "tags": ["x"], "same": {"k": 1}, "one": 1.0, "new": None, "a.b": {"c": True}}

    found = differences(before, after)

    assert [("".join(piece.text for piece in each.path), each.change) for each in found] == [
        ("amount", Change.CHANGED),
        ("one", Change.CHANGED),
        ("new", Change.ADDED),
        ('"a.b".c', Change.ADDED),
        ("tags[1]", Change.REMOVED),
    ]
    assert (found[0].before, found[0].after) == (one_named(40), one_named(4000))
    assert found[2].before is None and found[4].after is None


def test_the_same_arguments_have_no_differences() -> None:
    assert differences({"a": [1, {"b": "c"}], "e": {}}, {"e": {}, "a": [1, {"b": "c"}]}) == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": []}, {"a": {}}),
        ({"a": ""}, {"a": None}),
        ({"a": "1"}, {"a": 1}),
        ({"a": True}, {"a": 1}),
        ({"a.b": 1}, {"a": {"b": 1}}),
    ],
)
def test_nothing_that_runs_differently_passes_for_the_same(before: Any, after: Any) -> None:
    assert differences(before, after)


def one_named(value: int) -> DrawnValue:
    return DrawnValue(kind=ValueKind.NUMBER, name=(), text=str(value))
