"""Schemas of both versions become 2020-12, and nothing in them becomes wider than it was."""

from __future__ import annotations

from typing import Any

import pytest

from placet.model.json import JsonObject
from tests.openapi.conftest import a_body, answers, carried, why_unfit

pytestmark = pytest.mark.req("B035")


def sent(schema: Any, version: str, **components: Any) -> Any:
    """What becomes of a schema inside a body that is taken as it is."""
    found = carried(
        "post", requestBody=a_body({"type": "array", "items": schema}), version=version, components=components
    )
    properties: Any = found.arguments_schema["properties"]
    return properties["body"]["items"]


def received(schema: Any, version: str = "3.1.0") -> Any:
    properties: Any = carried(responses=answers(("200", schema)), version=version).result_schema["properties"]
    return properties["body"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"type": "integer", "nullable": True, "enum": [1, 2]}, {"type": ["integer", "null"], "enum": [1, 2]}),
        ({"allOf": [{"type": "string"}], "nullable": True}, {"allOf": [{"type": "string"}]}),
        ({"type": "number", "minimum": 3, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 3}),
        ({"type": "number", "minimum": 3, "exclusiveMinimum": False}, {"type": "number", "minimum": 3}),
        ({"type": "number", "maximum": 3, "exclusiveMaximum": True}, {"type": "number", "exclusiveMaximum": 3}),
        ({"type": "string", "example": "x", "xml": {"name": "y"}, "x-more": 1}, {"type": "string"}),
        (
            {"oneOf": [{"type": "string"}], "discriminator": {"propertyName": "kind"}},
            {"oneOf": [{"type": "string"}]},
        ),
    ],
)
def test_words_of_3_0_become_those_of_2020_12(written: JsonObject, meant: JsonObject) -> None:
    assert sent(written, "3.0.3") == meant


@pytest.mark.parametrize(
    ("schema", "version", "word"),
    [
        ({"const": 1}, "3.0.3", "OpenAPI 3.0 does not have"),
        ({"patternProperties": {}}, "3.0.3", "OpenAPI 3.0 does not have"),
        ({"type": ["string", "null"]}, "3.0.3", "type"),
        ({"type": "null"}, "3.0.3", "type"),
        ({"type": "number", "exclusiveMinimum": 3}, "3.0.3", "neither true nor false"),
        ({"$ref": "#/components/schemas/S", "maxLength": 3}, "3.0.3", "beside it"),
        ({"$id": "https://example.com/s"}, "3.1.0", "$id"),
        ({"$anchor": "s"}, "3.1.0", "$anchor"),
        ({"$dynamicRef": "#s"}, "3.1.0", "$dynamicRef"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "3.1.0", "dialect"),
        (17, "3.1.0", "not an object"),
        ({"properties": []}, "3.1.0", "properties"),
        ({"anyOf": {}}, "3.1.0", "anyOf"),
        ({"type": "string", "readOnly": "yes"}, "3.1.0", "readOnly"),
    ],
)
def test_words_that_would_be_weakened_are_refused(schema: Any, version: str, word: str) -> None:
    body = a_body({"type": "array", "items": {"type": "object", "properties": {"a": schema}}})
    why = why_unfit("post", requestBody=body, version=version, components={"schemas": {"S": {"type": "string"}}})
    assert word in why


def test_3_1_is_2020_12_as_it_stands() -> None:
    schema = {"type": ["string", "null"], "const": "a", "$ref": "#/components/schemas/S", "maxLength": 3}
    assert sent(schema, "3.1.0", schemas={"S": {"type": "string"}}) == {**schema, "$ref": "#/$defs/S"}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_what_the_service_alone_says_is_no_argument_and_what_is_only_sent_no_result(version: str) -> None:
    schema = {
        "type": "object",
        "required": ["id", "name", "secret"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string"},
            "secret": {"type": "string", "writeOnly": True},
        },
    }
    taken, told = sent(schema, version), received(schema, version)
    assert (list(taken["properties"]), taken["required"]) == (["name", "secret"], ["name", "secret"])
    assert (list(told["properties"]), told["required"]) == (["id", "name"], ["id", "name"])


def test_readonly_behind_a_reference_counts() -> None:
    schema = {"type": "object", "required": ["id"], "properties": {"id": {"$ref": "#/components/schemas/Id"}}}
    taken = sent(schema, "3.0.3", schemas={"Id": {"type": "integer", "readOnly": True}})
    assert taken == {"type": "object", "required": [], "properties": {}}


def test_two_parts_of_one_last_name_are_kept_apart() -> None:
    components = {"schemas": {"A": {"properties": {"S": {"type": "string"}}}, "S": {"type": "integer"}}}
    schema = {"anyOf": [{"$ref": "#/components/schemas/A/properties/S"}, {"$ref": "#/components/schemas/S"}]}
    found = carried("post", requestBody=a_body({"type": "array", "items": schema}), components=components)
    assert sorted(str(each) for each in found.arguments_schema["$defs"].values()) == [  # type: ignore[union-attr]
        "{'type': 'integer'}",
        "{'type': 'string'}",
    ]
