"""Walks over JSON Schemas: their objects, member names, patterns and integers declared wide."""

from __future__ import annotations

from collections.abc import Iterator

from placet.model.json import JsonObject, JsonValue


def nodes(schema: object) -> Iterator[JsonObject]:
    """Every object inside a schema, itself included."""
    if isinstance(schema, dict):
        yield schema
        for child in schema.values():
            yield from nodes(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from nodes(child)


def property_names(schema: JsonObject) -> Iterator[str]:
    for node in nodes(schema):
        properties = node.get("properties")
        if isinstance(properties, dict):
            yield from properties


def spoken_names(schema: JsonObject) -> Iterator[str]:
    """Every name of a member that a schema says: declared, required, or among the names that are let in."""
    yield from property_names(schema)
    for node in nodes(schema):
        yield from _texts(node.get("required"))
        for keyword in ("dependentRequired", "dependentSchemas"):
            dependent = node.get(keyword)
            for name, needed in dependent.items() if isinstance(dependent, dict) else ():
                yield name
                yield from _texts(needed)
        for inside in nodes(node.get("propertyNames")):
            yield from _texts(inside.get("enum"))
            yield from _texts([inside.get("const")])


def name_patterns(schema: JsonObject) -> Iterator[str]:
    """Every pattern that names of members are held against."""
    for node in nodes(schema):
        patterns = node.get("patternProperties")
        yield from patterns if isinstance(patterns, dict) else ()
        yield from text_patterns(node.get("propertyNames"))


def text_patterns(schema: object) -> Iterator[str]:
    """Every pattern that texts are held against."""
    for node in nodes(schema):
        yield from _texts([node.get("pattern")])


def _texts(given: JsonValue) -> Iterator[str]:
    return (each for each in given if isinstance(each, str)) if isinstance(given, list) else iter(())


def wide_paths(schema: JsonObject) -> Iterator[tuple[str, ...]]:
    """Paths of integers declared wide; a recursive model is followed once."""
    definitions = schema.get("$defs")
    leading = _leading_to_wide(definitions) if isinstance(definitions, dict) else {}

    def walk(node: object, path: tuple[str, ...], seen: frozenset[str]) -> Iterator[tuple[str, ...]]:
        if not isinstance(node, dict):
            return
        if node.get("x-placet-wide") is True:
            yield path
        reference = node.get("$ref")
        if isinstance(reference, str) and reference in leading and reference not in seen:
            yield from walk(leading[reference], path, seen | {reference})
        properties = node.get("properties")
        if isinstance(properties, dict):
            for name, child in properties.items():
                yield from walk(child, (*path, name), seen)
        for key in ("patternProperties", "dependentSchemas"):
            named = node.get(key)
            for child in named.values() if isinstance(named, dict) else ():
                yield from walk(child, (*path, "*") if key == "patternProperties" else path, seen)
        for key in ("if", "then", "else"):
            yield from walk(node.get(key), path, seen)
        for key in ("items", "contains", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"):
            yield from walk(node.get(key), (*path, "*"), seen)
        for key in ("prefixItems", "anyOf", "oneOf", "allOf"):
            children = node.get(key)
            for child in children if isinstance(children, list) else []:
                yield from walk(child, (*path, "*") if key == "prefixItems" else path, seen)

    yield from walk(schema, (), frozenset())


def _leading_to_wide(definitions: JsonObject) -> JsonObject:
    """By reference, definitions that hold a wide integer, or lead to one: only they are worth the walk."""
    inside = {f"#/$defs/{name}": list(nodes(child)) for name, child in definitions.items()}
    leading = {name for name, found in inside.items() if any(node.get("x-placet-wide") is True for node in found)}
    while more := {
        name
        for name, found in inside.items()
        if name not in leading and any(isinstance(to := node.get("$ref"), str) and to in leading for node in found)
    }:
        leading |= more
    return {reference: definitions[reference.removeprefix("#/$defs/")] for reference in leading}


def floats_as_text(value: JsonValue) -> JsonValue:
    """Schemas may hold bounds beyond what canonical JSON carries; their text identifies them as well."""
    if isinstance(value, dict):
        return {key: floats_as_text(child) for key, child in value.items()}
    if isinstance(value, list):
        return [floats_as_text(child) for child in value]
    return repr(value) if type(value) is float else value
