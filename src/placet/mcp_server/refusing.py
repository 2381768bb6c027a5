"""What is answered over HTTP before there is a message: fixed words, and nothing of what was sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from starlette.responses import Response

from placet.model.json import JsonObject, JsonValue

_MESSAGES: Final = {
    "accept_missing": "Send Accept: application/json, text/event-stream.",
    "body_too_large": "The message is larger than this server takes. Send less at once.",
    "body_too_slow": "The message did not arrive in time.",
    "host_refused": "This request was sent to another name than this server's.",
    "media_type_unsupported": "Send Content-Type: application/json, in UTF-8, without an encoding.",
    "message_malformed": "The body is not one JSON-RPC message with exactly one meaning.",
    "method_not_allowed": "This address takes POST, GET and DELETE.",
    "not_an_agent": "This is a person's own sign-in, which may decide. A client proposes with an agent's credential.",
    "not_found": "There is nothing at this address.",
    "origin_refused": "Pages of this origin may not ask here.",
    "sign_in_unavailable": "It cannot be told who this is right now. Ask again later.",
    "nothing_allowed": "This credential may use none of the tools here.",
    "sign_in_refused": "The credential names nobody here. Sign in again.",
    "too_many_sessions": "Too many sessions are open. End one with DELETE, or ask again later.",
    "too_often": "Too many requests. Ask again later.",
}


def refusal(
    code: str, status: int, *, headers: Mapping[str, str] | None = None, problems: JsonValue = None
) -> Response:
    """An answer without an id, since there is no message that it answers."""
    data: JsonObject = {"code": code}
    if problems is not None:
        data["problems"] = problems
    kind = PARSE_ERROR if code == "message_malformed" else INTERNAL_ERROR if status >= 500 else INVALID_REQUEST
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": kind, "message": _MESSAGES[code], "data": data}}
    return Response(
        json.dumps(body, separators=(",", ":")).encode(),
        status_code=status,
        headers=dict(headers or {}),
        media_type="application/json",
    )


def challenge(metadata_url: str, *, error: str | None = None) -> dict[str, str]:
    """Where to learn how to sign in. Whoever brought nothing is told no more. Source: RFC 6750, RFC 9728."""
    said = f'Bearer resource_metadata="{metadata_url}"'
    return {"WWW-Authenticate": said if error is None else f'{said}, error="{error}"'}
