"""The outcome that a server's JSON tells, as the library's own value."""

from __future__ import annotations

from typing import Any

from placet.errors import PlacetError
from placet.model.identifiers import ApprovalId, OperationKey
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
from placet.rules.documents import NotADocument, value_of


def outcome_of(document: Any) -> Outcome:
    """
    Raises:
        NotADocument: it tells none.
    """
    try:
        return _outcome(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, PlacetError):
        pass
    raise NotADocument


def is_outcome(document: Any) -> bool:
    """Whether a document is an outcome's, and no problem's."""
    return isinstance(document, dict) and "status" in document and "call_id" in document


def _outcome(document: Any) -> Outcome:
    key = document["operation_key"]
    common: dict[str, Any] = {
        "call_id": _text(document["call_id"]),
        "tool": _text(document["tool"]),
        "code": _text(document["code"]),
        "message": _text(document["message"]),
        "operation_key": None if key is None else OperationKey(_text(key)),
    }
    match document["status"]:
        case "succeeded" | "replayed" as status:
            kind = Succeeded if status == "succeeded" else Replayed
            unavailable = _text_or_none(document.get("result_unavailable"))
            result = document["result"] if unavailable is None else None
            return kind(**common, result=result, result_unavailable=unavailable)
        case "invalid":
            problems = tuple((_text(each["path"]), _text(each["problem"])) for each in _list(document["problems"]))
            return Invalid(**common, problems=problems)
        case "refused":
            return Refused(
                **common,
                reasons=tuple(map(_text, _list(document["reasons"]))),
                words=_text_or_none(document.get("reviewer_said")),
                retry_after_seconds=_seconds(document.get("retry_after_seconds")),
                edited_arguments=_object(document.get("edited_arguments")),
            )
        case "awaiting_approval":
            return AwaitingApproval(**common, approval_id=ApprovalId(_text(document["approval_id"])))
        case "failed":
            return Failed(
                **common,
                words=_text_or_none(document.get("tool_said")),
                retry_after_seconds=_seconds(document.get("retry_after_seconds")),
            )
        case "in_progress":
            return InProgress(**common)
        case "conflict":
            return Conflict(**common)
        case "timed_out":
            return TimedOut(**common)
        case "unknown":
            return Unknown(**common)
        case "not_run":
            return NotRun(**common)
        case _:
            raise ValueError


def _object(value: object) -> JsonObject | None:
    if value is None or type(value) is dict:
        return value
    raise TypeError


def _list(value: Any) -> list[Any]:
    if type(value) is list:
        return value
    raise TypeError


def _seconds(value: Any) -> float | None:
    return None if value is None else value_of(float, value)


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _text(value: object) -> str:
    if type(value) is str:
        return value
    raise TypeError
