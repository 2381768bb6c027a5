"""The strict form of one schema: what is said, what is left out, and why there may be none, place by place."""

from __future__ import annotations

from typing import Any

import pytest

from placet.model.json import JsonObject
from placet.model.projection import Why
from placet.rules.projections.sizes import sizes
from placet.rules.projections.strict import StrictForm, strict_form
from placet.rules.projections.subsets import ANTHROPIC, OPENAI, Subset

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
BOX: dict[str, Any] = {"type": "object", "properties": {"b": TEXT}, "required": ["b"], "additionalProperties": False}
SHUT: dict[str, Any] = {"additionalProperties": False}


def form(member: Any, subset: Subset = ANTHROPIC, **more: Any) -> StrictForm:
    """The strict form of an object with one required member `x`."""
    schema: JsonObject = {"type": "object", "properties": {"x": member}, "required": ["x"], **SHUT, **more}
    return strict_form(schema, subset)


def gaps(found: tuple[Any, ...]) -> list[tuple[str, str, Why]]:
    return [(gap.pointer, gap.keyword, gap.why) for gap in found]


DEFINITIONS: dict[str, Any] = {
    "$defs": {
        "box": BOX,
        "a/b": TEXT,
        "to": {"$ref": "#/$defs/box"},
        "loop": {"$ref": "#/$defs/pool"},
        "pool": {"$ref": "#/$defs/loop"},
        "no": "schema",
        "tree": {"type": "object", "properties": {"t": {"$ref": "#/$defs/tree"}}, "required": ["t"], **SHUT},
    }
}


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (TEXT, TEXT),
        ({"type": "string", "description": "d", "title": "t", "default": "x"}, {"type": "string", "description": "d"}),
        ({"type": "string", "description": 1}, TEXT),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "array", "items": WHOLE}, {"type": "array", "items": WHOLE}),
        (BOX, BOX),
        ({"type": ["array", "null"], "items": TEXT}, {"anyOf": [{"type": "array", "items": TEXT}, {"type": "null"}]}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"enum": ["a", 1, None]}, {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
        ({"enum": ["a", 1, 1.5], "type": "number"}, {"type": ["integer", "number"], "enum": [1, 1.5]}),
        ({"enum": [True, 1], "type": "integer"}, {"type": "integer", "enum": [1]}),
        ({"const": 1}, {"type": "integer", "enum": [1]}),
        ({"const": None}, {"type": "null", "enum": [None]}),
        ({"anyOf": [TEXT, WHOLE]}, {"anyOf": [TEXT, WHOLE]}),
        ({"allOf": [TEXT]}, TEXT),
        ({"anyOf": [TEXT], "unevaluatedProperties": False}, {"anyOf": [TEXT]}),
    ],
)
@pytest.mark.parametrize("subset", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_what_can_be_said_is_said_and_nothing_is_left_out(member: Any, said: Any, subset: Subset) -> None:
    found = form(member, subset)

    assert found.hint["properties"] == {"x": said}
    assert (found.left_out, found.reasons) == ((), ())


@pytest.mark.parametrize(
    ("member", "said", "left_out"),
    [
        ({"type": "string", "minLength": 1, "maxLength": 2}, TEXT, ["minLength", "maxLength"]),
        ({"type": "string", "not": {"const": "a"}}, TEXT, ["not"]),
        (
            {"type": ["string", "integer"], "minLength": 1, "minimum": 2},
            {"type": ["string", "integer"]},
            ["minLength", "minimum"],
        ),
        ({"type": "array", "items": TEXT, "uniqueItems": True}, {"type": "array", "items": TEXT}, ["uniqueItems"]),
        ({"oneOf": [TEXT, WHOLE]}, {"anyOf": [TEXT, WHOLE]}, ["oneOf"]),
        ({"enum": ["a"], "const": "a"}, {"type": "string", "enum": ["a"]}, ["const"]),
        ({"enum": ["a"], "minLength": 1}, {"type": "string", "enum": ["a"]}, ["minLength"]),
        (BOX | {"minProperties": 1}, BOX, ["minProperties"]),
        (BOX | {"anyOf": [{"required": ["b"]}]}, BOX, ["anyOf"]),
        (BOX | {"allOf": [{"properties": {"b": {"minLength": 1}}}, True]}, BOX, ["allOf"]),
        (BOX | {"if": {"required": ["b"]}, "then": {"minProperties": 1}}, BOX, ["if", "then"]),
        (BOX | {"dependentSchemas": {"b": {"minProperties": 1}}}, BOX, ["dependentSchemas"]),
        ({"$ref": "#/$defs/box", "minProperties": 1, "enum": [1]}, {"$ref": "#/$defs/box"}, ["minProperties", "enum"]),
    ],
)
def test_a_bound_that_cannot_be_said_is_left_out_and_noted_where_it_stood(
    member: Any, said: Any, left_out: list[str]
) -> None:
    found = form(member, **DEFINITIONS)

    assert found.hint["properties"] == {"x": said}
    assert gaps(found.left_out) == [("/properties/x", keyword, Why.KEYWORD_UNSUPPORTED) for keyword in left_out]
    assert found.reasons == ()


AT = "/properties/x"


@pytest.mark.parametrize(
    ("member", "reasons"),
    [
        (True, [(AT, "type", Why.TYPE_NOT_SAID)]),
        ({}, [(AT, "type", Why.TYPE_NOT_SAID)]),
        ({"type": "date"}, [(AT, "type", Why.TYPE_NOT_SAID)]),
        ({"type": "array"}, [(f"{AT}/items", "type", Why.TYPE_NOT_SAID)]),
        (
            {"type": "array", "items": {"type": "array", "items": True}},
            [(f"{AT}/items/items", "type", Why.TYPE_NOT_SAID)],
        ),
        ({"type": "array", "prefixItems": [TEXT]}, [(AT, "prefixItems", Why.KEYWORD_UNSUPPORTED)]),
        (BOX | {"patternProperties": {"^a": TEXT}}, [(AT, "patternProperties", Why.KEYWORD_UNSUPPORTED)]),
        ({"type": "object", "properties": {}}, [(AT, "additionalProperties", Why.MEMBERS_OPEN)]),
        ({"type": "object", "additionalProperties": TEXT}, [(AT, "additionalProperties", Why.MEMBERS_OPEN)]),
        ({"type": "object", **SHUT, "unevaluatedProperties": True}, [(AT, "unevaluatedProperties", Why.MEMBERS_OPEN)]),
        (BOX | {"required": ["b", "c"]}, [(AT, "required", Why.MEMBERS_OPEN)]),
        (BOX | {"required": "b"}, [(AT, "required", Why.MEMBERS_OPEN)]),
        (BOX | {"properties": []}, [(AT, "required", Why.MEMBERS_OPEN)]),
        (
            BOX | {"properties": {"a/b~c": True}, "required": []},
            [(f"{AT}/properties/a~1b~0c", "type", Why.TYPE_NOT_SAID)],
        ),
        ({"enum": [[1], "a"]}, [(AT, "enum", Why.VALUE_NOT_SCALAR)]),
        ({"enum": ["a"], "type": "integer"}, [(AT, "enum", Why.VALUE_NOT_SCALAR)]),
        ({"enum": "abc"}, [(AT, "enum", Why.VALUE_NOT_SCALAR)]),
        ({"const": {"a": 1}}, [(AT, "const", Why.VALUE_NOT_SCALAR)]),
        ({"allOf": [TEXT, {"minLength": 1}]}, [(AT, "allOf", Why.KEYWORD_UNSUPPORTED)]),
        ({"anyOf": [TEXT], "type": "string", "oneOf": [{"items": TEXT}]}, [(AT, "oneOf", Why.KEYWORD_UNSUPPORTED)]),
        ({"anyOf": [TEXT], "minLength": 1}, [(AT, "anyOf", Why.KEYWORD_UNSUPPORTED)]),
        ({"anyOf": [TEXT], "unevaluatedProperties": TEXT}, [(AT, "anyOf", Why.KEYWORD_UNSUPPORTED)]),
        ({"anyOf": {"a": TEXT}}, [(AT, "anyOf", Why.KEYWORD_UNSUPPORTED)]),
        ({"anyOf": [TEXT, {}]}, [(f"{AT}/anyOf/1", "type", Why.TYPE_NOT_SAID)]),
        ({"allOf": [{}]}, [(f"{AT}/allOf/0", "type", Why.TYPE_NOT_SAID)]),
        (BOX | {"anyOf": [{"properties": {"c": TEXT}}]}, [(AT, "anyOf", Why.KEYWORD_UNSUPPORTED)]),
        (BOX | {"if": {"items": TEXT}}, [(AT, "if", Why.KEYWORD_UNSUPPORTED)]),
        (
            BOX | {"dependentSchemas": {"b": {"properties": {"c": TEXT}}}},
            [(AT, "dependentSchemas", Why.KEYWORD_UNSUPPORTED)],
        ),
        ({"$ref": "#/$defs/gone"}, [(AT, "$ref", Why.REFERENCE_NOT_FOLLOWED)]),
        ({"$ref": "#/$defs/no"}, [(AT, "$ref", Why.REFERENCE_NOT_FOLLOWED)]),
        ({"$ref": "#/$defs/loop"}, [(AT, "$ref", Why.REFERENCE_NOT_FOLLOWED)]),
        ({"$ref": "#/definitions/box"}, [(AT, "$ref", Why.REFERENCE_NOT_FOLLOWED)]),
        ({"$ref": "box"}, [(AT, "$ref", Why.REFERENCE_NOT_FOLLOWED)]),
        ({"$ref": "#/$defs/box/properties"}, [(AT, "$ref", Why.REFERENCE_NOT_FOLLOWED)]),
        ({"$ref": "a/b"}, [(AT, "$ref", Why.REFERENCE_NOT_FOLLOWED)]),
        ({"$ref": 1}, [(AT, "$ref", Why.REFERENCE_NOT_FOLLOWED)]),
        ({"$ref": "#/$defs/box", "properties": {"c": TEXT}}, [(AT, "$ref", Why.REFERENCE_NOT_FOLLOWED)]),
        ({"$ref": "#/$defs/box", "unevaluatedProperties": True}, [(AT, "$ref", Why.REFERENCE_NOT_FOLLOWED)]),
        ({"$ref": "#"}, [(AT, "$ref", Why.RECURSIVE)]),
        ({"$ref": "#/$defs/tree"}, [("/$defs/tree/properties/t", "$ref", Why.RECURSIVE)]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_said_is_the_reason_against_it_at_its_place(member: Any, reasons: Any) -> None:
    assert gaps(form(member, **DEFINITIONS).reasons) == reasons


def test_a_definition_is_said_once_under_its_own_name_however_it_is_escaped() -> None:
    found = form({"type": "array", "items": {"$ref": "#/$defs/a~1b"}}, **DEFINITIONS)
    assert found.hint["$defs"] == {"a/b": TEXT}
    assert found.hint["properties"] == {"x": {"type": "array", "items": {"$ref": "#/$defs/a~1b"}}}
    assert form({"$ref": "#/$defs/a%2Fb"}, **DEFINITIONS).hint["$defs"] == {"a/b": TEXT}
    assert form({"$ref": "#/$defs/to"}, **DEFINITIONS).hint["$defs"] == {"to": {"$ref": "#/$defs/box"}, "box": BOX}
    noted = form({"$ref": "#/$defs/box", "description": "d"}, **DEFINITIONS)
    assert noted.hint["properties"] == {"x": {"anyOf": [{"$ref": "#/$defs/box"}], "description": "d"}}
    assert "$defs" not in form(TEXT, **DEFINITIONS).hint


def test_where_definitions_may_recur_they_do() -> None:
    assert form({"$ref": "#"}, OPENAI).hint["properties"] == {"x": {"$ref": "#"}}
    found = form({"$ref": "#/$defs/tree"}, OPENAI, **DEFINITIONS)
    assert (found.reasons, list(found.hint["$defs"])) == ((), ["tree"])


@pytest.mark.parametrize(
    ("member", "is_absence"),
    [
        ({"type": ["string", "null"], "default": None}, True),
        ({"type": ["string", "null"]}, False),
        ({"type": ["string", "null"], "default": "a"}, False),
        ({"type": "string", "default": None}, False),
        ({"anyOf": [TEXT, {"type": "null"}], "default": None}, True),
        ({"anyOf": [TEXT, WHOLE], "default": None}, False),
        ({"oneOf": [TEXT, {"type": "null"}], "default": None}, True),
        ({"oneOf": [TEXT, WHOLE], "default": None}, False),
        ({"allOf": [{"type": ["string", "null"]}], "default": None}, True),
        ({"allOf": [TEXT], "default": None}, False),
        ({"enum": ["a", None], "default": None}, True),
        ({"enum": ["a"], "default": None}, False),
        ({"const": None, "default": None}, True),
        ({"const": "a", "default": None}, False),
        ({"$ref": "#/$defs/perhaps", "default": None}, True),
        ({"$ref": "#/$defs/a~1b", "default": None}, False),
    ],
)
def test_where_absence_is_said_as_null_a_member_may_be_left_out_if_null_means_just_that(
    member: Any, is_absence: bool
) -> None:
    definitions = {"$defs": {**DEFINITIONS["$defs"], "perhaps": {"type": ["string", "null"]}}}
    found = form(member, OPENAI, required=[], **definitions)

    assert ((AT, "required", Why.ABSENCE_IS_NOT_NULL) not in gaps(found.reasons)) is is_absence
    assert found.hint["required"] == ["x"]
    assert form(member, ANTHROPIC, required=[], **definitions).hint["required"] == []


def test_what_is_counted_is_counted_in_all() -> None:
    hint: JsonObject = {
        "type": "object",
        "properties": {"ab": {"enum": ["xyz", 1]}, "c": {"anyOf": [TEXT, WHOLE]}},
        "required": ["ab"],
        "$defs": {"defs": {"type": ["string", "null"]}},
    }

    assert sizes(hint)["name_characters"] == 3 + 3 + 4
    assert (sizes(hint)["members"], sizes(hint)["optional_members"], sizes(hint)["enum_values"]) == (2, 1, 2)


NUMBERS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
BOUNDS: dict[str, list[str]] = {
    "string": ["pattern", "format", "minLength", "maxLength"],
    "number": NUMBERS,
    "integer": NUMBERS,
    "array": ["minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"],
    "object": ["minProperties", "maxProperties", "propertyNames", "dependentRequired"],
}


@pytest.mark.parametrize(("kind", "bound"), [(kind, bound) for kind, bounds in BOUNDS.items() for bound in bounds])
def test_every_bound_is_said_or_noted_and_never_lost(kind: str, bound: str) -> None:
    shape = {"array": {"items": TEXT}, "object": {"properties": {}, **SHUT}}.get(kind, {})
    found = form({"type": kind, **shape, bound: 77}, ANTHROPIC)

    assert gaps(found.left_out) == [(AT, bound, Why.KEYWORD_UNSUPPORTED)]
    beside = form({"$ref": "#/$defs/box", bound: 77}, ANTHROPIC, **DEFINITIONS)
    assert gaps(beside.left_out) == [(AT, bound, Why.KEYWORD_UNSUPPORTED)]
    assert beside.reasons == ()


@pytest.mark.parametrize(
    "keyword", ["patternProperties", "prefixItems", "dependencies", "$dynamicRef", "$recursiveRef"]
)
def test_what_says_what_may_be_inside_and_cannot_be_said_is_a_reason(keyword: str) -> None:
    assert gaps(form(BOX | {keyword: {}}).reasons) == [(AT, keyword, Why.KEYWORD_UNSUPPORTED)]
    assert gaps(form({"anyOf": [TEXT], "required": ["b"]}).reasons) == [(AT, "anyOf", Why.KEYWORD_UNSUPPORTED)]
    beside = form({"$ref": "#/$defs/box", "not": {}}, **DEFINITIONS)
    assert gaps(beside.left_out) == [(AT, "not", Why.KEYWORD_UNSUPPORTED)]


def test_a_definition_is_found_by_its_pointer_alone() -> None:
    definitions = {"$defs": {"a/b/c": TEXT}}

    assert gaps(form({"$ref": "a/b/c"}, **definitions).reasons) == [(AT, "$ref", Why.REFERENCE_NOT_FOLLOWED)]


def test_as_much_as_a_provider_takes_is_taken_and_one_more_is_not() -> None:
    def optional(count: int) -> StrictForm:
        return strict_form({"type": "object", "properties": {f"x{n}": TEXT for n in range(count)}, **SHUT}, ANTHROPIC)

    assert optional(24).reasons == ()
    assert gaps(optional(25).reasons) == [("", "optional_members", Why.TOO_LARGE)]
