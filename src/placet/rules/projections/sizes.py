"""How large a strict definition is, counted as the providers count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from placet.model.json import JsonObject, JsonValue

_LONG_ENUM_VALUES = 250


def sizes(hint: JsonObject) -> Mapping[str, int]:
    """The counts of one strict definition.

    levels: objects and arrays inside each other, the root included, through references, each followed once.
    members, optional_members: of all objects together.
    name_characters: of member and definition names and enum values.
    enum_values: of all enums; long_enum_characters: of the longest enum with more than 250 texts.
    unions: schemas that leave a choice of types.
    """
    counts: Counter[str] = Counter()
    longest = 0
    definitions = hint.get("$defs")
    if isinstance(definitions, dict):
        counts["name_characters"] = sum(map(len, definitions))
    for node in _nodes(hint):
        properties, required, values = node.get("properties"), node.get("required"), node.get("enum")
        if isinstance(properties, dict) and isinstance(required, list):
            counts["members"] += len(properties)
            counts["optional_members"] += len(properties) - len(required)
            counts["name_characters"] += sum(map(len, properties))
        if isinstance(values, list):
            characters = sum(len(value) for value in values if isinstance(value, str))
            counts["enum_values"] += len(values)
            counts["name_characters"] += characters
            longest = max(longest, characters if len(values) > _LONG_ENUM_VALUES else 0)
        if "anyOf" in node or isinstance(node.get("type"), list):
            counts["unions"] += 1
    counts["levels"] = _Depth(definitions if isinstance(definitions, dict) else {}).of(hint)
    counts["long_enum_characters"] = longest
    return counts


def children(node: JsonObject) -> Iterator[JsonValue]:
    """The schemas directly inside one of a strict definition, without its definitions."""
    properties, choices = node.get("properties"), node.get("anyOf")
    if isinstance(properties, dict):
        yield from properties.values()
    if isinstance(choices, list):
        yield from choices
    if "items" in node:
        yield node["items"]


def _nodes(hint: JsonValue) -> Iterator[JsonObject]:
    if not isinstance(hint, dict):
        return
    yield hint
    for child in children(hint):
        yield from _nodes(child)
    definitions = hint.get("$defs")
    if isinstance(definitions, dict):
        for definition in definitions.values():
            yield from _nodes(definition)


class _Depth:
    """Levels below each place; a definition is measured once, so that references to references cost nothing."""

    def __init__(self, definitions: JsonObject) -> None:
        self._definitions = definitions
        self._measured: dict[str, int] = {}

    def of(self, node: JsonValue) -> int:
        if not isinstance(node, dict):
            return 0
        own = 1 if node.get("type") in ("object", "array") else 0
        below = [self.of(child) for child in children(node)]
        reference = node.get("$ref")
        if isinstance(reference, str):
            below.append(self._of_definition(reference.removeprefix("#/$defs/")))
        return own + max(below, default=0)

    def _of_definition(self, name: str) -> int:
        if name not in self._measured:
            self._measured[name] = 0  # where it leads back to itself
            self._measured[name] = self.of(self._definitions.get(name))
        return self._measured[name]
