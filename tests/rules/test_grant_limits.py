"""The limits of a grant: what is within them, how they are spelled, and that nothing is within by accident."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import placet
from placet.errors import LimitsRefused
from placet.model.contract import Contract
from placet.model.grant import AnyValue, Between, OneOf
from placet.rules.canonical import canonical_bytes
from placet.rules.grant_limits import (
    are_within,
    limit_in_words,
    limits_digest,
    limits_form,
    limits_of,
    read_limits,
    spelled_limits,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)


def contract(**options: Any) -> Contract:
    @placet.tool(effect="write", risk="low", permission="w", name="pay", **options)
    async def pay(
        amount: int, rate: float, to: str, note: str | None = None, more: dict[str, str] | None = None
    ) -> str:
        """Pay."""
        return to

    return pay.contract


ANYTHING: dict[str, Any] = dict.fromkeys(("amount", "rate", "to", "note", "more"), "any")


@given(value=JSON, other=JSON)
def test_one_of_is_exactly_that_value(value: Any, other: Any) -> None:
    limits = {"a": OneOf(values=(value,))}
    is_same = canonical_bytes(value) == canonical_bytes(other) or (
        type(value) in (int, float) and type(other) in (int, float) and value == other
    )
    assert are_within({"a": value}, limits)
    assert are_within({"a": other}, limits) is is_same


@given(least=NUMBERS, most=NUMBERS, value=NUMBERS)
def test_between_is_a_number_from_the_one_to_the_other(least: Any, most: Any, value: Any) -> None:
    assert are_within({"a": value}, {"a": Between(at_least=least, at_most=most)}) is (least <= value <= most)
    assert are_within({"a": value}, {"a": Between(at_most=most)}) is (value <= most)
    assert are_within({"a": value}, {"a": Between(at_least=least)}) is (value >= least)


@given(value=JSON.filter(lambda each: type(each) not in (int, float)))
def test_nothing_but_a_number_is_between_numbers(value: Any) -> None:
    assert not are_within({"a": value}, {"a": Between(at_least=-(2**53), at_most=2**53)})


@pytest.mark.parametrize(
    ("arguments", "limits", "is_within"),
    [
        ({}, {}, True),
        ({}, {"a": AnyValue()}, True),
        ({}, {"a": OneOf(values=(None,))}, False),
        ({}, {"a": Between(at_most=1)}, False),
        ({"a": 1, "b": 2}, {"a": AnyValue()}, False),
        ({"a": True}, {"a": OneOf(values=(1,))}, False),
        ({"a": 1}, {"a": OneOf(values=(True, "1"))}, False),
        ({"a": 5.0}, {"a": OneOf(values=(5,))}, True),
        ({"a": "It"}, {"a": OneOf(values=("it",))}, False),
        ({"a": "e\u0301"}, {"a": OneOf(values=("\u00e9",))}, False),
        ({"a": 2**63}, {"a": Between(at_most=2**63 - 1)}, False),
        ({"a": 1, "b": 2}, {"a": Between(at_most=1), "b": Between(at_most=1)}, False),
    ],
)  # fmt: skip
def test_what_is_within(arguments: Any, limits: Any, is_within: bool) -> None:
    assert are_within(arguments, limits) is is_within


@given(values=st.lists(JSON, min_size=1, max_size=3), bound=NUMBERS)
def test_limits_read_back_as_they_were_sealed(values: list[Any], bound: Any) -> None:
    limits = {"a": OneOf(values=tuple(values)), "b": Between(at_least=bound), "c": AnyValue()}
    try:
        sealed = spelled_limits(limits)
    except LimitsRefused:
        assert any(cannot_be_kept(each) for each in contents([values, bound]))
        return
    assert canonical_bytes(limits_form(limits_of(sealed))) == sealed
    assert limits_digest("pay", sealed) != limits_digest("paid", sealed)


def cannot_be_kept(value: Any) -> bool:
    return (type(value) is float and abs(value) > 2**53 - 1) or (type(value) is str and "\0" in value)


def contents(value: Any) -> list[Any]:
    inner = (*value, *value.values()) if type(value) is dict else value if type(value) is list else ()
    return [value, *(each for part in inner for each in contents(part))]


@pytest.mark.parametrize("value", [1e300, -(2.0**53), [[]] * 1, "x" * 70_000])
def test_what_could_not_be_read_back_is_refused_before_it_is_signed(value: Any) -> None:
    for _ in range(40 if value == [[]] else 0):
        value = [value]
    with pytest.raises(LimitsRefused):
        spelled_limits({"a": OneOf(values=(value,))})


TYPED: dict[str, tuple[dict[str, Any], bool]] = {
    "a whole number for a float": ({"rate": {"one_of": [5]}}, True),
    "bounds of a float": ({"rate": {"at_least": 0.5, "at_most": 2}}, True),
    "nothing where it may be absent": ({"note": {"one_of": [None, "x"]}}, True),
    "an object where there may be one": ({"more": {"one_of": [{"a": "b"}]}}, True),
    "nothing where it may not be": ({"to": {"one_of": [None]}}, False),
    "a truth for a number": ({"amount": {"one_of": [True]}}, False),
    "a list for an object": ({"more": {"one_of": [["a"]]}}, False),
    "bounds of what is a text or nothing": ({"note": {"at_most": 5}}, False),
}


@pytest.mark.parametrize("what", TYPED)
def test_a_limit_is_of_a_type_that_the_argument_may_have(what: str) -> None:
    said, is_good = TYPED[what]
    if is_good:
        assert set(read_limits(ANYTHING | said, contract())) == set(ANYTHING)
        return
    with pytest.raises(LimitsRefused):
        read_limits(ANYTHING | said, contract())


def test_a_contract_that_lets_unknown_members_in_has_no_limits() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}

    async def handler(arguments: dict[str, Any]) -> str:
        return "done"

    tool = placet.tool_from_schema(
        handler, name="open", arguments=schema, effect="write", risk="low", permission="w", open_members=("",),
    )  # fmt: skip
    with pytest.raises(LimitsRefused, match="unknown members"):
        read_limits({"a": "any"}, tool.contract)


def test_words_say_it_as_json_spells_it() -> None:
    assert limit_in_words(AnyValue()) == "anything, or nothing"
    assert limit_in_words(OneOf(values=("it",))) == 'exactly "it"'
    assert limit_in_words(OneOf(values=("a\u202eb", 1.0, None))) == 'one of "a\u202eb", 1.0, null'
    assert limit_in_words(Between(at_least=0.5, at_most=2)) == "a number, at least 0.5 and at most 2"
