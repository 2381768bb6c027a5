"""What a schema declares at one place: exactly the schemas that hold there, generously where none can be told."""

from __future__ import annotations

from typing import Any

import pytest

from placet.model.json import JsonObject
from placet.rules.declared import ALL_TYPES, Declared

ARRAY: JsonObject = {"type": "array"}
TEXT: JsonObject = {"type": "string"}
NUMBERS: JsonObject = {"type": "array", "items": {"type": "number"}}
BOX: JsonObject = {"type": "object", "properties": {"box": NUMBERS}}


def types(schema: Any, root: Any = None) -> frozenset[str]:
    return Declared(root or {}).types(schema)


def member(schema: Any, name: str = "a", root: Any = None) -> list[Any]:
    found = Declared(root or {}).member(schema, name)
    assert isinstance(found, dict)
    assert found.keys() == {"anyOf"}
    return found["anyOf"]  # type: ignore[return-value]


def item(schema: Any, index: int = 0, root: Any = None) -> list[Any]:
    found = Declared(root or {}).item(schema, index)
    assert isinstance(found, dict)
    assert found.keys() == {"anyOf"}
    return found["anyOf"]  # type: ignore[return-value]


def test_there_are_six_types() -> None:
    assert {"object", "array", "string", "number", "boolean", "null"} == ALL_TYPES


# ---------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (None, "null"),
        (True, "boolean"),
        (False, "boolean"),
        (1, "number"),
        (1.5, "number"),
        ("", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_each_value_has_one_type(value: Any, type_: str) -> None:
    assert types({"const": value}) == {type_}
    assert types({"enum": [value]}) == {type_}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": ["array", "date"]}, {"array"}),
        ({"type": ["integer", "number"]}, {"number"}),
        ({"type": "array", "enum": [[1], "x"]}, {"array"}),
        ({"type": "string", "enum": [[1]]}, set()),
        ({"type": "string", "const": 1}, set()),
        ({"type": ["string", "null"], "const": None}, {"null"}),
        ({"type": ["string", "null"], "$ref": "#/$defs/Text"}, {"string"}),
        ({"type": "array", "$ref": "#/$defs/Text"}, set()),
        ({"oneOf": [ARRAY, {"type": "null"}]}, {"array", "null"}),
        ({"anyOf": [ARRAY, {"type": "null"}], "oneOf": [ARRAY, TEXT]}, {"array"}),
        ({"type": "string", "allOf": [ARRAY]}, set()),
        ({"allOf": [ARRAY, True]}, {"array"}),
        ({"anyOf": []}, set()),
        ({"allOf": []}, ALL_TYPES),
        ({"enum": "abc", "$ref": 1, "anyOf": {}, "oneOf": "x", "allOf": None}, ALL_TYPES),
        (None, ALL_TYPES),
        ("array", ALL_TYPES),
    ],
)
def test_what_is_said_together_holds_together(schema: Any, told: set[str]) -> None:
    assert types(schema, root={"$defs": {"Text": TEXT}}) == told


# ---------------------------------------------------------------- references


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("#", {"object"}),
        ("#/$defs/a~1b", {"array"}),
        ("#/$defs/m~0n", {"string"}),
        ("#/$defs/~01", {"null"}),
        ("#/$defs/deep/properties/box", {"array"}),
        ("#/$defs/gone", ALL_TYPES),
        ("#/$defs/deep/type/more", ALL_TYPES),
        ("#/$defs/deep/type/more/and/more", ALL_TYPES),
        ("elsewhere", ALL_TYPES),
        ("elsewhere#/$defs/m~0n", ALL_TYPES),
        ("#anchor", ALL_TYPES),
        ("#anchor/$defs", ALL_TYPES),
        ("", ALL_TYPES),
    ],
)
def test_a_reference_is_followed_inside_the_document_or_may_lead_to_anything(reference: str, told: set[str]) -> None:
    root = {
        "type": "object",
        "$defs": {"a/b": ARRAY, "m~n": TEXT, "~1": {"type": "null"}, "deep": BOX, "/": {"type": "boolean"}},
    }
    assert types({"$ref": reference}, root=root) == told


def test_a_reference_that_leads_back_to_itself_ends() -> None:
    root = {"$defs": {"Self": {"$ref": "#/$defs/Self"}, "Or": {"anyOf": [{"$ref": "#/$defs/Or"}, BOX]}}}

    assert types({"$ref": "#/$defs/Self"}, root=root) == ALL_TYPES
    assert member({"$ref": "#/$defs/Self"}, root=root) == []
    assert member({"$ref": "#/$defs/Or"}, "box", root=root) == [NUMBERS]


# ---------------------------------------------------------------- members


