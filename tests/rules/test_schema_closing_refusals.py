"""Why a JSON Schema cannot be closed, or a place of it not opened; and how its definitions are called once it is."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import ContractError
from placet.rules.contracts.schema_closing import closed, plain
from placet.rules.contracts.schema_reading import read_graph

TEXT: dict[str, Any] = {"type": "string"}
VAGUE: dict[str, Any] = {"minLength": 3}
BOX: dict[str, Any] = {"type": "object", "properties": {"b": TEXT}}


def written(schema: dict[str, Any], *opens: tuple[str, ...]) -> dict[str, Any]:
    return closed(read_graph(schema, ContractError), ContractError, open_members=opens).schema


def why(schema: dict[str, Any], *opens: tuple[str, ...]) -> str:
    with pytest.raises(ContractError) as caught:
        written(schema, *opens)
    return str(caught.value)


@pytest.mark.case("A14")
@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"additionalProperties": VAGUE}, "/additionalProperties"),
        ({"unevaluatedProperties": VAGUE}, "/unevaluatedProperties"),
        ({"items": {"additionalProperties": {"not": TEXT}}}, "/items/additionalProperties"),
        ({"properties": {"a": {"anyOf": [{"unevaluatedProperties": VAGUE}]}}},
         "/properties/a/anyOf/0/unevaluatedProperties"),
        ({"patternProperties": {"": VAGUE}}, "/patternProperties/"),
        ({"patternProperties": {"^a": VAGUE, "^.*$": VAGUE}}, "/patternProperties/^.*$"),
        ({"patternProperties": {"^[A-Za-z0-9_-]+$": {}}}, "/patternProperties/^[A-Za-z0-9_-]+$"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_members_of_any_name_of_which_nothing_is_said_are_refused(schema: dict[str, Any], place: str) -> None:
    assert why(schema) == (
        f"at {place} its schema lets in members of any name and of any type; name their types or constants, or leave "
        "it out and open the place with open_members"
    )


@pytest.mark.case("A14")
@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": True},
        {"additionalProperties": {}},
        {"additionalProperties": TEXT | VAGUE},
        {"additionalProperties": {"enum": [1, "a"]}},
        {"patternProperties": {"^x-": VAGUE}},
        {"patternProperties": {".*": TEXT}},
        {"properties": {"a": VAGUE}},
        {"propertyNames": VAGUE},
        {"items": VAGUE},
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_says_nothing_or_names_types_or_names_is_closed(schema: dict[str, Any]) -> None:
    assert written(schema)


@pytest.mark.parametrize(
    ("schema", "path", "place"),
    [
        ({"type": "object", "properties": {"a": TEXT}}, ("a",), "/a"),
        ({"type": "object", "properties": {"a": BOX}}, ("b",), "/b"),
        ({"type": "string"}, (), "/"),
    ],
)
def test_a_place_without_an_object_is_not_opened(schema: dict[str, Any], path: tuple[str, ...], place: str) -> None:
    assert why(schema, path) == f"open_members names {place}, where its schema has no object to open"


def test_a_place_that_its_author_closed_is_not_opened() -> None:
    assert why({"additionalProperties": False}, ()) == "open_members names /, which its author closed"


@pytest.mark.case("A15")
def test_a_mapping_of_what_is_left_is_refused_where_several_speak_for_one_object() -> None:
    several = {"properties": {"a": BOX}, "allOf": [{"properties": {"a": BOX}}]}

    assert why({**several, "unevaluatedProperties": TEXT}) == (
        "its unevaluatedProperties is a mapping among parts that speak for one object; write it as one"
    )
    for said in ({"unevaluatedProperties": False}, {"additionalProperties": TEXT}, {}):
        assert written({**several, **said})["x-placet-closed"] is True


def test_a_schema_is_written_as_its_author_wrote_it_with_what_it_permits() -> None:
    schema = {"type": "object", "additionalProperties": True, "properties": {"a": {"unevaluatedProperties": {}}}}

    assert plain(read_graph(schema, ContractError)) == schema


def test_definitions_of_one_name_are_numbered() -> None:
    schema = {
        "$defs": {"d": BOX, "e": {"$defs": {"d": TEXT | {"minLength": 1}}}, "f": {"$defs": {"d": TEXT}}},
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/d"},
            "b": {"$ref": "#/$defs/e/$defs/d"},
            "c": {"$ref": "#/$defs/f/$defs/d"},
        },
    }
    found = written(schema)

    assert found["properties"] == {
        "a": {"$ref": "#/$defs/d"},
        "b": {"$ref": "#/$defs/d-2"},
        "c": {"$ref": "#/$defs/d-3"},
    }
    assert found["$defs"] == {"d": BOX | {"additionalProperties": False}, "d-2": TEXT | {"minLength": 1}, "d-3": TEXT}
