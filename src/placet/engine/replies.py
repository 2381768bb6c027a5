"""The sentences that go back to a proposer: what happened and what to do next, never data.

One function per outcome, so that every front door and every path says the same thing in the same words.
"""

from __future__ import annotations

from collections.abc import Iterator

from placet.errors import InvalidArguments, PlacetError, ProtocolRejected
from placet.model.approval import Approval
from placet.model.call import Call
from placet.model.contract import UNKNOWN_TOOL_LABEL, Contract
from placet.model.identifiers import ApprovalId
from placet.model.json import JsonObject, JsonValue
from placet.model.outcome import (
    AwaitingApproval,
    Conflict,
    Failed,
    InProgress,
    Invalid,
    NotRun,
    Refused,
    Replayed,
    Succeeded,
    TimedOut,
    Unknown,
)
from placet.rules.preconditions import STATE_CHANGED

_REFUSALS = {
    "denied": "Policy does not allow this call, so nothing ran. Asking again will not help; tell the user.",
    "approval_denied": "A person refused this call, so nothing ran. Do not ask for it again; tell the user.",
    "approval_expired": "Nobody answered in time, or the answer was not used in time, so nothing ran. If it is still "
    "wanted, ask anew, as a new call; a person is asked again.",
    "approval_withdrawn": "The question was taken back, so nothing ran. If it is still wanted, ask anew, as a new "
    "call.",
    "edited_by_person": "A person changed this call, so nothing ran. If what they made of it serves, ask for it, with "
    "exactly the edited arguments; otherwise tell the user. It is the edited call that a person decides.",
    "approval_suspect": "The approval on record does not hold, so nothing ran. Tell the user: an operator has to look.",
    "grant_suspect": "A standing grant does not hold, so nothing ran. Tell the user: an operator has to look.",
    "approver_not_entitled": "Whoever approved this may not approve it any more, so nothing ran. Ask again, "
    "unchanged: it is put to a person anew.",
    "precondition_unavailable": "The state that an approval of this call is bound to could not be read, so nothing ran "
    "and no approval was used up. Ask again later, unchanged.",
    "operation_of_another": "This operation belongs to somebody else. Nothing ran; do not ask again, tell the user.",
    "budget_exhausted": "This run has used its steps. Nothing ran; report what you have so far.",
    "attempts_exhausted": "This operation has used its attempts. Nothing ran; tell the user.",
    "run_attempts_exhausted": "This run has used the attempts it was given. Nothing ran; report what you have so far.",
    "run_tool_exhausted": "This run has used this tool as often as it may. Nothing ran; go on without it.",
    "run_cost_exhausted": "This run cannot pay for this call any more. Nothing ran; report what you have so far.",
    "run_deadline_passed": "This run is past its deadline. Nothing ran; report what you have so far.",
    "run_paused": "A person has paused this run. Nothing ran; ask again later.",
    "run_cancelled": "This run was cancelled. Nothing ran; do not ask again in it.",
    "run_over": "This run has ended. Nothing ran; do not ask again in it.",
    "tool_not_in_run": "This run was begun without this tool. Nothing ran; go on with the tools it has.",
    "not_your_run": "There is no such run. Nothing ran; do not ask again in it, tell the user.",
    "stopped": "An operator has stopped this for now. Nothing ran; ask again later.",
    "quarantined": "This tool is in quarantine: its server describes it otherwise than it was accepted, or an operator "
    "put it there. Nothing ran; do not ask again until a person has looked at it.",
    "draining": "This process is ending and takes no more calls. Nothing ran; ask again later.",
    "capacity": "Earlier calls of this tool have not come back. Nothing ran; ask again later.",
    "tool_closed": "This tool was refused too often in this run and is closed for the rest of it. Nothing ran; do not "
    "ask for it again, in any variation; go on without it or tell the user.",
    "circuit_open": "This tool has been failing and is left alone for a while. Nothing ran; ask again later.",
    "too_many_running": "Too many calls of this tool are running. Nothing ran; ask again later.",
    "boundary_unavailable": "The call could not be decided or recorded, so nothing ran. Ask again later.",
}

