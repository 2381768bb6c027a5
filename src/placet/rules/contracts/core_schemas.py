"""Walks over Pydantic's core schemas, which know more of a type than its JSON Schema shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_NO_SCHEMA = frozenset({"metadata", "default", "expected", "members", "serialization", "config"})
"""Parts of a core schema that hold values, or say how it is written; they may look like a schema."""


def core_nodes(core: object, *, closed: frozenset[str] = frozenset()) -> Iterator[dict[str, Any]]:
    """Every schema inside a core schema, itself included; what is inside a type of `closed` is not looked at."""
    if isinstance(core, dict):
        is_schema = type(core.get("type")) is str  # else a table by name, which may have any name
        if is_schema:
            yield core
        if not is_schema or core["type"] not in closed:
            for key, child in core.items():
                if not (is_schema and key in _NO_SCHEMA):
                    yield from core_nodes(child, closed=closed)
    elif isinstance(core, list | tuple):
        for child in core:
            yield from core_nodes(child, closed=closed)


def model_fields(core: object) -> Iterator[dict[str, Any]]:
    """The field tables of every model, typed dict, dataclass and named tuple inside a core schema."""
    for node in core_nodes(core):
        fields = node.get("fields", node.get("arguments_schema"))
        if isinstance(fields, dict):
            yield fields
        elif isinstance(fields, list):
            yield {str(field.get("name")): field for field in fields if isinstance(field, dict)}


def is_text(core: dict[str, Any], named: dict[str, dict[str, Any]]) -> bool:
    """Whether a key of this schema stays text; a validator may still change it."""
    match core["type"]:
        case "str" | "any":  # a JSON name is text
            return True
        case "literal":
            return all(type(value) is str for value in core["expected"])
        case "enum":
            return all(isinstance(member.value, str) for member in core["members"])
        case "union":
            choices = (choice[0] if isinstance(choice, tuple) else choice for choice in core["choices"])
            return all(is_text(choice, named) for choice in choices)
        case "definition-ref":
            return core["schema_ref"] in named and is_text(named[core["schema_ref"]], named)
        case "function-before" | "function-after" | "function-wrap":
            return is_text(core["schema"], named)
        case _:
            return False


def leaves_open(core: object) -> bool:
    """Whether a value may be of any type, other than inside a model or dataclass, which writes itself."""
    return any(node["type"] == "any" for node in core_nodes(core, closed=frozenset({"model", "dataclass"})))


def read_names(fields: dict[str, Any]) -> Iterator[str]:
    for name, field in fields.items():
        yield name
        aliases = field.get("validation_alias")
        for alias in aliases if isinstance(aliases, list) else [aliases]:
            yield from (part for part in (alias if isinstance(alias, list) else [alias]) if isinstance(part, str))
