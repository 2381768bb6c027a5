"""What a handler's return or exception says about its attempt, wherever it ran."""

from __future__ import annotations

from types import CoroutineType

from placet.errors import NotSent, RemoteStatus, ToolRejected
from placet.model.attempt import UNSENT_CODES, Answered, Raised, Rejected, Report, Returned, Unsent
from placet.rules.foreign import safe_exception_name
from placet.rules.showing import escape_for_people

MAX_WORDS_CHARACTERS = 500


class TooLate(NotSent):
    """Nothing left before the time for it was over."""


def returned(value: object) -> Report:
    """A coroutine is a promise nobody kept: a wrapper forgot to await, so its work never began."""
    if type(value) is CoroutineType:
        value.close()
        return Raised(error_type="TypeError")
    return Returned(value=value)


def report_of(error: BaseException) -> Report:
    """What an exception says about the attempt. Reads no foreign attribute and runs no foreign method.

    Somebody may have put a key among its attributes that raises when it is compared; then it says nothing.
    """
    try:
        return _said_by(error)
    except BaseException:
        return Raised(error_type=safe_exception_name(type(error)))


def _said_by(error: BaseException) -> Report:
    kind = type(error)
    if issubclass(kind, ToolRejected):
        return Rejected(message=model_safe(words_of(error)))
    if issubclass(kind, NotSent):
        code = dict.get(error.__dict__, "code")
        known = code if type(code) is str and code in UNSENT_CODES else "not_sent"
        is_of_remote = known != "schema_drift"  # drift says nothing of how the remote does
        return Unsent(is_handlers_word=is_of_remote, code=known, is_late=issubclass(kind, TooLate))
    if kind is RemoteStatus:
        status, retry_after = dict.get(error.__dict__, "status"), dict.get(error.__dict__, "retry_after")
        if type(status) is int and 0 <= status <= 999:
            return Answered(status=status, retry_after=retry_after if type(retry_after) is str else None)
    return Raised(error_type=safe_exception_name(kind))


def model_safe(text: str) -> str:
    """Words for a model: escaped and capped."""
    return escape_for_people(text[:MAX_WORDS_CHARACTERS])[:MAX_WORDS_CHARACTERS]


def words_of(error: BaseException) -> str:
    """The sentence of a `ToolRejected`, as it was written: its first argument if that is plain text."""
    words = BaseException.__dict__["args"].__get__(error)
    first = words[0] if type(words) is tuple and words else ""
    return first[:MAX_WORDS_CHARACTERS] if type(first) is str else ""
