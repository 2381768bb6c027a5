"""Contracts that are refused for what their names and shapes would let a model do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import BaseModel

from placet.model.json import JsonObject
from placet.rules.contracts.core_schemas import core_nodes, is_text, model_fields, read_names
from placet.rules.contracts.names import (
    Fits,
    fits_any_address,
    is_generic_member,
    is_generic_tool,
    is_server_name,
    names_generic_member,
    names_server_name,
)
from placet.rules.contracts.options import Options
from placet.rules.contracts.schema_patterns import fitting
from placet.rules.contracts.schemas import name_patterns, nodes, property_names, spoken_names, text_patterns


def refuse_server_names(options: Options, schema: JsonObject) -> None:
    """Refuse every member name the model is told of that only the server may say, and patterns made for one."""
    for name in spoken_names(schema):
        _refuse_server_name(options, name)
    for pattern, fits in _patterns(name_patterns(schema)):
        if names_server_name(fits):
            raise options.refuse(
                f"the arguments named by {ascii(pattern)[:80]} are the server's to say; {options.of_the_server}"
            )


def refuse_server_names_read(options: Options, arguments: type[BaseModel]) -> None:
    """Refuse every name the model could be filled by, shown in the schema or not (field names, all aliases)."""
    for fields in model_fields(arguments.__pydantic_core_schema__):
        for name in read_names(fields):
            _refuse_server_name(options, name)


def _refuse_server_name(options: Options, name: str) -> None:
    if is_server_name(name):
        raise options.refuse(f"the argument {name[:80]!r} is the server's to say; {options.of_the_server}")


def _patterns(patterns: Iterable[str]) -> Iterator[tuple[str, Fits]]:
    """Patterns with what they fit; one that needs another engine, as a typed tool may have, is not looked at."""
    for pattern in dict.fromkeys(patterns):
        fits = fitting(pattern)
        if fits is not None:
            yield pattern, fits


def refuse_lossy_writing(options: Options, schema: JsonObject, arguments: type[BaseModel]) -> None:
    """What is digested, shown and run is what the model writes: it has to be all it reads, under the same names."""
    written = arguments.model_json_schema(mode="serialization")
    is_left_out = any(
        field.get("serialization_exclude") is True
        for fields in model_fields(arguments.__pydantic_core_schema__)
        for field in fields.values()
    )
    if is_left_out or set(property_names(written)) != set(property_names(schema)):
        raise options.refuse(
            "its arguments are written otherwise than they are read; leave out serialization aliases, excluded and "
            "computed fields"
        )
    if any(node.get("writeOnly") is True for node in nodes(schema)):
        raise options.refuse("a secret type writes itself masked, so two calls would look alike; use str and redact=")


def refuse_other_keys(options: Options, arguments: type[BaseModel]) -> None:
    """Members are named by text. Where names are read as something else, `1` and `01` would be one member."""
    nodes = tuple(core_nodes(arguments.__pydantic_core_schema__))
    named = {node["ref"]: node for node in nodes if "ref" in node}
    if not all(is_text(node["keys_schema"], named) for node in nodes if "keys_schema" in node):
        raise options.refuse("the keys of a mapping are str, or a Literal or Enum of str; else use a list")


def refuse_generic(options: Options, schema: JsonObject, *, reason: str | None) -> None:
    if reason is not None:
        if not options.text(reason, "generic_executor").strip():
            raise options.refuse("generic_executor needs the written reason")
        return
    is_generic = (
        is_generic_tool(options.name)
        or any(map(is_generic_member, spoken_names(schema)))
        or any(node.get("format") in ("uri", "uri-reference", "iri") for node in nodes(schema))
        or any(names_generic_member(fits) for _, fits in _patterns(name_patterns(schema)))
        or any(fits_any_address(fits) for _, fits in _patterns(text_patterns(schema)))
    )
    if is_generic:
        raise options.refuse(
            "it looks like a generic executor (shell, SQL or any address); wrap the business operation instead, "
            "or give generic_executor= the reason"
        )
