"""What the OpenAPI document says of answers, bodies and headers. Schemas of our values are made from the values."""

from __future__ import annotations

from typing import Any

from placet.engine.desk import ApprovalView
from placet.engine.effect_views import EffectView
from placet.engine.questions import QuestionView
from placet.engine.run_views import RunDetails, RunView
from placet.engine.runs import RunReport
from placet.engine.several import ChosenAnswer
from placet.http_api.problems import MEDIA_TYPE
from placet.model.json import JsonObject
from placet.rules.documents import schema_of

Described = dict[int | str, dict[str, Any]]

_TEXT: JsonObject = {"type": "string"}
_MAYBE_TEXT: JsonObject = {"type": ["string", "null"]}
_NAME: JsonObject = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": r"^[^\u0000]+$"}


def _object(members: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": members, "required": list(required or members)}


_OUTCOME_MEMBERS: JsonObject = {
    "run": _TEXT,
    "call_id": _TEXT,
    "tool": _TEXT,
    "operation_key": _MAYBE_TEXT,
    "status": {
        "enum": [
            *("succeeded", "replayed", "invalid", "refused", "awaiting_approval", "in_progress", "conflict"),
            *("timed_out", "failed", "unknown", "not_run"),
        ]
    },
    "code": _TEXT,
    "message": _TEXT,
    "retryable": {"type": "boolean"},
    "may_have_acted": {"type": "boolean"},
    "result": {},
    "result_unavailable": _TEXT,
    "reasons": {"type": "array", "items": _TEXT},
    "reviewer_said": _TEXT,
    "tool_said": _TEXT,
    "retry_after_seconds": {"type": "number"},
    "approval_id": _TEXT,
    "problems": {"type": "array", "items": _object({"path": _TEXT, "problem": _TEXT})},
}
_ALWAYS_IN_OUTCOME = tuple(list(_OUTCOME_MEMBERS)[:9])

SCHEMAS: JsonObject = {
    "Problem": _object(
        {
            "type": {"type": "string", "format": "uri"},
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _TEXT,
            "code": _TEXT,
            "retryable": {"type": "boolean"},
            "may_have_acted": {"type": "boolean"},
            "request_id": _TEXT,
            "hint": _TEXT,
        },
        *("type", "title", "status", "detail", "code", "retryable", "may_have_acted", "request_id"),
    ),
    "Outcome": _object(_OUTCOME_MEMBERS, *_ALWAYS_IN_OUTCOME),
    "Outcomes": _object(
        {"run": _TEXT, "outcomes": {"type": "array", "items": {"$ref": "#/components/schemas/Outcome"}}}
    ),
    "Approval": schema_of(ApprovalView),
    "ChosenAnswer": schema_of(ChosenAnswer),
    "Question": schema_of(QuestionView),
    "Effect": _object({"effect_id": _TEXT, **schema_of(EffectView)["properties"]}),  # type: ignore[dict-item]
    "Run": _object({"run_ref": _TEXT, **schema_of(RunView)["properties"]}),  # type: ignore[dict-item]
    "RunDetails": _object({"run_ref": _TEXT, **schema_of(RunDetails)["properties"]}),  # type: ignore[dict-item]
    "RunReport": schema_of(RunReport),
    "Event": {"type": "object", "properties": {"writer": _TEXT, "sequence": {"type": "integer"}}},
}
"""Named schemas of the document."""

PROPOSAL: JsonObject = {
    "type": "object",
    "properties": {
        "tool": {"type": "string", "minLength": 1, "maxLength": 256},
        "arguments": {
            "description": "An object, or its JSON text as a model wrote it.",
            "anyOf": [{"type": "object"}, {"type": "string"}],
        },
        "call_id": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"},
        "version": {"type": ["string", "null"], "minLength": 1, "maxLength": 256},
        "attempt": {"type": "integer", "minimum": 1, "maximum": 100},
    },
    "required": ["tool", "arguments"],
    "additionalProperties": False,
}


_MEMBERS: JsonObject = PROPOSAL["properties"]  # type: ignore[assignment]
IN_A_TURN: JsonObject = PROPOSAL | {
    "properties": _MEMBERS | {"arguments": {"description": "What is no object, or text of one, makes no call."}},
    "required": ["call_id", "tool", "arguments"],
}


def in_a_run(proposal: JsonObject) -> JsonObject:
    """The body of one proposal: the proposal itself, and its run."""
    members = {"run": _NAME, **_MEMBERS}
    return proposal | {"properties": members, "required": ["run", "tool", "arguments"]}


def body(schema: JsonObject) -> dict[str, Any]:
    """The part of an operation that describes its body, which the framework does not parse."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def named(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}


def listed(member: str, name: str, **sometimes: JsonObject) -> JsonObject:
    """A page of a list, and members that not every one has."""
    always: JsonObject = {member: {"type": "array", "items": named(name)}, "next": _MAYBE_TEXT}
    return _object({**always, **sometimes}, *always)


def answer(description: str, schema: JsonObject, *, headers: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"description": description, "content": {"application/json": {"schema": schema}}}
    if headers:
        found["headers"] = {
            name: {"description": about, "schema": {"type": "string"}} for name, about in headers.items()
        }
    return found


_PROBLEMS = {
    400: "The request is not what this address takes.",
    401: "Nobody we know is signed in.",
    403: "Not for this principal.",
    404: "There is no such thing in your tenant.",
    405: "Not this method.",
    408: "The body did not arrive in time.",
    409: "It stands otherwise than this needs; `code` and `changed` say how.",
    412: "It is not as it was when it was read.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    422: "It has no meaning here.",
    429: "Too much at once.",
    503: "Not now; nothing was committed.",
}


def problems(*statuses: int) -> Described:
    """Problems an operation may answer with. Every one may answer 401, 429, 500 and 503."""
    schema = {"schema": named("Problem")}
    found: Described = {
        status: {"description": _PROBLEMS[status], "content": {MEDIA_TYPE: schema}}
        for status in sorted({*statuses, 401, 429, 503})
    }
    found[500] = {"description": "Something failed that nobody expected.", "content": {MEDIA_TYPE: schema}}
    return found


def outcomes(*statuses: int) -> Described:
    """The statuses an outcome may have."""
    found: Described = {}
    for status in statuses:
        found[status] = answer(_OUTCOMES[status], named("Outcome"))
    return found


_OUTCOMES = {
    200: "Succeeded, now or before.",
    202: "Not over yet: `Location` says where to look, or ask again unchanged.",
    403: "Refused. Nothing ran.",
    409: "The operation is on record with other arguments. Nothing ran.",
    422: "It makes no call, or the tool refused it. Nothing was changed.",
    424: "Unknown: it may have been performed. Do not repeat it; it will be reconciled.",
    429: "Refused for want of room. Nothing ran.",
    502: "The tool failed. Nothing was changed.",
    503: "It could not be decided or recorded, or the remote was busy. Nothing ran.",
    504: "A read did not end in time. Nothing was changed.",
}
