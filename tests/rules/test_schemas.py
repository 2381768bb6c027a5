"""What is found in a JSON Schema by walking it: names, patterns, and where integers may be wide."""

from __future__ import annotations

from typing import Any

import pytest

from placet.rules.contracts.schemas import (
    floats_as_text,
    name_patterns,
    nodes,
    property_names,
    spoken_names,
    text_patterns,
    wide_paths,
)

WIDE: dict[str, Any] = {"type": "integer", "x-placet-wide": True}
TEXT: dict[str, Any] = {"type": "string"}
NODE: dict[str, Any] = {"$ref": "#/$defs/node"}


def test_every_object_of_a_schema_is_met_once_and_the_outer_before_the_inner() -> None:
    inner = {"enum": [1, {"c": 2}]}
    schema = {"a": [TEXT, [inner]], "b": {"d": "text"}, "e": 5}

    assert list(nodes(schema)) == [schema, TEXT, inner, {"c": 2}, {"d": "text"}]
    assert list(nodes([TEXT, 5])) == [TEXT]
    for other in (None, True, "text", 5):
        assert list(nodes(other)) == []


# ---------------------------------------------------------------- names and patterns


@pytest.mark.req("B028")
@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"properties": {"a": TEXT, "b": {"properties": {"c": TEXT}}}}, ["a", "b", "c"]),
        ({"items": [{"properties": {"a": TEXT}}]}, ["a"]),
        ({"properties": ["a"]}, []),
        ({"required": ["a", "b"]}, ["a", "b"]),
        ({"items": {"required": ["a", 5, None]}}, ["a"]),
        ({"required": "ab"}, []),
        ({"dependentRequired": {"a": ["b", "c"], "d": []}}, ["a", "b", "c", "d"]),
        ({"dependentRequired": ["a"]}, []),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, ["a", "b"]),
        ({"propertyNames": {"enum": ["a", 5]}}, ["a"]),
        ({"propertyNames": {"const": "a"}}, ["a"]),
        ({"propertyNames": {"const": 5}}, []),
        ({"propertyNames": {"anyOf": [{"const": "a"}, {"enum": ["b"]}]}}, ["a", "b"]),
        ({"enum": ["a"], "const": "b", "title": "c"}, []),
        ({}, []),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_name_is_spoken_wherever_a_schema_says_how_a_member_is_called(
    schema: dict[str, Any], names: list[str]
) -> None:
    assert list(spoken_names(schema)) == names


def test_a_declared_name_is_one_of_properties_at_any_depth() -> None:
    schema: dict[str, Any] = {
        "properties": {"a": {"anyOf": [{"properties": {"b": TEXT}}]}},
        "required": ["c"],
        "not": {"properties": 5},
    }

    assert list(property_names(schema)) == ["a", "b"]


