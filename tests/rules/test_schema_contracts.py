"""Contracts from JSON Schemas: what can be registered, what is closed, what is told, and what it may cost."""

from __future__ import annotations

import inspect
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import placet
from placet import CallContext, Tool
from placet.errors import ContractError, InvalidArguments
from placet.rules.contracts.schema_bounds import MAX_PATTERNS, MAX_VISITS
from placet.rules.contracts.schema_checks import SchemaArguments, SchemaRule, validator_of
from placet.rules.contracts.schema_closing import CLOSED_BY_ANNOTATION
from placet.rules.contracts.schema_reading import MAX_SCHEMA_NODES

SECRET = "s3cr3t-value"
WRITE: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p", "name": "act"}
MAPPED = {"type": "object", "additionalProperties": {"type": "integer"}}


async def handle(arguments: dict[str, Any]) -> Any:
    """What a schema describes."""
    return arguments


def of_schema(schema: object, **options: Any) -> Tool:
    return placet.tool_from_schema(handle, **(WRITE | {"arguments": schema} | options))


def of_member(schema: object, **options: Any) -> Tool:
    """A tool of one argument `x`."""
    return of_schema({"properties": {"x": schema}}, **options)


def why_refused(schema: object, **options: Any) -> str:
    with pytest.raises(ContractError) as caught:
        of_schema(schema, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert caught.value.tool == "act"
    return str(caught.value)


def problems(tool: Tool, arguments: object) -> tuple[tuple[str, str], ...]:
    with pytest.raises(InvalidArguments) as caught:
        tool.check_arguments(arguments)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert SECRET not in repr(caught.value) + str(caught.value)
    return caught.value.problems


def accepts(tool: Tool, arguments: dict[str, Any]) -> bool:
    try:
        plain, canonical = tool.check_arguments(arguments)
    except InvalidArguments:
        return False
    assert (plain, json.loads(canonical)) == (arguments, arguments)
    return True


# ---------------------------------------------------------------- what can be registered


def chain(length: int, keyword: str = "anyOf") -> dict[str, Any]:
    """Each definition holds the next one twice: as many ways as two to the power of the length."""
    links = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(length)}
    return {"$defs": {**links, f"d{length}": {"type": "object"}}, "$ref": "#/$defs/d0"}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


def cyclic() -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {}}
    schema["properties"]["x"] = schema
    return schema


