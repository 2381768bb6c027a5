"""Which JSON types a schema may take at one place, told generously: what cannot be followed may be anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from placet.model.json import JsonObject, JsonValue

ALL_TYPES: Final = frozenset({"object", "array", "string", "number", "boolean", "null"})
_SAYS_MEMBERS: Final = frozenset({"properties", "additionalProperties", "patternProperties"})
_SAYS_ITEMS: Final = frozenset({"items", "prefixItems"})
_BRANCHES: Final = ("allOf", "anyOf", "oneOf")
_ELSEWHERE: Final = frozenset({*_BRANCHES, "$ref"})
_ANYTHING: Final[JsonObject] = {"additionalProperties": True, "items": True}


class Declared:
    """What one schema says. A definition is looked at once, so that references to references cost nothing."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._types: dict[str, frozenset[str]] = {}

    def types(self, schema: JsonValue) -> frozenset[str]:
        """The types a value may have; `number` stands for integers too."""
        if not isinstance(schema, dict):
            return frozenset() if schema is False else ALL_TYPES
        types = ALL_TYPES
        if "type" in schema:
            given = schema["type"]
            types &= {_plain(each) for each in (given if isinstance(given, list) else [given])}
        if isinstance(values := schema.get("enum"), list):
            types &= set(map(_type_of, values))
        if "const" in schema:
            types &= {_type_of(schema["const"])}
        if isinstance(reference := schema.get("$ref"), str):
            types &= self._types_behind(reference)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), list):
                types &= frozenset[str]().union(*map(self.types, branches))
        if isinstance(parts := schema.get("allOf"), list):
            types = types.intersection(*map(self.types, parts))
        return types

    def member(self, schema: JsonValue, name: str) -> JsonValue:
        """A schema for whatever may stand under this name, in any reading of the object's schema."""
        return {"anyOf": list(self._members(schema, name))}

    def item(self, schema: JsonValue, index: int) -> JsonValue:
        """A schema for whatever may stand at this index, in any reading of the array's schema."""
        return {"anyOf": list(self._items(schema, index))}

    def _members(self, schema: JsonValue, name: str) -> Iterator[JsonValue]:
        for shape in self._shapes(schema):
            if "object" not in self.types(shape):
                continue
            properties = shape.get("properties")
            patterns = shape.get("patternProperties")
            yield from patterns.values() if isinstance(patterns, dict) else ()
            if isinstance(properties, dict) and name in properties:
                yield properties[name]
            elif _says(shape, _SAYS_MEMBERS):
                yield shape.get("additionalProperties", True)

    def _items(self, schema: JsonValue, index: int) -> Iterator[JsonValue]:
        for shape in self._shapes(schema):
            if "array" not in self.types(shape):
                continue
            first = shape.get("prefixItems")
            if isinstance(first, list) and index < len(first):
                yield first[index]
            elif _says(shape, _SAYS_ITEMS):
                yield shape.get("items", True)

    def _shapes(self, schema: JsonValue) -> Iterable[JsonObject]:
        """Every schema that may describe the same value: itself, its branches, what they refer to.

        Each is there once, so that a recursive schema does not double from level to level.
        """
        found: dict[int, JsonObject] = {}
        waiting = [schema]
        while waiting:
            each = waiting.pop()
            if each is False or id(each) in found:
                continue
            shape: JsonObject = each if isinstance(each, dict) else _ANYTHING
            found[id(shape)] = shape
            if isinstance(reference := shape.get("$ref"), str):
                waiting.append(self._target(reference))
            for keyword in _BRANCHES:
                branches = shape.get(keyword)
                waiting.extend(branches if isinstance(branches, list) else ())
        return found.values()

    def _types_behind(self, reference: str) -> frozenset[str]:
        if reference not in self._types:
            self._types[reference] = ALL_TYPES  # where it leads back to itself
            self._types[reference] = self.types(self._target(reference))
        return self._types[reference]

    def _target(self, reference: str) -> JsonValue:
        target: JsonValue = self._root if reference == "#" or reference.startswith("#/") else True
        for step in reference.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            target = target.get(key) if isinstance(target, dict) else None  # no schema: may be anything
        return target


def _says(shape: JsonObject, keywords: frozenset[str]) -> bool:
    """Whether a schema says what may be inside. One with neither those keywords nor branches lets anything be."""
    return not keywords.isdisjoint(shape) or ("type" in shape and _ELSEWHERE.isdisjoint(shape))


def _plain(given: JsonValue) -> str:
    return "number" if given == "integer" else str(given)


def _type_of(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
