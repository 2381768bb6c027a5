"""Who speaks for which part of a value: where one does and where several do, and which places can be opened."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import ContractError
from placet.rules.contracts.schema_graph import Node
from placet.rules.contracts.schema_reading import read_graph
from placet.rules.contracts.schema_voices import Survey, is_flat, voices_of

TEXT: dict[str, Any] = {"type": "string"}
BOX: dict[str, Any] = {"type": "object", "properties": {"b": TEXT}}
SHARED: dict[str, Any] = {"$ref": "#/$defs/box"}
LIST: dict[str, Any] = {"type": "array"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
DEFINITIONS: dict[str, Any] = {
    "box": BOX,
    "text": TEXT,
    "tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}, "box": SHARED}},
}


def graph(schema: dict[str, Any]) -> Node:
    return read_graph({"$defs": DEFINITIONS, **schema}, ContractError)


def member(schema: Any) -> Node:
    return graph({"properties": {"x": schema}}).named["properties"]["x"]


def surveyed(schema: dict[str, Any], *opens: tuple[str, ...]) -> Survey:
    survey = Survey(ContractError)
    survey.visit(graph(schema), frozenset(opens))
    return survey


def told(schema: dict[str, Any], *opens: tuple[str, ...]) -> str:
    with pytest.raises(ContractError) as caught:
        surveyed(schema, *opens)
    return str(caught.value)


# ---------------------------------------------------------------- voices


def test_what_is_under_not_has_no_voice_and_under_one_of_and_if_a_refusal_may_make_more_be_accepted() -> None:
    schema = {
        "$ref": "#/$defs/box",
        "allOf": [{"allOf": [TEXT]}],
        "anyOf": [TEXT],
        "oneOf": [{"allOf": [TEXT]}],
        "not": {"allOf": [TEXT]},
        "if": {"anyOf": [TEXT]},
        "then": TEXT,
        "else": TEXT,
        "dependentSchemas": {"a": TEXT},
    }
    voices = [(voice.node.pointer, voice.adds_only) for voice in voices_of(graph(schema))]

    assert voices == [
        ("", True),
        ("/$defs/box", True),
        ("/allOf/0", True),
        ("/allOf/0/allOf/0", True),
        ("/anyOf/0", True),
        ("/oneOf/0", False),
        ("/oneOf/0/allOf/0", False),
        ("/if", False),
        ("/if/anyOf/0", False),
        ("/then", True),
        ("/else", True),
        ("/dependentSchemas/a", True),
    ]
    assert not any(voice.adds_only for voice in voices_of(graph(schema), adds_only=False))


@pytest.mark.parametrize(
    ("schema", "flat"),
    [
        (TEXT, True),
        (False, True),
        (True, False),
        ({}, False),
        (BOX, False),
        (LIST, False),
        (TEXTS, True),
        ({"items": TEXT}, False),
        ({"type": ["array", "null"], "items": TEXT}, False),
        ({"type": "array", "items": TEXTS}, False),
        ({"type": "array", "items": BOX}, False),
        (TEXTS | {"prefixItems": [BOX]}, False),
        (TEXTS | {"contains": BOX}, False),
        (TEXTS | {"unevaluatedItems": BOX}, False),
        (TEXTS | {"allOf": [{"minItems": 1}]}, False),
        ({"type": ["string", "null"]}, True),
        ({"type": ["string", "object"]}, False),
        ({"type": ["string", "array"]}, False),
        ({"enum": [1, "a", None, True, 0.5]}, True),
        ({"enum": [1, [2]]}, False),
        ({"enum": [{}]}, False),
        ({"const": 1}, True),
        ({"const": []}, False),
        ({"const": {"a": 1}}, False),
        ({"$ref": "#/$defs/text"}, True),
        (SHARED, False),
        ({"$ref": "#/$defs/box", "allOf": [{}, TEXT]}, True),
        ({"allOf": [{}, {}]}, False),
        ({"anyOf": [TEXT, {"type": "null"}]}, True),
        ({"anyOf": [TEXT, BOX]}, False),
        ({"anyOf": [BOX, TEXT]}, False),
        ({"oneOf": [TEXT, {"const": 1}]}, True),
        ({"anyOf": [TEXT, BOX], "oneOf": [TEXT]}, True),
        ({"not": BOX}, False),
    ],
    ids=lambda value: str(value)[:60],
)
def test_only_scalars_and_lists_of_scalars_hold_no_members(schema: Any, flat: bool) -> None:
    assert is_flat(member(schema)) is flat


# ---------------------------------------------------------------- several for one part


@pytest.mark.case("A15")
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {"a": BOX, "b": BOX}},
        {"properties": {"a": TEXT}, "allOf": [{"properties": {"a": BOX}}]},
        {"properties": {"a": BOX}, "allOf": [{"properties": {"a": TEXT}}]},
        {"properties": {"a": SHARED}, "allOf": [{"properties": {"a": SHARED}}]},
        {"anyOf": [{"properties": {"a": BOX}}, {"properties": {"b": BOX}}]},
        {"not": {"properties": {"a": BOX}}, "properties": {"a": BOX}},
        {"oneOf": [{"properties": {"a": TEXT}}, {"properties": {"a": TEXTS}}]},
        {"properties": {"a": BOX}, "additionalProperties": BOX},
        {"properties": {"a": BOX}, "patternProperties": {"^b": TEXT}},
        {"properties": {"a": BOX}, "allOf": [{"additionalProperties": TEXT}]},
        {"properties": {"a": BOX}, "allOf": [{"additionalProperties": True}, {"unevaluatedProperties": False}]},
        {"patternProperties": {"^a": SHARED, "^b": SHARED}, "additionalProperties": SHARED},
        {"properties": {"l": {"prefixItems": [BOX, BOX], "items": BOX}}},
        {"properties": {"l": {"items": BOX, "contains": TEXT}}},
        {"properties": {"l": {"unevaluatedItems": BOX}}},
        {"properties": {"l": {"items": TEXT, "allOf": [{"items": BOX}]}}},
        {"$ref": "#/$defs/tree"},
    ],
    ids=lambda value: str(value)[:80],
)
def test_where_one_speaks_for_each_part_standard_words_see_it(schema: dict[str, Any]) -> None:
    assert not surveyed(schema).is_intricate


INTRICATE: list[dict[str, Any]] = [
    {"properties": {"a": BOX}, "allOf": [{"properties": {"a": BOX}}]},
    {"properties": {"a": {}}, "allOf": [{"properties": {"a": BOX}}]},
    {"properties": {"a": SHARED}, "allOf": [{"properties": {"a": BOX}}]},
    {"oneOf": [{"properties": {"a": BOX}}]},
    {"oneOf": [{"allOf": [{"properties": {"a": SHARED}}]}]},
    {"type": "object", "if": {"properties": {"a": BOX}}},
    {"properties": {"a": BOX}, "patternProperties": {"^a": BOX}},
    {"properties": {"a": BOX}, "allOf": [{"patternProperties": {"^a": BOX}}]},
    {"properties": {"a": BOX}, "allOf": [{"additionalProperties": BOX}]},
    {"allOf": [{"unevaluatedProperties": BOX}], "properties": {"a": BOX}},
    {"patternProperties": {"^a": BOX, "^b": BOX}},
    {"patternProperties": {"^a": BOX}, "additionalProperties": BOX},
    {"patternProperties": {"^a": BOX}, "allOf": [{"unevaluatedProperties": BOX}]},
    {"additionalProperties": BOX, "unevaluatedProperties": BOX},
    {"properties": {"l": {"contains": BOX}}},
    {"properties": {"l": {"items": BOX, "contains": BOX}}},
    {"properties": {"l": {"prefixItems": [BOX], "unevaluatedItems": BOX}}},
    {"properties": {"l": {"items": BOX, "allOf": [{"items": BOX}]}}},
    {"properties": {"l": {"prefixItems": [BOX], "allOf": [{"items": BOX}]}}},
    {"properties": {"l": {"prefixItems": [TEXT, BOX], "allOf": [{"unevaluatedItems": BOX}]}}},
]


@pytest.mark.case("A15")
@pytest.mark.parametrize(
    "around",
    [
        lambda inner: inner,
        lambda inner: {"properties": {"z": TEXT, "a": inner}},
        lambda inner: {"additionalProperties": inner},
        lambda inner: {"unevaluatedProperties": inner},
        lambda inner: {"patternProperties": {"^z": TEXT, "^y": inner}},
        lambda inner: {"properties": {"l": {"items": inner}}},
        lambda inner: {"properties": {"l": {"prefixItems": [TEXT, inner, TEXT]}}},
        lambda inner: {"properties": {"l": {"unevaluatedItems": inner}}},
        lambda inner: {"dependentSchemas": {"a": inner}},
        lambda inner: {"anyOf": [TEXT, inner]},
    ],
    ids=["root", "member", "mapping", "unevaluated", "pattern", "items", "item", "other items", "dependent", "choice"],
)
@pytest.mark.parametrize("inner", INTRICATE, ids=lambda value: str(value)[:80])
def test_where_several_speak_for_one_part_no_standard_word_sees_them_all(inner: dict[str, Any], around: Any) -> None:
    assert surveyed(around(inner)).is_intricate


# ---------------------------------------------------------------- places to open


@pytest.mark.parametrize(
    ("schema", "path", "is_opened"),
    [
        ({}, (), True),
        ({"type": "string"}, (), False),
        ({"properties": {"a": BOX}}, ("a",), True),
        ({"properties": {"a": BOX}}, ("*",), True),
        ({"properties": {"a": BOX}}, ("b",), False),
        ({"properties": {"a": BOX}}, ("a", "b"), False),
        ({"properties": {"a": {"properties": {"c": BOX}}}}, ("a", "c"), True),
        ({"properties": {"a": {"properties": {"c": BOX}}}}, ("*", "*"), True),
        ({"properties": {"a": {"properties": {"c": BOX}}}}, ("c", "a"), False),
        ({"properties": {"a": {"properties": {"a": TEXT}}}}, ("a", "a"), False),
        ({"properties": {"a": {}}}, ("a",), True),
        ({"properties": {"a": LIST}}, ("a",), True),
        ({"properties": {"a": TEXTS}}, ("a",), False),
        ({"properties": {"a": {"items": BOX}}}, ("a", "*"), True),
        ({"properties": {"a": {"items": BOX}}}, ("a", "0"), False),
        ({"properties": {"a": {"prefixItems": [TEXT, BOX]}}}, ("a", "*"), True),
        ({"additionalProperties": BOX}, ("*",), True),
        ({"additionalProperties": BOX}, ("a",), False),
        ({"patternProperties": {"^a": BOX}}, ("*",), True),
        ({"allOf": [{"properties": {"a": BOX}}]}, ("a",), True),
        ({"additionalProperties": TEXT}, (), True),
        ({"$ref": "#/$defs/tree"}, ("next", "next", "next"), True),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_place_is_opened_where_an_object_or_an_untold_list_may_stand(
    schema: dict[str, Any], path: tuple[str, ...], is_opened: bool
) -> None:
    assert surveyed(schema, path).opened == ({path} if is_opened else set())


def test_several_places_are_opened_in_one_walk() -> None:
    schema = {"properties": {"a": BOX, "c": {"items": BOX}, "t": TEXT}}
    places = {(), ("a",), ("c", "*")}

    assert surveyed(schema, *places, ("t",), ("z",)).opened == places


@pytest.mark.case("A15")
@pytest.mark.parametrize(
    ("schema", "path", "place"),
    [
        ({"additionalProperties": False}, (), "/"),
        ({"properties": {"a": BOX | {"additionalProperties": False}}}, ("a",), "/a"),
        ({"properties": {"a": {"items": {"allOf": [BOX, {"additionalProperties": False}]}}}}, ("a", "*"), "/a/*"),
        ({"additionalProperties": TEXT, "anyOf": [{"additionalProperties": False}]}, (), "/"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_its_author_closed_is_not_opened(schema: dict[str, Any], path: tuple[str, ...], place: str) -> None:
    assert told(schema, path) == f"open_members names {place}, which its author closed"
    assert not surveyed(schema).opened


def test_of_several_places_that_their_author_closed_the_first_by_name_is_told() -> None:
    schema = {"properties": {"a": {"properties": {"b": BOX | {"additionalProperties": False}}}}}
    places = [("a", "b"), ("*", "b"), ("a", "*"), ("*", "*")]

    assert told(schema, *places) == "open_members names /*/*, which its author closed"
    assert told(schema, *places[:3]) == "open_members names /*/b, which its author closed"


# ---------------------------------------------------------------- what cannot be told


@pytest.mark.case("A15")
@pytest.mark.parametrize(
    ("schema", "is_unsure"),
    [
        ({"oneOf": [{"unevaluatedProperties": False}], "additionalProperties": True}, True),
        ({"oneOf": [{"unevaluatedProperties": False}], "unevaluatedProperties": {}}, True),
        ({"oneOf": [{"unevaluatedProperties": TEXT}], "allOf": [{"additionalProperties": True}]}, True),
        ({"if": {"unevaluatedProperties": True}}, True),
        ({"properties": {"a": {"if": {"unevaluatedProperties": True}}}}, True),
        ({"oneOf": [{"unevaluatedProperties": False}]}, False),
        ({"oneOf": [{"unevaluatedProperties": False}], "additionalProperties": TEXT}, False),
        ({"oneOf": [{"additionalProperties": False}], "additionalProperties": True}, False),
        ({"allOf": [{"unevaluatedProperties": False}], "additionalProperties": True}, False),
        ({"unevaluatedProperties": True}, False),
    ],
    ids=lambda value: str(value)[:80],
)
def test_what_is_left_unevaluated_decides_nothing_where_a_refusal_lets_in_more(
    schema: dict[str, Any], is_unsure: bool
) -> None:
    if is_unsure:
        assert (
            told(schema) == "its schema decides by what it leaves unevaluated inside oneOf or if, and cannot be closed"
        )
    else:
        surveyed(schema)


@pytest.mark.case("A16")
def test_a_hundred_thousand_steps_are_taken_and_not_one_more() -> None:
    """Each of 292 names and 337 patterns is a step, and so is each pattern for each name."""
    names: dict[str, Any] = {f"n{n}": TEXT for n in range(292)}
    parts: list[Any] = [{"patternProperties": {f"^p{n}": TEXT}} for n in range(337)]

    assert not surveyed({"properties": names, "allOf": parts}).is_intricate
    assert (
        told({"properties": names, "allOf": [*parts, {}]})
        == "its schema is too intricate to tell which members are known"
    )
