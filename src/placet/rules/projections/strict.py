"""A contract's schema, said again in the part of JSON Schema that a provider holds a model to.

What comes out takes whatever the contract takes, but that absence may have to be said as null, and that a `format`,
which the contract may read generously, is held to: bounds may be missing, each noted; members, types and choices may
not. Where they cannot be said, there is no strict form, and the reasons are noted instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from placet.model.json import JsonObject, JsonScalar, JsonValue
from placet.model.projection import Gap, Why
from placet.rules.projections.sizes import sizes
from placet.rules.projections.subsets import Absence, Subset

_BOUNDS_OF_TYPE: dict[str, tuple[str, ...]] = {
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
    "object": ("minProperties", "maxProperties", "propertyNames", "dependentRequired"),
}
_BOUNDS = frozenset(bound for bounds in _BOUNDS_OF_TYPE.values() for bound in bounds) | {"not"}
_BRANCHES = ("allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas")
_NOT_SAID = ("patternProperties", "prefixItems", "dependencies", "$dynamicRef", "$recursiveRef")
"""Keywords that say what may be inside, and that no strict mode takes."""

_VALUES = ("enum", "const")
_CLOSING = ("unevaluatedProperties", "unevaluatedItems")
"""Where they are false they keep out what no part of the schema declares, as every strict form does by itself."""

_SHAPE = frozenset({"type", "properties", "required", "additionalProperties", "items", "$ref", *_CLOSING})
_CONSTRAINING = _BOUNDS | _SHAPE | {*_BRANCHES, *_NOT_SAID, *_VALUES}
"""Every keyword that decides what is accepted; all others are notes to the reader."""

_INNER = frozenset({*_BRANCHES, *_NOT_SAID, *_CLOSING, "$ref", "items", "additionalProperties"})
_MAY_BE_BESIDE_VALUES = frozenset({*_VALUES, *_CLOSING, "type"})
_ALL_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictForm:
    """A schema in a provider's subset. It may be used only if there are no `reasons` against it."""

    hint: JsonObject
    left_out: tuple[Gap, ...]
    reasons: tuple[Gap, ...]


def strict_form(schema: JsonObject, subset: Subset) -> StrictForm:
    """Say a contract's schema, whose root is a plain object, in a provider's subset."""
    rendering = _Rendering(schema, subset)
    hint = rendering.whole()
    counted = sizes(hint)
    too_large = tuple(
        Gap(pointer="", keyword=what, why=Why.TOO_LARGE) for what, most in subset.most.items() if counted[what] > most
    )
    return StrictForm(hint=hint, left_out=_once(rendering.left_out), reasons=_once(rendering.reasons) or too_large)