TWO_ANCHORS = {
    "$defs": {"a": {"$id": "one", "$dynamicAnchor": "n"}, "b": {"$id": "two", "$dynamicAnchor": "n"}},
    "properties": {"x": {"$ref": "one"}, "y": {"$id": "three", "$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}}},
}
DIVERGING = {
    "$defs": {"T": {"properties": {"c": {"allOf": [{"$ref": "#/$defs/T"}, {"$ref": "#/$defs/T"}]}}}},
    "$ref": "#/$defs/T",
}
REFUSED: dict[str, tuple[object, str]] = {
    "no schema": (None, "cannot be read (not an object at /)"),
    "a boolean": (True, "cannot be read (not an object at /)"),
    "a list": ([{}], "cannot be read (not an object at /)"),
    "no object accepted": ({"type": "string"}, "accepts no object"),
    "an unknown dialect": ({"$schema": "http://json-schema.org/draft-04/schema#"}, "dialect that placet does not read"),
    "a dialect that is no text": ({"$schema": 7}, "dialect that placet does not read"),
    "two dialects": (
        {"properties": {"x": {"$schema": "http://json-schema.org/draft-07/schema#"}}},
        "parts of its schema are in different dialects",
    ),
    "a remote reference": ({"$ref": "https://198.51.100.1/x"}, "placet fetches nothing"),
    "a file": ({"properties": {"x": {"$ref": "file:///etc/hostname"}}}, "placet fetches nothing"),
    "a metaschema": ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "placet fetches nothing"),
    "a remote dynamic reference": ({"$dynamicRef": "other#n"}, "placet fetches nothing"),
    "an $id game": ({"$id": "https://a.example/", "$ref": "b"}, "placet fetches nothing"),
    "two resources of one $id": (
        {"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}},
        "two parts of its schema have the $id",
    ),
    "two parts of one anchor": ({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, "have the anchor 'x'"),
    "an $id with a fragment": ({"$id": "https://a.example/#x"}, "$id has a fragment"),
    "an $id that is no text": ({"$id": 1}, "$id is not text"),
    "a reference to nothing": ({"$ref": "#/$defs/missing"}, "where it has no schema"),
    "a reference to a value": (
        {"properties": {"x": {"const": {"a": 1}}}, "$ref": "#/properties/x/const"},
        "has no schema",
    ),
    "a reference that is no text": ({"$ref": 7}, "there is no text"),
    "two references in one place": ({"$ref": "#/$defs/a", "$dynamicRef": "#n", "$defs": {"a": {}}}, "two references"),
    "an ambiguous dynamic reference": (TWO_ANCHORS, "could mean 3 of its parts"),
    "a reference to itself": ({"$ref": "#"}, "refers to itself without reaching a part of the value"),
    "a cycle of references": (
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
        "refers to itself without reaching a part of the value",
    ),
    "a narrowing beside a reference of draft-07": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"K": {"enum": ["a", "b"]}},
            "properties": {"x": {"$ref": "#/definitions/K", "enum": ["a"]}},
        },
        "write both under allOf",
    ),
    "a newer word in draft-07": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"x": {"contains": {}, "minContains": 0}}},
        "minContains is not of draft-07",
    ),
    "an older word in 2020-12": ({"not": {"dependencies": {"a": ["b"]}}}, "dependencies says nothing in draft 2020-12"),
    "2019-09": ({"properties": {"x": {"$recursiveRef": "#"}}}, "of draft 2019-09, which is not read"),
    "items as a list": ({"properties": {"x": {"items": [{}]}}}, "write prefixItems, or name draft-07"),
    "a misspelt keyword": ({"properties": {"x": {"max_length": 3}}}, "'max_length' says nothing; write 'maxLength'"),
    "a foreign type": ({"type": "dict"}, "'dict' is not a type of JSON Schema"),
    "no type": ({"type": []}, "no type is named"),
    "a type that is no text": ({"type": {"a": 1}}, "is not a type of JSON Schema"),
    "a part that is no schema": ({"properties": {"x": 7}}, "at /properties/x of its schema there is no schema"),
    "members that are no object": ({"properties": []}, "properties is not an object"),
    "alternatives that are no list": ({"anyOf": {}}, "anyOf is not a list of schemas"),
    "dependencies that are no object": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": []},
        "dependencies is not an object",
    ),
    "a bound that is no number": ({"properties": {"x": {"maximum": SECRET}}}, "is not one of draft 2020-12, at /"),
    "a required that is no list": ({"required": "x"}, "is not one of draft 2020-12, at /required"),
    "look-ahead": ({"properties": {"x": {"pattern": "(?=a)b"}}}, "leave out look-around and back-references"),
    "look-behind": ({"properties": {"x": {"pattern": "(?<!a)b"}}}, "leave out look-around and back-references"),
    "a back-reference": ({"properties": {"x": {"pattern": r"(a)\1"}}}, "leave out look-around and back-references"),
    "a back-reference among names": (
        {"patternProperties": {r"(a)\1": {}}},
        "leave out look-around and back-references",
    ),
    "a broken pattern": ({"properties": {"x": {"pattern": "[a"}}}, "cannot be matched in linear time"),
    "a huge pattern": ({"properties": {"x": {"pattern": "((a{99}){99}){99}"}}}, "repeat less"),
    "a long pattern": ({"properties": {"x": {"pattern": "a" * 1_001}}}, "more than 1000 characters"),
    "many patterns": (
        {"properties": {f"x{n}": {"pattern": f"a{n}"} for n in range(MAX_PATTERNS + 1)}},
        "more than 64 different patterns",
    ),
    "ten thousand alternatives": (
        {"anyOf": [{"required": [f"x{n}"]} for n in range(10_000)]},
        "more than 5000 subschemas",
    ),
    "two thousand alternatives": (
        {"anyOf": [{"required": [f"x{n}"]} for n in range(MAX_VISITS)]},
        "more than 2000 ways",
    ),
    "alternatives of alternatives": (chain(20), "in more than 2000 ways ("),
    "all of all": (chain(20, "allOf"), "in more than 2000 ways ("),
    "parts in a long row": (
        {
            "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(60)} | {"d60": {}},
            "$ref": "#/$defs/d0",
        },
        "more than 48 parts inside each other",
    ),
    "alternatives of alternatives, out of reach": (
        {
            "$defs": chain(20)["$defs"]
            | {f"p{n}": {"properties": {"a": {"$ref": f"#/$defs/p{n + 1}"}}} for n in range(40)}
            | {"p40": {"$ref": "#/$defs/d0"}},
            "$ref": "#/$defs/p0",
        },
        "in more than 2000 ways (",
    ),
    "many names in many places": (
        {
            "$defs": {
                "U": {"allOf": [{"properties": {f"x{n}": {"type": "string"}}} for n in range(900)]},
                "V": {
                    "properties": {f"y{n}": {"properties": {}, "allOf": [{"$ref": "#/$defs/U"}]} for n in range(900)}
                },
            },
            "$ref": "#/$defs/V",
        },
        "too intricate to bound",
    ),
    "many voices in many places": (
        {
            "$defs": {
                "U": {"allOf": [{"maxProperties": n} for n in range(900)]},
                "V": {
                    "properties": {f"y{n}": {"properties": {}, "allOf": [{"$ref": "#/$defs/U"}]} for n in range(900)}
                },
            },
            "$ref": "#/$defs/V",
        },
        "too intricate to tell which members are known",
    ),
    "wide integers everywhere": (
        {
            "$defs": {
                f"d{n}": {"properties": {name: {"$ref": f"#/$defs/d{n + 1}"} for name in "ab"}} for n in range(20)
            }
            | {"d20": {"type": "integer", "x-placet-wide": True}},
            "$ref": "#/$defs/d0",
        },
        "more than 256 places for wide integers",
    ),
    "ways that multiply with depth": (DIVERGING, "lower max_depth="),
    "deep nesting": (nested(40), "cannot be read (too deep at /"),
    "a schema that holds itself": (cyclic(), "cannot be read (cycle at /properties/x)"),
    "a huge schema": ({"description": "a" * 70_000}, "cannot be read (string too long"),
    "an evasive decision": (
        {"oneOf": [{"unevaluatedProperties": False, "allOf": [{"additionalProperties": True}]}, {"required": ["x"]}]},
        "cannot be closed",
    ),
    "a tenant": ({"properties": {"x": {"properties": {"X-Tenant-Id": {"type": "string"}}}}}, "is the server's to say"),
    "a tenant among alternatives": ({"anyOf": [{"properties": {"operation_key": {}}}]}, "is the server's to say"),
    "a generic executor": ({"properties": {"command": {"type": "string"}}}, "looks like a generic executor"),
    "any address": ({"properties": {"x": {"type": "string", "format": "uri"}}}, "looks like a generic executor"),
}


@pytest.mark.case("A14", "A15", "A16")
@pytest.mark.req("B028", "B035")
@pytest.mark.parametrize(("schema", "why"), REFUSED.values(), ids=REFUSED)
def test_a_schema_that_cannot_be_enforced_is_refused_with_its_reason(schema: object, why: str) -> None:
    assert why in why_refused(schema)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            '{"type":"object","properties":{"x":{"type":"string","type":"integer"}}}',
            "duplicate member at /properties/x/type",
        ),
        ('{"properties":{"x":{"maximum":NaN}}}', "number not finite at /properties/x/maximum"),
        ('{"properties":{"x":{"maximum":1e400}}}', "number too large at /properties/x/maximum"),
        ('{"description":"\\ud800"}', "lone surrogate at /description"),
        ('{"description":"\\u0000"}', "null character at /description"),
        ("\ufeff{}", "byte order mark"),
        ("{} {}", "trailing data"),
        ("", "empty"),
        (b"\xff", "not utf8"),
    ],
)
def test_schema_text_is_decoded_as_strictly_as_arguments(text: str | bytes, why: str) -> None:
    assert f"cannot be read ({why}" in why_refused(text)


def test_a_schema_may_be_given_as_json_text() -> None:
    schema = {"properties": {"x": {"type": "integer"}}}

    assert of_schema(json.dumps(schema)).contract.digest == of_schema(schema).contract.digest
    assert of_schema(json.dumps(schema).encode()).contract.authored_schema == schema


