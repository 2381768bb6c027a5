"""One tool as an MCP server lists it. MCP clients take any JSON Schema, so nothing has to be left out.

The output schema describes the structured content of an outcome (`Outcome.for_mcp`), which holds the tool's result:
that is what a client gets and may check. The annotations say what the effect class says, no better and no worse.
"""

from __future__ import annotations

from typing import get_args

from placet.model.contract import Contract, EffectClass
from placet.model.json import JsonObject, JsonValue
from placet.model.outcome import Outcome
from placet.model.projection import Gap, NoProjection, Projection, Provider, Strict, Why
from placet.rules.projections.roots import copied, plain_root, require_contract

_STATUSES = [kind.status for kind in get_args(Outcome)]


def mcp_tool(contract: Contract) -> Projection:
    """The `Tool` of a `tools/list` result.

    Raises:
        MisuseError: it is not a contract.
    """
    contract = require_contract(contract)
    root = plain_root(contract)
    if root is None:
        reason = Gap(pointer="", keyword="type", why=Why.ROOT_NOT_PLAIN)
        return NoProjection(provider=Provider.MCP, reasons=(reason,))
    return Strict(
        provider=Provider.MCP,
        definition={
            "name": contract.name,
            "description": contract.description,
            "inputSchema": root,
            "outputSchema": outcome_schema(contract.result_schema),
            "annotations": behaviour_hints(contract.effect_class),
        },
    )


def behaviour_hints(effect_class: EffectClass) -> JsonObject:
    """What MCP calls hints. A write is not known to be additive only, so it may destroy; and no effect class says
    how far a tool reaches, so `openWorldHint` keeps the protocol's own default, that it may reach anywhere."""
    return {
        "readOnlyHint": not effect_class.is_write,
        "destructiveHint": effect_class.is_write,
        "idempotentHint": effect_class.repeats_safely,
    }


def outcome_schema(result_schema: JsonObject) -> JsonObject:
    """What the structured content of any outcome of this tool looks like."""
    result = copied(result_schema)
    definitions = result.pop("$defs", None) if isinstance(result, dict) else None
    text: JsonObject = {"type": "string"}
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "status": {"enum": list[JsonValue](_STATUSES)},
            "code": text,
            "message": text,
            "retryable": {"type": "boolean"},
            "may_have_acted": {"type": "boolean"},
            "result": result,
        },
        "required": ["status", "code", "message", "retryable", "may_have_acted"],
    }
    return schema if not isinstance(definitions, dict) else {**schema, "$defs": definitions}
