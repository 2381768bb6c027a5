"""Where the references of a JSON Schema lead: inside of its document, to one part, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import ContractError
from placet.rules.contracts.schema_graph import Node
from placet.rules.contracts.schema_reading import read_graph

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
DRAFT_07 = {"$schema": "http://json-schema.org/draft-07/schema#"}


def graph(schema: dict[str, Any]) -> Node:
    return read_graph(schema, ContractError)


def target(reference: str, schema: dict[str, Any], *, keyword: str = "$ref") -> str:
    """The place of what a reference at `/properties/x` leads to."""
    properties = {"x": {keyword: reference}, **schema.get("properties", {})}
    found = graph({**schema, "properties": properties}).named["properties"]["x"].reference
    assert found is not None
    return found.pointer


def why(schema: dict[str, Any]) -> str:
    with pytest.raises(ContractError) as caught:
        graph(schema)
    return str(caught.value)


DEFINED: dict[str, Any] = {
    "$id": "https://example.org/root",
    "$defs": {
        "a b": TEXT,
        "c/d~e": TEXT,
        "%25": TEXT,
        "anchored": {"$anchor": "here"},
        "dynamic": {"$dynamicAnchor": "there"},
        "inner": {
            "$id": "inner",
            "$defs": {"deep": TEXT, "anchored": {"$anchor": "here"}, "folder": {"$id": "more/leaf", "not": {}}},
        },
    },
    "definitions": {"older": TEXT},
    "items": {"allOf": [TEXT, {"not": TEXT}]},
}


@pytest.mark.parametrize(
    ("reference", "place"),
    [
        ("#", ""),
        ("", ""),
        ("root", ""),
        ("https://example.org/root#", ""),
        ("#/$defs/a b", "/$defs/a b"),
        ("#/$defs/a%20b", "/$defs/a b"),
        ("#/$defs/c~1d~0e", "/$defs/c~1d~0e"),
        ("#/$defs/%2525", "/$defs/%25"),
        ("#/definitions/older", "/definitions/older"),
        ("#/items/allOf/1/not", "/items/allOf/1/not"),
        ("#here", "/$defs/anchored"),
        ("#there", "/$defs/dynamic"),
        ("inner", "/$defs/inner"),
        ("inner#", "/$defs/inner"),
        ("/inner", "/$defs/inner"),
        ("inner#/$defs/deep", "/$defs/inner/$defs/deep"),
        ("#/$defs/inner/$defs/deep", "/$defs/inner/$defs/deep"),
        ("inner#here", "/$defs/inner/$defs/anchored"),
        ("more/leaf", "/$defs/inner/$defs/folder"),
        ("more/leaf#/not", "/$defs/inner/$defs/folder/not"),
        ("inner#/$defs/folder/not", "/$defs/inner/$defs/folder/not"),
    ],
)
def test_a_reference_is_followed_inside_of_the_document(reference: str, place: str) -> None:
    assert target(reference, DEFINED) == place


def test_a_reference_is_read_from_the_part_that_it_stands_in() -> None:
    schema = {
        "$defs": {"d": TEXT},
        "properties": {
            "x": {"$id": "urn:example:x", "$defs": {"d": WHOLE}, "allOf": [{"$ref": "#/$defs/d"}, {"$ref": "#"}]}
        },
    }
    found = [each.reference for each in graph(schema).named["properties"]["x"].several["allOf"]]

    assert [each.pointer for each in found if each] == ["/properties/x/$defs/d", "/properties/x"]


def test_an_id_that_is_only_a_fragment_is_an_anchor_of_draft_07() -> None:
    definitions = {"d": {"$id": "#here"}, "e": {"$id": "there", "properties": {"b": {"$id": "#here"}}}}

    for reference, place in (("#here", "/definitions/d"), ("there#here", "/definitions/e/properties/b")):
        assert target(reference, {**DRAFT_07, "definitions": definitions}) == place
    assert why({"$defs": definitions}) == "at /$defs/d of its schema $id has a fragment"


def test_a_dynamic_reference_is_followed_where_it_means_one_part() -> None:
    one = {"$defs": {"d": {"$dynamicAnchor": "n"}, "e": {"$anchor": "m"}, "f": {"$dynamicAnchor": "o"}}}
    two = {"$defs": {**one["$defs"], "g": {"$id": "g", "$dynamicAnchor": "n"}}}

    assert target("#n", one, keyword="$dynamicRef") == "/$defs/d"
    assert target("#m", two, keyword="$dynamicRef") == "/$defs/e"
    assert target("#/$defs/d", two, keyword="$dynamicRef") == "/$defs/d"
    assert target("#n", two) == "/$defs/d"
    assert why({**two, "$dynamicRef": "#n"}) == "its $dynamicRef '#n' could mean 2 of its parts; use $ref"


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (
            {"$ref": "https://example.org/other"},
            "its schema refers to 'https://example.org/other', which is not in it; placet fetches nothing, so put it "
            "under $defs",
        ),
        ({"$ref": "#/nowhere"}, "its schema refers to '#/nowhere', where it has no schema"),
        ({"$ref": "#nowhere"}, "its schema refers to '#nowhere', where it has no schema"),
        ({"$ref": "#/$defs", "$defs": {}}, "its schema refers to '#/$defs', where it has no schema"),
        ({"$ref": "#/enum/0", "enum": [{}]}, "its schema refers to '#/enum/0', where it has no schema"),
        ({"$ref": f"#{'a' * 100}"}, f"its schema refers to '#{'a' * 78}, where it has no schema"),
        ({"properties": {"a": {"$ref": 5}}}, "at /properties/a/$ref of its schema there is no text"),
        ({"properties": {"a": {"$dynamicRef": None}}}, "at /properties/a/$dynamicRef of its schema there is no text"),
        (
            {"properties": {"a": {"$ref": "#", "$dynamicRef": "#"}}},
            "at /properties/a of its schema there are two references",
        ),
        ({"properties": {"a": {"$id": 5}}}, "at /properties/a of its schema $id is not text"),
        ({"properties": {"a": {"$anchor": 5}}}, "at /properties/a of its schema $anchor is not text"),
        ({"properties": {"a": {"$dynamicAnchor": []}}}, "at /properties/a of its schema $dynamicAnchor is not text"),
        (
            {"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}},
            "two parts of its schema have the $id 'x'",
        ),
        (
            {"$defs": {"a": {"$anchor": "x"}, "b": {"$dynamicAnchor": "x"}}},
            "two parts of its schema have the anchor 'x'",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_name_that_leads_nowhere_or_to_several_parts_is_refused(schema: dict[str, Any], sentence: str) -> None:
    assert why(schema) == sentence


def test_a_part_with_the_id_of_what_is_around_it_is_a_part_of_that() -> None:
    schema = {"$id": "https://example.org/a", "$defs": {"d": {"$id": "a", "$defs": {"e": TEXT}}}}

    assert target("a", schema) == ""
    assert target("#/$defs/d/$defs/e", schema) == "/$defs/d/$defs/e"


def test_a_branch_without_a_condition_may_be_referred_to() -> None:
    assert target("#/then", {"then": TEXT}) == "/then"
