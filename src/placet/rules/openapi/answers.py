"""What an answer of a service means for the attempt that asked.

answer                                          becomes
success, its media type, a body that is JSON    the result, which the contract holds against its schema
success, and a body that cannot be used         performed; the result is not available
success, in another media type than declared    cannot tell: what answers so is not the service, a sign-in page say
a status that the manifest calls a refusal      rejected: nothing happened
any other status, a redirect too                the status, and the table of `rules/retry.py`
"""

from __future__ import annotations

from placet.errors import InvalidArguments, RemoteStatus, ToolRejected
from placet.model.attempt import BrokenResult
from placet.model.json import JsonValue
from placet.model.openapi import HttpAnswer, Operation, Success
from placet.rules.decoding import DecodingLimits, decode_object

TOO_LARGE = BrokenResult(reason="result_too_large")
BROKEN = BrokenResult(reason="result_broken")


class AnswerLost(ConnectionError):
    """What came back is not the service's answer, or not all of it: it may have acted."""


def result_of(
    operation: Operation, answer: HttpAnswer, *, refusals: frozenset[int], limits: DecodingLimits
) -> JsonValue | BrokenResult:
    """What the handler returns.

    Args:
        limits: of the body, which stands one level deep in the result.

    Raises:
        ToolRejected: it refused, and changed nothing, as the deployment knows of this status.
        RemoteStatus: it answered with another status than success.
        AnswerLost: it is not the service's answer.
    """
    status = answer.status
    if not 200 <= status <= 299:
        if status in refusals:
            raise ToolRejected(f"The service refused the request with status {status}.", status=status)
        raise RemoteStatus(status, retry_after=answer.retry_after)
    success = _success(operation, status)
    if success is None:
        return {"status": status}  # which the contract does not know, so the result is not available
    if not success.media_types:
        return {"status": status}
    if answer.media_type not in success.media_types:
        raise AnswerLost("The answer is in another media type than the service declares.")
    if answer.encoding != "identity":
        return BROKEN
    if answer.body is None:
        return TOO_LARGE
    return _read(status, answer, limits)


def declared_body(operation: Operation, status: int) -> bool:
    """Whether an answer of this status has a body that is read."""
    success = _success(operation, status) if 200 <= status <= 299 else None
    return success is not None and bool(success.media_types)


def _success(operation: Operation, status: int) -> Success | None:
    exact = [each for each in operation.successes if status in each.statuses]
    return next(iter(exact), None) or next((each for each in operation.successes if not each.statuses), None)


def _read(status: int, answer: HttpAnswer, limits: DecodingLimits) -> JsonValue | BrokenResult:
    raw = answer.body or b""
    reason = None
    try:
        if answer.media_type.startswith("text/"):
            return {"status": status, "body": raw.decode("utf-8")}
        read = decode_object(b'{"body":' + raw + b"}", limits=limits)
        return {"status": status, **read} if list(read) == ["body"] else BROKEN  # more would be said beside it
    except UnicodeDecodeError:
        reason = "broken"
    except InvalidArguments as refusal:
        reason = refusal.reason
    return BrokenResult(reason=f"result_{reason}")