class _Rendering:
    """One schema on its way through."""

    def __init__(self, schema: JsonObject, subset: Subset) -> None:
        definitions = schema.get("$defs")
        self._root = schema
        self._definitions: JsonObject = definitions if isinstance(definitions, dict) else {}
        self._subset = subset
        self._rendered: JsonObject = {}
        self._within: list[str] = ["#"]
        self.left_out: list[Gap] = []
        self.reasons: list[Gap] = []

    def whole(self) -> JsonObject:
        hint = self._node(self._root, "")
        return {**hint, "$defs": self._rendered} if self._rendered else hint

    def _node(self, schema: JsonValue, pointer: str) -> JsonObject:
        if not isinstance(schema, dict):
            return self._nothing(pointer, "type", Why.TYPE_NOT_SAID)
        hint = self._shape(schema, pointer)
        description = schema.get("description")
        return {**hint, "description": description} if type(description) is str else hint

    def _shape(self, schema: JsonObject, pointer: str) -> JsonObject:
        for keyword in _NOT_SAID:
            if keyword in schema:
                return self._nothing(pointer, keyword, Why.KEYWORD_UNSUPPORTED)
        if "$ref" in schema:
            return self._reference(schema, pointer)
        if any(keyword in schema for keyword in _VALUES):
            return self._choice_of_values(schema, pointer)
        for keyword in _BRANCHES:
            if keyword in schema and not self._only_narrows(schema, keyword):
                return self._branches(schema, keyword, pointer)
        self._leave_out(schema, (*_BRANCHES, "not"), pointer)
        return self._typed(schema, pointer)

    # ------------------------------------------------------------ references

    def _reference(self, schema: JsonObject, pointer: str) -> JsonObject:
        beside = _constraining(schema, but=("$ref", *_CLOSING))
        if beside - _BOUNDS - set(_VALUES) or not _closes(schema):
            return self._nothing(pointer, "$ref", Why.REFERENCE_NOT_FOLLOWED)
        self._leave_out(schema, beside, pointer)
        reference = schema["$ref"]
        target = self._target(reference)
        if target is None or type(reference) is not str:
            return self._nothing(pointer, "$ref", Why.REFERENCE_NOT_FOLLOWED)
        if reference in self._within and not self._subset.may_recur:
            return self._nothing(pointer, "$ref", Why.RECURSIVE)
        if reference != "#":
            self._define(reference, target)
        link: JsonObject = {"$ref": reference}
        return {"anyOf": [link]} if type(schema.get("description")) is str else link  # a reference stands alone

    def _define(self, reference: str, target: JsonObject) -> None:
        key = reference.removeprefix("#/$defs/")
        name = _unescaped(key)
        if name not in self._rendered:
            self._rendered[name] = {}  # its place in the order, and where it leads back to itself
            self._within.append(reference)
            self._rendered[name] = self._node(target, f"/$defs/{key}")
            self._within.pop()

    def _target(self, reference: JsonValue) -> JsonObject | None:
        """What a reference leads to; None if that is not a definition, or only another way to itself."""
        if reference == "#":
            return self._root
        start = self._definition(reference)
        target, passed = start, {reference}
        while target is not None and "$ref" in target:
            following = target["$ref"]
            if following in passed:
                return None
            passed.add(following)
            target = self._root if following == "#" else self._definition(following)
        return start

    def _definition(self, reference: JsonValue) -> JsonObject | None:
        if type(reference) is not str or not reference.startswith("#/$defs/") or reference.count("/") != 2:
            return None
        found = self._definitions.get(_unescaped(reference.removeprefix("#/$defs/")))
        return found if isinstance(found, dict) else None

    # ------------------------------------------------------------ choices

    def _choice_of_values(self, schema: JsonObject, pointer: str) -> JsonObject:
        keyword = "enum" if "enum" in schema else "const"
        given = schema["enum"] if keyword == "enum" else [schema["const"]]
        values = given if isinstance(given, list) else []
        said = _types(schema)
        kept = [
            value
            for value in values
            if _is_scalar(value) and (said is None or _type_of(value) in said or _is_number_of(value, said))
        ]
        if not kept or not all(map(_is_scalar, values)):
            return self._nothing(pointer, keyword, Why.VALUE_NOT_SCALAR)
        self._leave_out(schema, _constraining(schema, but=_MAY_BE_BESIDE_VALUES), pointer)
        if keyword == "enum":
            self._leave_out(schema, ("const",), pointer)
        types = list(dict.fromkeys(map(_type_of, kept)))
        return {"type": types[0] if len(types) == 1 else list[JsonValue](types), "enum": list[JsonValue](kept)}

    def _only_narrows(self, schema: JsonObject, keyword: str) -> bool:
        """Whether the branches say nothing about members or types that the schema does not say without them."""
        properties = schema.get("properties")
        known = set(properties) if isinstance(properties, dict) else set()
        branches = schema[keyword]
        if keyword == "dependentSchemas" and isinstance(branches, dict):
            branches = list(branches.values())
        listed = branches if isinstance(branches, list) else [branches]
        return _types(schema) is not None and all(_adds_nothing(branch, known) for branch in listed)

    def _branches(self, schema: JsonObject, keyword: str, pointer: str) -> JsonObject:
        branches = schema[keyword]
        is_alone = not _constraining(schema, but=(keyword, *_CLOSING))
        if not isinstance(branches, list) or not is_alone or not _closes(schema):
            return self._nothing(pointer, keyword, Why.KEYWORD_UNSUPPORTED)
        if keyword == "allOf" and len(branches) == 1:
            return self._node(branches[0], f"{pointer}/allOf/0")
        if keyword == "allOf":
            return self._nothing(pointer, keyword, Why.KEYWORD_UNSUPPORTED)
        if keyword == "oneOf":
            self._leave_out(schema, ("oneOf",), pointer)  # that it is one alone is not said
        return {"anyOf": [self._node(branch, f"{pointer}/{keyword}/{index}") for index, branch in enumerate(branches)]}

    # ------------------------------------------------------------ types

    def _typed(self, schema: JsonObject, pointer: str) -> JsonObject:
        types = _types(schema)
        if not types:
            return self._nothing(pointer, "type", Why.TYPE_NOT_SAID)
        if len(types) == 1:
            return self._of_type(types[0], schema, pointer)
        if "object" in types or "array" in types:
            return {"anyOf": [self._of_type(each, schema, pointer) for each in types]}
        hint: JsonObject = {"type": list[JsonValue](types)}
        for each in types:
            hint.update(self._bounds(each, schema, pointer))
        return hint

    def _of_type(self, each: str, schema: JsonObject, pointer: str) -> JsonObject:
        hint: JsonObject = {"type": each}
        if each == "object":
            hint.update(self._members(schema, pointer))
        elif each == "array":
            hint["items"] = self._node(schema.get("items"), f"{pointer}/items")
        return {**hint, **self._bounds(each, schema, pointer)}

    def _bounds(self, each: str, schema: JsonObject, pointer: str) -> JsonObject:
        bounds = [keyword for keyword in _BOUNDS_OF_TYPE.get(each, ()) if keyword in schema]
        said = [keyword for keyword in bounds if self._subset.takes(keyword, schema[keyword])]
        self._leave_out(schema, [keyword for keyword in bounds if keyword not in said], pointer)
        return {keyword: schema[keyword] for keyword in said}

    def _members(self, schema: JsonObject, pointer: str) -> JsonObject:
        properties = schema.get("properties", {})
        listed = schema.get("required", [])
        if (keyword := _what_opens(schema)) is not None:
            return self._nothing(pointer, keyword, Why.MEMBERS_OPEN)
        if not isinstance(properties, dict) or not isinstance(listed, list) or not set(listed) <= set(properties):
            return self._nothing(pointer, "required", Why.MEMBERS_OPEN)
        here = {name: f"{pointer}/properties/{_escaped(name)}" for name in properties}
        required = set(listed)
        if self._subset.absence is Absence.NULL:
            for name, member in properties.items():
                if name not in required and not self._null_is_absence(member):
                    self._nothing(here[name], "required", Why.ABSENCE_IS_NOT_NULL)
            required = set(properties)
        return {
            "properties": {name: self._node(member, here[name]) for name, member in properties.items()},
            "required": [name for name in properties if name in required],
            "additionalProperties": False,
        }

    def _null_is_absence(self, member: JsonValue) -> bool:
        """Whether the contract takes null for this member, and says that leaving it out means just that."""
        is_default = isinstance(member, dict) and "default" in member and member["default"] is None
        return is_default and self._takes_null(member, frozenset())

    def _takes_null(self, schema: JsonValue, followed: frozenset[str]) -> bool:
        if not isinstance(schema, dict):
            return schema is True
        types, reference, values = _types(schema), schema.get("$ref"), schema.get("enum")
        if (types is not None and "null" not in types) or (isinstance(values, list) and None not in values):
            return False
        if "const" in schema and schema["const"] is not None:
            return False
        if type(reference) is str and (
            reference in followed or not self._takes_null(self._target(reference), followed | {reference})
        ):
            return False
        for keyword, judge in (("anyOf", any), ("oneOf", any), ("allOf", all)):
            branches = schema.get(keyword)
            if isinstance(branches, list) and not judge(self._takes_null(branch, followed) for branch in branches):
                return False
        return True

    # ------------------------------------------------------------ notes

    def _leave_out(self, schema: JsonObject, keywords: Collection[str], pointer: str) -> None:
        self.left_out.extend(
            Gap(pointer=pointer, keyword=keyword, why=Why.KEYWORD_UNSUPPORTED)
            for keyword in schema
            if keyword in keywords
        )

    def _nothing(self, pointer: str, keyword: str, why: Why) -> JsonObject:
        self.reasons.append(Gap(pointer=pointer, keyword=keyword, why=why))
        return {}


