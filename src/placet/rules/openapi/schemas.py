"""Schemas of a document in the words of JSON Schema 2020-12, with what they refer to beside them.

    3.0  nullable, exclusiveMinimum: true, example     in the words of 2020-12; any other foreign word is refused
    3.1  2020-12 already; words that name parts of the document by other means than their place are refused
    both readOnly members are no arguments, writeOnly ones no result; xml and discriminator say nothing of a value

Nothing is made wider than it is: what cannot be said is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from placet.model.json import JsonObject, JsonValue
from placet.rules.contracts.schema_graph import ANNOTATIONS, ASSERTIONS, NAMED, ONE, SEVERAL
from placet.rules.openapi.references import Unfit, at, truth_of

_DRAFT_2020: Final = "https://json-schema.org/draft/2020-12/schema"
_BASE_DIALECT: Final = "https://spec.openapis.org/oas/3.1/dialect/base"
_SILENT: Final = frozenset({"discriminator", "xml", "externalDocs", "example", "examples", "$comment", "$defs"})
"""Say nothing of a value; `$defs` holds parts that are found by their place."""
_NAMING: Final = frozenset({"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor"})
_OF_3_0: Final = frozenset(
    {
        "title", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength",
        "pattern", "maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties", "required", "enum", "type",
        "allOf", "oneOf", "anyOf", "not", "items", "properties", "additionalProperties", "description", "format",
        "default", "readOnly", "writeOnly", "deprecated",
    }
)  # fmt: skip
_BOUNDS: Final = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))


class Dialect(Enum):
    """Which words a document's schemas have."""

    OPENAPI_3_0 = auto()
    JSON_SCHEMA_2020 = auto()


class Direction(Enum):
    """What a schema is held against: what we send, or what comes back."""

    REQUEST = auto()
    RESPONSE = auto()


@dataclass(slots=True)
class Budget:
    """How many parts of schemas may still be read, of all operations of a document together."""

    left: int

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Unfit("the schemas of the document are too large, all in all")


