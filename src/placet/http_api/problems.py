"""What goes wrong outside of outcomes, as RFC 9457 problems: our stable code, the next step, and no word of the input.

Which error is which status is one table here; which outcome is, is in `outcomes`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from placet import errors
from placet.errors import PlacetError
from placet.model.json import JsonObject
from placet.rules.refusing import NOT_ENTITLED

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
_TYPES = "urn:placet:problem:"
_CHALLENGE = 'Bearer realm="placet"'
_CHALLENGE_AGAIN = f'{_CHALLENGE}, error="invalid_token"'
"""Whoever brought nothing is told what to bring, and no more. Source: RFC 6750, section 3.1."""


class HttpProblem(PlacetError):
    """A request that cannot be served as it is.

    Attributes:
        status_code: the HTTP status.
        members: further members of the problem; nothing that was sent.
        headers: further headers of the answer.
    """

    code = "request_malformed"
    status_code = 400

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        hint: str | None = None,
        members: JsonObject | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.members = members or {}
        self.headers = dict(headers or {})

    @classmethod
    def about(cls, error: PlacetError, members: JsonObject) -> HttpProblem:
        """The same error, saying more."""
        problem = cls(str(error), code=error.code, hint=error.hint, members=members)
        problem.status_code = int(status_of(error))
        problem.retryable = error.retryable
        return problem


class RequestMalformed(HttpProblem):
    """The request is not what this address takes; nothing was looked at or done."""

    hint = "The OpenAPI document at /openapi.json says what it takes."


class Meaningless(HttpProblem):
    """The request is well formed and says nothing that can be done; nothing was done."""

    code = "meaningless"
    status_code = 422


class NoSuchAddress(HttpProblem):
    """There is nothing at this address."""

    code = "not_found"
    status_code = 404


class MethodNotAllowed(HttpProblem):
    """This address does not take this method."""

    code = "method_not_allowed"
    status_code = 405


class BodyTooSlow(HttpProblem):
    """The body did not arrive in time; nothing was looked at or done."""

    code = "body_too_slow"
    status_code = 408
    retryable = True


class BodyTooLarge(HttpProblem):
    """The body is larger than this server takes; nothing was looked at or done."""

    code = "body_too_large"
    status_code = 413
    hint = "Send less at once."


class MediaTypeUnsupported(HttpProblem):
    """The body is not said to be JSON in UTF-8; nothing was looked at or done."""

    code = "media_type_unsupported"
    status_code = 415
    hint = "Send Content-Type: application/json."


class PreconditionFailed(HttpProblem):
    """It is not as it was when it was read; nothing was decided."""

    code = "precondition_failed"
    status_code = 412
    hint = "Read it again, and decide about what is there."


class HeadTooLarge(HttpProblem):
    """The head of the request is larger than this server takes; nothing was looked at or done."""

    code = "head_too_large"
    status_code = 431


class TooManyWaiting(HttpProblem):
    """Too many requests wait already."""

    code = "too_many_waiting"
    status_code = 429
    retryable = True
    hint = "Ask without waiting, or later."


class TooOften(HttpProblem):
    """Requests come too often; this one was not looked at."""

    code = "too_often"
    status_code = 429
    retryable = True
    hint = "Wait as long as Retry-After says."


class InternalFault(HttpProblem):
    """Something failed that nobody expected; whether anything was done is not known."""

    code = "internal_fault"
    status_code = 500
    may_have_acted = True
    hint = "Ask again under the same names: what was done is on record, and is not done twice."


_BY_CODE: dict[str, HTTPStatus] = {
    **dict.fromkeys(("never_granted", "not_grantable"), HTTPStatus.FORBIDDEN),
    **dict.fromkeys(("grant_too_long", "grant_too_often"), HTTPStatus.UNPROCESSABLE_ENTITY),
    **dict.fromkeys(NOT_ENTITLED, HTTPStatus.FORBIDDEN),
    "looked_in_the_future": HTTPStatus.UNPROCESSABLE_ENTITY,
    "reason_missing": HTTPStatus.UNPROCESSABLE_ENTITY,
}


def status_of(error: PlacetError) -> HTTPStatus:
    """The HTTP status of an error that is no outcome."""
    match error:
        case HttpProblem():
            return HTTPStatus(error.status_code)
        case errors.SignInRefused():
            return HTTPStatus.UNAUTHORIZED
        case errors.NotFound():
            return HTTPStatus.NOT_FOUND
        case errors.DecisionRefused():
            return _BY_CODE.get(error.code, HTTPStatus.CONFLICT)
        case errors.CursorRefused() | errors.MisuseError() | errors.InvalidProposal():
            return HTTPStatus.UNPROCESSABLE_ENTITY
        case errors.AuditBroken():
            return HTTPStatus.CONFLICT
        case errors.AuditBusy():
            return HTTPStatus.TOO_MANY_REQUESTS
        case errors.StoreError() | errors.KeyMaterialError() | errors.BoundaryUnavailable():
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR


def problem_of(error: PlacetError, *, request_id: str) -> JsonObject:
    """The document of a problem. Its words are fixed ones of ours, and names that people chose for each other."""
    status = status_of(error)
    body: JsonObject = {
        "type": f"{_TYPES}{error.code}",
        "title": status.phrase,
        "status": int(status),
        "detail": str(error),
        "code": error.code,
        "retryable": error.retryable,
        "may_have_acted": error.may_have_acted,
        "request_id": request_id,
    }
    if error.hint:
        body["hint"] = error.hint
    if isinstance(error, errors.InvalidArguments):
        body["problems"] = [{"path": path, "problem": problem} for path, problem in error.problems]
    return body | error.members if isinstance(error, HttpProblem) else body


def problem_response(error: PlacetError, *, request_id: str) -> Response:
    status = status_of(error)
    headers: dict[str, Any] = dict(error.headers) if isinstance(error, HttpProblem) else {}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = _CHALLENGE if error.code == "sign_in_missing" else _CHALLENGE_AGAIN
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers.setdefault("Retry-After", str(RETRY_SECONDS))
    if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
        headers["Connection"] = "close"  # the rest of the body is not waited for
    body = json.dumps(problem_of(error, request_id=request_id), ensure_ascii=False).encode("utf-8", "backslashreplace")
    return Response(body, status_code=status, headers=headers, media_type=MEDIA_TYPE)
