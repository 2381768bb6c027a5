"""What goes back to the proposer: a closed union, one value per proposal, in the order proposed.

Take it apart with `match`. `code` is stable, `message` says what to do next and holds no data, `retryable` says
whether the same call may be asked again unchanged, `may_have_acted` whether the world may have changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from placet import errors
from placet.model.identifiers import ApprovalId, OperationKey
from placet.model.json import JsonObject, JsonValue
from placet.model.making import quick

RETRYABLE_CODES = frozenset(
    {
        "approval_required",
        "approver_not_entitled",
        "boundary_unavailable",
        "capacity",
        "circuit_open",
        "draining",
        "in_progress",
        "not_run",
        "not_sent",
        "precondition_unavailable",
        "remote_busy",
        "rolled_back",
        "run_paused",
        "stopped",
        "timed_out",
        "too_many_running",
        "upstream_unavailable",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    status: ClassVar[str]
    may_have_acted: ClassVar[bool] = False

    call_id: str
    tool: str
    code: str
    message: str
    operation_key: OperationKey | None = None
    edited_arguments: JsonObject | None = None
    """What a person made of the proposer's arguments: refused, what may be asked for instead; otherwise, what was."""

    def as_data(self) -> JsonObject:
        """The outcome as plain JSON, the same for every provider; what the model may know."""
        data: JsonObject = {
            "status": self.status,
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "may_have_acted": self.may_have_acted,
        }
        if self.edited_arguments is not None:
            data["edited_arguments"] = self.edited_arguments
        return data

    def for_openai(self) -> dict[str, Any]:
        """A Chat Completions `tool` message answering this call."""
        return {"role": "tool", "tool_call_id": self.call_id, "content": _json(self.as_data())}

    def for_anthropic(self) -> dict[str, Any]:
        """A Messages `tool_result` block answering this call."""
        return {
            "type": "tool_result",
            "tool_use_id": self.call_id,
            "content": _json(self.as_data()),
            "is_error": not self.is_success,
        }

    def for_mcp(self) -> dict[str, Any]:
        """The body of an MCP `CallToolResult`."""
        data = self.as_data()
        return {
            "content": [{"type": "text", "text": _json(data)}],
            "structuredContent": data,
            "isError": not self.is_success,
        }

    @property
    def retryable(self) -> bool:
        """Whether the same call may be asked again, unchanged, later."""
        return self.code in RETRYABLE_CODES

    @property
    def is_success(self) -> bool:
        return False

    def unwrap(self) -> JsonValue:
        """The result, or the typed error of this outcome raised."""
        self._raise()

    def _raise(self) -> NoReturn:
        raise self._error(errors.PlacetError)

    def _error(self, kind: type[errors.PlacetError]) -> errors.PlacetError:
        error = kind(self.message, code=self.code, tool=self.tool)
        error.retryable = self.retryable
        return error


