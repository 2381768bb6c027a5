"""What goes wrong between a client and its server, and the server's problems as errors of ours."""

from __future__ import annotations

from placet import errors
from placet.errors import PlacetError
from placet.model.json import JsonObject


class ServerUnreachable(PlacetError):
    """The server could not be reached; nothing was sent."""

    code = "server_unreachable"
    hint = "Look at the address, and whether the server runs: /healthz."
    retryable = True


class AnswerLost(PlacetError):
    """The request may have been served; its answer did not come."""

    code = "answer_lost"
    may_have_acted = True
    hint = "Ask again under the same names: what was done is on record, and is not done twice."
    retryable = True


class ServerRefused(PlacetError):
    """The server answered with a problem.

    Attributes:
        status: the HTTP status.
        changed: how it stands now, where the server says so.
    """

    code = "server_refused"

    def __init__(self, message: str, *, code: str, hint: str, status: int, changed: JsonObject | None = None) -> None:
        super().__init__(message, code=code, hint=hint, status=status)
        self.changed = changed


_BY_CODE: dict[str, type[PlacetError]] = {
    "sign_in_refused": errors.SignInRefused,
    "not_found": errors.NotFound,
    "cursor_refused": errors.CursorRefused,
    "store_unavailable": errors.StoreUnavailable,
    "audit_broken": errors.AuditBroken,
}
_OF_DECISIONS = (403, 409)
_LONGEST = 1_000


def error_of(status: int, problem: JsonObject) -> PlacetError:
    """The error a problem tells; its words are the server's, and no more than some of them."""
    code, detail, hint = (_text(problem.get(name)) for name in ("code", "detail", "hint"))
    known = _BY_CODE.get(code)
    if known is not None:
        return known(detail, hint=hint or known.hint)
    if status in _OF_DECISIONS:
        error: PlacetError = errors.DecisionRefused(detail, code=code or "decision_refused", hint=hint)
        error.status = status
        return error
    changed = problem.get("changed")
    refused = ServerRefused(
        detail or f"The server answered with status {status}.",
        code=code or "server_refused",
        hint=hint,
        status=status,
        changed=changed if isinstance(changed, dict) else None,
    )
    refused.retryable = problem.get("retryable") is True
    return refused


def _text(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""
