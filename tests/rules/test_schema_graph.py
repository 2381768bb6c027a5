"""What is plain to see of a schema without a value: whether it is anything, nothing, or which types it lets in."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import ContractError
from placet.rules.contracts.schema_bounds import MAX_IN_PLACE_DEPTH, refuse_costly
from placet.rules.contracts.schema_closing import closed
from placet.rules.contracts.schema_graph import Node, constants_of, kinds_of, open_path, reachable, shown_place
from placet.rules.contracts.schema_reading import read_graph

TEXT: dict[str, Any] = {"type": "string"}
ALL = ["array", "boolean", "integer", "null", "number", "object", "string"]
BUT_TEXT: dict[str, Any] = {"type": ["array", "boolean", "null", "number", "object"]}
DEFINITIONS: dict[str, Any] = {"text": TEXT, "any": {"anyOf": [{}]}, "none": {"not": {}}, "long": {"minLength": 1}}


def refusal(why: str) -> ContractError:
    return ContractError(why)


def node(schema: Any) -> Node:
    """The schema as it stands under a member `x`."""
    root = read_graph({"type": "object", "properties": {"x": schema}, "$defs": DEFINITIONS}, refusal)
    return root.named["properties"]["x"]


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"description": "d", "title": "t"},
        {"type": ALL},
        {"type": ["array", "boolean", "null", "number", "object", "string"]},
        {"allOf": [{}, True]},
        {"anyOf": [TEXT, True]},
        {"anyOf": [{"minLength": 1}, {}]},
        {"anyOf": [TEXT, BUT_TEXT]},
        {"anyOf": [False, TEXT, BUT_TEXT]},
        {"anyOf": [{"type": kind} for kind in ALL if kind != "integer"]},
        {"not": False},
        {"not": {"not": True}},
        {"$ref": "#/$defs/any"},
        {"if": TEXT},
    ],
)
def test_what_says_no_more_than_true_is_anything(schema: Any) -> None:
    assert node(schema).is_anything()
    assert node({"allOf": [schema]}).is_anything()
    assert not node({"allOf": [schema, TEXT]}).is_anything()
    assert not node({"allOf": [TEXT, schema]}).is_anything()


@pytest.mark.parametrize(
    "schema",
    [
        False,
        TEXT,
        BUT_TEXT,
        {"type": [kind for kind in ALL if kind not in ("number", "integer")] + ["integer"]},
        {"minLength": 1},
        {"type": ALL, "minLength": 1},
        {"enum": [1]},
        {"const": None},
        {"properties": {}},
        {"patternProperties": {}},
        {"items": True},
        {"additionalProperties": True},
        {"not": TEXT},
        {"not": True},
        {"not": {"$ref": "#/$defs/none"}},
        {"oneOf": [True]},
        {"prefixItems": [True]},
        {"anyOf": [TEXT]},
        {"anyOf": [TEXT, TEXT | {"minLength": 1}]},
        {"anyOf": [BUT_TEXT, TEXT | {"minLength": 1}]},
        {"anyOf": [BUT_TEXT, TEXT | {"not": {"const": "a"}}]},
        {"anyOf": [BUT_TEXT, TEXT | {"allOf": [{"minLength": 1}]}]},
        {"anyOf": [BUT_TEXT, TEXT | {"$ref": "#/$defs/long"}]},
        {"anyOf": [TEXT, BUT_TEXT | {"properties": {}}]},
        {"anyOf": [TEXT, BUT_TEXT | {"items": True}]},
        {"allOf": [{}, {"minLength": 1}]},
        {"anyOf": [BUT_TEXT, {"enum": ["a"]}]},
        {"anyOf": [False]},
        {"$ref": "#/$defs/text"},
        {"then": TEXT, "if": True},
        {"dependentSchemas": {"a": {}}},
    ],
)
def test_whatever_else_is_not_plainly_anything(schema: Any) -> None:
    assert node(schema).is_anything() is False


@pytest.mark.parametrize(
    ("schema", "is_nothing"),
    [(False, True), ({"not": {}}, True), ({"not": True}, True), (True, False), ({}, False), ({"not": TEXT}, False)],
)
def test_nothing_is_false_and_what_denies_anything(schema: Any, is_nothing: bool) -> None:
    assert node(schema).is_nothing() is is_nothing


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        (True, set(ALL)),
        (False, set()),
        ({}, set(ALL)),
        (TEXT, {"string"}),
        ({"type": "number"}, {"number", "integer"}),
        ({"type": "integer"}, {"integer"}),
        ({"const": None}, {"null"}),
        ({"enum": [True, 1, 1.5, "a", [], {}]}, set(ALL) - {"null"}),
        ({"type": ["string", "null"], "enum": ["a", 1]}, {"string"}),
        ({"const": 1.5}, {"integer", "number"}),
        ({"type": ["string", "null"], "$ref": "#/$defs/text"}, {"string"}),
        ({"type": ["null", "array"], "$ref": "#/$defs/text"}, set()),
        ({"type": ["string", "null"], "allOf": [TEXT]}, {"string"}),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"string", "null"}),
        ({"type": ["null"], "anyOf": [TEXT, {"type": "null"}]}, {"null"}),
        ({"oneOf": [TEXT, {"type": "null"}], "allOf": [{"type": ["null", "array"]}]}, {"null"}),
    ],
)
def test_types_and_constants_together_say_which_values_there_may_be(schema: Any, kinds: set[str]) -> None:
    assert kinds_of(node(schema)) == kinds


@pytest.mark.parametrize(
    ("schema", "constants"),
    [
        ({}, None),
        ({"const": None}, [None]),
        ({"enum": []}, []),
        ({"enum": [1, 2]}, [1, 2]),
        ({"const": 3, "enum": [1, 2]}, [3, 1, 2]),
    ],
)
def test_constants_are_told_one_by_one(schema: Any, constants: list[Any] | None) -> None:
    assert constants_of(node(schema)) == constants


# ---------------------------------------------------------------- neighbours

EVERYTHING: dict[str, Any] = {
    "$ref": "#/$defs/text",
    "allOf": [{}],
    "anyOf": [{}, {}],
    "oneOf": [{}],
    "not": {},
    "if": {},
    "then": {},
    "else": {},
    "dependentSchemas": {"a": {}},
    "items": {},
    "contains": {},
    "additionalProperties": {},
    "propertyNames": {},
    "unevaluatedItems": {},
    "unevaluatedProperties": {},
    "prefixItems": [{}, {}],
    "properties": {"a": {}, "b": {}},
    "patternProperties": {"^a": {}},
}
IN_PLACE = [
    ("$ref", "/$defs/text"), ("allOf", "/allOf/0"), ("anyOf", "/anyOf/0"), ("anyOf", "/anyOf/1"), ("oneOf", "/oneOf/0"),
    ("not", "/not"), ("if", "/if"), ("then", "/then"), ("else", "/else"), ("dependentSchemas", "/dependentSchemas/a"),
]  # fmt: skip
CHILDREN = [
    "/items", "/contains", "/additionalProperties", "/propertyNames", "/unevaluatedItems", "/unevaluatedProperties",
    "/prefixItems/0", "/prefixItems/1", "/properties/a", "/properties/b", "/patternProperties/^a",
]  # fmt: skip


def test_what_is_held_against_a_value_and_what_against_its_parts_are_told_apart() -> None:
    root = read_graph({**EVERYTHING, "$defs": DEFINITIONS}, refusal)

    assert [(keyword, child.pointer) for keyword, child in root.in_place()] == IN_PLACE
    assert [child.pointer for child in root.children()] == CHILDREN
    assert list(node({}).in_place()) == list(node(True).children()) == []


def test_every_part_that_validation_can_come_to_is_reached_once() -> None:
    root = read_graph({**EVERYTHING, "$defs": DEFINITIONS, "not": {"$ref": "#"}}, refusal)
    found = [each.pointer for each in reachable(root)]

    assert found[0] == ""
    assert sorted(found) == sorted(["", *(place for _, place in IN_PLACE), *CHILDREN])


@pytest.mark.parametrize(
    ("pointer", "shown"),
    [
        ("", "/"),
        ("/a~1b/~0", "/a~1b/~0"),
        ("/é\n", r"/\xe9\n"),
        ("/" + "a" * 127, "/" + "a" * 127),
        ("/" + "a" * 128, "/" + "a" * 124 + "..."),
    ],
)
def test_a_place_is_shown_in_128_printable_characters(pointer: str, shown: str) -> None:
    assert shown_place(pointer) == shown


@pytest.mark.parametrize(
    ("pointer", "path"),
    [
        ("", ()),
        ("/", ("",)),
        ("/a/b", ("a", "b")),
        ("/a~1b/m~0n", ("a/b", "m~n")),
        ("/~01", ("~1",)),
        ("/*/0", ("*", "0")),
    ],
)
def test_a_pointer_is_read_token_by_token(pointer: str, path: tuple[str, ...]) -> None:
    assert open_path(pointer) == path


# ---------------------------------------------------------------- in place


def row(length: int) -> dict[str, Any]:
    """So many parts held against one value, each inside the one before."""
    schema: dict[str, Any] = {"minLength": 1}
    for _ in range(length - 1):
        schema = {"allOf": [schema]}
    return schema


@pytest.mark.case("A16")
@pytest.mark.parametrize(
    "beside",
    [lambda deep: deep, lambda deep: {"anyOf": [TEXT, *deep["allOf"]]}, lambda deep: {"anyOf": [*deep["allOf"], TEXT]}],
)
def test_so_many_parts_may_be_held_against_one_value_inside_each_other_and_one_more_may_not(beside: Any) -> None:
    def read(length: int) -> Node:
        return read_graph({"type": "object", "properties": {"x": beside(row(length))}}, refusal)

    assert MAX_IN_PLACE_DEPTH == 48
    assert refuse_costly(read(48), refusal, max_depth=32, max_bytes=8192) > 0
    with pytest.raises(ContractError, match="holds more than 48 parts inside each other against one value"):
        refuse_costly(read(49), refusal, max_depth=32, max_bytes=8192)


@pytest.mark.case("A16")
@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?=" + "a" * 200, "cannot be matched in linear time within 49152 bytes"),
        (r"\b" + "a" * 200, "is read otherwise by ECMA-262"),
    ],
)
def test_a_pattern_that_is_refused_is_shown_as_far_as_80_characters(pattern: str, why: str) -> None:
    root = read_graph({"type": "object", "properties": {"x": {"pattern": pattern}}}, refusal)

    with pytest.raises(ContractError) as caught:
        refuse_costly(root, refusal, max_depth=32, max_bytes=8192)
    assert f"its pattern {ascii(pattern)[:80]} {why}" in str(caught.value)


# ---------------------------------------------------------------- definitions


def definitions(schema: dict[str, Any]) -> set[str]:
    return set(closed(read_graph(schema, refusal), refusal).schema.get("$defs", {}))


def test_a_definition_that_comes_back_has_the_last_part_of_its_place_for_a_name() -> None:
    def of(*names: str) -> dict[str, Any]:
        trees = {name: {"type": "object", "properties": {"next": {"$ref": f"#/$defs/{name}"}}} for name in names}
        members = {f"m{number}": {"$ref": f"#/$defs/{name}"} for number, name in enumerate(names)}
        return {"type": "object", "properties": members, "$defs": trees}

    assert definitions(of("Tree")) == {"Tree"}
    assert definitions(of("a b", "a_b")) == {"a_b", "a_b-2"}
    assert definitions(of("a b", "a_b", "a:b")) == {"a_b", "a_b-2", "a_b-3"}
    assert definitions(of("n" * 70)) == {"n" * 64}
    assert definitions({"type": "object", "properties": {"next": {"$ref": "#"}}}) == {"root"}
    assert definitions({"type": "object", "properties": {"a": TEXT}}) == set()