class Trap:
    """Whatever is asked of it, it tells that it was asked."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} ran")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("__eq__ ran")

    __hash__ = None  # type: ignore[assignment]


class Dict(dict[str, Any]):
    def __iter__(self) -> Iterator[str]:
        raise AssertionError("__iter__ ran")


class Text(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError("__eq__ ran")

    __hash__ = str.__hash__


class List(list[Any]):
    def __len__(self) -> int:
        raise AssertionError("__len__ ran")


FOREIGN: dict[str, Callable[[], object]] = {
    "an object": Trap,
    "a dict of its own": lambda: Dict(type="object"),
    "a dict of its own inside": lambda: {"properties": {"x": Dict()}},
    "an object inside": lambda: {"properties": {"x": Trap()}},
    "a list of its own": lambda: {"properties": {"x": {"enum": List([1])}}},
    "a tuple": lambda: {"properties": {"x": {"enum": (1, 2)}}},
    "a set": lambda: {"properties": {"x": {"const": {1, 2}}}},
    "bytes": lambda: {"properties": {"x": {"const": b"bytes"}}},
    "a text of its own": lambda: {"properties": {"x": {"type": Text("string")}}},
    "a name of its own": lambda: {"properties": {Text("x"): {}}},
    "a name that is no text": lambda: {"properties": {7: {}}},
    "infinity": lambda: {"properties": {"x": {"maximum": float("inf")}}},
    "no number": lambda: {"properties": {"x": {"maximum": float("nan")}}},
    "half a character": lambda: {"properties": {"x": {"pattern": "\ud800"}}},
}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)
def test_foreign_objects_in_a_schema_are_refused_without_being_asked(make: Callable[[], object]) -> None:
    assert "cannot be read (" in why_refused(make())


def refuse_options(**options: Any) -> str:
    return why_refused({"properties": {"x": {"type": "object"}, "y": {"type": "string"}}}, **options)


def test_options_that_mean_nothing_are_refused() -> None:
    assert "open_members names /z, where its schema has no object" in refuse_options(open_members=("/z",))
    assert "open_members names /y, where its schema has no object" in refuse_options(open_members=("/y",))
    assert "open_members is a sequence of JSON Pointers" in refuse_options(open_members="/x")
    assert "open_members is a sequence of JSON Pointers" in refuse_options(open_members=("x",))
    assert "reaches at most 32 levels" in refuse_options(open_members=("/x" * 33,))
    assert "open_members opens at most 64 places" in refuse_options(open_members=("/x",) * 65)
    assert "opens nothing where there is no result schema" in refuse_options(open_result_members=("/x",))
    assert "which its author closed" in why_refused({"additionalProperties": False}, open_members=("",))
    assert "type_names gives" in refuse_options(type_names={"dict": "mapping"})
    assert "type_names gives" in refuse_options(type_names={"string": "integer"})
    assert "max_depth is an integer from 1 to 32" in refuse_options(max_depth=33)
    assert "redact names no argument: z" in refuse_options(redact=("z",))
    assert "its result schema refers to" not in refuse_options(result={"$ref": "#/$defs/a"})
    assert "its schema refers to '#/$defs/a', where it has no schema" in refuse_options(result={"$ref": "#/$defs/a"})
    assert "it needs a risk" in refuse_options(risk=None)


async def no_arguments() -> None: ...


async def two_arguments(arguments: dict[str, Any], more: int) -> None: ...


async def starred(*arguments: Any) -> None: ...


async def generated(arguments: dict[str, Any]) -> Any:
    yield arguments


@pytest.mark.parametrize("handler", [no_arguments, two_arguments, starred, generated, 7])
def test_a_handler_takes_one_dict_and_may_take_a_context(handler: Any) -> None:
    with pytest.raises(ContractError, match=r"the whole result|takes the arguments as one dict|is not a function"):
        placet.tool_from_schema(handler, arguments={}, **WRITE)


def test_both_kinds_of_tool_have_the_same_options_with_the_same_defaults() -> None:
    typed = inspect.signature(placet.tool).parameters
    described = inspect.signature(placet.tool_from_schema).parameters
    own = {"handler", "arguments", "result", "max_depth", "open_members", "open_result_members", "type_names"}
    own |= {"origin", "bind"}  # of what another system describes

    assert described.keys() - typed.keys() == own
    assert {name: each.default for name, each in typed.items() if name != "name"} == {
        name: described[name].default for name in typed if name != "name"
    }


# ---------------------------------------------------------------- unknown members

VARIANTS = [
    {"properties": {"kind": {"const": "a"}, "o": {"type": "object", "properties": {"p": {"type": "integer"}}}}},
    {"properties": {"kind": {"const": "b"}, "o": {"type": "object", "properties": {"q": {"type": "integer"}}}}},
]
BASE = {"type": "object", "properties": {"a": {"type": "integer"}}}
TREE = {
    "$defs": {"T": {"properties": {"v": {"type": "integer"}, "kids": {"items": {"$ref": "#/$defs/T"}}}}},
    "$ref": "#/$defs/T",
}
CLOSED: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = {
    "a plain object": ({"properties": {"a": {}}}, [{}, {"a": 1}], [{"b": 1}, {"a": 1, "b": 1}]),
    "a permission": ({"properties": {"a": {}}, "additionalProperties": True}, [{"a": 1}], [{"b": 1}]),
    "an empty permission": ({"additionalProperties": {}}, [{}], [{"b": 1}]),
    "a described permission": ({"additionalProperties": {"description": "any"}}, [{}], [{"b": 1}]),
    "a referred permission": ({"additionalProperties": {"$ref": "#/$defs/a"}, "$defs": {"a": {}}}, [{}], [{"b": 1}]),
    "a permission by evaluation": ({"unevaluatedProperties": True}, [{}], [{"b": 1}]),
    "a nested object": (
        {"properties": {"x": BASE}},
        [{"x": {"a": 1}}],
        [{"x": {"b": 1}}, {"x": {"a": 1, "b": 1}}],
    ),
    "a value of any type": (
        {"properties": {"x": {}}},
        [{"x": 1}, {"x": [1, ["a"]]}, {"x": {}}],
        [{"x": {"a": 1}}, {"x": [{"a": 1}]}, {"x": [[{"a": 1}]]}],
    ),
    "an object of unknown members": ({"properties": {"x": {"type": "object"}}}, [{"x": {}}], [{"x": {"a": 1}}]),
    "a list of unknown things": (
        {"properties": {"x": {"type": "array"}}},
        [{"x": [1, [2]]}],
        [{"x": [{"a": 1}]}],
    ),
    "a list of objects": ({"properties": {"x": {"items": BASE}}}, [{"x": [{"a": 1}]}], [{"x": [{"a": 1}, {"b": 1}]}]),
    "a list with a head": (
        {"properties": {"x": {"type": "array", "prefixItems": [BASE]}}},
        [{"x": [{"a": 1}, 2]}],
        [{"x": [{"b": 1}]}, {"x": [{"a": 1}, {"b": 1}]}],
    ),
    "a mapping": ({"properties": {"x": MAPPED}}, [{"x": {"b": 1, "c": 2}}], [{"x": {"b": "s"}}]),
    "a mapping of objects": ({"additionalProperties": BASE}, [{"b": {"a": 1}}], [{"b": {"b": 1}}]),
    "named by pattern": ({"patternProperties": {"^x-": {"type": "integer"}}}, [{"x-a": 1}], [{"a": 1}, {"x-a": "s"}]),
    "both of two": ({"allOf": [BASE, {"properties": {"b": {}}}]}, [{"a": 1, "b": 1}], [{"c": 1}]),
    "a base and more": (
        {"$defs": {"B": BASE}, "$ref": "#/$defs/B", "properties": {"b": {}}},
        [{"a": 1, "b": 1}],
        [{"c": 1}],
    ),
    "a base used both ways": (
        {"$defs": {"B": BASE}, "allOf": [{"$ref": "#/$defs/B"}], "properties": {"x": {"$ref": "#/$defs/B"}}},
        [{"a": 1, "x": {"a": 1}}],
        [{"x": {"a": 1, "x": 1}}, {"b": 1}],
    ),
    "itself used both ways": (
        {"properties": {"a": {}, "x": {"allOf": [{"$ref": "#"}], "properties": {"b": {}}}}},
        [{"a": 1, "x": {"a": 1, "b": 2, "x": {"b": 1}}}],
        [{"b": 1}, {"x": {"c": 1}}],
    ),
    "any of two": (
        {"anyOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "integer"}}}]},
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
        [{"c": 1}, {"a": "s", "b": 1}],
    ),
    "one of two": (
        {
            "oneOf": [
                {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
            ]
        },
        [{"a": 1}, {"b": 1}],
        [{"a": 1, "c": 1}, {"a": 1, "b": 1}, {}],
    ),
    "an object or null": (
        {"properties": {"x": {"anyOf": [BASE, {"type": "null"}]}}},
        [{"x": None}, {"x": {"a": 1}}],
        [{"x": {"b": 1}}],
    ),
    "a list or null": (
        {"properties": {"x": {"anyOf": [{"type": "array"}, {"type": "null"}]}}},
        [{"x": [1]}, {"x": None}],
        [{"x": [{"a": 1}]}],
    ),
    "if, then, else": (
        {
            "properties": {"k": {"type": "string"}},
            "if": {"properties": {"k": {"const": "a"}}, "required": ["k"]},
            "then": {"properties": {"a": {}}},
            "else": {"properties": {"b": {}}},
        },
        [{"k": "a", "a": 1}, {"k": "z", "b": 1}],
        [{"k": "a", "b": 1}, {"k": "z", "a": 1}],
    ),
    "a dependent schema": (
        {"properties": {"a": {}}, "dependentSchemas": {"a": {"properties": {"b": {}}}}},
        [{"a": 1, "b": 1}, {}],
        [{"b": 1}],
    ),
    "a dependency of draft-07": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"a": {}, "c": {}},
            "dependencies": {"a": {"properties": {"b": {}}}, "c": ["a"]},
        },
        [{"a": 1, "b": 1}, {"a": 1, "c": 1}],
        [{"b": 1}, {"c": 1}],
    ),
    "a tuple of draft-07": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"x": {"items": [{"type": "integer"}], "additionalItems": {"type": "string"}}},
        },
        [{"x": [1, "a"]}],
        [{"x": ["a"]}, {"x": [1, 2]}],
    ),
    "a narrowing beside a reference": (
        {"$defs": {"K": {"enum": ["a", "b"]}}, "properties": {"x": {"$ref": "#/$defs/K", "enum": ["a"]}}},
        [{"x": "a"}],
        [{"x": "b"}],
    ),
    "a description beside a reference of draft-07": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"K": {"enum": ["a", "b"]}},
            "properties": {"x": {"$ref": "#/definitions/K", "description": "which", "default": "a"}},
        },
        [{"x": "a"}, {"x": "b"}],
        [{"x": "c"}],
    ),
    "an anchor of draft-07": (
        {
            "$schema": "http://json-schema.org/draft-07/schema",
            "definitions": {"K": {"$id": "#k", "type": "integer"}},
            "properties": {"x": {"$ref": "#k"}},
        },
        [{"x": 1}],
        [{"x": "b"}],
    ),
    "what must not be": (
        {
            "properties": {"a": {}, "b": {}},
            "not": {"properties": {"a": {"properties": {"c": {"const": 1}}}}, "required": ["b"]},
        },
        [{"a": 1}, {"b": 1, "a": {}}][:1],
        [{"b": 1}],
    ),
    "an object that is a constant": (
        {"properties": {"x": {"const": {"a": {"b": [{"c": 1}]}}}}},
        [{"x": {"a": {"b": [{"c": 1}]}}}],
        [{"x": {"a": {"b": [{"c": 1, "d": 1}]}}}, {"x": {}}],
    ),
    "objects that are listed": (
        {"properties": {"x": {"enum": [{"a": 1}, {"b": {"c": 1}}, 7]}}},
        [{"x": {"a": 1}}, {"x": {"b": {"c": 1}}}, {"x": 7}],
        [{"x": {"a": 1, "b": {"c": 1}}}],
    ),
    "a constant among alternatives": (
        {"properties": {"x": {"anyOf": [{"const": {"a": 1}}, BASE]}}},
        [{"x": {"a": 1}}, {"x": {"a": 2}}],
        [{"x": {"b": 1}}],
    ),
    "a tree": (TREE, [{"v": 1, "kids": [{"v": 2, "kids": []}]}], [{"kids": [{"kids": [{"w": 1}]}]}]),
    "a dynamic reference with one meaning": (
        {"$dynamicAnchor": "n", "properties": {"v": {}, "kid": {"$dynamicRef": "#n"}}},
        [{"kid": {"kid": {"v": 1}}}],
        [{"kid": {"w": 1}}],
    ),
    "resources inside": (
        {
            "$id": "https://a.example/root",
            "$defs": {"i": {"$id": "inner", "$defs": {"d": {"$anchor": "here", "type": "integer"}}, "$ref": "#here"}},
            "properties": {"x": {"$ref": "inner"}, "y": {"$ref": "https://a.example/inner#/$defs/d"}},
        },
        [{"x": 1, "y": 2}],
        [{"x": "s"}, {"y": "s"}],
    ),
}
INTRICATE: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = {
    "cousins": (
        {
            "allOf": [
                {"properties": {"o": {"properties": {"a": {"type": "integer"}}}}},
                {"properties": {"o": {"properties": {"b": {"type": "integer"}}}}},
            ]
        },
        [{"o": {"a": 1, "b": 1}}, {"o": {}}],
        [{"o": {"c": 1}}, {"o": {"a": 1, "b": 1, "c": 1}}, {"o": {"a": "s"}}],
    ),
    "variants, any of": (
        {"anyOf": VARIANTS},
        [{"kind": "a", "o": {"p": 1}}, {"kind": "b", "o": {"q": 1}}],
        [{"kind": "a", "o": {"q": 1}}],
    ),
    "variants, one of": (
        {"oneOf": VARIANTS},
        [{"kind": "a", "o": {"p": 1}}, {"kind": "b", "o": {"q": 1}}],
        [{"kind": "a", "o": {"p": 1, "q": 1}}],
    ),
    "a branch that must stay as it is": (
        {
            "oneOf": [
                {"properties": {"o": {"properties": {"x": {}}, "required": ["x"]}}, "required": ["o"]},
                {"properties": {"o": {"properties": {"x": {}, "y": {}}, "required": ["x"]}}, "required": ["o"]},
            ]
        },
        [],
        [{"o": {"x": 1}}, {"o": {"x": 1, "y": 1}}],  # both hold, as the author wrote them
    ),
    "a condition on a nested object": (
        {
            "properties": {"o": {"properties": {"x": {}, "y": {}}}, "a": {}},
            "if": {"properties": {"o": {"properties": {"x": {"const": 1}}, "required": ["x"]}}},
            "then": {"required": ["a"]},
        },
        [{"o": {"x": 1}, "a": 1}, {"o": {"x": 2}}, {"o": {"x": 2, "y": 1}}],
        [{"o": {"x": 1, "y": 1}}, {"o": {"x": 2, "z": 1}}],
    ),
    "a name and a pattern": (
        {"properties": {"ab": {"properties": {"p": {}}}}, "patternProperties": {"^a": {"properties": {"q": {}}}}},
        [{"ab": {"p": 1, "q": 1}}, {"ac": {"q": 1}}],
        [{"ac": {"p": 1}}, {"ab": {"r": 1}}],
    ),
    "an item like this": (
        {
            "properties": {
                "x": {"items": {"properties": {"a": {}}}, "contains": {"properties": {"b": {}}, "required": ["b"]}}
            }
        },
        [{"x": [{"a": 1}, {"a": 1, "b": 1}]}],
        [{"x": [{"a": 1}]}, {"x": [{"b": 1}, {"c": 1}]}],
    ),
    "an author's own closing beside": (
        {
            "allOf": [
                {"properties": {"o": {"properties": {"a": {}}, "additionalProperties": False}}},
                {"properties": {"o": {"properties": {"a": {}, "b": {}}}}},
            ]
        },
        [{"o": {"a": 1}}],
        [{"o": {"a": 1, "b": 1}}, {"o": {"c": 1}}],
    ),
    "odd names": (
        {
            "allOf": [
                {"properties": {"a/b~c": {"properties": {"properties": {"properties": {"é ": {}}}}}}},
                {"properties": {"a/b~c": {"properties": {"additionalProperties": {}}}}},
            ]
        },
        [{"a/b~c": {"properties": {"é ": 1}, "additionalProperties": 1}}],
        [{"a/b~c": {"properties": {"e": 1}}}, {"a/b~c": {"é ": 1}}],
    ),
}


@pytest.mark.case("A14", "A15")
@pytest.mark.parametrize(("schema", "known", "unknown"), CLOSED.values(), ids=CLOSED)
def test_unknown_members_are_refused_and_declared_ones_are_not(
    schema: dict[str, Any], known: list[dict[str, Any]], unknown: list[dict[str, Any]]
) -> None:
    tool = of_schema(schema)

    assert CLOSED_BY_ANNOTATION not in tool.contract.arguments_schema
    assert [accepts(tool, each) for each in known] == [True] * len(known)
    assert [accepts(tool, each) for each in unknown] == [False] * len(unknown)


@pytest.mark.case("A14")
@pytest.mark.parametrize(("schema", "known", "unknown"), INTRICATE.values(), ids=INTRICATE)
def test_where_several_parts_speak_for_one_object_each_that_holds_is_heard(
    schema: dict[str, Any], known: list[dict[str, Any]], unknown: list[dict[str, Any]]
) -> None:
    tool = of_schema(schema)

    assert tool.contract.arguments_schema[CLOSED_BY_ANNOTATION] is True
    assert [accepts(tool, each) for each in known] == [True] * len(known)
    assert [accepts(tool, each) for each in unknown] == [False] * len(unknown)


def test_a_mapping_among_parts_that_speak_for_one_object_is_refused() -> None:
    two = [{"properties": {"o": BASE}}, {"properties": {"o": {"unevaluatedProperties": {"type": "integer"}}}}]

    assert "unevaluatedProperties is a mapping" in why_refused({"allOf": two})


def test_the_enforced_schema_shows_what_was_closed_and_the_authors_stays_beside_it() -> None:
    authored = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://a.example/order",
        "type": "object",
        "properties": {"to": {"$ref": "#address"}, "note": {"type": "string", "x-widget": "area", "title": "Note"}},
        "$defs": {"Address": {"$anchor": "address", "properties": {"city": {"type": "string"}}}, "Unused": {}},
        "additionalProperties": True,
    }
    contract = of_schema(authored).contract

    assert contract.authored_schema == authored
    assert contract.argument_names == ("to", "note")
    assert contract.arguments_schema == {
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/Address"}, "note": {"type": "string", "title": "Note"}},
        "additionalProperties": False,
        "$defs": {
            "Address": {
                "properties": {"city": {"type": "string"}},
                "additionalProperties": False,
                "items": {"$ref": "#/$defs/anything"},
            },
            "anything": {"additionalProperties": False, "items": {"$ref": "#/$defs/anything"}},
        },
    }


def test_what_is_enforced_is_digested() -> None:
    digest = of_member({"type": "object"}).contract.digest

    assert of_member({"type": "object"}).contract.digest == digest
    assert of_member({"type": "object", "additionalProperties": True}).contract.digest == digest
    assert of_member({"type": "object"}, open_members=("/x",)).contract.digest != digest
    assert of_member({"type": "object"}, max_depth=31).contract.digest != digest
    assert of_member({"type": "object", "maxProperties": 3}).contract.digest != digest
    assert of_member({"type": "object"}, result={"type": "string"}).contract.digest != digest


# ---------------------------------------------------------------- opened on purpose


@pytest.mark.case("A14")
def test_only_what_is_opened_takes_unknown_members() -> None:
    schema = {
        "properties": {
            "meta": {"type": "object", "properties": {"known": BASE}},
            "rows": {"items": {"type": "object", "properties": {"tags": {"type": "object"}, "o": {"type": "object"}}}},
        },
        "additionalProperties": True,
    }
    tool = of_schema(schema, open_members=("/meta", "/rows/*/tags"))

    assert accepts(tool, {"meta": {"any": {"thing": [{"a": 1}]}}, "rows": [{"tags": {"t": {"u": 1}}}]})
    assert problems(tool, {"more": 1}) == (("/more", "extra_forbidden"),)
    assert problems(tool, {"meta": {"known": {"b": 1}}}) == (("/meta/known/b", "extra_forbidden"),)
    assert problems(tool, {"rows": [{}, {"o": {"b": 1}}]}) == (("/rows/1/o/b", "extra_forbidden"),)


def test_one_place_of_a_shared_definition_can_be_opened_alone() -> None:
    schema = {
        "$defs": {"M": {"type": "object"}},
        "properties": {"a": {"$ref": "#/$defs/M"}, "b": {"$ref": "#/$defs/M"}},
    }
    tool = of_schema(schema, open_members=("/a",))

    assert accepts(tool, {"a": {"x": 1}})
    assert not accepts(tool, {"b": {"x": 1}})


def test_a_place_reached_through_a_shared_definition_is_found_by_each_of_its_paths() -> None:
    shared = {"D": {"properties": {"a": {"type": "object"}}}}
    schema = {"$defs": shared, "properties": {name: {"$ref": "#/$defs/D"} for name in ("p", "q", "r")}}
    tool = of_schema(schema, open_members=("/p/a", "/q/a"))

    assert accepts(tool, {"p": {"a": {"x": 1}}, "q": {"a": {"x": 1}}})
    assert not accepts(tool, {"r": {"a": {"x": 1}}})


def test_a_place_among_names_that_are_not_listed_is_opened_for_all_of_them_or_not_at_all() -> None:
    schema = {"properties": {"labels": {"additionalProperties": {"type": "object"}}}}

    assert accepts(of_schema(schema, open_members=("/labels/*",)), {"labels": {"one": {"x": 1}, "two": {"y": 1}}})
    assert "has no object to open" in why_refused(schema, open_members=("/labels/one",))


def test_a_place_in_a_recursive_schema_is_opened_at_its_depth() -> None:
    schema = {"$defs": {"T": {"properties": {name: {"$ref": "#/$defs/T"} for name in "abcd"}}}, "$ref": "#/$defs/T"}
    tool = of_schema(schema, open_members=("/*" * 32, "/*/a"))

    assert accepts(tool, {"b": {"a": {"x": 1}}})
    assert not accepts(tool, {"b": {"b": {"x": 1}}})
    assert not accepts(tool, {"b": {"x": 1}})


def test_the_arguments_themselves_can_be_opened() -> None:
    tool = of_schema({"properties": {"a": {"type": "integer"}}}, open_members=("",))

    assert accepts(tool, {"a": 1, "b": {"c": [1]}})
    assert not accepts(tool, {"a": "s"})


def test_an_opened_place_among_intricate_parts_takes_unknown_members() -> None:
    schema, _, unknown = INTRICATE["cousins"]
    tool = of_schema(schema, open_members=("/o",))

    assert CLOSED_BY_ANNOTATION in tool.contract.arguments_schema
    assert accepts(tool, {"o": {"a": 1, "c": {"d": 1}}})
    assert not accepts(tool, {"o": {"a": "s"}})
    assert not accepts(tool, {"p": {}})
    assert [accepts(tool, each) for each in unknown] == [True, True, False]


# ---------------------------------------------------------------- numbers


@pytest.mark.case("A07", "A12")
@pytest.mark.parametrize(
    ("schema", "yes", "no"),
    [
        ({"type": "integer"}, [1, -1, 2**53 - 1], [1.0, True, "1", None, 2**53]),
        ({"type": ["integer", "null"]}, [1, None], [1.0, False]),
        ({"type": ["integer", "number"]}, [1, 1.0], [True]),
        ({"type": "number"}, [1, 1.0, 1.5], [True, "1"]),
        ({"type": "boolean"}, [True, False], [0, 1, "true"]),
        ({"const": 1}, [1], [1.0, True]),
        ({"const": 1.0}, [1.0, 1], [True]),
        ({"enum": [1, "a", None]}, [1, "a", None], [1.0, True, "1"]),
        ({"enum": [False]}, [False], [0, 0.0]),
        ({"const": [1, {"a": 2}]}, [[1, {"a": 2}]], [[1.0, {"a": 2}], [1, {"a": 2.0}], [True, {"a": 2}]]),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, [1, "s"], [1.0]),
        ({"items": {"type": "integer"}}, [[1, 2]], [[1, 2.0]]),
        ({"not": {"type": "integer"}}, ["s", 1.5], [1]),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
)
def test_a_float_is_no_integer_and_a_boolean_is_no_number(
    schema: dict[str, Any], yes: list[Any], no: list[Any]
) -> None:
    tool = of_member(schema)

    assert [accepts(tool, {"x": each}) for each in yes] == [True] * len(yes)
    assert [accepts(tool, {"x": each}) for each in no] == [False] * len(no)


def test_what_the_author_refuses_is_never_accepted_for_being_read_more_exactly() -> None:
    tool = of_member({"oneOf": [{"type": "integer"}, {"type": "number"}]})

    assert accepts(tool, {"x": 1.5})
    assert not accepts(tool, {"x": 1.0})  # in the author's words both hold


@pytest.mark.case("A07")
def test_an_integer_declared_wide_is_exact_at_any_size() -> None:
    wide = {"type": "integer", "x-placet-wide": True}
    schema = {
        "properties": {"x": wide, "y": {"type": "integer"}, "z": {"patternProperties": {"^w": wide}}},
        "if": {"required": ["q"]},
        "then": {"properties": {"q": {"$ref": "#/$defs/W"}}},
        "$defs": {"W": {"anyOf": [wide, {"type": "null"}]}},
    }
    tool = of_schema(schema)
    big = 10**40 + 1

    assert tool.check_arguments({"x": big, "z": {"w": big}, "q": big})[0] == {"x": big, "z": {"w": big}, "q": big}
    assert problems(tool, {"y": 2**53}) == (("/y", "number_too_large"),)
    assert not accepts(of_member({**wide, "maximum": 10**30}), {"x": big})


# ---------------------------------------------------------------- what is told


def told(schema: dict[str, Any], value: Any) -> tuple[tuple[str, str], ...]:
    return problems(of_member(schema), {"x": value})


@pytest.mark.req("B025")
def test_of_what_is_wrong_the_place_and_the_rule_are_told() -> None:
    assert told({"type": "integer"}, SECRET) == (("/x", "type"),)
    assert told({"enum": ["a"]}, SECRET) == (("/x", "enum"),)
    assert told({"const": "a"}, SECRET) == (("/x", "const"),)
    assert told({"maxLength": 3}, SECRET) == (("/x", "maxLength"),)
    assert told({"pattern": "^a$"}, SECRET) == (("/x", "pattern"),)
    assert told({"not": {"type": "string"}}, SECRET) == (("/x", "not"),)
    assert told({"type": "integer"}, 1.0) == (("/x", "type"),)
    assert told({"const": 1}, 1.0) == (("/x", "enum"),)
    assert told({"required": ["a"]}, {}) == (("/x/a", "missing"),)
    assert told(BASE, {"b": SECRET, "c": 1}) == (("/x/b", "extra_forbidden"), ("/x/c", "extra_forbidden"))
    assert told({"type": "object"}, {"a~/b": SECRET}) == (("/x/a~0~1b", "extra_forbidden"),)
    assert told({"items": {"type": "integer"}}, [1, SECRET]) == (("/x/1", "type"),)
    assert told({"minItems": 2, "uniqueItems": True}, [SECRET]) == (("/x", "minItems"),)


@pytest.mark.req("B025")
def test_of_alternatives_the_one_that_was_meant_is_explained() -> None:
    alternatives = {
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind", "n"]},
            {"properties": {"kind": {"const": "b"}, "t": {"type": "string"}}, "required": ["kind", "t"]},
        ]
    }

    assert ("/x/n", "type") in told(alternatives, {"kind": "a", "n": SECRET})
    assert ("/x/t", "missing") in told(alternatives, {"kind": "b"})
    assert told({"anyOf": [{"type": "integer"}, {"type": "null"}]}, SECRET) == (("/x", "anyOf"),)
    assert ("/x/a", "type") in told({"anyOf": [BASE, {"type": "null"}]}, {"a": SECRET})


def test_at_most_sixteen_problems_are_told() -> None:
    assert len(told({"type": "array", "items": {"type": "integer"}}, ["s"] * 100)) == 16
    assert len(problems(of_schema({}), {f"x{n}": 1 for n in range(100)})) == 16
    assert len(problems(of_schema(INTRICATE["cousins"][0]), {f"x{n}": 1 for n in range(100)})) == 16


@pytest.mark.case("A04")
def test_a_text_that_a_type_was_expected_for_is_never_read_as_one() -> None:
    tool = of_schema({"properties": {"body": {"type": "string"}, "room": {"type": "string"}}})

    assert accepts(tool, {"body": '{"k":1}', "room": "007"})


def test_format_and_default_are_annotations() -> None:
    tool = of_schema({"properties": {"x": {"format": "email", "default": "a@b.example"}}})

    assert tool.check_arguments({}) == ({}, b"{}")
    assert accepts(tool, {"x": "no address"})


@pytest.mark.case("A15")
def test_what_a_provider_is_told_never_weakens_what_is_enforced() -> None:
    schema = {
        "$defs": {"Kind": {"enum": ["a", "b", "c"]}},
        "properties": {
            "kind": {"$ref": "#/$defs/Kind", "enum": ["a"]},
            "free": {"additionalProperties": {"type": "string"}},
            "at": {"type": "string", "format": "date-time", "default": "now"},
        },
    }
    tool = of_schema(schema)
    digest = tool.contract.digest
    tellers = (placet.openai_tool, placet.openai_responses_tool, placet.anthropic_tool, placet.mcp_tool)

    assert all(isinstance(tell(tool.contract), placet.Strict | placet.Loose | placet.NoProjection) for tell in tellers)
    assert accepts(tool, {"kind": "a", "free": {"x": "y"}})
    assert [accepts(tool, each) for each in ({"kind": "b"}, {"free": {"x": 1}}, {"other": 1})] == [False] * 3
    assert of_schema(schema).contract.digest == tool.contract.digest == digest


# ---------------------------------------------------------------- what it may cost


@pytest.mark.case("A16")
def test_a_pattern_that_back_tracks_elsewhere_is_matched_in_linear_time() -> None:
    tool = of_member({"pattern": "^(a+)+$"}, max_argument_bytes=100_000)

    assert accepts(tool, {"x": "a" * 60_000})
    assert not accepts(tool, {"x": "a" * 60_000 + "!"})
    with pytest.raises(ValueError, match="regex"):  # the engine that could back-track is not even there
        validator_of({"pattern": "(?=a)b"})


@pytest.mark.case("A16")
def test_large_bounds_and_many_items_cost_nothing() -> None:
    assert accepts(of_member({"maxLength": 10**30, "maxItems": 10**18}), {"x": "a"})
    unique = of_member({"uniqueItems": True}, max_argument_bytes=262_144)
    assert accepts(unique, {"x": list(range(9_000))})
    assert not accepts(unique, {"x": [*range(9_000), 0]})


@pytest.mark.case("A16")
def test_a_refusal_that_would_take_long_to_explain_is_not_explained() -> None:
    alternatives = {"anyOf": [{"const": f"c{n}"} for n in range(500)]}
    tool = of_member({"items": alternatives}, max_argument_bytes=262_144)

    assert problems(tool, {"x": ["c1", 7]}) == (("/x/1", "anyOf"),)
    assert problems(tool, {"x": [7] * 9_000}) == (("", "not_accepted"),)  # four million errors, one by one


@pytest.mark.case("A16")
def test_a_diverging_schema_is_accepted_as_deep_as_it_is_bounded() -> None:
    tool = of_schema(DIVERGING, max_depth=4)

    assert tool.contract.max_depth == 4
    assert accepts(tool, {"c": {"c": {"c": {}}}})
    assert problems(tool, {"c": {"c": {"c": {"c": {}}}}}) == (("/c/c/c/c", "too_deep"),)


@pytest.mark.case("A16")
def test_a_recursive_union_of_several_names_is_bounded_by_itself() -> None:
    rule = {
        "anyOf": [
            {"properties": {"and": {"items": {"$ref": "#/$defs/R"}}}, "required": ["and"]},
            {"properties": {"or": {"items": {"$ref": "#/$defs/R"}}}, "required": ["or"]},
            {"properties": {"is": {"type": "string"}}, "required": ["is"]},
        ]
    }
    tool = of_schema({"$defs": {"R": rule}, "properties": {"x": {"$ref": "#/$defs/R"}}})
    value: dict[str, Any] = {"is": "a"}
    for depth in range(13):
        value = {("and", "or")[depth % 2]: [value]}

    assert accepts(tool, {"x": value})
    assert not accepts(tool, {"x": {"and": [{"not": "a"}]}})


def test_a_fault_of_the_validator_is_a_refusal_without_its_text() -> None:
    class Broken:
        def is_valid(self, value: object) -> bool:
            raise SystemExit(SECRET)

    rule = SchemaRule(validator=Broken(), exact=Broken(), members=None, open_members=(), visits=1)
    check = SchemaArguments(
        rule=rule, takes_arguments="a", takes_context=None, max_bytes=99, max_depth=9, wide_fields=frozenset()
    )
    with pytest.raises(InvalidArguments) as caught:
        check.accepted({})

    assert caught.value.problems == (("", "validator_failed"),)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_arguments_are_measured_before_they_are_validated() -> None:
    tool = of_member({"type": "array"}, max_argument_bytes=64)

    assert problems(tool, {"x": "a" * 100}) == (("", "arguments_too_large"),)


def test_a_value_whose_annotations_would_be_too_many_is_refused() -> None:
    branches = [{"properties": {"o": {"properties": {f"p{n}": {}}}}} for n in range(400)]
    tool = of_schema({"allOf": branches, "properties": {"l": {"items": {}}}}, max_argument_bytes=262_144)

    assert accepts(tool, {"o": {"p7": 1}, "l": [1] * 10})
    assert problems(tool, {"o": {"p7": 1}, "l": [1] * 9_000}) == (("", "too_many_members"),)


@contextmanager
def listening() -> Iterator[tuple[int, list[str]]]:
    """A real server that only counts who connects."""
    seen: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    seen.append("connected")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], seen
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=30)


@pytest.mark.case("A16")
def test_no_socket_is_opened_and_no_file_is_read_for_a_reference(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "integer"}')
    with listening() as (port, seen):
        remote, local = f"http://127.0.0.1:{port}/schema.json", file.as_uri()
        for reference in (remote, local):
            assert "fetches nothing" in why_refused({"properties": {"x": {"$ref": reference}}})
            assert "fetches nothing" in why_refused({"$id": reference, "properties": {"x": {"$ref": "./other"}}})
            with pytest.raises(ValueError, match="Retrieval is disabled"):
                validator_of({"$ref": reference})  # the library itself, were a reference ever to come to it
        of_schema({"$id": remote, "$schema": "https://json-schema.org/draft/2020-12/schema"})
        assert seen == []

        with pytest.raises(ValueError, match=r"http://127\.0\.0\.1"):  # what this test would see otherwise
            jsonschema_rs.Draft202012Validator({"$ref": remote})
        assert jsonschema_rs.Draft202012Validator({"$ref": local}).is_valid(1)
    assert seen != []


# ---------------------------------------------------------------- results


def returned(tool: Tool, value: object) -> Any:
    try:
        return tool.check_result(value)[0]
    except InvalidArguments as error:
        assert error.__cause__ is None
        assert error.__context__ is None
        return error.reason


@pytest.mark.req("C003")
def test_a_result_is_held_against_its_schema_and_closed() -> None:
    tool = of_schema({}, result={"type": "object", "properties": {"a": {"type": "integer"}}}, max_result_bytes=50)

    assert returned(tool, {"a": 1}) == {"a": 1}
    assert returned(tool, {"a": 1.0}) == "result_broken"
    assert returned(tool, {"b": 1}) == "result_broken"
    assert returned(tool, "<html>") == "result_broken"
    assert returned(tool, {"a": (1,)}) == "result_unsupported_value"
    assert returned(tool, {"a": 2**53}) == "result_number_too_large"
    assert returned(of_schema({}, result={"type": "string"}, max_result_bytes=9), "a" * 9) == "result_too_large"


def test_unknown_members_of_a_result_are_let_in_where_it_was_opened() -> None:
    tool = of_schema({}, result={"properties": {"a": {"type": "object"}}}, open_result_members=("/a",))

    assert returned(tool, {"a": {"b": 1}}) == {"a": {"b": 1}}
    assert returned(tool, {"b": 1}) == "result_broken"
    assert tool.contract.open_result_members == ("/a",)


def test_without_a_result_schema_any_json_within_the_limits_is_a_result() -> None:
    tool = of_schema({}, max_result_bytes=50)

    assert tool.contract.result_schema == {}
    assert [returned(tool, each) for each in (None, 1, "a", [{"a": {}}])] == [None, 1, "a", [{"a": {}}]]
    assert returned(tool, {"a": {1}}) == "result_unsupported_value"
    assert returned(tool, "a" * 60) == "result_too_large"


# ---------------------------------------------------------------- the handler


def test_each_attempt_gets_a_fresh_copy_of_exactly_what_was_checked() -> None:
    received: list[dict[str, Any]] = []

    def keep(context: CallContext, arguments: dict[str, Any]) -> None:
        received.append(arguments)

    tool = placet.tool_from_schema(keep, arguments={"properties": {"b": {"items": {}}, "a": {}}}, **WRITE)
    _, canonical = tool.check_arguments({"b": [1.0], "a": "007"})
    context: Any = object()
    first, second = (tool.handler_arguments(canonical, context) for _ in range(2))

    assert tool.contract.isolation is placet.Isolation.THREAD
    assert first == second == {"arguments": {"a": "007", "b": [1.0]}, "context": context}
    assert first["arguments"] is not second["arguments"]
    with pytest.raises(InvalidArguments):
        tool.handler_arguments(b'{"c":1}', context)


# ---------------------------------------------------------------- processes

DIGEST = """
import placet, json
async def handle(arguments): return None
schema = {"properties": {n: {"anyOf": [{"type": "object", "properties": {"q": {}}}, {"type": "null"}]} for n in "dbca"}}
schema["$defs"] = {n: {"type": "object"} for n in "zyx"}
schema["allOf"] = [{"properties": {"o": {"$ref": f"#/$defs/{n}"}}} for n in "xzy"]
tool = placet.tool_from_schema(handle, name="act", arguments=schema, result=schema, effect="read")
print(tool.contract.digest, json.dumps(tool.contract.arguments_schema))
"""


def in_process(code: str, seed: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": seed},
        timeout=60,
    )
    return run.stdout


def test_the_digest_is_the_same_in_every_process() -> None:
    assert in_process(DIGEST, "1") == in_process(DIGEST, "2") == in_process(DIGEST, "3")


def test_the_library_is_loaded_when_a_schema_is() -> None:
    before = "import sys, placet; placet.tool; placet.tool_from_schema; print('jsonschema_rs' in sys.modules)"
    after = DIGEST + "import sys; print('jsonschema_rs' in sys.modules)"

    assert in_process(before, "0").split() == ["False"]
    assert in_process(after, "0").split()[-1] == "True"


def test_limits_stand_as_documented() -> None:
    assert (MAX_SCHEMA_NODES, MAX_VISITS, MAX_PATTERNS) == (5_000, 2_000, 64)