# ---------------------------------------------------------------- looking


def _constraining(schema: JsonObject, *, but: Iterable[str]) -> set[str]:
    return {keyword for keyword in schema if keyword in _CONSTRAINING}.difference(but)


def _closes(schema: JsonObject) -> bool:
    return all(schema.get(keyword, False) is False for keyword in _CLOSING)


def _what_opens(schema: JsonObject) -> str | None:
    """The keyword that lets in members which are not declared, or would have to keep them out; None if closed."""
    said = [keyword for keyword in ("additionalProperties", "unevaluatedProperties") if keyword in schema]
    return next((keyword for keyword in said if schema[keyword] is not False), None if said else "additionalProperties")


def _adds_nothing(branch: JsonValue, known: set[str]) -> bool:
    """Whether a branch only bounds members that are known without it."""
    if not isinstance(branch, dict):
        return True
    properties = branch.get("properties", {})
    return (
        not any(keyword in branch for keyword in _INNER) and isinstance(properties, dict) and known >= set(properties)
    )


def _types(schema: JsonObject) -> list[str] | None:
    """The types that are said; None if none is."""
    given = schema.get("type")
    listed = given if isinstance(given, list) else [given]
    return [each for each in _ALL_TYPES if each in listed] if "type" in schema else None


def _is_scalar(value: JsonValue) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _type_of(value: JsonScalar | JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return "string"


def _is_number_of(value: JsonValue, types: list[str]) -> bool:
    return "number" in types and type(value) is int


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _unescaped(key: str) -> str:
    return unquote(key).replace("~1", "/").replace("~0", "~")


def _once(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    return tuple(dict.fromkeys(gaps))
