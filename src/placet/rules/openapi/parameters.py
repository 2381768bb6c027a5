"""Which schema a parameter's argument has, so that its value can be written where it travels and nowhere else.

    path    no text that could end its segment or climb: not empty, not `.` or `..`, no slash, percent sign, control
    header  printable ASCII with no space at its ends, so no line can begin in it
    query   any text: all of it is percent-encoded

Values are scalars, lists of scalars, and in a query objects of scalars. Null cannot be written, so it is no argument.
"""

from __future__ import annotations

import re
from typing import Final

from placet.errors import ContractError
from placet.model.json import JsonObject, JsonValue
from placet.model.openapi import Place, Style
from placet.rules.contracts.limits import LIMITS
from placet.rules.contracts.schema_bounds import refuse_costly
from placet.rules.contracts.schema_graph import Node, kinds_of
from placet.rules.contracts.schema_reading import read_graph
from placet.rules.openapi.references import Unfit

PATH_TEXT: Final = (
    r"^([^./\\%?#\x00-\x1f\x7f][^/\\%?#\x00-\x1f\x7f]*|\.[^./\\%?#\x00-\x1f\x7f][^/\\%?#\x00-\x1f\x7f]*"
    r"|\.\.[^/\\%?#\x00-\x1f\x7f]+)$"
)
HEADER_TEXT: Final = r"^[!-~]([ -~]*[!-~])?$"
TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
"""What a header's name is. Source: RFC 9110, section 5.1."""
_SCALARS: Final = ("boolean", "integer", "number", "string")
_STYLES: Final = {
    (Place.PATH, "simple"): (Style.SIMPLE, Style.SIMPLE),
    (Place.HEADER, "simple"): (Style.SIMPLE, Style.SIMPLE),
    (Place.QUERY, "form"): (Style.FORM, Style.FORM_EXPLODED),
    (Place.QUERY, "spaceDelimited"): (Style.SPACE, Style.FORM_EXPLODED),
    (Place.QUERY, "pipeDelimited"): (Style.PIPE, Style.FORM_EXPLODED),
    (Place.QUERY, "deepObject"): (Style.DEEP, Style.DEEP),
}
_USUAL: Final = {Place.PATH: "simple", Place.HEADER: "simple", Place.QUERY: "form"}
_OF_OBJECTS: Final = frozenset({Style.FORM_EXPLODED, Style.DEEP})


def style_of(place: Place, said: str | None, *, explode: bool | None) -> Style:
    """How it is written.

    Raises:
        Unfit: in a style that is not carried.
    """
    style = _USUAL[place] if said is None else said
    known = _STYLES.get((place, style))
    if known is None:
        raise Unfit(f"a parameter of the {place.value} is in a style that is not carried")
    is_exploded = style == "form" if explode is None else explode
    return known[is_exploded]


def argument_schema(place: Place, style: Style, schema: JsonValue, alone: JsonValue) -> JsonValue:
    """The schema of an argument that this parameter can carry: the declared one, narrowed where it has to be.

    Args:
        alone: the same schema together with what it refers to.

    Raises:
        Unfit: not all of what it declares can be written.
    """
    if style is Style.JSON:
        return schema
    node = _node(alone)
    kinds = kinds_of(node) - {"null"}
    if kinds and kinds <= frozenset(_SCALARS):
        return _narrowed(schema, _scalar(place, kinds))
    if kinds == {"array"} and style is not Style.DEEP:
        if place is Place.QUERY and _lists_scalars(schema):
            return schema
        least: JsonObject = {} if place is Place.QUERY else {"minItems": 1}
        return _both(schema, {"type": "array", "items": _scalar(place, frozenset(_SCALARS)), **least})
    if kinds == {"object"} and style in _OF_OBJECTS:
        scalar: JsonObject = _scalar(place, frozenset(_SCALARS))
        names = object_names(alone)
        return _both(schema, {"type": "object", "properties": {name: scalar for name in names}})
    if len(kinds) > 1:
        raise Unfit(f"a parameter of the {place.value} has no single type")
    raise Unfit(f"a parameter of the {place.value} is a {min(kinds, default='null')} in a style that cannot carry it")


def object_names(alone: JsonValue) -> tuple[str, ...]:
    """The members of a parameter that is an object.

    Raises:
        Unfit: it may have others than it names.
    """
    found: dict[str, None] = {}
    waiting, seen = [_node(alone)], set[Node]()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        more = node.one.get("additionalProperties")
        if (more is not None and not (more.is_anything() or more.is_nothing())) or "patternProperties" in node.named:
            raise Unfit("a parameter is a mapping of any names")
        found |= dict.fromkeys(node.named.get("properties", ()))
        waiting += [child for keyword, child in node.in_place() if keyword != "not"]
    return tuple(found)


def _node(alone: JsonValue) -> Node:
    refused = False
    try:
        if isinstance(alone, dict):
            node = read_graph(alone, _refusal)
            refuse_costly(node, _refusal, max_depth=LIMITS.max_depth, max_bytes=1)  # circles above all
            return node
    except ContractError:
        refused = True
    raise Unfit("the schema of a parameter cannot be enforced" if refused else "a parameter has no schema")


def _refusal(why: str) -> ContractError:
    return ContractError(why)


def _scalar(place: Place, kinds: frozenset[str]) -> JsonObject:
    named: list[JsonValue] = [each for each in _SCALARS if each in kinds]
    schema: JsonObject = {"type": named[0] if len(named) == 1 else named}
    if "string" in kinds and place is not Place.QUERY:
        schema["pattern"] = PATH_TEXT if place is Place.PATH else HEADER_TEXT
    return schema


def _narrowed(schema: JsonValue, scalar: JsonObject) -> JsonValue:
    """In one place where that says the same, which models and people read more easily."""
    if isinstance(schema, dict) and schema.get("type") == scalar["type"] and "$ref" not in schema:
        if "pattern" not in scalar:
            return schema
        if "pattern" not in schema:
            return {**schema, "pattern": scalar["pattern"]}
    return _both(schema, scalar)


def _lists_scalars(schema: JsonValue) -> bool:
    """Whether it is plain to see, without a look at what it refers to."""
    if not isinstance(schema, dict) or schema.get("type") != "array" or "prefixItems" in schema:
        return False
    items = schema.get("items")
    return isinstance(items, dict) and items.get("type") in _SCALARS


def _both(schema: JsonValue, narrowing: JsonObject) -> JsonValue:
    both: JsonObject = {"allOf": [schema, narrowing]}
    if isinstance(schema, dict) and "description" in schema:
        both["description"] = schema["description"]
    return both
