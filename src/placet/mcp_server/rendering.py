"""An outcome as an MCP client gets it: what the model reads, what programs read, and what a repeat needs.

    content             the outcome in words of JSON, for the model; a tool of an upstream: its own content
    structuredContent   what the listed output schema promises
    isError             whether it came to nothing, or cannot be told
    _meta               io.placet/outcome: code, status, whether it may be asked again, whether it may have acted
                        io.placet/retry: what to send in `_meta` to ask for the very same again

A tool that does not exist, and one that its caller may not see, are the protocol's own error, the same for both.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mcp_types import INVALID_PARAMS, ErrorData

from placet.mcp_server.naming import OUTCOME, RETRY, Names
from placet.mcp_server.relaying import Relay
from placet.model.contract import Contract
from placet.model.json import JsonObject, JsonValue
from placet.model.outcome import AwaitingApproval, InProgress, Invalid, Outcome, Replayed, Succeeded
from placet.rules.upstream_results import is_content

UNKNOWN_TOOL: Final = "unknown_tool"
_MALFORMED: Final = "A member of _meta that begins with io.placet/ is not of its form, so nothing ran."
Wire = dict[str, Any]


def unknown_tool() -> ErrorData:
    """The same whether there is no such tool, or none for this caller."""
    return ErrorData(
        code=INVALID_PARAMS,
        message="Unknown tool: there is no such tool here, so nothing ran. tools/list names those there are.",
        data={"code": UNKNOWN_TOOL},
    )


def malformed_meta(member: str) -> ErrorData:
    return ErrorData(code=INVALID_PARAMS, message=_MALFORMED, data={"code": "meta_malformed", "member": member})


def rendered(
    outcome: Outcome,
    contract: Contract | None,
    names: Names,
    *,
    page: str | None,
    relay: Relay | None = None,
) -> Wire | ErrorData:
    """The answer to a `tools/call`.

    Args:
        contract: of the tool that was asked for; None where there is none.
        page: where people decide, for whoever is told to wait for one.
    """
    if isinstance(outcome, Invalid) and outcome.code == UNKNOWN_TOOL:
        return unknown_tool()
    if contract is not None and contract.origin is not None:
        body = _of_upstream(outcome, contract, relay)
    else:
        body = outcome.for_mcp()
    if isinstance(outcome, AwaitingApproval) and page is not None:
        body["content"].append(_text(f"A person approves or refuses it here: {page}"))
        if "structuredContent" in body:
            body["structuredContent"]["url"] = page
    body["_meta"] = meta_of(outcome, names, page)
    body["resultType"] = "complete"
    return body


def _of_upstream(outcome: Outcome, contract: Contract, relay: Relay | None) -> Wire:
    """What the upstream answered, as it answered; what it did not answer is said without structure, since that would
    have to be the upstream's."""
    if not isinstance(outcome, Succeeded | Replayed) or outcome.result_unavailable is not None:
        body = outcome.for_mcp()
        del body["structuredContent"]
        return body
    result: Any = outcome.result
    if is_content(contract.result_schema):
        content = result["content"] if relay is None else relay.outward_content(contract, result["content"])
        return {**result, "content": content, "isError": False}
    return {"content": [_text(_json(result))], "structuredContent": result, "isError": False}


def meta_of(outcome: Outcome, names: Names, page: str | None) -> JsonObject:
    """What programs read of an outcome."""
    said: JsonObject = {
        "status": outcome.status,
        "code": outcome.code,
        "retryable": outcome.retryable,
        "may_have_acted": outcome.may_have_acted,
        "operation_key": outcome.operation_key,
        "run": names.run,
        "call_id": names.call_id,
    }
    meta: JsonObject = {OUTCOME: said}
    if isinstance(outcome, AwaitingApproval):
        said["approval_id"] = outcome.approval_id
        said["url"] = page
        meta[RETRY] = names.as_meta(outcome.approval_id)
    elif outcome.retryable or isinstance(outcome, InProgress):
        meta[RETRY] = names.as_meta()
    return meta


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
