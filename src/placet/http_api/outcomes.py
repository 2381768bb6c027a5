"""Which outcome is which status, and how it is written.

    200  Succeeded, Replayed
    202  AwaitingApproval, InProgress            Location says where to look, Retry-After when
    403  Refused, for good or until a person changes something
    409  Conflict
    422  Invalid; Failed because the tool itself refused the request
    424  Unknown                                 no client library repeats a 424 by itself
    429  Refused for want of room                Retry-After
    502  Failed otherwise: provably nothing happened
    503  Refused because nothing can be decided or recorded now; Failed because the remote was busy
    504  TimedOut: a read, which changed nothing
    (NotRun occurs inside a batch only.)

The body is the outcome's own JSON, whatever the status. Source: ADR-0035.
"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode

from starlette.responses import Response

from placet.model.json import JsonObject
from placet.model.outcome import (
    AwaitingApproval,
    Conflict,
    Failed,
    InProgress,
    Invalid,
    NotRun,
    Outcome,
    Refused,
    Replayed,
    Succeeded,
    TimedOut,
    Unknown,
)

_LATER_SECONDS = 1.0
_REFUSED_FOR_ROOM = frozenset({"capacity", "circuit_open", "too_many_running"})
_REFUSED_FOR_NOW = frozenset({"boundary_unavailable", "draining", "precondition_unavailable"})


def status_of(outcome: Outcome) -> int:
    """The HTTP status of an outcome."""
    match outcome:
        case Succeeded() | Replayed():
            return 200
        case AwaitingApproval() | InProgress():
            return 202
        case Refused(code=code):
            return 429 if code in _REFUSED_FOR_ROOM else 503 if code in _REFUSED_FOR_NOW else 403
        case Conflict() | NotRun():
            return 409
        case Invalid():
            return 422
        case Unknown():
            return 424
        case Failed(code=code):
            return {"tool_rejected": 422, "remote_busy": 503, "upstream_unavailable": 503}.get(code, 502)
        case TimedOut():
            return 504


def document_of(outcome: Outcome, *, run: str) -> JsonObject:
    """The outcome's own JSON, with the names it goes by."""
    return {
        "run": run,
        "call_id": outcome.call_id,
        "tool": outcome.tool,
        "operation_key": outcome.operation_key,
        **outcome.as_data(),
    }


def headers_of(outcome: Outcome) -> dict[str, str]:
    """Where to look for what is not over yet, and when to ask again."""
    headers: dict[str, str] = {}
    match outcome:
        case AwaitingApproval():
            headers["Location"] = f"/v1/proposals/{outcome.approval_id}"
        case InProgress() | Unknown() if outcome.operation_key is not None:
            headers["Location"] = f"/v1/effects/{effect_id_of(outcome.operation_key)}"
        case _:
            pass
    if (seconds := _retry_after(outcome)) is not None:
        headers["Retry-After"] = str(max(1, math.ceil(seconds)))
    return headers


def _retry_after(outcome: Outcome) -> float | None:
    match outcome:
        case AwaitingApproval() | InProgress():
            return _LATER_SECONDS
        case Refused() | Failed() if outcome.retry_after_seconds is not None:
            return outcome.retry_after_seconds
        case _:
            return _LATER_SECONDS if status_of(outcome) in (429, 503) else None


def outcome_response(outcome: Outcome, *, run: str, headers: dict[str, str]) -> Response:
    return json_response(
        document_of(outcome, run=run), status=status_of(outcome), headers=headers_of(outcome) | headers
    )


def json_response(document: JsonObject, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A document as it is: numbers keep their kind, and nothing is converted."""
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Response(body, status_code=status, headers=headers, media_type="application/json")


def effect_id_of(operation_key: str) -> str:
    """An operation key as one piece of an address, whatever stands in it."""
    return urlsafe_b64encode(operation_key.encode()).rstrip(b"=").decode("ascii")


def operation_key_of(effect_id: str) -> str:
    """The key behind an id; that of nothing, where it is no id of ours."""
    try:
        key = urlsafe_b64decode(effect_id + "=" * (-len(effect_id) % 4)).decode()
    except ValueError:
        return ""
    return key if effect_id_of(key) == effect_id else ""