@dataclass(frozen=True, slots=True, kw_only=True)
class _WithResult(_Outcome):
    may_have_acted = True
    result: JsonValue
    result_unavailable: str | None = None
    """Why a performed call has no result to show; None when `result` is the result."""

    @property
    def is_success(self) -> bool:
        return True

    def as_data(self) -> JsonObject:
        data = _Outcome.as_data(self)
        if self.result_unavailable is None:
            data["result"] = self.result
        else:
            data["result_unavailable"] = self.result_unavailable
        return data

    def unwrap(self) -> JsonValue:
        return self.result


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded(_WithResult):
    """It ran, once, and the result kept its contract (or was performed and cannot be shown)."""

    status = "succeeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed(_WithResult):
    """It had run before under this operation key; this is the recorded result."""

    status = "replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid(_Outcome):
    """The proposal makes no call. Fix it; nothing ran.

    Attributes:
        problems: pairs of JSON pointer and fixed message, never a value.
    """

    status = "invalid"
    problems: tuple[tuple[str, str], ...] = ()

    def as_data(self) -> JsonObject:
        data = _Outcome.as_data(self)
        data["problems"] = [{"path": path, "problem": problem} for path, problem in self.problems]
        return data

    def _raise(self) -> NoReturn:
        match self.code:
            case "unknown_tool":
                raise self._error(errors.UnknownTool)
            case "protocol_rejected":
                error: errors.PlacetError = errors.ProtocolRejected("see code")
            case _:
                error = errors.InvalidArguments(self.code, problems=self.problems)
        error.tool = self.tool
        raise error


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(_Outcome):
    """The call may not run. Nothing ran."""

    status = "refused"
    reasons: tuple[str, ...] = ()
    words: str | None = None
    """What the person who denied it said; data, not an instruction."""
    retry_after_seconds: float | None = None
    """When it may be worth asking again, where that is known."""

    def as_data(self) -> JsonObject:
        data = _Outcome.as_data(self)
        data["reasons"] = list(self.reasons)
        if self.words is not None:
            data["reviewer_said"] = self.words
        if self.retry_after_seconds is not None:
            data["retry_after_seconds"] = self.retry_after_seconds
        return data

    def _raise(self) -> NoReturn:
        match self.code:
            case (
                "budget_exhausted"
                | "run_attempts_exhausted"
                | "run_tool_exhausted"
                | "run_cost_exhausted"
                | "run_deadline_passed"
            ):
                raise self._error(errors.BudgetExhausted)
            case (
                "boundary_unavailable"
                | "stopped"
                | "quarantined"
                | "capacity"
                | "circuit_open"
                | "too_many_running"
                | "precondition_unavailable"
            ):
                raise self._error(errors.BoundaryUnavailable)
            case _:
                raise self._error(errors.PermissionDenied)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingApproval(_Outcome):
    """A person has to approve exactly this call. Ask again after the decision; asking again asks nobody twice."""

    status = "awaiting_approval"
    approval_id: ApprovalId

    def as_data(self) -> JsonObject:
        data = _Outcome.as_data(self)
        data["approval_id"] = self.approval_id
        return data

    def _raise(self) -> NoReturn:
        raise self._error(errors.ApprovalRequired)


@dataclass(frozen=True, slots=True, kw_only=True)
class InProgress(_Outcome):
    """The same operation is running elsewhere. Ask again later."""

    status = "in_progress"
    may_have_acted = True

    def _raise(self) -> NoReturn:
        raise self._error(errors.OperationInProgress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict(_Outcome):
    """The operation key names another call. Nothing ran."""

    status = "conflict"

    def _raise(self) -> NoReturn:
        raise self._error(errors.OperationConflict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut(_Outcome):
    """A read passed its deadline in every attempt."""

    status = "timed_out"

    def _raise(self) -> NoReturn:
        raise self._error(errors.ToolTimedOut)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(_Outcome):
    """It was tried and, provably for a write, nothing happened.

    Attributes:
        words: the handler's model-safe sentence, escaped and at most 500 characters; None without one.
        retry_after_seconds: how long the remote asked to wait, when that was longer than the call could.
    """

    status = "failed"
    words: str | None = None
    retry_after_seconds: float | None = None

    def as_data(self) -> JsonObject:
        data = _Outcome.as_data(self)
        if self.words is not None:
            data["tool_said"] = self.words
        if self.retry_after_seconds is not None:
            data["retry_after_seconds"] = self.retry_after_seconds
        return data

    def _raise(self) -> NoReturn:
        raise self._error(errors.ToolFailed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(_Outcome):
    """The tool may have acted. It is not repeated until a probe or a person has settled it."""

    status = "unknown"
    may_have_acted = True

    def _raise(self) -> NoReturn:
        raise self._error(errors.EffectUnknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun(_Outcome):
    """A sibling stopped the batch before this call was reached."""

    status = "not_run"

    def _raise(self) -> NoReturn:
        raise self._error(errors.CallRefused)


Outcome = (
    Succeeded
    | Replayed
    | Invalid
    | Refused
    | AwaitingApproval
    | InProgress
    | Conflict
    | TimedOut
    | Failed
    | Unknown
    | NotRun
)


def _json(data: JsonObject) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
