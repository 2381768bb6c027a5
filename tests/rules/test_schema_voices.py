"""Who speaks for a value: which types it may have, whether its items are told of, and what is a mapping."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import ContractError
from placet.rules.contracts.schema_graph import Node
from placet.rules.contracts.schema_reading import read_graph
from placet.rules.contracts.schema_voices import bare, beneath, covers_items, is_mere_reference, mapping, may_be

TEXT: dict[str, Any] = {"type": "string"}
LIST: dict[str, Any] = {"type": "array"}
ITEMS: dict[str, Any] = {"type": "array", "items": TEXT}
DEFINITIONS: dict[str, Any] = {
    "text": TEXT,
    "items": ITEMS,
    "list": LIST,
    "to_text": {"$ref": "#/$defs/text"},
    "noted": {"$ref": "#/$defs/text", "title": "a note"},
    "more": {"$ref": "#/$defs/text", "minLength": 1},
}


def node(schema: Any) -> Node:
    root = read_graph({"type": "object", "properties": {"x": schema}, "$defs": DEFINITIONS}, ContractError)
    return root.named["properties"]["x"]


@pytest.mark.parametrize(
    ("schema", "text", "array"),
    [
        (True, True, True),
        (False, False, False),
        ({}, True, True),
        (TEXT, True, False),
        ({"type": ["array", "string"]}, True, True),
        ({"$ref": "#/$defs/text"}, True, False),
        ({"type": "array", "$ref": "#/$defs/text"}, False, False),
        ({"allOf": [{}, TEXT]}, True, False),
        ({"allOf": [TEXT, LIST]}, False, False),
        ({"anyOf": [TEXT, LIST]}, True, True),
        ({"anyOf": [LIST, {"type": "null"}]}, False, True),
        ({"oneOf": [TEXT, {"type": "null"}]}, True, False),
        ({"anyOf": [TEXT, LIST], "oneOf": [LIST, {"type": "null"}]}, False, True),
        ({"anyOf": [TEXT], "allOf": [LIST]}, False, False),
        ({"not": TEXT}, True, True),
    ],
    ids=lambda value: str(value)[:48],
)
def test_a_type_may_be_unless_it_is_plain_that_it_may_not(schema: Any, text: bool, array: bool) -> None:
    assert may_be(node(schema), "string") is text
    assert may_be(node(schema), "array") is array


@pytest.mark.parametrize(
    ("schema", "covers"),
    [
        (TEXT, True),
        (False, True),
        (True, False),
        ({}, False),
        (LIST, False),
        (ITEMS, True),
        ({"unevaluatedItems": TEXT}, True),
        ({"prefixItems": [TEXT]}, False),
        ({"contains": TEXT}, False),
        ({"$ref": "#/$defs/items"}, True),
        ({"$ref": "#/$defs/list"}, False),
        ({"allOf": [LIST, ITEMS]}, True),
        ({"allOf": [LIST, {"minItems": 1}]}, False),
        ({"anyOf": [ITEMS, TEXT]}, True),
        ({"anyOf": [ITEMS, LIST]}, False),
        ({"anyOf": [LIST, ITEMS]}, False),
        ({"oneOf": [ITEMS, TEXT]}, True),
        ({"anyOf": [ITEMS, LIST], "oneOf": [ITEMS]}, True),
    ],
    ids=lambda value: str(value)[:48],
)
def test_items_are_covered_where_every_list_is_told_what_they_are(schema: Any, covers: bool) -> None:
    assert covers_items(node(schema)) is covers


@pytest.mark.parametrize(
    ("schema", "is_mere"),
    [
        ({"$ref": "#/$defs/text"}, True),
        ({"$ref": "#/$defs/text", "title": "t", "description": "d"}, True),
        ({"$ref": "#/$defs/text", "minLength": 1}, False),
        ({"$ref": "#/$defs/text", "not": {"const": "a"}}, False),
        ({"$ref": "#/$defs/text", "allOf": [{}]}, False),
        ({"$ref": "#/$defs/text", "properties": {"a": TEXT}}, False),
        (TEXT, False),
        ({}, False),
        (True, False),
    ],
)
def test_a_mere_reference_says_nothing_of_its_own(schema: Any, is_mere: bool) -> None:
    assert is_mere_reference(node(schema)) is is_mere


def test_what_mere_references_mean_is_found_behind_them_and_not_behind_others() -> None:
    text = node({"$ref": "#/$defs/text"}).reference

    assert bare(node({"$ref": "#/$defs/to_text"})) is not text  # another reading of the document
    for name in ("text", "to_text", "noted"):
        found = bare(node({"$ref": f"#/$defs/{name}"}))
        assert (found.pointer, found.reference) == ("/$defs/text", None)
    assert bare(node({"$ref": "#/$defs/more"})).pointer == "/$defs/more"
    assert bare(node(TEXT)).pointer == "/properties/x"


@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties"])
@pytest.mark.parametrize(
    ("said", "is_mapping"), [(TEXT, True), ({"anyOf": [TEXT, LIST]}, True), (True, False), ({}, False), (False, False)]
)
def test_a_mapping_declares_members_of_any_name(keyword: str, said: Any, is_mapping: bool) -> None:
    found = mapping(node({"type": "object", keyword: said}), keyword)

    assert (found is not None) is is_mapping
    assert found is None or found.pointer == f"/properties/x/{keyword}"
    assert mapping(node({"type": "object"}), keyword) is None


def test_what_is_opened_beneath_a_place_is_named_from_there() -> None:
    opens = frozenset({(), ("a",), ("a", "b"), ("*", "c"), ("d", "e")})

    assert beneath(opens, "a") == {(), ("b",), ("c",)}
    assert beneath(opens, "d") == {("e",), ("c",)}
    assert beneath(opens, "z") == {("c",)}
    assert beneath(frozenset(), "a") == frozenset()