@pytest.mark.parametrize(
    ("schema", "of_names", "of_texts"),
    [
        ({"patternProperties": {"^a": TEXT, "^b": {"pattern": "^c"}}}, ["^a", "^b"], ["^c"]),
        ({"propertyNames": {"pattern": "^a"}}, ["^a"], ["^a"]),
        ({"items": {"propertyNames": {"anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]}}}, ["^a", "^b"], ["^a", "^b"]),
        ({"pattern": "^a"}, [], ["^a"]),
        ({"patternProperties": ["^a"], "propertyNames": True, "pattern": 5}, [], []),
    ],
    ids=lambda value: str(value)[:60],
)
def test_patterns_of_names_are_told_from_those_of_texts(
    schema: dict[str, Any], of_names: list[str], of_texts: list[str]
) -> None:
    assert list(name_patterns(schema)) == of_names
    assert list(text_patterns(schema)) == of_texts


# ---------------------------------------------------------------- wide integers


@pytest.mark.case("A07")
@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        (WIDE, [()]),
        ({"x-placet-wide": False}, []),
        ({"x-placet-wide": 1}, []),
        ({"properties": {"a": WIDE, "b": TEXT, "c": {"properties": {"d": WIDE}}}}, [("a",), ("c", "d")]),
        ({"properties": {"a": {"items": WIDE}}}, [("a", "*")]),
        ({"properties": {"a": True, "b": False}}, []),
        ({"patternProperties": {"^a": TEXT, "^b": {"properties": {"c": WIDE}}}}, [("*", "c")]),
        ({"dependentSchemas": {"a": {"properties": {"b": WIDE}}}}, [("b",)]),
        *(({word: {"properties": {"b": WIDE}}}, [("b",)]) for word in ("if", "then", "else")),
        *(
            ({"properties": {"a": {word: WIDE}}}, [("a", "*")])
            for word in ("items", "contains", "additionalProperties", "unevaluatedItems", "unevaluatedProperties")
        ),
        ({"prefixItems": [TEXT, WIDE, {"items": WIDE}]}, [("*",), ("*", "*")]),
        *(({"properties": {"a": {word: [TEXT, WIDE]}}}, [("a",)]) for word in ("anyOf", "oneOf", "allOf")),
        ({"properties": 5, "patternProperties": [WIDE], "anyOf": WIDE, "items": 5}, []),
        ({"enum": [WIDE], "default": WIDE}, []),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_wide_integer_is_found_where_its_value_stands(schema: dict[str, Any], paths: list[tuple[str, ...]]) -> None:
    assert list(wide_paths(schema)) == paths


@pytest.mark.case("A07")
@pytest.mark.parametrize(
    ("definitions", "paths"),
    [
        ({"node": WIDE}, [("a",), ("b", "*")]),
        ({"node": {"$ref": "#/$defs/more"}, "more": {"$ref": "#/$defs/most"}, "most": WIDE}, [("a",), ("b", "*")]),
        ({"node": {"properties": {"v": WIDE, "next": NODE}}}, [("a", "v"), ("b", "*", "v")]),
        (
            {
                "node": {"properties": {"v": WIDE, "next": {"$ref": "#/$defs/back"}}},
                "back": {"properties": {"w": WIDE, "node": NODE}},
            },
            [("a", "next", "w"), ("a", "v"), ("b", "*", "next", "w"), ("b", "*", "v")],
        ),
        (
            {"node": {"properties": {"v": {"$ref": "#/$defs/more"}, "t": TEXT}}, "more": WIDE},
            [("a", "v"), ("b", "*", "v")],
        ),
        ({"node": {"items": [{"$ref": "#/$defs/more"}]}, "more": WIDE}, []),
        ({"node": TEXT, "other": WIDE}, []),
        ({"node": {"x-placet-wide": 1}, "other": WIDE}, []),
        ({"other": WIDE}, []),
        ([WIDE], []),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_reference_leads_to_the_wide_integers_of_its_definition_and_once_to_itself(
    definitions: Any, paths: list[tuple[str, ...]]
) -> None:
    schema = {"properties": {"a": NODE, "b": {"items": NODE}, "c": {"$ref": ["#/$defs/node"]}}, "$defs": definitions}

    assert sorted(wide_paths(schema)) == paths


@pytest.mark.case("A07")
@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (NODE, ()),
        *(({word: NODE}, ()) for word in ("if", "then", "else")),
        *(({word: [TEXT, NODE]}, ()) for word in ("anyOf", "oneOf", "allOf")),
        *(
            ({word: NODE}, ("*",))
            for word in ("items", "contains", "additionalProperties", "unevaluatedItems", "unevaluatedProperties")
        ),
        ({"prefixItems": [TEXT, NODE]}, ("*",)),
        ({"patternProperties": {"^a": NODE}}, ("*",)),
        ({"dependentSchemas": {"a": NODE}}, ()),
        ({"properties": {"a": NODE}}, ("a",)),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_reference_is_followed_from_wherever_it_stands(schema: dict[str, Any], path: tuple[str, ...]) -> None:
    assert list(wide_paths({**schema, "$defs": {"node": {"properties": {"v": WIDE}}}})) == [(*path, "v")]


@pytest.mark.case("A16")
def test_definitions_without_wide_integers_are_not_walked_however_many_ways_lead_through_them() -> None:
    ways: dict[str, Any] = {
        f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}}}
        for n in range(60)
    }
    start: dict[str, Any] = {"$ref": "#/$defs/d0"}

    assert list(wide_paths({"properties": {"a": start}, "$defs": ways})) == []
    assert list(wide_paths({"properties": {"a": start, "w": NODE}, "$defs": {**ways, "node": WIDE}})) == [("w",)]


# ---------------------------------------------------------------- identity


def test_a_float_of_a_schema_is_identified_by_its_text_and_nothing_else_changes() -> None:
    given: dict[str, Any] = {"a": [1.0, 1, True, None, "1.0"], "b": {"c": 1e300, "d": 0.1}, "e": False}

    assert repr(floats_as_text(given)) == repr(
        {"a": ["1.0", 1, True, None, "1.0"], "b": {"c": "1e+300", "d": "0.1"}, "e": False}
    )
