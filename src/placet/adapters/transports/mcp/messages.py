"""JSON-RPC on the wire: what goes out as bytes, and what came in as one of a few values, read strictly.

Nothing that comes in raises. What cannot be read is `Noise`; an answer that can be told from its id and no more is
`Garbled`. Source: JSON-RPC 2.0; MCP 2025-11-25 and 2026-07-28, basic protocol.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, NoReturn

from placet.model.json import JsonObject, JsonValue

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

REFUSED_UNREAD: Final = frozenset((METHOD_NOT_FOUND, HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION))
"""Errors of the protocol by which a server says that it did not take the request up. Invalid parameters are not among
them: published servers answer so as well when a result breaks their own output schema, which is after the act."""

RequestId = int | str
_MOST_ID_CHARACTERS: Final = 128
MOST_LEVELS: Final = 80
"""Objects and arrays within each other: what a contract may take as a result, and what the protocol puts around it."""
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_NESTS: Final = (dict, list)
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that may be half of a character; where its other half is missing, nobody can send or keep the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A request was answered with a result, which took so many bytes."""

    id: RequestId
    result: JsonObject = field(repr=False)
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A request was answered with an error. Its words are nobody's business.

    Attributes:
        id: None where the server could not read ours.
        error: the whole of it, for those few errors that mean something to whoever asked.
    """

    id: RequestId | None
    code: int
    error: JsonObject = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbled:
    """A request was answered, and what with cannot be told."""

    id: RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversized:
    """A request was answered with a result that is larger than what is read."""

    id: RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The server asks us."""

    id: RequestId
    method: str
    params: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """The server asks us something that is larger, or nested deeper, than what is read of a question."""

    id: RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """The server tells us."""

    method: str
    params: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Something came that is none of these."""


Message = Answer | Fault | Garbled | Oversized | Asked | Unread | Noticed | Noise


class _Strange(ValueError):
    """A number that JSON does not have."""


def request(request_id: RequestId, method: str, params: JsonObject) -> bytes:
    return _text({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def notice(method: str, params: JsonObject) -> bytes:
    said: JsonObject = {"jsonrpc": "2.0", "method": method}
    if params:
        said["params"] = params
    return _text(said)


def answer(request_id: RequestId, result: JsonObject) -> bytes:
    return _text({"jsonrpc": "2.0", "id": request_id, "result": result})


def refusal(request_id: RequestId, code: int, words: str) -> bytes:
    return _text({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": words}})


def read_message(text: bytes | str) -> Message:
    """What came in. A member that stands twice leaves open which was meant, and half a character is no text. What is
    nested too deep is not heard, since whoever looks at it further in would come to the end of their stack.
    """
    has_duplicates = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_duplicates
        found = dict(pairs)
        has_duplicates = has_duplicates or len(found) != len(pairs)
        return found

    try:
        whole = text if isinstance(text, str) else text.decode("utf-8-sig")
        said = json.loads(whole, object_pairs_hook=members, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return Noise()
    if type(said) is not dict or said.get("jsonrpc") != "2.0" or _is_deep(said):
        return Noise()
    read = _read(said, len(text))
    if not has_duplicates and (_HALF.search(whole) is None or _is_text(said)):
        return read
    match read:
        case Answer(id=found) | Garbled(id=found) | Fault(id=int() | str() as found) if _is_text(found):
            return Garbled(id=found)
        case _:
            return Noise()


def is_too_deep(text: bytes | str) -> bool:
    """Whether it has more levels than are read; of what is no JSON, an estimate."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if raw.count(b"[") + raw.count(b"{") <= MOST_LEVELS:
        return False
    brackets = _STRING.sub(b"", raw).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MOST_LEVELS


def _read(said: dict[str, Any], size: int) -> Message:
    has_id = "id" in said
    request_id: Any = said.get("id")
    method, params = said.get("method"), said.get("params", {})
    if method is not None:
        if type(method) is not str or type(params) is not dict:
            return Noise()
        if not has_id:
            return Noticed(method=method, params=params)
        return Asked(id=request_id, method=method, params=params) if is_id(request_id) else Noise()
    if "error" in said and "result" not in said and (request_id is None or is_id(request_id)):
        error = said["error"]
        code = error.get("code") if type(error) is dict else None
        if type(code) is int:
            return Fault(id=request_id, code=code, error=error)
        return Garbled(id=request_id) if request_id is not None else Noise()
    if not is_id(request_id):
        return Noise()
    result = said.get("result")
    if type(result) is dict and "error" not in said:
        return Answer(id=request_id, result=result, size=size)
    return Garbled(id=request_id)


def is_id(value: object) -> bool:
    """Whether it may name a request. A truth value is no number here."""
    return type(value) is int or (type(value) is str and len(value) <= _MOST_ID_CHARACTERS)


def _is_deep(said: JsonObject) -> bool:
    """The same as `is_too_deep` of what was read, which costs less: a level at a time, each value once."""
    level: list[Any] = [said]
    for _ in range(MOST_LEVELS):
        within = (each.values() if type(each) is dict else each for each in level)
        level = [value for values in within for value in values if type(value) in _NESTS]
        if not level:
            return False
    return True


def _is_text(said: JsonValue) -> bool:
    """Whether every text in it, names of members too, can be sent and kept."""
    try:
        json.dumps(said, ensure_ascii=False).encode()
        return True
    except (ValueError, RecursionError):
        return False


def _text(said: JsonObject) -> bytes:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _refuse(_: str) -> NoReturn:
    raise _Strange
