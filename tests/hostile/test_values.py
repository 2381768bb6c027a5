"""The kit itself: its values are as hostile as they say, and making one runs nothing of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from placet.testing import HostileValues
from placet.testing.hostile import KINDS
from tests.hostile.conftest import SECRET


@pytest.mark.parametrize("kind", KINDS)
def test_making_a_value_runs_none_of_its_methods(kind: type[BaseException]) -> None:
    values = HostileValues(SECRET, kind=kind)
    made = [make() for make in values.values().values()]

    assert values.ran == []
    assert len(made) > 50


TOUCHES: dict[str, tuple[Callable[[HostileValues], Any], Callable[[Any], Any]]] = {
    "text is hashed": (lambda values: values.raising(str), hash),
    "text is compared": (lambda values: values.raising(str), lambda value: value == "committed"),
    "text is measured": (lambda values: values.raising(str), len),
    "number is compared": (lambda values: values.raising(int), lambda value: value > 0),
    "dict is read": (lambda values: values.raising(dict), lambda value: value.get("a")),
    "list is iterated": (lambda values: values.raising(list), list),
    "class is asked for": (lambda values: values.raising_object(), lambda value: isinstance(value, str)),
    "type is compared": (lambda values: values.raising_object(), lambda value: type(value) == int),  # noqa: E721 - the slip itself
    "type is named": (lambda values: values.raising_object(), lambda value: type(value).__name__),
    "mapping is measured": (lambda values: values.mapping("__len__"), len),
    "mapping is read": (lambda values: values.mapping("items"), lambda value: value.items()),
    "zone is asked": (lambda values: values.instant_in_a_raising_zone(), lambda value: value.utcoffset()),
    "member is read": (lambda values: values.enum_member(), lambda value: value.value),
    "key is compared": (lambda values: values.key_like("a"), lambda value: {value: 1, "a": 2}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TOUCHES)
def test_a_value_raises_once_it_is_touched_and_that_is_written_down(name: str, kind: type[BaseException]) -> None:
    values = HostileValues(SECRET, kind=kind)
    make, touch = TOUCHES[name]
    value = make(values)
    with pytest.raises(kind) as caught:
        touch(value)

    assert len(values.ran) >= 1
    told = "".join(traceback.format_exception(caught.value))
    assert told.count(SECRET) >= 4  # its class, its words, its note and its cause


def test_a_lying_value_is_equal_to_everything_and_shows_the_secret() -> None:
    values = HostileValues(SECRET)
    text = values.lying(str)

    assert text == "anything"
    assert len(text) == 1
    assert SECRET in f"{text!r}"
    assert values.ran == ["str.__eq__", "str.__len__", "str.__repr__"]


def test_an_obliging_object_has_whatever_is_asked_of_it() -> None:
    values = HostileValues(SECRET)

    assert values.obliging_object().anything(1).at_all == 3
    assert values.ran == ["obliging.anything", "obliging.__call__", "obliging.at_all", "obliging.__eq__"]
