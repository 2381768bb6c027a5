"""A schema closed: word for word, as it is held against arguments, and as floats are held against it once more."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import ContractError
from placet.rules.contracts.schema_closing import (
    CLOSED_BY_ANNOTATION,
    EXACT_CONSTANTS,
    EXACT_TYPE,
    Enforced,
    closed,
    closed_by_annotation,
)
from placet.rules.contracts.schema_reading import read_graph

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
EXACTLY_WHOLE: dict[str, Any] = {"type": "integer", EXACT_TYPE: True}
BOX: dict[str, Any] = {"type": "object", "properties": {"b": TEXT}}
SHUT: dict[str, Any] = {"additionalProperties": False}
UNSEEN: dict[str, Any] = {"unevaluatedProperties": False}
ANYTHING: dict[str, Any] = {"additionalProperties": False, "items": {"$ref": "#/$defs/anything"}}
OF_ANYTHING: dict[str, Any] = {"$defs": {"anything": ANYTHING}}


def enforced(schema: dict[str, Any], *, opens: tuple[tuple[str, ...], ...] = ()) -> Enforced:
    return closed(read_graph({"type": "object", **schema}, ContractError), ContractError, open_members=opens)


@pytest.mark.parametrize(
    ("schema", "written", "exact"),
    [
        ({}, SHUT, SHUT),
        ({"properties": {"a": TEXT}}, {"properties": {"a": TEXT}} | SHUT, {"properties": {"a": TEXT}} | SHUT),
        (
            {"properties": {"a": WHOLE}, "additionalProperties": TEXT},
            {"properties": {"a": WHOLE}, "additionalProperties": TEXT},
            {"properties": {"a": EXACTLY_WHOLE}, "additionalProperties": TEXT},
        ),
        ({"additionalProperties": True}, SHUT, SHUT),
        ({"unevaluatedProperties": {}}, SHUT, SHUT),
        (
            {"properties": {"a": BOX}},
            {"properties": {"a": BOX | SHUT}} | SHUT,
            {"properties": {"a": BOX | SHUT}} | SHUT,
        ),
        ({"properties": {"a": {}}}, {"properties": {"a": ANYTHING}} | SHUT | OF_ANYTHING, None),
        ({"properties": {"a": True}}, {"properties": {"a": ANYTHING}} | SHUT | OF_ANYTHING, None),
        (
            {"properties": {"a": {"type": ["object", "null"]}}},
            {"properties": {"a": {"type": ["object", "null"]} | SHUT}} | SHUT,
            None,
        ),
        (
            {"properties": {"a": {"type": "array"}}},
            {"properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/anything"}}}} | SHUT | OF_ANYTHING,
            None,
        ),
        (
            {"properties": {"a": {"items": BOX, "type": "array"}}},
            {"properties": {"a": {"type": "array", "items": BOX | SHUT}}} | SHUT,
            None,
        ),
        (
            {"properties": {"a": {"type": "array", "prefixItems": [BOX]}}},
            {"properties": {"a": {"type": "array", "prefixItems": [BOX | SHUT], "items": {"$ref": "#/$defs/anything"}}}}
            | SHUT
            | OF_ANYTHING,
            None,
        ),
        (
            {"properties": {"a": {"type": "array", "allOf": [{"minItems": 1}]}}},
            {
                "properties": {
                    "a": {"type": "array", "allOf": [{"minItems": 1}], "unevaluatedItems": {"$ref": "#/$defs/anything"}}
                }
            }
            | SHUT
            | OF_ANYTHING,
            None,
        ),
        ({"allOf": [{"properties": {"a": TEXT}}]}, {"allOf": [{"properties": {"a": TEXT}}]} | UNSEEN, None),
        (
            {"properties": {"a": TEXT}, "allOf": [{"properties": {"b": WHOLE}, "required": ["b"]}]},
            {"properties": {"a": TEXT}, "allOf": [{"properties": {"b": WHOLE}, "required": ["b"]}]} | UNSEEN,
            {"properties": {"a": TEXT}, "allOf": [{"properties": {"b": EXACTLY_WHOLE}, "required": ["b"]}]} | UNSEEN,
        ),
        (
            {"anyOf": [{"properties": {"a": BOX}}, {"properties": {"b": TEXT}}]},
            {"anyOf": [{"properties": {"a": BOX | SHUT}}, {"properties": {"b": TEXT}}]} | UNSEEN,
            None,
        ),
        ({"if": {"properties": {"a": TEXT}}}, {"if": {"properties": {"a": TEXT}}} | UNSEEN, None),
        (
            {"if": {"required": ["a"]}, "then": {"properties": {"a": BOX}}, "else": {"properties": {"b": TEXT}}},
            {"if": {"required": ["a"]}, "then": {"properties": {"a": BOX | SHUT}}, "else": {"properties": {"b": TEXT}}}
            | UNSEEN,
            None,
        ),
        ({"not": {"properties": {"a": BOX}}}, {"not": {"properties": {"a": BOX}}} | SHUT, None),
        ({"not": {"additionalProperties": True}}, {"not": {"additionalProperties": True}} | SHUT, None),
        ({"propertyNames": {"pattern": "^a"}}, {"propertyNames": {"pattern": "^a"}} | SHUT, None),
        ({"patternProperties": {"^b": BOX}}, {"patternProperties": {"^b": BOX | SHUT}} | SHUT, None),
        (
            {"dependentSchemas": {"a": {"properties": {"b": BOX}}}},
            {"dependentSchemas": {"a": {"properties": {"b": BOX | SHUT}}}} | UNSEEN,
            None,
        ),
        (
            {"properties": {"next": {"$ref": "#"}}},
            {
                "properties": {"next": {"$ref": "#/$defs/root"}},
                **SHUT,
                "$defs": {"root": {"type": "object", "properties": {"next": {"$ref": "#/$defs/root"}}, **SHUT}},
            },
            None,
        ),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/d"}, "b": {"$ref": "#/$defs/d", "title": "t"}},
                "$defs": {"d": WHOLE, "unused": TEXT},
            },
            {
                "properties": {"a": {"$ref": "#/$defs/d"}, "b": {"$ref": "#/$defs/d", "title": "t"}},
                **SHUT,
                "$defs": {"d": WHOLE},
            },
            {
                "properties": {"a": {"$ref": "#/$defs/d"}, "b": {"$ref": "#/$defs/d"}},
                **SHUT,
                "$defs": {"d": EXACTLY_WHOLE},
            },
        ),
        (
            {
                "properties": {
                    "x": {"enum": [1, "a"]},
                    "y": {"const": 2},
                    "z": {"type": ["integer", "null"], "minimum": 1},
                }
            },
            {
                "properties": {
                    "x": {"enum": [1, "a"]},
                    "y": {"const": 2},
                    "z": {"type": ["integer", "null"], "minimum": 1},
                }
            }
            | SHUT,
            {
                "properties": {
                    "x": {"enum": [1, "a"], EXACT_CONSTANTS: [1, "a"]},
                    "y": {"const": 2, EXACT_CONSTANTS: [2]},
                    "z": {"type": ["integer", "null"], "minimum": 1, EXACT_TYPE: True},
                },
                **SHUT,
            },
        ),
        (
            {
                "title": "t",
                "description": "d",
                "properties": {"a": {"type": ["integer", "number"], "default": 1, "format": "int32"}},
            },
            {
                "title": "t",
                "description": "d",
                "properties": {"a": {"type": ["integer", "number"], "default": 1, "format": "int32"}},
            }
            | SHUT,
            {"properties": {"a": {"type": ["integer", "number"]}}} | SHUT,
        ),
    ],
    ids=lambda value: str(value)[:48],
)
def test_a_closed_schema_is_written_exactly_so(schema: Any, written: Any, exact: Any) -> None:
    found = enforced(schema)

    assert found.schema == {"type": "object", **written}
    assert found.exact == {"type": "object", **(exact or written)}
    assert found.members is None
    assert found.open_members == ()


@pytest.mark.parametrize(
    ("opens", "written"),
    [
        ((), {"properties": {"a": BOX | SHUT}} | SHUT),
        (((),), {"properties": {"a": BOX | SHUT}}),
        ((("a",),), {"properties": {"a": BOX}} | SHUT),
        (((), ("a",)), {"properties": {"a": BOX}}),
    ],
)
def test_an_opened_place_is_not_closed_and_every_other_is(opens: tuple[tuple[str, ...], ...], written: Any) -> None:
    found = enforced({"properties": {"a": BOX}}, opens=opens)

    assert found.schema == found.exact == {"type": "object", **written}
    assert found.open_members == opens


@pytest.mark.parametrize(
    ("schema", "written", "members"),
    [
        ({"properties": {"a": TEXT}}, {"properties": {"a": TEXT}}, {"properties": {"a": TEXT}}),
        ({"additionalProperties": True, "title": "t"}, {"title": "t"}, {}),
        (
            {"properties": {"a": TEXT}, "patternProperties": {"^b": WHOLE}, "additionalProperties": WHOLE},
            {"properties": {"a": TEXT}, "patternProperties": {"^b": WHOLE}, "additionalProperties": WHOLE},
            {
                "properties": {"a": True},
                "patternProperties": {"^b": True},
                "additionalProperties": WHOLE,
                "allOf": [{"properties": {"a": TEXT}, "patternProperties": {"^b": WHOLE}}],
            },
        ),
        (
            {"properties": {"a": TEXT}, "additionalProperties": WHOLE, "allOf": [{"required": ["a"]}]},
            {"properties": {"a": TEXT}, "additionalProperties": WHOLE, "allOf": [{"required": ["a"]}]},
            {
                "properties": {"a": True},
                "additionalProperties": WHOLE,
                "allOf": [{"properties": {"a": TEXT}}, {"required": ["a"]}],
            },
        ),
        ({"additionalProperties": WHOLE}, {"additionalProperties": WHOLE}, {"additionalProperties": WHOLE}),
        ({"if": {"required": ["a"]}}, {"if": {"required": ["a"]}}, {"if": {"required": ["a"]}, "then": True}),
        (
            {"if": {"required": ["a"]}, "then": BOX},
            {"if": {"required": ["a"]}, "then": BOX},
            {"if": {"required": ["a"]}, "then": BOX},
        ),
        (
            {"if": {"required": ["a"]}, "else": BOX},
            {"if": {"required": ["a"]}, "else": BOX},
            {"if": {"required": ["a"]}, "else": BOX},
        ),
    ],
    ids=lambda value: str(value)[:48],
)
def test_closed_by_annotation_nothing_is_added_and_what_looks_for_members_leaves_every_annotation(
    schema: Any, written: Any, members: Any
) -> None:
    found = closed_by_annotation(read_graph({"type": "object", **schema}, ContractError), (("x",),))

    assert found.schema == {"type": "object", CLOSED_BY_ANNOTATION: True, **written}
    assert CLOSED_BY_ANNOTATION not in found.exact
    assert found.members == {"type": "object", **members}
    assert found.open_members == (("x",),)