@pytest.mark.parametrize(
    ("schema", "inside"),
    [
        ({"type": "object", "properties": {"a": TEXT}}, [TEXT]),
        ({"properties": {"a": TEXT}}, [TEXT]),
        ({"type": "object", "properties": {"b": TEXT}}, [True]),
        ({"properties": {"b": TEXT}}, [True]),
        ({"type": "object", "properties": {"b": TEXT}, "additionalProperties": ARRAY}, [ARRAY]),
        ({"type": "object", "properties": {"b": TEXT}, "additionalProperties": False}, [False]),
        ({"additionalProperties": ARRAY}, [ARRAY]),
        ({"patternProperties": {"^x": TEXT, "^y": ARRAY}, "additionalProperties": False}, [TEXT, ARRAY, False]),
        ({"patternProperties": {"^x": TEXT}, "properties": {"a": ARRAY}}, [TEXT, ARRAY]),
        ({"patternProperties": {"^x": TEXT}}, [TEXT, True]),
        ({"type": "object"}, [True]),
        ({"type": ["object", "null"], "minProperties": 1}, [True]),
        ({"type": "string"}, []),
        ({"type": "array", "additionalProperties": TEXT}, []),
        ({}, []),
        ({"minProperties": 1}, []),
        (True, [True]),
        (False, []),
        ({"properties": [], "patternProperties": None, "additionalProperties": TEXT}, [TEXT]),
    ],
)
def test_what_may_stand_under_a_name(schema: Any, inside: list[Any]) -> None:
    assert member(schema) == inside


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_every_branch_that_takes_an_object_has_its_say_and_the_schema_around_them_only_where_it_says_members(
    keyword: str,
) -> None:
    one, other = {"properties": {"a": TEXT}}, {"properties": {"a": ARRAY}}
    for branches in (
        [one, TEXT, other],
        [TEXT, one, other],
        [one, other, TEXT],
        [one, False, other],
        [one, one, other],
    ):
        assert sorted(map(repr, member({keyword: branches}))) == sorted(map(repr, [TEXT, ARRAY]))
    around = {"type": "object", keyword: [one], "description": "d"}
    assert member(around) == [TEXT]
    assert sorted(map(repr, member({**around, "properties": {"a": ARRAY}}))) == sorted(map(repr, [TEXT, ARRAY]))
    assert member({keyword: [True]}) == [True]
    assert member({"type": "object", keyword: "odd"}) == []


def test_what_a_reference_leads_to_has_its_say() -> None:
    root = {"$defs": {"Box": BOX}}
    assert member({"$ref": "#/$defs/Box"}, "box", root=root) == [NUMBERS]
    assert member({"type": "object", "$ref": "#/$defs/Box"}, "box", root=root) == [NUMBERS]
    assert member({"$ref": "#/$defs/Box"}, "other", root=root) == [True]
    assert member({"$ref": "elsewhere"}, root=root) == [True]
    assert member({"$ref": "#/$defs/Gone"}, root=root) == [True]


# ---------------------------------------------------------------- items


@pytest.mark.parametrize(
    ("schema", "index", "inside"),
    [
        ({"type": "array", "items": TEXT}, 0, [TEXT]),
        ({"items": TEXT}, 7, [TEXT]),
        ({"type": "array", "prefixItems": [ARRAY, BOX], "items": TEXT}, 1, [BOX]),
        ({"type": "array", "prefixItems": [ARRAY, BOX], "items": TEXT}, 2, [TEXT]),
        ({"type": "array", "prefixItems": [ARRAY, BOX], "items": False}, 3, [False]),
        ({"prefixItems": [ARRAY]}, 0, [ARRAY]),
        ({"prefixItems": [ARRAY]}, 1, [True]),
        ({"prefixItems": {"0": ARRAY}, "items": TEXT}, 0, [TEXT]),
        ({"type": "array"}, 0, [True]),
        ({"type": ["array", "null"], "minItems": 1}, 0, [True]),
        ({"type": "object", "items": TEXT}, 0, []),
        ({"type": "string"}, 0, []),
        ({}, 0, []),
        (True, 0, [True]),
        (False, 0, []),
        ({"anyOf": [{"items": TEXT}, {"type": "object"}, {"items": BOX}]}, 0, [BOX, TEXT]),
        ({"anyOf": [{"type": "object"}, {"items": TEXT}, {"items": BOX}]}, 0, [BOX, TEXT]),
        ({"anyOf": [{"items": TEXT}, {"items": BOX}, {"type": "object"}]}, 0, [BOX, TEXT]),
        ({"type": "array", "anyOf": [{"items": TEXT}]}, 0, [TEXT]),
    ],
)
def test_what_may_stand_at_an_index(schema: Any, index: int, inside: list[Any]) -> None:
    assert item(schema, index) == inside
