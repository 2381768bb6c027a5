"""What is read off a core schema of Pydantic: field tables, the names a field is read by, and keys that stay text."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from placet.rules.contracts.core_schemas import core_nodes, is_text, leaves_open, model_fields, read_names

STR: dict[str, Any] = {"type": "str"}
INT: dict[str, Any] = {"type": "int"}


class Word(Enum):
    A = "a"


class Number(Enum):
    ONE = 1


class Mixed(Enum):
    A = "a"
    ONE = 1


def test_field_tables_are_found_by_name_whether_they_are_mappings_or_lists() -> None:
    by_name = {"a": {"type": "model-field", "schema": STR}}
    as_list = [{"type": "dataclass-field", "name": "b", "schema": INT}, {"name": "c", "schema": STR}, "no field"]
    core = {
        "type": "model",
        "schema": {"type": "model-fields", "fields": by_name},
        "other": {"type": "dataclass-args", "fields": as_list},
        "call": {"type": "call", "arguments_schema": {"d": {"schema": STR}}},
        "none": {"type": "str", "fields": "no table"},
    }

    assert sorted(model_fields(core), key=repr) == sorted(
        [by_name, {"b": as_list[0], "c": as_list[1]}, {"d": {"schema": STR}}], key=repr
    )


def test_a_closed_kind_is_told_and_not_looked_into() -> None:
    core = {"type": "list", "items_schema": {"type": "model", "schema": {"type": "any"}}}

    assert [node["type"] for node in core_nodes(core)] == ["list", "model", "any"]
    assert [node["type"] for node in core_nodes(core, closed=frozenset({"model"}))] == ["list", "model"]
    assert leaves_open(core) is False
    assert leaves_open({"type": "list", "items_schema": {"type": "any"}}) is True
    assert leaves_open({"type": "dataclass", "schema": {"type": "any"}}) is False


def test_alternatives_in_lists_and_pairs_are_looked_into_and_closed_kinds_in_them_are_not() -> None:
    model = {"type": "model", "schema": {"type": "any"}}
    core = {"type": "union", "choices": [STR, ({"type": "list", "items_schema": INT}, "label"), [model]]}

    assert [node["type"] for node in core_nodes(core)] == ["union", "str", "list", "int", "model", "any"]
    assert [node["type"] for node in core_nodes(core, closed=frozenset({"model"}))][-1] == "model"
    assert leaves_open(core) is False


NO_SCHEMA = ["metadata", "default", "expected", "members", "serialization", "config"]


@pytest.mark.parametrize("name", [*NO_SCHEMA, "type"])
def test_a_member_may_have_any_name_and_what_is_no_schema_is_not_looked_into(name: str) -> None:
    inside = {"type": "model-fields", "fields": {name: {"type": "model-field", "schema": INT}}}

    assert [node["type"] for node in core_nodes(inside)] == ["model-fields", "model-field", "int"]
    if name in NO_SCHEMA:
        assert [node["type"] for node in core_nodes({"type": "str", name: {"type": "any"}})] == ["str"]


@pytest.mark.parametrize(
    ("core", "stays"),
    [
        (STR, True),
        ({"type": "any"}, True),
        (INT, False),
        ({"type": "literal", "expected": ["a", "b"]}, True),
        ({"type": "literal", "expected": ["a", 1]}, False),
        ({"type": "enum", "members": [Word.A]}, True),
        ({"type": "enum", "members": [Number.ONE]}, False),
        ({"type": "enum", "members": [Mixed.A, Mixed.ONE]}, False),
        ({"type": "union", "choices": [STR, (STR, "label")]}, True),
        ({"type": "union", "choices": [STR, (INT, "label")]}, False),
        ({"type": "union", "choices": [INT, STR]}, False),
        ({"type": "definition-ref", "schema_ref": "text"}, True),
        ({"type": "definition-ref", "schema_ref": "number"}, False),
        ({"type": "definition-ref", "schema_ref": "gone"}, False),
        ({"type": "function-before", "schema": STR}, True),
        ({"type": "function-after", "schema": STR}, True),
        ({"type": "function-wrap", "schema": STR}, True),
        ({"type": "function-wrap", "schema": INT}, False),
        ({"type": "function-plain"}, False),
    ],
)
def test_a_key_stays_text_or_it_does_not(core: dict[str, Any], stays: bool) -> None:
    assert is_text(core, {"text": STR, "number": INT}) is stays


@pytest.mark.parametrize(
    ("alias", "names"),
    [
        (None, []),
        ("b", ["b"]),
        (["b", "c"], ["b", "c"]),
        ([["b", 0, "c"], "d"], ["b", "c", "d"]),
        ([["b"], ["c", 1]], ["b", "c"]),
    ],
)
def test_every_name_a_field_is_filled_by_is_told(alias: Any, names: list[str]) -> None:
    assert list(read_names({"a": {"validation_alias": alias}})) == ["a", *names]
    assert list(read_names({"a": {}, "z": {"validation_alias": alias}})) == ["a", "z", *names]
