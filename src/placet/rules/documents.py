"""Our frozen values as JSON documents, documents as our values again, and the schema of both.

    ApprovalView ── document_of ──► JSON ── value_of(ApprovalView, …) ──► an equal ApprovalView

A document has a member for each field, by its name. Instants are ISO texts in UTC, enums their values, tuples arrays.
Whoever reads ignores members it does not know and takes the default of those that are missing, so that both ends of a
wire need not be of one age.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from placet.errors import PlacetError
from placet.model.json import JsonObject, JsonValue

Value = TypeVar("Value")

_WRONG = (KeyError, TypeError, ValueError, OverflowError, RecursionError, PlacetError)
"""What reading something else ends in."""
_DAY = timedelta(days=1)
_EARLIEST = datetime.min.replace(tzinfo=UTC) + _DAY
_LATEST = datetime.max.replace(tzinfo=UTC) - _DAY
"""Instants that every zone has a name for."""


class NotADocument(PlacetError):
    """What was read is not what was expected; nothing of it is shown."""

    code = "document_unreadable"
    hint = "Whoever wrote it is of another version, or something stands between."


def document_of(value: object) -> JsonValue:
    """The document of a value of ours. Values of exact plain types are documents themselves."""
    if value is None or type(value) in (str, int, float, bool, dict, list):
        return value  # type: ignore[return-value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Enum):
        return document_of(value.value)
    if isinstance(value, tuple):
        return [document_of(each) for each in value]
    if isinstance(value, frozenset):
        return sorted((document_of(each) for each in value), key=str)
    if is_dataclass(value):
        return {field.name: document_of(getattr(value, field.name)) for field in fields(value)}
    raise TypeError("there is no document of such a value")


def value_of(kind: type[Value], document: JsonValue) -> Value:
    """The value of this kind that a document tells.

    Raises:
        NotADocument: it is none; without a cause, and without a word of it.
    """
    try:
        found: Value = _reader(cast(Any, kind))(document)
        return found
    except _WRONG:
        pass
    raise NotADocument


def schema_of(kind: Any) -> JsonObject:
    """The JSON Schema, draft 2020-12, of documents of this kind; other members may come with time."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if kind is dict or origin is dict:
        return {"type": "object"}
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(each) for each in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (tuple, frozenset, list):
        return {"type": "array", "items": schema_of(arguments[0])}
    if hasattr(kind, "__supertype__"):
        return schema_of(kind.__supertype__)
    if issubclass(kind, Enum):
        return {"type": "string", "enum": [member.value for member in kind]}
    if is_dataclass(kind):
        hints = _hints(cast(Any, kind))
        members: JsonObject = {field.name: schema_of(hints[field.name]) for field in fields(kind)}
        return {"type": "object", "properties": members, "required": list(members)}
    return dict(_SIMPLE[kind])


_OPEN_JSON = {"JsonScalar": Any, "JsonValue": Any}
"""JSON's own values name each other without an end; here they are whatever they are."""
_SIMPLE: dict[Any, JsonObject] = {
    NoneType: {"type": "null"},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
}


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, localns=_OPEN_JSON)


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return _as_it_is
    if kind is dict or origin is dict:
        return lambda document: _exact(dict, document)
    if origin is Literal:
        return lambda document: _one_of(arguments, document)
    if origin in (Union, UnionType):
        return _of_any(tuple(_reader(each) for each in arguments))
    if origin in (tuple, frozenset, list):
        return _of_items(origin, _reader(arguments[0]))
    if hasattr(kind, "__supertype__"):
        return _reader(kind.__supertype__)
    if issubclass(kind, Enum):
        return lambda document: kind(_exact(str, document))
    if is_dataclass(kind):
        return _of_members(kind)
    if kind is datetime:
        return _instant
    return lambda document: _exact(kind, document)


def _as_it_is(document: Any) -> Any:
    return document


def _exact(kind: type, document: Any) -> Any:
    if kind is float and type(document) is int:
        float(document)  # which only raises, for one that is larger than every float
        return document
    if type(document) is kind:
        return document
    raise TypeError


def _one_of(values: tuple[Any, ...], document: Any) -> Any:
    for value in values:
        if type(document) is type(value) and document == value:
            return document
    raise ValueError


def _instant(document: Any) -> datetime:
    instant = datetime.fromisoformat(_exact(str, document))
    if instant.tzinfo is None or not _EARLIEST <= instant.astimezone(UTC) <= _LATEST:
        raise ValueError
    return instant.astimezone(UTC)


def _of_any(readers: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
    def read(document: Any) -> Any:
        for reader in readers:
            try:
                return reader(document)
            except _WRONG:
                continue
        raise TypeError

    return read


def _of_items(container: Any, reader: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda document: container(reader(each) for each in _exact(list, document))


def _of_members(kind: Any) -> Callable[[Any], Any]:
    hints = _hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}
    optional = {
        field.name for field in fields(kind) if field.default is not MISSING or field.default_factory is not MISSING
    }

    def read(document: Any) -> Any:
        members = _exact(dict, document)
        return kind(
            **{
                name: reader(members[name])
                for name, reader in readers.items()
                if name in members or name not in optional
            }
        )

    return read
