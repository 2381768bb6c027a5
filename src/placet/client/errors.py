"""What goes wrong between a client and its server, and the server's problems as errors of ours.

    nothing was sent         ServerUnreachable, ServerNotTrusted
    nothing was done         ServerRedirects, and what the server refused
    it may have been served  AnswerLost, AnswerTooLarge, AnswerUnreadable

Of a request that only looks the last three say that nothing was done: `may_have_acted` is of each error.
"""

from __future__ import annotations

from typing import Any

from placet import errors
from placet.errors import PlacetError
from placet.model.json import JsonObject


class ServerUnreachable(PlacetError):
    """The server could not be reached; nothing was sent."""

    code = "server_unreachable"
    hint = "Look at the address, and whether the server runs: /healthz."
    retryable = True


class ServerNotTrusted(PlacetError):
    """The server could not show that it is who it is said to be; nothing was sent."""

    code = "server_not_trusted"
    hint = (
        "Its certificate is of another name, over, or of an authority that this machine does not know (SSL_CERT_FILE "
        "names one), or it speaks no TLS there. Do not send a credential to it otherwise."
    )


class ServerRedirects(PlacetError):
    """The server names another address, and a credential is not sent on; nothing was done."""

    code = "server_redirects"
    hint = "Name the address at which placet itself answers: /healthz."


class NotHeard(PlacetError):
    """What became of a request is not known, because its answer is not."""

    code = "answer_lost"
    may_have_acted = True

    def __init__(self, *, only_looked: bool = False) -> None:
        """
        Args:
            only_looked: whether the request changes nothing, however often it is served.
        """
        told = type(self).__doc__ or ""
        if only_looked:
            told = f"{told.partition(';')[0]}; the request only looked, so nothing was done."
        super().__init__(told, hint="Look again." if only_looked else None)
        self.may_have_acted = not only_looked


class AnswerLost(NotHeard):
    """The answer did not come, or not whole; the request may have been served."""

    hint = "Ask again under the same names: what was done is on record, and is not done twice."
    retryable = True


class AnswerTooLarge(NotHeard):
    """The answer is larger than this client takes; the request may have been served."""

    code = "answer_too_large"
    hint = "Look how it stands before you repeat it, and for less at once."


class AnswerUnreadable(NotHeard):
    """What came is no answer of this API; the request may have been served."""

    code = "answer_unreadable"
    hint = (
        "Look how it stands before you repeat it. The server is of another version, or something stands between: "
        "compare `placet version` here and there."
    )


class ServerRefused(PlacetError):
    """The server answered with a problem.

    Attributes:
        status: the HTTP status.
        changed: how it stands now, where the server says so.
    """

    code = "server_refused"
    hint = "Look at what answers at that address: /healthz."

    def __init__(
        self, message: str, *, code: str, hint: str | None, status: int, changed: JsonObject | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint, status=status)
        self.changed = changed


_BY_CODE: dict[str, type[PlacetError]] = {
    "sign_in_missing": errors.SignInRefused,
    "sign_in_expired": errors.SignInRefused,
    "not_found": errors.NotFound,
    "cursor_refused": errors.CursorRefused,
    "store_unavailable": errors.StoreUnavailable,
    "store_in_doubt": errors.StoreInDoubt,
    "audit_broken": errors.AuditBroken,
    "audit_busy": errors.AuditBusy,
}
_OF_DECISIONS = (403, 409)
_LONGEST = 1_000
_MOST_PROBLEMS = 16


def error_of(status: int, document: Any, *, only_looked: bool) -> PlacetError:
    """The error that an answer tells; its words are the server's, and no more than some of them."""
    problem: JsonObject = document if isinstance(document, dict) else {}
    code, detail, hint = (_text(problem.get(name)) for name in ("code", "detail", "hint"))
    told = problem.get("changed")
    changed = told if isinstance(told, dict) else None
    if 300 <= status < 400:
        return ServerRedirects()
    known = _BY_CODE.get(code)
    if known is not None:
        return known(detail, hint=hint or known.hint)
    if status == 401 and code:
        return errors.SignInRefused(detail, code=code, hint=hint or errors.SignInRefused.hint)
    if code == errors.InvalidArguments.code:
        return _invalid(detail, problem.get("problems"))
    if status in _OF_DECISIONS and code:
        refusal = errors.DecisionRefused(detail, code=code, hint=hint, status=status)
        refusal.changed = changed
        refusal.retryable = problem.get("retryable") is True
        return refusal
    refused = ServerRefused(
        detail or f"The server answered with status {status}.",
        code=code or ServerRefused.code,
        hint=hint if code else None,
        status=status,
        changed=changed,
    )
    refused.retryable = problem.get("retryable") is True
    said = problem.get("may_have_acted")
    refused.may_have_acted = said if isinstance(said, bool) else status >= 500 and not only_looked
    return refused


def _invalid(detail: str, problems: object) -> PlacetError:
    """The arguments of an edit, refused as the engine refuses them here."""
    listed = problems if isinstance(problems, list) else []
    found = tuple(
        (_text(each.get("path")), _text(each.get("problem")))
        for each in listed[:_MOST_PROBLEMS]
        if isinstance(each, dict)
    )
    error = errors.InvalidArguments(found[0][1] if found else errors.InvalidArguments.code, problems=found)
    error.args = (detail,) if detail else error.args
    return error


def _text(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""
