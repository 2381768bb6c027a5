"""A schema without the arguments that the server says: the model neither sees nor sends them.

Only a schema whose top level says nothing of members but what each of them is can lose one and keep its meaning.
"""

from __future__ import annotations

from typing import Final

from placet.model.contract import Bound, BoundSource
from placet.model.exact import is_plain_json, is_whole, ordered
from placet.model.json import JsonObject, JsonValue
from placet.rules.contracts.options import Options
from placet.rules.contracts.schema_bounds import refuse_costly
from placet.rules.contracts.schema_checks import SchemaRule
from placet.rules.contracts.schema_closing import closed
from placet.rules.contracts.schema_graph import ASSERTIONS, NAMED, ONE, SEVERAL, Node
from placet.rules.contracts.schema_reading import read_graph
from placet.rules.contracts.schema_voices import may_be

MAX_BOUND: Final = 16
_MAX_FIXED_BYTES: Final = 8_192
_MAX_FIXED_DEPTH: Final = 32
_SAYS_MORE: Final = (
    ASSERTIONS | {*ONE, *SEVERAL, *NAMED, "$ref", "$dynamicRef", "dependencies"}
) - {"type", "properties", "required", "additionalProperties", "unevaluatedProperties"}  # fmt: skip


def without_bound(options: Options, authored: JsonObject, bind: tuple[Bound, ...]) -> JsonObject:
    """The schema as its author wrote it, less the bound members; the very schema if none is bound.

    Raises:
        ContractError: what is bound is not declared at the top level, could not take the value, or is bound twice; or
            the top level says more of its members, so that leaving one out would change what the rest means.
    """
    found = ordered(bind)
    if found is None or not all(is_whole(each, Bound) and type(each.source) is BoundSource for each in found):
        raise options.refuse("bind is a sequence of Bound")
    if not found:
        return authored
    members = [each.member for each in found]
    if not all(type(each) is str for each in members) or len(set(members)) != len(members) or len(found) > MAX_BOUND:
        raise options.refuse(f"bind names at most {MAX_BOUND} arguments, each once")
    properties = authored.get("properties")
    declared: JsonObject = properties if isinstance(properties, dict) else {}
    if unknown := set(members) - declared.keys():
        raise options.refuse(f"bind names no argument: {ascii(min(unknown))[1:-1][:80]}")
    if more := authored.keys() & _SAYS_MORE:
        raise options.refuse(f"its schema says {min(more)} at the top level, so none of its arguments can be bound")
    for each in found:
        _require_fit(options, each, _member_schema(authored, declared[each.member]))
    required = authored.get("required")
    kept: JsonObject = {name: schema for name, schema in declared.items() if name not in members}
    bare = authored | {"properties": kept}
    if isinstance(required, list):
        bare["required"] = [name for name in required if name not in members]
    return bare


def _member_schema(authored: JsonObject, member: JsonValue) -> JsonObject:
    """The member's schema standing alone, with what it may refer to."""
    beside = {name: authored[name] for name in ("$schema", "$defs", "definitions") if name in authored}
    return beside | {"allOf": [member]}


def _require_fit(options: Options, bound: Bound, schema: JsonObject) -> None:
    """A fixed value has to be one; the others are text, so the argument has to take some."""
    root = read_graph(schema, options.refuse)
    if bound.source is BoundSource.FIXED:
        if not is_plain_json(bound.value) or _problems(options, root, bound.value):
            raise options.refuse(f"the value bound to {ascii(bound.member)[:80]} is not one that its schema accepts")
    elif bound.value is not None or not may_be(root, "string"):
        raise options.refuse(f"what is bound to {ascii(bound.member)[:80]} is text, and its schema accepts none")


def _problems(options: Options, root: Node, value: JsonValue) -> bool:
    visits = refuse_costly(root, options.refuse, max_depth=_MAX_FIXED_DEPTH, max_bytes=_MAX_FIXED_BYTES)
    try:
        return bool(SchemaRule.of(closed(root, options.refuse), visits).problems(value))
    except ValueError:  # told when the whole schema is looked at, or, if only this member is wrong, here
        return True
