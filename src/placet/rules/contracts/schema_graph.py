"""A JSON Schema as a graph: every subschema a node, every reference an edge, nothing outside of the document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from placet.errors import ContractError
from placet.model.json import JsonObject, JsonValue
from placet.rules.decoding import Path, json_pointer

Refusal = Callable[[str], ContractError]
"""Makes the refusal of one tool from the reason."""

TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
ANY_TYPE: Final = "any"
"""What `type_names` may translate to besides the types: no type at all."""

ASSERTIONS: Final = frozenset(
    {
        "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
        "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains",
        "maxProperties", "minProperties", "required", "dependentRequired",
    }
)  # fmt: skip
ANNOTATIONS: Final = frozenset(
    {
        "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format",
        "contentEncoding", "contentMediaType", "x-placet-wide",
    }
)  # fmt: skip
ONE: Final = (
    "not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties",
)  # fmt: skip
SEVERAL: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED: Final = ("properties", "patternProperties", "dependentSchemas")


@dataclass(eq=False, slots=True, kw_only=True)
class Node:
    """One subschema, with its neighbours. Frozen once the graph is read.

    Attributes:
        pointer: where it stands in the author's document.
        boolean: for `true` and `false`, which; None for an object.
        keywords: assertions and annotations, values as written.
        one, several, named: subschemas by keyword, as 2020-12 names them.
        reference: where `$ref` or `$dynamicRef` leads.
    """

    pointer: str
    boolean: bool | None = None
    keywords: JsonObject = field(default_factory=dict)
    one: dict[str, Node] = field(default_factory=dict)
    several: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    named: dict[str, dict[str, Node]] = field(default_factory=dict)
    reference: Node | None = None

    def in_place(self) -> Iterator[tuple[str, Node]]:
        """Subschemas held against the same value, by keyword."""
        if self.reference is not None:
            yield "$ref", self.reference
        for keyword in ("allOf", "anyOf", "oneOf"):
            for child in self.several.get(keyword, ()):
                yield keyword, child
        for keyword in ("not", "if", "then", "else"):
            if keyword in self.one:
                yield keyword, self.one[keyword]
        for child in self.named.get("dependentSchemas", {}).values():
            yield "dependentSchemas", child

    def children(self) -> Iterator[Node]:
        """Subschemas held against a part of the value: a member, an item, a name."""
        for keyword in (
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedItems",
            "unevaluatedProperties",
        ):
            if keyword in self.one:
                yield self.one[keyword]
        yield from self.several.get("prefixItems", ())
        for keyword in ("properties", "patternProperties"):
            yield from self.named.get(keyword, {}).values()

    def types(self) -> frozenset[str] | None:
        """The types this node itself allows; None if it says nothing of them."""
        given = self.keywords.get("type")
        if given is None:
            return None
        return frozenset(str(each) for each in (given if isinstance(given, list) else [given]))

    def is_anything(self) -> bool:
        """Whether it is plain to see that it says no more than `true`, in whatever words."""
        if self.boolean is not None:
            return self.boolean
        if not (ASSERTIONS - {"type"}).isdisjoint(self.keywords) or self.one.keys() - {"if", "not"} or self.named:
            return False
        denied = self.one.get("not")
        return (
            kinds_of(self) == _ALL_KINDS
            and (denied is None or denied.is_nothing())
            and (self.reference is None or self.reference.is_anything())
            and all(each.is_anything() for each in self.several.get("allOf", ()))
            and _alternatives_are_anything(self.several.get("anyOf", ()))
            and not {"oneOf", "prefixItems"} & self.several.keys()
        )

    def says_types_alone(self) -> bool:
        return (ASSERTIONS & self.keywords.keys()) == {"type"} and not (
            self.one or self.several or self.named or self.reference
        )

    def is_nothing(self) -> bool:
        """Whether it is plain to see that it accepts no value."""
        return self.boolean is False or ("not" in self.one and self.one["not"].is_anything())


_ALL_KINDS: Final = frozenset(TYPES)


def kinds_of(node: Node) -> frozenset[str]:
    """The types of the values that may be accepted, by types and constants alone. All if it is not plain to see."""
    if node.boolean is not None:
        return _ALL_KINDS if node.boolean else frozenset()
    named = node.types()
    kinds = _ALL_KINDS if named is None else named | ({"integer"} if "number" in named else set())
    constants = constants_of(node)
    if constants is not None:
        kinds &= frozenset(kind for each in constants for kind in _kinds_of_value(each))
    if node.reference is not None:
        kinds &= kinds_of(node.reference)
    for each in node.several.get("allOf", ()):
        kinds &= kinds_of(each)
    for keyword in ("anyOf", "oneOf"):
        if keyword in node.several:
            kinds &= frozenset().union(*map(kinds_of, node.several[keyword]))
    return kinds


def constants_of(node: Node) -> list[JsonValue] | None:
    """The values it names one by one, by `enum` and `const`; None if it names none."""
    constants = [node.keywords["const"]] if "const" in node.keywords else []
    listed = node.keywords.get("enum")
    if isinstance(listed, list):
        return constants + listed
    return constants or None


def _kinds_of_value(value: JsonValue) -> tuple[str, ...]:
    match value:
        case None:
            return ("null",)
        case bool():
            return ("boolean",)
        case int() | float():
            return ("integer", "number")
        case str():
            return ("string",)
        case list():
            return ("array",)
        case _:
            return ("object",)


def _alternatives_are_anything(alternatives: tuple[Node, ...]) -> bool:
    """Whether one accepts everything, or they name every type and nothing else."""
    if not alternatives or any(each.is_anything() for each in alternatives):
        return True
    named = [each for each in alternatives if each.says_types_alone()]
    return frozenset().union(*map(kinds_of, named)) == _ALL_KINDS


def reachable(root: Node) -> list[Node]:
    """Every node that validation can come to, the root first, each once."""
    found = {root: None}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for child in (*(each for _, each in node.in_place()), *node.children()):
            if child not in found:
                found[child] = None
                waiting.append(child)
    return list(found)


def open_path(pointer: str) -> Path:
    """The names of a JSON Pointer; `*` stands for any name or index."""
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def shown_place(pointer: str) -> str:
    """A place in a schema as refusals name it: printable ASCII, at most 128 characters."""
    return json_pointer(open_path(pointer)) or "/"
