"""What an answer tells, as values of ours; anything else is told as what it is, and never shown."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from placet.client.errors import AnswerUnreadable, error_of
from placet.client.outcomes import outcome_of
from placet.client.wire import Answer
from placet.errors import PlacetError
from placet.model.json import JsonObject
from placet.model.outcome import Outcome
from placet.rules.documents import NotADocument, value_of

Value = TypeVar("Value")


def refused(answer: Answer, document: Any) -> PlacetError:
    """What an answer says that is none of those that were expected."""
    if answer.status < 300:
        return AnswerUnreadable(only_looked=answer.ask.only_looks)
    return error_of(answer.status, document, only_looked=answer.ask.only_looks)


def read(kind: type[Value], answer: Answer) -> Value:
    """The value that the whole answer tells.

    Raises:
        AnswerUnreadable: it tells none, as everywhere here.
    """
    return _value(kind, answer, answer.document)


def members(kind: type[Value], answer: Answer, name: str) -> list[Value]:
    """The values of a list in the answer."""
    return [_value(kind, answer, each) for each in listed(answer, name)]


def objects(answer: Answer, name: str) -> list[JsonObject]:
    """The objects of a list in the answer, as they are."""
    found = listed(answer, name)
    if all(isinstance(each, dict) for each in found):
        return found
    raise AnswerUnreadable(only_looked=answer.ask.only_looks)


def listed(answer: Answer, name: str) -> list[Any]:
    document = answer.document
    if isinstance(document, dict) and isinstance(document.get(name), list):
        found: list[Any] = document[name]
        return found
    raise AnswerUnreadable(only_looked=answer.ask.only_looks)


def outcome(answer: Answer, document: Any) -> Outcome:
    """The outcome in the answer, or in a part of it."""
    try:
        return outcome_of(document)
    except NotADocument:
        pass
    raise AnswerUnreadable(only_looked=answer.ask.only_looks)


def is_end_of_export(ending: bytes) -> bool:
    """Whether the last bytes of an export are the line that closes it, which only a whole one has."""
    try:
        last = json.loads(ending.removesuffix(b"\n").rpartition(b"\n")[2])
    except (ValueError, RecursionError):
        return False
    return ending.endswith(b"\n") and isinstance(last, dict) and last.get("record") == "end"


def _value(kind: type[Value], answer: Answer, document: Any) -> Value:
    try:
        return value_of(kind, document)
    except NotADocument:
        pass
    raise AnswerUnreadable(only_looked=answer.ask.only_looks)
