"""What a schema may cost at most: each bound at its value and one above it, and the sentence that says it."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import ContractError
from placet.rules.contracts.schema_bounds import MAX_MATCHING, refuse_costly
from placet.rules.contracts.schema_patterns import compiled_bytes
from placet.rules.contracts.schema_reading import read_graph

TEXT: dict[str, Any] = {"type": "string"}


def visits(schema: dict[str, Any], *, max_depth: int = 32, max_bytes: int = 8_192) -> int:
    return refuse_costly(read_graph(schema, ContractError), ContractError, max_depth=max_depth, max_bytes=max_bytes)


def why(schema: dict[str, Any], **bounds: int) -> str:
    with pytest.raises(ContractError) as caught:
        visits(schema, **bounds)
    return str(caught.value)


# ---------------------------------------------------------------- patterns


@pytest.mark.case("A16")
def test_a_schema_has_64_different_patterns_and_not_one_more() -> None:
    members = {f"p{n}": {"pattern": f"^a{n}$"} for n in range(63)}
    names = {"^b$": {"pattern": "^a1$"}}

    assert visits({"properties": members, "patternProperties": names})
    assert (
        why({"properties": {**members, "more": {"pattern": "^c$"}}, "patternProperties": names})
        == "its schema has more than 64 different patterns"
    )


@pytest.mark.case("A16")
def test_a_pattern_has_1000_characters_and_not_one_more() -> None:
    assert visits({"pattern": "a" * 1_000})
    assert why({"pattern": "a" * 1_001}) == "a pattern of its schema has more than 1000 characters"


@pytest.mark.case("A16")
@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^[ab]{9}$"},
        {"properties": {"x": {"pattern": "^[ab]{9}$"}}},
        {"patternProperties": {"^[ab]{9}$": TEXT}},
        {"items": {"propertyNames": {"pattern": "^[ab]{9}$"}}},
        {"properties": {"x": {"pattern": "^[ab]{9}$"}, "y": {"pattern": "^[ab]{9}$"}}},
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_value_is_matched_against_so_many_bytes_of_patterns_as_fit_its_own(schema: dict[str, Any]) -> None:
    size = compiled_bytes("^[ab]{9}$")
    largest = MAX_MATCHING // size

    assert visits(schema, max_bytes=largest)
    assert why(schema, max_bytes=largest + 1) == (
        f"the patterns that its schema holds against one text are more than {size - 1} bytes once compiled, for "
        f"values of {largest + 1} bytes; repeat less, or lower the bytes of a value"
    )


@pytest.mark.case("A16")
def test_patterns_held_against_one_value_and_its_parts_are_added() -> None:
    pattern = "^[ab]{9}$"
    schema = {"patternProperties": {pattern: {"pattern": pattern, "allOf": [{"pattern": "^[ab]{8}$"}]}}}
    sizes = 2 * compiled_bytes(pattern) + compiled_bytes("^[ab]{8}$")

    assert visits(schema, max_bytes=MAX_MATCHING // sizes)
    assert "more than" in why(schema, max_bytes=MAX_MATCHING // sizes + 1)


@pytest.mark.case("A16")
def test_a_pattern_counts_for_a_visit_per_256_bytes_of_its_compiled_form() -> None:
    for pattern in ("^a$", "^[ab]{9}$", "^[ab]{40}$", r"^\p{L}+$"):
        assert visits({"pattern": pattern}) == 1 + compiled_bytes(pattern) // 256


@pytest.mark.case("A16")
@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        (
            "^(?=a)é",
            r"its pattern '^(?=a)\xe9' cannot be matched in linear time within 49152 bytes; leave out look-around and "
            "back-references, and repeat less",
        ),
        (
            "(?i)é",
            r"its pattern '(?i)\xe9' is read otherwise by ECMA-262, whose patterns JSON Schema has; leave out inline "
            "flags, word boundaries and set operations, and escape [ inside of a class",
        ),
    ],
)
def test_a_pattern_is_refused_by_its_text(pattern: str, sentence: str) -> None:
    assert why({"items": {"pattern": pattern}}) == sentence
    assert why({"patternProperties": {"^ok$": True, pattern: True}}) == sentence


# ---------------------------------------------------------------- ways


@pytest.mark.case("A16")
@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"$ref": "#"}, "/"),
        ({"properties": {"x": {"allOf": [{"$ref": "#/properties/x"}]}}}, "/properties/x"),
        ({"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"anyOf": [{}, {"$ref": "#/$defs/a"}]}},
          "items": {"$ref": "#/$defs/a"}}, "/$defs/a"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_a_part_that_is_held_against_its_own_value_again_is_refused(schema: dict[str, Any], place: str) -> None:
    assert why(schema) == f"at {place} its schema refers to itself without reaching a part of the value"


@pytest.mark.case("A16")
def test_a_part_may_come_back_beneath_itself_and_beside_itself() -> None:
    shared = {"$ref": "#/$defs/d"}

    assert visits({"$defs": {"d": {}}, "allOf": [shared, shared], "anyOf": [shared]}) == 1 + 3 * 2
    assert visits({"items": {"$ref": "#"}}, max_depth=4) == 9


@pytest.mark.case("A16")
def test_parts_stand_inside_each_other_48_deep_and_not_one_more() -> None:
    def inside(levels: int) -> dict[str, Any]:
        schema: dict[str, Any] = {}
        for _ in range(levels - 1):
            schema = {"not": schema}
        return schema

    assert visits({"items": inside(48)}) == 49
    deepest = {"allOf": [inside(47), {}]}
    assert visits(deepest) == visits({"allOf": [{}, inside(47)]}) == 49
    assert "more than 48 parts inside each other" in why({"allOf": [inside(48), {}]})
    assert why({"items": inside(49)}) == "its schema holds more than 48 parts inside each other against one value"


@pytest.mark.case("A16")
@pytest.mark.parametrize(
    ("schema", "max_depth", "depth"),
    [
        ({"properties": {"a": {"anyOf": [{}] * 1_999}}}, 32, 1),
        ({"items": {"items": {"anyOf": [{}] * 1_999}}}, 32, 2),
        ({"items": {"items": {"anyOf": [{}] * 1_999}}}, 2, 2),
        ({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}, 32, 9),
        ({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}, 9, 9),
    ],
    ids=lambda value: str(value)[:60],
)
def test_too_many_ways_are_told_with_the_depth_where_they_are(
    schema: dict[str, Any], max_depth: int, depth: int
) -> None:
    assert why(schema, max_depth=max_depth).startswith(
        f"its schema could be held against one value in more than 2000 ways at depth {depth}; give its "
    )
    assert visits({"items": {"anyOf": [{}] * 1_000}}) == 1_002


@pytest.mark.case("A16")
def test_a_name_is_visited_by_every_part_that_says_how_names_are() -> None:
    named = {"propertyNames": TEXT}

    assert visits({**named, "allOf": [named, {"propertyNames": {"not": TEXT}}]}) == 3 + 4


@pytest.mark.case("A16")
def test_names_that_are_required_count_as_ways_until_2000() -> None:
    assert visits({"required": [f"r{n}" for n in range(1_998)]}) == 2_000
    assert why({"required": [f"r{n}" for n in range(1_999)]}) == (
        "its schema could be held against one value in more than 2000 ways (2001), each constant that is no scalar and "
        "each required name counted"
    )


@pytest.mark.case("A16")
def test_what_it_takes_to_bound_a_schema_is_bounded_to_the_last_step() -> None:
    """A step for each part and each member it names; and for each branch, one more than there are names by then."""

    def branching(naming: int) -> dict[str, Any]:
        members = {f"m{n}": {} for n in range(4_182)}
        branches = [{"properties": {"m0": {}}}] * naming + [{}] * (716 - naming)
        return {"properties": members, "allOf": branches}

    assert 716 + 73 + 1 + 4_182 + 716 * (1 + 4_182) == 3_000_000
    assert visits(branching(73), max_depth=0) == 717
    assert why(branching(74), max_depth=0) == "its schema is too intricate to bound what validating would cost"


@pytest.mark.case("A16")
def test_what_lies_deeper_than_a_value_may_be_costs_nothing() -> None:
    doubling = {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}

    assert [visits(doubling, max_depth=depth) for depth in (1, 2, 3)] == [6, 16, 36]
