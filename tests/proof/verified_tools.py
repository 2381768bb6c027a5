"""Tools of every kind, for verifying; importable by other processes. Whatever runs of them leaves a line behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

import placet

TRACE = "PLACET_TEST_TRACE"
"""The environment variable that names the file in which handlers and probes leave a line."""


def ran(name: str) -> None:
    if trace := os.environ.get(TRACE):
        with Path(trace).open("a") as file:
            file.write(name + "\n")


async def probe(context: placet.ProbeContext) -> placet.Absent:
    ran("probe")
    return placet.Absent()


class Line(BaseModel):
    sku: Annotated[str, Field(pattern=r"^[A-Z]{2}-\d{3}$")]
    count: Annotated[int, Field(gt=0, le=99)]


@placet.tool(effect="read")
async def get_order(order_id: str) -> dict[str, str]:
    """Look at an order."""
    ran("get_order")
    return {"order": order_id}


@placet.tool(effect="sensitive_read", risk="medium", permission="orders.read", redact=("token",))
async def get_card(customer: str, token: str) -> str:
    """Look at a card."""
    ran("get_card")
    return "card"


@placet.tool(effect="write", risk="medium", permission="orders.write", operation_key="order:{customer}", probe=probe,
             resource="customer:{customer}", remote=placet.Remote(honours_key=True))  # fmt: skip
async def place_order(
    customer: str, lines: list[Line], speed: Literal["slow", "fast"] = "slow", note: str | None = None
) -> dict[str, Any]:
    """Place an order."""
    ran("place_order")
    return {"placed": True}


@placet.tool(effect="idempotent_write", risk="medium", permission="orders.write", operation_key="tag:{order_id}")
def tag_order(order_id: str, tag: str, context: placet.CallContext) -> str:
    """Tag an order, in a thread."""
    ran("tag_order")
    return tag


async def look(context: placet.ProbeContext) -> int:
    ran("look")
    return 1


@placet.tool(effect="irreversible", risk="high", permission="orders.wipe", approval="always", isolation="process",
             precondition=look)  # fmt: skip
async def wipe(order_id: str) -> bool:
    """Wipe an order, in a process."""
    ran("wipe")
    return True


async def _imported(arguments: dict[str, Any]) -> str:
    ran("ship")
    return "shipped"


ship = placet.tool_from_schema(
    _imported,
    name="ship",
    description="Ship an order.",
    effect="write",
    risk="medium",
    permission="orders.write",
    allowed_tenants=("acme",),
    approval="never",
    arguments={
        "type": "object",
        "properties": {"to": {"type": "string", "maxLength": 40}, "express": {"type": "boolean"}},
        "required": ["to"],
        "additionalProperties": False,
    },
    result={"type": "string"},
)

TOOLS = [get_order, get_card, place_order, tag_order, wipe, ship]
