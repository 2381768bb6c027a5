"""What a transport hands over with each message: who sent it, and what it says, decoded once and strictly.

The SDK parses the same bytes a second time, to find its way. Nothing of a call is taken from that: its decoder keeps
the last of two members of one name and knows no limits, so a message that has two meanings never reaches it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from starlette.requests import Request

from placet.errors import InvalidArguments
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.rules.decoding import DEFAULT_LIMITS, DecodingLimits, Path, decode_object

IN_SCOPE: Final = "placet_mcp"
_AROUND_ARGUMENTS: Final = 3
"""Levels that a message puts around the arguments of a call, with one to spare for `_meta`."""


async def always() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """One message as it arrived.

    Attributes:
        message: the whole JSON-RPC message; empty where there is none.
        request_id: what it is known by on record.
        session: of a client of an older revision; None where there is none.
        is_still: whether the same one still stands there, after a while.
    """

    principal: Principal
    message: JsonObject = field(default_factory=dict, repr=False)
    request_id: str | None = None
    session: str | None = None
    is_still: Callable[[], Awaitable[bool]] = always

    @property
    def params(self) -> dict[str, Any]:
        params = self.message.get("params")
        return params if type(params) is dict else {}

    @property
    def meta(self) -> dict[str, Any]:
        meta = self.params.get("_meta")
        return meta if type(meta) is dict else {}


def carried_of(ctx: ServerRequestContext[Any, Any]) -> Carried:
    """What the transport handed over with this very message."""
    found = ctx.request
    carried = found.scope.get(IN_SCOPE) if isinstance(found, Request) else found
    if type(carried) is not Carried:
        raise LookupError("no transport of ours has carried this message")
    return carried


def decode_message(text: bytes, *, max_bytes: int, wide: Collection[Path]) -> JsonObject:
    """The one JSON object of a message.

    Raises:
        InvalidArguments: the text does not have exactly one meaning, or passes a limit.
    """
    message = decode_object(text, limits=_limits(max_bytes), wide=[("params", "arguments", *path) for path in wide])
    if "method" in message and "id" in message and type(message["id"]) not in (str, int):
        raise InvalidArguments("wrong", path="/id")  # the SDK takes it for a notification, and answers nobody
    return message


@cache
def _limits(max_bytes: int) -> DecodingLimits:
    return replace(
        DEFAULT_LIMITS,
        max_bytes=max_bytes,
        max_depth=DEFAULT_LIMITS.max_depth + _AROUND_ARGUMENTS,
        max_members=2 * DEFAULT_LIMITS.max_members,
    )
