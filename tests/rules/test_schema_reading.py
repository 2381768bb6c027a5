"""A JSON Schema becomes a graph: what is read of it, where its references lead, and why it is not read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placet.errors import ContractError
from placet.rules.contracts.schema_closing import plain
from placet.rules.contracts.schema_graph import Node, reachable
from placet.rules.contracts.schema_reading import read_graph, read_schema

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
DRAFT_07 = {"$schema": "http://json-schema.org/draft-07/schema#"}
DRAFT_2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def graph(schema: dict[str, Any], **type_names: str) -> Node:
    return read_graph(schema, ContractError, type_names=type_names)


def why(schema: dict[str, Any], **type_names: str) -> str:
    with pytest.raises(ContractError) as caught:
        graph(schema, **type_names)
    return str(caught.value)


def why_not_read(given: object) -> str:
    with pytest.raises(ContractError) as caught:
        read_schema(given, ContractError, "result")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return str(caught.value)


# ---------------------------------------------------------------- the text


def test_values_text_and_bytes_are_read_alike() -> None:
    schema = {"type": "object", "properties": {"ü": {"maximum": 1.5}}}

    for given in (schema, json.dumps(schema), json.dumps(schema).encode()):
        assert read_schema(given, ContractError, "arguments") == schema


@pytest.mark.case("A07")
def test_bounds_of_a_schema_may_be_wide_at_every_depth() -> None:
    deep: Any = 2**70
    for _ in range(63):
        deep = [deep]

    assert read_schema({"maximum": 2**70}, ContractError, "arguments") == {"maximum": 2**70}
    assert read_schema({"enum": deep}, ContractError, "arguments") == {"enum": deep}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ('{"a":{"b":1,"b":2}}', "duplicate member at /a/b"),
        ("[]", "not an object at /"),
        ("{", "not json at /"),
        (b'{"a":NaN}', "number not finite at /a"),
        ({"a": float("inf")}, "unsupported value at /a"),
        ({"a": {1, 2}}, "unsupported value at /a"),
        ({"a": "\ud800"}, "lone surrogate at /a"),
        ({"a": 10**400}, "number too large at /a"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_sound_json_object_is_refused_with_its_place(given: object, reason: str) -> None:
    assert why_not_read(given) == f"its result schema cannot be read ({reason})"


def nested(levels: int) -> Any:
    schema: Any = {}
    for _ in range(levels - 1):
        schema = {"a": schema}
    return schema


@pytest.mark.case("A16")
@pytest.mark.parametrize(
    ("most", "more"),
    [
        (nested(64), nested(65)),
        ({"a": [0] * 49_999}, {"a": [0] * 50_000}),
        ({"a": "b" * 65_536}, {"a": "b" * 65_537}),
        ({"a": 10**399}, {"a": 10**400}),
        ({"a": ["b" * 65_536] * 3 + ["b" * 65_517]}, {"a": ["b" * 65_536] * 3 + ["b" * 65_518]}),
    ],
    ids=["levels", "members", "characters", "digits", "bytes"],
)
def test_a_schema_of_the_most_there_may_be_is_read_and_of_one_more_is_not(most: Any, more: Any) -> None:
    for write in (dict, lambda schema: json.dumps(schema, separators=(",", ":"))):
        assert read_schema(write(most), ContractError, "result") == most
        assert why_not_read(write(more)).startswith("its result schema cannot be read (")


@pytest.mark.case("A16")
def test_a_schema_has_5000_parts_and_not_one_more() -> None:
    parts: dict[str, Any] = {f"p{n}": {} for n in range(4_999)}

    assert len(graph({"properties": parts}).named["properties"]) == 4_999
    assert why({"properties": {**parts, "one": True}}) == "its schema has more than 5000 subschemas"


# ---------------------------------------------------------------- dialects


@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2020-12/schema#",
    ],
)
def test_a_schema_is_of_draft_2020_12_where_it_says_so_and_where_it_says_nothing(dialect: str) -> None:
    for said in ({}, {"$schema": dialect}):
        assert list(graph({**said, "prefixItems": [TEXT]}).several) == ["prefixItems"]


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("end", ["", "#"])
def test_draft_07_is_read_in_the_words_of_2020_12(scheme: str, end: str) -> None:
    root = graph(
        {
            "$schema": f"{scheme}://json-schema.org/draft-07/schema{end}",
            "items": [TEXT, WHOLE],
            "additionalItems": False,
            "dependencies": {"a": ["b"], "c": TEXT, "d": True},
        }
    )

    assert [each.keywords for each in root.several["prefixItems"]] == [TEXT, WHOLE]
    assert root.one["items"].boolean is False
    assert root.keywords == {"dependentRequired": {"a": ["b"]}}
    assert {name: node.boolean for name, node in root.named["dependentSchemas"].items()} == {"c": None, "d": True}


def test_other_items_mean_nothing_where_all_are_said_alike() -> None:
    for said in ({}, DRAFT_07):
        root = graph({**said, "items": TEXT, "additionalItems": False})
        assert root.one["items"].keywords == TEXT
        assert root.several == {}


@pytest.mark.parametrize(
    "dialect",
    [
        "http://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-04/schema#",
        "https://json-schema.org/draft-07/schema##",
        "",
        7,
        None,
    ],
)
def test_any_other_dialect_is_refused(dialect: Any) -> None:
    sentence = "its $schema names a dialect that placet does not read; it reads draft 2020-12 and draft-07"

    assert why({"$schema": dialect}) == sentence
    assert why({"properties": {"a": {"$schema": dialect}}}) == sentence


def test_a_part_may_name_the_dialect_of_the_whole_and_no_other() -> None:
    for whole, other in ((DRAFT_07, DRAFT_2020), (DRAFT_2020, DRAFT_07), ({}, DRAFT_07)):
        assert graph({**whole, "properties": {"a": whole}})
        assert why({**whole, "properties": {"a": other}}) == "parts of its schema are in different dialects"


NEWER = (
    "dependentRequired", "dependentSchemas", "prefixItems", "unevaluatedItems", "unevaluatedProperties", "minContains",
    "maxContains", "$anchor", "$dynamicAnchor", "$dynamicRef",
)  # fmt: skip


@pytest.mark.parametrize("word", NEWER)
def test_a_word_that_draft_07_does_not_have_is_refused_there(word: str) -> None:
    assert why({**DRAFT_07, "properties": {"a": {word: "w"}}}) == (
        f"at /properties/a of its schema {word} is not of draft-07, which its $schema names"
    )
    assert "maxContains is not of draft-07" in why({**DRAFT_07, "minContains": 1, "maxContains": 1})


@pytest.mark.parametrize(
    "beside",
    [
        {"minLength": 1}, {"not": {}}, {"allOf": [{}]}, {"properties": {}}, {"dependencies": {}}, {"items": {}},
    ],
)  # fmt: skip
def test_beside_a_reference_of_draft_07_nothing_counts_and_so_nothing_may_stand(beside: dict[str, Any]) -> None:
    referring = {"$ref": "#/definitions/d", **beside}
    schema = {"definitions": {"d": {}}, "properties": {"a": referring}}

    assert why({**DRAFT_07, **schema}) == (
        "at /properties/a of its schema something stands beside $ref, where draft-07 says nothing counts: "
        "write both under allOf"
    )
    if "dependencies" not in beside:
        assert graph(schema)
    assert graph({**DRAFT_07, "definitions": {"d": {}}, "$ref": "#/definitions/d", "title": "t", "default": 1})


def test_what_only_draft_07_says_is_refused_where_it_would_mean_nothing() -> None:
    assert why({"properties": {"a": {"items": [TEXT]}}}) == (
        "at /properties/a of its schema items is a list: write prefixItems, or name draft-07 in $schema"
    )
    assert why({"properties": {"a": {"dependencies": {}}}}) == (
        "at /properties/a of its schema dependencies says nothing in draft 2020-12: write dependentRequired or "
        "dependentSchemas, or name draft-07 in $schema"
    )
    assert why({**DRAFT_07, "dependencies": []}) == "at / of its schema dependencies is not an object"


# ---------------------------------------------------------------- words


def test_every_word_is_kept_and_every_part_is_read() -> None:
    schema: dict[str, Any] = {
        "type": ["object", "array"],
        "title": "t",
        "description": "d",
        "default": {"a": 1},
        "format": "f",
        "minProperties": 1,
        "required": ["a"],
        "properties": {"a": TEXT, "a/b~c": WHOLE},
        "patternProperties": {"^a": TEXT},
        "dependentSchemas": {"a": WHOLE},
        "dependentRequired": {"a": ["b"]},
        "additionalProperties": False,
        "propertyNames": TEXT,
        "items": TEXT,
        "prefixItems": [WHOLE, True],
        "contains": WHOLE,
        "unevaluatedItems": False,
        "unevaluatedProperties": TEXT,
        "allOf": [{}],
        "anyOf": [{}, TEXT],
        "oneOf": [{}],
        "not": WHOLE,
        "if": {},
        "then": TEXT,
        "else": WHOLE,
        "x-placet-wide": True,
    }
    root = graph({**schema, "$comment": "c", "$vocabulary": {}, "x-other": 1, "contentSchema": {}})

    assert plain(root) == schema
    assert root.named["properties"]["a/b~c"].pointer == "/properties/a~1b~0c"
    assert root.several["prefixItems"][1].pointer == "/prefixItems/1"


def test_a_branch_without_a_condition_is_not_held_against_anything() -> None:
    assert graph({"then": TEXT, "else": TEXT}).one == {}
    assert list(graph({"if": {}, "else": TEXT}).one) == ["if", "else"]


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"properties": []}, "at /properties of its schema properties is not an object"),
        ({"items": {"$defs": 5}}, "at /items/$defs of its schema $defs is not an object"),
        ({"allOf": {"a": {}}}, "at /allOf of its schema allOf is not a list of schemas"),
        ({"items": {"anyOf": []}}, "at /items/anyOf of its schema anyOf is not a list of schemas"),
        ({"items": 5}, "at /items of its schema there is no schema"),
        ({"properties": {"a/b": "text"}}, "at /properties/a~1b of its schema there is no schema"),
        ({"anyOf": [{}, None]}, "at /anyOf/1 of its schema there is no schema"),
        ({"type": []}, "at /type of its schema no type is named"),
        (
            {"items": {"type": "text"}},
            "at /items/type of its schema 'text' is not a type of JSON Schema; say what it means with "
            "type_names={'text': \"object\"}",
        ),
        (
            {"type": ["string", 5]},
            "at /type of its schema 5 is not a type of JSON Schema; say what it means with type_names={5: \"object\"}",
        ),
        (
            {"$recursiveRef": "#"},
            "at /$recursiveRef of its schema $recursiveRef is of draft 2019-09, which is not read",
        ),
        (
            {"items": {"$recursiveAnchor": True}},
            "at /items/$recursiveAnchor of its schema $recursiveAnchor is of draft 2019-09, which is not read",
        ),
        (
            {"unique_items": True},
            "at /unique_items of its schema 'unique_items' says nothing; write 'uniqueItems'",
        ),
        ({"maxlength": 5}, "at /maxlength of its schema 'maxlength' says nothing; write 'maxLength'"),
        ({"ref": "#"}, "at /ref of its schema 'ref' says nothing; write '$ref'"),
        ({"defs": {}}, "at /defs of its schema 'defs' says nothing; write '$defs'"),
        ({"Any Of": [{}]}, "at /Any Of of its schema 'Any Of' says nothing; write 'anyOf'"),
        ({"One-Of": [{}]}, "at /One-Of of its schema 'One-Of' says nothing; write 'oneOf'"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_what_is_meant_to_say_something_and_says_nothing_is_refused(schema: dict[str, Any], sentence: str) -> None:
    assert why(schema) == sentence


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("string", {"type": "string"}),
        (["string"], {"type": ["string"]}),
        (["string", "null", "string"], {"type": ["string", "null"]}),
        ("dict", {"type": "object"}),
        (["dict", "object", "null"], {"type": ["object", "null"]}),
        ("Any", {}),
        (["string", "Any"], {}),
    ],
)
def test_a_type_means_what_it_was_said_to_mean(given: Any, kept: dict[str, Any]) -> None:
    assert graph({"type": given}, dict="object", Any="any").keywords == kept


def test_any_is_no_type_where_it_was_not_said_to_be_one() -> None:
    assert "'any' is not a type of JSON Schema" in why({"type": "any"})
    assert "'any' is not a type of JSON Schema" in why({"type": "any"}, dict="object")
    assert graph({"type": "any"}, any="any").keywords == {}


# ---------------------------------------------------------------- constants


@pytest.mark.case("A15")
@pytest.mark.parametrize(
    ("schema", "declared"),
    [
        ({"const": {"a": 1}}, {"properties": {"a": {}}}),
        ({"enum": [{"a": 1}, {"b": {"c": [{"d": 1}]}}, 5]}, {
            "properties": {"a": {}, "b": {"properties": {"c": {"items": {"properties": {"d": {}}}}}}}
        }),
        ({"const": [1, {"a": 1}]}, {"items": {"properties": {"a": {}}}}),
        ({"const": [[{"a": 1}], 5]}, {"items": {"items": {"properties": {"a": {}}}}}),
        ({"const": {"a": 1}, "enum": [{"b": 1}]}, {"properties": {"a": {}, "b": {}}}),
        ({"enum": [{"a": {"b": 1}}, {"a": {"c": 1}}]}, {"properties": {"a": {"properties": {"b": {}, "c": {}}}}}),
        ({"const": [1, 2]}, {}),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_the_members_of_a_constant_are_declared(schema: dict[str, Any], declared: dict[str, Any]) -> None:
    own = graph({**schema, "allOf": [TEXT]})

    assert plain(own) == {**schema, "allOf": [TEXT, declared]}
    assert {node.pointer for node in reachable(own)} == {"", "/allOf/0"}  # they stand where their constant does


@pytest.mark.parametrize("schema", [{"const": 5}, {"enum": [1, "a", None]}, {"enum": {"a": 1}}])
def test_constants_without_members_declare_nothing(schema: dict[str, Any]) -> None:
    assert graph(schema).several == {}