_STATE_CHANGED = "the state it was approved in has changed since, so that approval is void, and once more "


def invalid(error: PlacetError, *, call_id: str, contract: Contract | None) -> Invalid:
    """For a proposal that made no call."""
    tool = contract.name if contract is not None else UNKNOWN_TOOL_LABEL
    if isinstance(error, InvalidArguments) and error.reason == "turn_truncated":
        message = "The answer was cut off before its end, so none of its calls ran. Ask again, and send less at once."
        return Invalid(call_id=call_id, tool=tool, code=error.code, message=message, problems=error.problems)
    if isinstance(error, InvalidArguments):
        names = ", ".join(contract.argument_names) if contract is not None else ""
        message = (
            f"The arguments break the contract of {tool}, so nothing ran. Correct the named members and ask again."
        )
        if any(problem == "extra_forbidden" for _, problem in error.problems):
            message += f" The accepted members are: {names or 'none'}."
        message += "".join(_choices(contract, error.problems)) if contract is not None else ""
        return Invalid(call_id=call_id, tool=tool, code=error.code, message=message, problems=error.problems)
    if isinstance(error, ProtocolRejected):
        message = f"This is not a usable tool call, so nothing ran: {error.reason}. Write the call anew and ask again."
    else:
        message = "There is no such tool here, so nothing ran. Use only the tools you were given, by their exact names."
    return Invalid(call_id=call_id, tool=tool, code=error.code, message=message)


def refused(
    code: str,
    *,
    call_id: str,
    tool: str,
    reasons: tuple[str, ...] = (),
    words: str | None = None,
    call: Call | None = None,
    retry_after_seconds: float | None = None,
    edited_arguments: JsonObject | None = None,
) -> Refused:
    return Refused(
        call_id=call_id,
        tool=tool,
        code=code,
        message=_REFUSALS[code],
        reasons=reasons,
        words=words,
        operation_key=call.operation_key if call is not None else None,
        retry_after_seconds=retry_after_seconds,
        edited_arguments=edited_arguments,
    )


def refused_call(
    call: Call,
    code: str,
    *,
    reasons: tuple[str, ...] = (),
    words: str | None = None,
    retry_after_seconds: float | None = None,
    edited_arguments: JsonObject | None = None,
) -> Refused:
    return refused(
        code,
        call_id=call.reply_to,
        tool=call.contract.name,
        reasons=reasons,
        words=words,
        call=call,
        retry_after_seconds=retry_after_seconds,
        edited_arguments=edited_arguments,
    )


def awaiting(call: Call, approval: Approval) -> AwaitingApproval:
    why = _STATE_CHANGED if STATE_CHANGED in approval.question.reasons else ""
    return AwaitingApproval(
        call_id=call.reply_to,
        tool=call.contract.name,
        code="approval_required",
        message=(
            f"Nothing ran yet: {why}a person has to approve exactly this call. It has been asked for; do not change or "
            "repeat it otherwise. Ask again, unchanged, after the decision."
        ),
        operation_key=call.operation_key,
        approval_id=ApprovalId(approval.question.approval_id),
    )


def succeeded(call: Call, result: JsonValue) -> Succeeded:
    return Succeeded(
        call_id=call.reply_to,
        tool=call.contract.name,
        code="succeeded",
        message="Done. Use the result; do not ask for the same again.",
        operation_key=call.operation_key,
        result=result,
    )


def performed_without_result(call: Call, reason: str) -> Succeeded:
    return Succeeded(
        call_id=call.reply_to,
        tool=call.contract.name,
        code="performed_result_unavailable",
        message="It was performed, but its result cannot be shown. Do not repeat it.",
        operation_key=call.operation_key,
        result=None,
        result_unavailable=reason,
    )


