"""Handlers in processes of their own that return and raise what is hostile; a new process finds them here by name."""

from __future__ import annotations

import asyncio
from typing import Any

import placet
from placet import NotSent, RemoteStatus, ToolRejected
from placet.testing.hostile import KINDS, HostileValues

SECRET = "zq7f3a91" + "canary"
OPTIONS: dict[str, Any] = {
    "effect": "write", "risk": "medium", "permission": "ops.write", "isolation": "process", "breaker": None,
    "timeout_seconds": 20.0,
}  # fmt: skip


def _value(name: str) -> Any:
    """A hostile value by its name; after a colon, what it is put into."""
    name, _, place = name.partition(": ")
    value = HostileValues(SECRET, kind=KeyboardInterrupt).values()[name]()
    return {"": value, "in a dict": {"a": value}, "in a list": [value]}[place]


def _errors(name: str) -> BaseException:
    values = HostileValues(SECRET, kind=next((kind for kind in KINDS if kind.__name__ == name), RuntimeError))
    match name:
        case "words":
            return ToolRejected(values.raising(str))
        case "status":
            error = RemoteStatus(503)
            error.__dict__ = {values.key_like("status"): 1}  # type: ignore[dict-item]
            return error
        case "retry_after":
            error = RemoteStatus(429)
            error.__dict__["retry_after"] = values.raising(str)
            return error
        case "not sent":
            return type(SECRET, (NotSent,), {})(SECRET)
        case _:
            return values.error()


@placet.tool(**OPTIONS)
def returns(kind: str) -> dict[str, str]:
    result: dict[str, str] = _value(kind)
    return result


@placet.tool(**OPTIONS)
async def raises(kind: str) -> dict[str, str]:
    await asyncio.sleep(0)
    raise _errors(kind)


@placet.tool(**OPTIONS)
def raises_plainly(kind: str) -> dict[str, str]:
    raise _errors(kind)


def answer(arguments: dict[str, Any]) -> Any:
    return _value(arguments["kind"])


described = placet.tool_from_schema(
    answer,
    name="described",
    arguments={"properties": {"kind": {"type": "string"}}, "required": ["kind"]},
    **OPTIONS,
)
