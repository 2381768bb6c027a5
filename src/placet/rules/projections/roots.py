"""The outermost schema of a tool's arguments: what every provider asks of it, strict or not."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from placet.errors import MisuseError
from placet.model.contract import Contract, EffectClass
from placet.model.exact import is_plain_json, is_whole
from placet.model.json import JsonObject, JsonValue
from placet.model.projection import Gap, Why

_NOTES = frozenset({"$defs", "$schema", "$comment", "title", "description", "unevaluatedProperties"})
_VALUES = frozenset({"default", "enum", "const", "examples"})
_BRANCHES = ("allOf", "anyOf", "oneOf", "then", "else")
_CLOSING = ("additionalProperties", "unevaluatedProperties")


def require_contract(contract: object) -> Contract:
    """
    Raises:
        MisuseError: it is not a contract as a tool has it; none of its methods ran.
    """
    if is_whole(contract, Contract) and _has_sound_fields(contract):
        return contract
    raise MisuseError("A definition is made of a Contract, as Gate.tools_for and Tool.contract give it.")


def _has_sound_fields(contract: Contract) -> bool:
    names = contract.argument_names
    authored: object = {} if contract.authored_schema is None else contract.authored_schema
    return (
        type(contract.name) is str
        and type(contract.description) is str
        and type(contract.effect_class) is EffectClass
        and type(names) is tuple
        and all(type(name) is str for name in names)
        and all(
            type(schema) is dict and is_plain_json(schema)
            for schema in (contract.arguments_schema, contract.result_schema, authored)
        )
    )


def plain_root(contract: Contract) -> JsonObject | None:
    """A copy of a contract's arguments schema whose root says by itself that it is an object; None if it cannot.

    A root that is only a reference, as that of a recursive model, is replaced by what it leads to. Models inside a
    typed contract are closed whether their own schema says so or not; here it says so.
    """
    schema = contract.arguments_schema
    root = _without_own_words(schema if contract.authored_schema is not None else _closed(schema))
    definitions, passed = root.get("$defs"), set[str]()
    while "$ref" in root:
        reference = root["$ref"]
        if type(reference) is not str or reference in passed or not set(root) <= _NOTES | {"$ref"}:
            return None
        passed.add(reference)
        target = definitions.get(reference.removeprefix("#/$defs/")) if isinstance(definitions, dict) else None
        if not isinstance(target, dict):
            return None
        notes = {key: value for key, value in root.items() if key != "$ref"}
        root = {**notes, **deepcopy(target), "$defs": definitions}
    return {**root, "type": "object"} if root.get("type", "object") == "object" else None


def without(root: JsonObject, keywords: frozenset[str]) -> tuple[JsonObject, tuple[Gap, ...]]:
    """A weaker root without these keywords, and what is gone. Members that only they named stay named.

    Of such members nothing is said but their description. Where the keywords let in members without naming them, the
    root is left open.
    """
    gone = [keyword for keyword in root if keyword in keywords]
    if not gone:
        return root, ()
    properties = root.get("properties")
    known: JsonObject = dict(properties) if isinstance(properties, dict) else {}
    definitions = root.get("$defs")
    found = dict(
        member
        for keyword in gone
        for member in _members(root[keyword], definitions if isinstance(definitions, dict) else {}, frozenset())
    )
    kept = {key: value for key, value in root.items() if key not in gone}
    if not all(_only_names(root[keyword]) for keyword in gone):
        kept = {key: value for key, value in kept.items() if key not in _CLOSING}
    gaps = tuple(Gap(pointer="", keyword=keyword, why=Why.KEYWORD_UNSUPPORTED) for keyword in gone)
    return {**kept, "properties": {**found, **known}}, gaps


def _members(schema: JsonValue, definitions: JsonObject, followed: frozenset[str]) -> Iterator[tuple[str, JsonObject]]:
    """Members named anywhere in branches, with their descriptions alone."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _members(branch, definitions, followed)
    elif isinstance(schema, dict):
        properties = schema.get("properties")
        for name, member in properties.items() if isinstance(properties, dict) else ():
            description = member.get("description") if isinstance(member, dict) else None
            yield name, {"description": description} if type(description) is str else {}
        reference = schema.get("$ref")
        if type(reference) is str and reference not in followed:
            target = definitions.get(reference.removeprefix("#/$defs/"))
            yield from _members(target, definitions, followed | {reference})
        for keyword in _BRANCHES:
            yield from _members(schema.get(keyword), definitions, followed)


def _only_names(schema: JsonValue) -> bool:
    """Whether branches let in no member but those that they name."""
    if isinstance(schema, list):
        return all(map(_only_names, schema))
    if not isinstance(schema, dict):
        return True
    is_closed = all(schema.get(keyword, False) is False for keyword in _CLOSING)
    opens = "$ref" in schema or "patternProperties" in schema or not is_closed
    return not opens and all(_only_names(schema.get(keyword)) for keyword in _BRANCHES)


def copied(schema: JsonValue) -> JsonValue:
    """A copy without the words that only placet reads."""
    if isinstance(schema, dict):
        return _without_own_words(schema)
    return [copied(child) for child in schema] if isinstance(schema, list) else schema


def _without_own_words(schema: JsonObject) -> JsonObject:
    return {key: copied(child) for key, child in schema.items() if not key.startswith("x-placet-")}


def _closed(schema: JsonObject) -> JsonObject:
    said = {key: child if key in _VALUES else _closed_inside(child) for key, child in schema.items()}
    is_open = schema.get("type") == "object" and "additionalProperties" not in schema
    return {**said, "additionalProperties": False} if is_open else said


def _closed_inside(schema: JsonValue) -> JsonValue:
    if isinstance(schema, list):
        return [_closed_inside(child) for child in schema]
    return _closed(schema) if isinstance(schema, dict) else schema