def replayed(call: Call, result: JsonValue, *, unavailable: str | None) -> Replayed:
    message = "It had been done before; this is the recorded result. Nothing ran again; use the result."
    if unavailable is not None:
        message = "It had been done before; its result cannot be shown. Nothing ran again; do not repeat it."
    return Replayed(
        call_id=call.reply_to,
        tool=call.contract.name,
        code="replayed",
        message=message,
        operation_key=call.operation_key,
        result=result,
        result_unavailable=unavailable,
    )


def in_progress(call: Call) -> InProgress:
    return InProgress(
        call_id=call.reply_to,
        tool=call.contract.name,
        code="in_progress",
        message="The same operation is running already. Do not start it another way; ask again later for its result.",
        operation_key=call.operation_key,
    )


def conflict(call: Call) -> Conflict:
    return Conflict(
        call_id=call.reply_to,
        tool=call.contract.name,
        code="operation_conflict",
        message="This operation is on record with other arguments. Nothing ran; use a new operation for a new wish.",
        operation_key=call.operation_key,
    )


def timed_out(call: Call) -> TimedOut:
    return TimedOut(
        call_id=call.reply_to,
        tool=call.contract.name,
        code="timed_out",
        message=f"The tool did not answer in time{_times(call)}. It only reads, so nothing was changed; ask again if "
        "need be.",
        operation_key=call.operation_key,
    )


def _times(call: Call) -> str:
    """Both limits of an attempt, where there are two."""
    silence, seconds = call.contract.silence_seconds, call.contract.timeout_seconds
    return "" if silence is None else f" ({seconds:g} seconds in all, {silence:g} without a word of its progress)"


def failed(call: Call, *, code: str, words: str | None = None, retry_after_seconds: float | None = None) -> Failed:
    sentence = {
        "tool_rejected": "The tool refused the request and changed nothing. Correct the request or tell the user.",
        "remote_busy": "The remote system was too busy and changed nothing. Ask again later.",
        "schema_drift": "The server behind this tool describes it otherwise than it was accepted, so nothing happened. "
        "Do not ask again; tell the user: an operator has to look.",
        "upstream_unavailable": "The server behind this tool cannot be reached now, so nothing happened. Ask again "
        "later.",
        "not_sent": "The request could not be sent, so nothing happened. Ask again later.",
        "rolled_back": "It was taken back before it was final, so nothing was changed. Ask again later.",
        "result_broken": "The tool's answer broke its contract and was withheld; nothing was changed. "
        "Do not ask again; tell the user.",
    }.get(code, "The tool failed; nothing was changed. Tell the user.")
    return Failed(
        call_id=call.reply_to,
        tool=call.contract.name,
        code=code,
        message=sentence,
        operation_key=call.operation_key,
        words=words or None,
        retry_after_seconds=retry_after_seconds,
    )


def unknown(call: Call) -> Unknown:
    return Unknown(
        call_id=call.reply_to,
        tool=call.contract.name,
        code="effect_unknown",
        message=(
            "It cannot be told whether this was performed. Do not repeat it, and do not try it another way; it will "
            "be reconciled. Tell the user so."
        ),
        operation_key=call.operation_key,
    )


def not_run(*, call_id: str, tool: str) -> NotRun:
    return NotRun(
        call_id=call_id,
        tool=tool,
        code="not_run",
        message="Another call of this batch stopped it, so nothing ran. Ask again if it is still wanted.",
    )


def _choices(contract: Contract, problems: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """What a closed choice accepts: words of the contract's author, not of the proposer."""
    properties = contract.arguments_schema.get("properties")
    for path, problem in problems:
        node = properties.get(path.removeprefix("/")) if isinstance(properties, dict) else None
        choices = node.get("enum") if isinstance(node, dict) else None
        if problem in ("enum", "literal_error") and isinstance(choices, list):
            yield f" {path.removeprefix('/')} is one of: {', '.join(str(choice) for choice in choices)}."