class Schemas:
    """The schemas of one value, converted together: they share what they refer to.

    Raises, from every method:
        Unfit: a word that cannot be carried, a reference to nothing or out of the document, or too much of it all.
    """

    def __init__(self, root: JsonObject, dialect: Dialect, direction: Direction, budget: Budget) -> None:
        self._root = root
        self._dialect = dialect
        self._direction = direction
        self._budget = budget
        self._names: dict[str, str] = {}
        self._converted: JsonObject = {}

    def converted(self, part: JsonValue) -> JsonValue:
        """One schema; what it refers to stands under `definitions`."""
        self._budget.spend()
        if isinstance(part, bool):
            return part
        if not isinstance(part, dict):
            raise Unfit("a schema is not an object")
        if "$ref" in part and self._dialect is Dialect.OPENAPI_3_0:
            _refuse_beside_reference(part)
            return {"$ref": self._named(part["$ref"])}
        found: JsonObject = {}
        for word, said in part.items():
            if word.startswith("x-") or word in _SILENT:
                continue
            self._refuse_foreign(word, said)
            if word == "$ref":
                found[word] = self._named(said)
            elif word == "properties":
                found[word] = self._properties(said)
            elif word in NAMED:
                found[word] = {name: self.converted(each) for name, each in _object(word, said).items()}
            elif word in SEVERAL:
                found[word] = [self.converted(each) for each in _list(word, said)]
            elif word in ONE:
                found[word] = self.converted(said)
            elif word != "nullable" and word != "$schema":
                found[word] = said
        if self._dialect is Dialect.OPENAPI_3_0:
            _in_newer_words(part, found)
        self._leave_out(part, found)
        return found

    def definitions(self) -> JsonObject:
        """By name, all that the schemas converted so far refer to."""
        while waiting := [each for each in self._names if self._names[each] not in self._converted]:
            for reference in waiting:
                self._converted[self._names[reference]] = self.converted(at(self._root, reference))
        return dict(self._converted)

    def standing_alone(self, schema: JsonValue) -> JsonValue:
        """A converted schema together with what it refers to."""
        defined = self.definitions()
        return {**schema, "$defs": defined} if isinstance(schema, dict) and defined else schema

    def _named(self, reference: JsonValue) -> str:
        at(self._root, reference)
        if not isinstance(reference, str):
            raise Unfit("a $ref is not text")
        if reference not in self._names:
            last = reference.rpartition("/")[2]
            plain = last if last.isascii() and last.replace("_", "").replace("-", "").isalnum() else ""
            taken = set(self._names.values())
            name = plain if plain and plain not in taken else f"part{len(taken)}"
            self._names[reference] = name if name not in taken else f"{name}_{len(taken)}"
        return f"#/$defs/{self._names[reference]}"

    def _properties(self, said: JsonValue) -> JsonObject:
        return {
            name: self.converted(each) for name, each in _object("properties", said).items() if not self._is_other(each)
        }

    def _leave_out(self, part: JsonObject, found: JsonObject) -> None:
        """What the other side alone may say is not asked for."""
        required, properties = found.get("required"), part.get("properties")
        if isinstance(required, list) and isinstance(properties, dict):
            kept = [name for name in required if not (type(name) is str and self._is_other(properties.get(name, True)))]
            found["required"] = kept

    def _is_other(self, part: JsonValue) -> bool:
        word = "readOnly" if self._direction is Direction.REQUEST else "writeOnly"
        for _ in range(2):
            if isinstance(part, dict) and truth_of(part, word, usual=False):
                return True
            if not (isinstance(part, dict) and "$ref" in part):
                return False
            part = at(self._root, part["$ref"])
        return False

    def _refuse_foreign(self, word: str, said: JsonValue) -> None:
        if self._dialect is Dialect.OPENAPI_3_0:
            if word != "nullable" and word not in _OF_3_0:
                raise Unfit("a schema has a word that OpenAPI 3.0 does not have")
            if word == "type" and (type(said) is not str or said == "null"):
                raise Unfit("a schema's type is not one of OpenAPI 3.0")
        elif word in _NAMING:
            raise Unfit(f"a schema has {word}; refer to parts of the document by their place")
        elif word == "$schema" and said not in (_DRAFT_2020, _BASE_DIALECT):
            raise Unfit("a schema is in another dialect than 2020-12")


def _in_newer_words(part: JsonObject, found: JsonObject) -> None:
    """Source: OpenAPI 3.0.4, section 4.7.24: `nullable` beside a type, exclusive bounds as true and false."""
    if truth_of(part, "nullable", usual=False) and "type" in found:
        found["type"] = [found["type"], "null"]
    for bound, exclusive in _BOUNDS:
        if exclusive not in found:
            continue
        is_exclusive = found.pop(exclusive)
        if type(is_exclusive) is not bool:
            raise Unfit(f"{exclusive} is neither true nor false, as OpenAPI 3.0 has it")
        if is_exclusive and bound in found:
            found[exclusive] = found.pop(bound)


def _refuse_beside_reference(part: JsonObject) -> None:
    """OpenAPI 3.0 does not read what stands beside a reference, though its author meant it to hold."""
    if (ASSERTIONS | frozenset((*ONE, *SEVERAL, *NAMED))) & part.keys():
        raise Unfit("a schema has a $ref and more beside it, which OpenAPI 3.0 does not read; write both under allOf")


def described(schema: JsonValue, description: str | None) -> JsonValue:
    """The schema with a description where it has none of its own."""
    if description is None or not isinstance(schema, dict) or "description" in schema:
        return schema
    return {**schema, "description": description}


def only(part: JsonObject, words: frozenset[str]) -> bool:
    """Whether a schema, as the document has it, says nothing but these words, and annotations."""
    return all(
        word in words or word in _SILENT or word in ANNOTATIONS or word.startswith("x-")
        for word in part
    )  # fmt: skip


def _object(word: str, said: JsonValue) -> JsonObject:
    if not isinstance(said, dict):
        raise Unfit(f"{word} of a schema is not an object")
    return said


def _list(word: str, said: JsonValue) -> list[JsonValue]:
    if not isinstance(said, list):
        raise Unfit(f"{word} of a schema is not a list")
    return said
