"""What a refused value is told: exact places, of alternatives the one that was meant, and all within bounds."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from placet.errors import ContractError, InvalidArguments
from placet.rules.contracts.schema_bounds import extent
from placet.rules.contracts.schema_checks import (
    MAX_COLLECTED,
    MAX_EXACT,
    MAX_EXPLAINED,
    SchemaArguments,
    SchemaRule,
)
from placet.rules.contracts.schema_closing import closed, closed_by_annotation
from placet.rules.contracts.schema_reading import read_graph
from placet.rules.contracts.values import MAX_PROBLEMS
from placet.rules.decoding import Path

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}


def refusal(why: str) -> ContractError:
    return ContractError(why)


def rule_of(member: dict[str, Any], **more: Any) -> SchemaRule:
    """The rule of an object with one member `x`."""
    root = read_graph({"type": "object", "properties": {"x": member}, **more}, refusal)
    return SchemaRule.of(closed(root, refusal), 1)


def told(member: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    return list(rule_of(member).problems({"x": value}))


# ---------------------------------------------------------------- exactness


@pytest.mark.parametrize(
    ("constants", "exact", "not_exact"),
    [
        ([{"a": 1}], [{"a": 1}], [{"a": 1.0}]),
        ([{"a": 1.0, "b": 2}, {"a": 1}], [{"a": 1.0, "b": 2}, {"a": 1}], [{"a": 1.0}, {"a": 1.0, "b": 2.0}]),
        ([[True, 2.0], [1, 2]], [[True, 2.0], [1, 2]], [[1, 2.0], [1.0, 2]]),
        ([[1, 2.0], [True, 2]], [[1, 2.0], [True, 2]], [[True, 2.0]]),
        ([[1.0, 2.0], [1, 2, 3]], [[1.0, 2.0], [1, 2, 3]], [[1, 2, 3.0], [1.0]]),
        ([{"a": [1]}, {"a": [1.0], "b": [1]}], [{"a": [1]}, {"a": [1.0], "b": [1]}], [{"a": [1.0]}]),
        ([1, 2.0, True], [1, 2, 2.0, True], [1.0]),
        ([0, 1.0, False], [0, 1, 1.0, False], [0.0]),
        ([[None, 1.0], ["a", 1]], [[None, 1.0], ["a", 1]], [["a", 1.0]]),
    ],
)
def test_a_float_stands_for_no_integer_among_constants_at_any_depth(
    constants: list[Any], exact: list[Any], not_exact: list[Any]
) -> None:
    for value in exact:
        assert told({"enum": constants}, value) == []
    for value in not_exact:
        assert told({"enum": constants}, value) == [("/x", "enum")]


def test_a_float_is_no_integer_by_its_type() -> None:
    assert told(WHOLE, 1) == []
    assert told(WHOLE, 1.0) == [("/x", "type")]
    assert told({"type": ["integer", "null"]}, 1.0) == [("/x", "type")]
    assert told({"type": ["integer", "number"]}, 1.0) == []
    assert told({"type": "number"}, 1.0) == []


# ---------------------------------------------------------------- alternatives


def tagged(tag: str, *required: str) -> dict[str, Any]:
    members = {name: TEXT for name in required}
    return {"type": "object", "properties": {"kind": {"const": tag}, **members}, "required": ["kind", *required]}


def test_of_alternatives_the_one_with_the_right_tag_was_meant_however_much_it_lacks() -> None:
    branches = [tagged("a", "p", "q", "r"), tagged("b")]
    lacking = [("/x", "anyOf"), ("/x/p", "missing"), ("/x/q", "missing"), ("/x/r", "missing")]

    assert told({"anyOf": branches}, {"kind": "a"})[:4] == lacking
    assert told({"anyOf": branches[::-1]}, {"kind": "a"})[:4] == lacking
    assert told({"oneOf": branches}, {"kind": "a", "p": "", "q": ""})[:2] == [("/x", "oneOf"), ("/x/r", "missing")]


def test_of_alternatives_the_one_of_the_right_type_was_meant() -> None:
    schema = {"anyOf": [TEXT | {"maxLength": 1}, {"type": "array", "items": WHOLE}]}

    assert told(schema, "ab") == [("/x", "anyOf"), ("/x", "maxLength")]
    assert told(schema, ["a", "b"]) == [("/x", "anyOf"), ("/x/0", "type"), ("/x/1", "type")]


def test_of_alternatives_the_one_with_fewer_faults_was_meant_and_of_two_alike_neither() -> None:
    def of(*required: str) -> dict[str, Any]:
        return {"type": "object", "properties": dict.fromkeys(required, TEXT), "required": list(required)}

    assert told({"anyOf": [of("a", "b"), of("c")]}, {}) == [("/x", "anyOf"), ("/x/c", "missing")]
    assert told({"anyOf": [of("c"), of("a", "b")]}, {}) == [("/x", "anyOf"), ("/x/c", "missing")]
    assert told({"anyOf": [of("a")]}, {}) == [("/x", "anyOf"), ("/x/a", "missing")]
    assert told({"anyOf": [of("a"), of("b")]}, {}) == [("/x", "anyOf")]
    assert told({"anyOf": [of("a"), of("b"), of("c", "d")]}, {}) == [("/x", "anyOf")]
    assert told({"anyOf": [of("a", "e"), of("b", "f"), of("c")]}, {}) == [("/x", "anyOf"), ("/x/c", "missing")]


def test_of_alternatives_none_was_meant_where_a_float_stands_for_an_integer_constant() -> None:
    branches = {"anyOf": [{"const": 1}, {"type": "object"}]}

    assert told(branches, 1) == []
    assert told(branches, 1.0) == [("/x", "anyOf")]
    assert told({"anyOf": [{"const": 1}, {"type": "string"}, {"type": "number", "minimum": 2}]}, 1.0) == [
        ("/x", "anyOf"),
        ("/x", "minimum"),
    ]


def test_a_value_that_fits_two_of_which_it_may_fit_one_is_told_so_alone() -> None:
    assert told({"oneOf": [TEXT, {"type": ["string", "null"]}]}, "a") == [("/x", "oneOf")]


# ---------------------------------------------------------------- what the handler receives


def test_a_handler_receives_wide_integers_exactly_and_what_is_as_deep_as_its_contract_allows() -> None:
    def check(wide: frozenset[Path], depth: int) -> SchemaArguments:
        return SchemaArguments(
            rule=rule_of({"type": ["integer", "array"], "items": {"type": "array"}}),
            takes_arguments="given",
            takes_context="context",
            max_bytes=99,
            max_depth=depth,
            wide_fields=wide,
        )

    context: Any = object()
    wide = b'{"x":%d}' % 2**80
    assert check(frozenset({("x",)}), 2).keywords(wide, context) == {"given": {"x": 2**80}, "context": context}
    with pytest.raises(InvalidArguments, match="number too large"):
        check(frozenset(), 2).keywords(wide, context)
    deep = b'{"x":[[]]}'
    assert check(frozenset(), 3).keywords(deep, context)["given"] == {"x": [[]]}
    assert check(frozenset(), 3).reads_back(deep)  # nothing was filled in, renamed or converted
    with pytest.raises(InvalidArguments, match="too deep"):
        check(frozenset(), 2).keywords(deep, context)


# ---------------------------------------------------------------- bounds


def test_so_many_places_are_told_and_no_more() -> None:
    def lacking(count: int) -> list[tuple[str, str]]:
        names = [f"m{number:02}" for number in range(count)]
        return told({"type": "object", "properties": dict.fromkeys(names, TEXT), "required": names}, {})

    assert MAX_PROBLEMS == 16
    assert lacking(16) == [(f"/x/m{number:02}", "missing") for number in range(16)]
    assert lacking(17) == lacking(16)


def by_annotation(*members: str) -> SchemaRule:
    """The rule of an object whose unknown members are found by what validation has looked at."""
    root = read_graph({"type": "object", "properties": dict.fromkeys(members, TEXT)}, refusal)
    return SchemaRule.of(closed_by_annotation(root, ()), 1)


def test_so_many_unknown_members_are_told_and_no_more_where_they_are_found_by_annotation() -> None:
    rule = by_annotation("a", "b")

    assert rule.problems({"a": "", "b": ""}) == ()
    assert rule.problems({"a": "", "c": ""}) == (("/c", "extra_forbidden"),)
    unknown = {f"u{number:02}": 1 for number in range(20)}
    assert list(rule.problems(unknown)) == [(f"/u{number:02}", "extra_forbidden") for number in range(16)]


@pytest.mark.case("A16")
def test_what_a_refusal_a_float_or_an_annotation_may_cost_is_bounded_to_the_last_visit() -> None:
    def at(rule: SchemaRule, value: Any, most: int) -> tuple[Any, Any]:
        """What is told where the visits come to exactly `most`, and where to more."""
        assert most % extent(value) == 0
        visits = most // extent(value)
        return tuple(dataclasses.replace(rule, visits=more).problems(value) for more in (visits, visits + 1))

    wrong, whole = {"x": 1}, {"x": 2.0}
    assert extent(wrong) == extent(whole) == 2
    assert at(rule_of(TEXT), wrong, MAX_EXPLAINED) == ((("/x", "type"),), (("", "not_accepted"),))
    assert at(rule_of({"type": "number"}), whole, MAX_EXACT) == ((), (("", "not_accepted"),))
    assert at(by_annotation("x"), {"x": "a"}, MAX_COLLECTED) == ((), (("", "too_many_members"),))
    assert (MAX_COLLECTED, MAX_EXPLAINED, MAX_EXACT) == (50_000, 10_000, 500_000)
