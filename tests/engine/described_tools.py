"""Tools of a JSON Schema where a new process can find them."""

from __future__ import annotations

import os
from typing import Any

import placet


def act(arguments: dict[str, Any], context: placet.CallContext) -> dict[str, Any]:
    """Say where it ran and with what."""
    return {"process": os.getpid(), "received": arguments, "key": context.operation_key}


ELSEWHERE = placet.tool_from_schema(
    act,
    name="act",
    arguments={"properties": {"order": {"type": "string"}}, "required": ["order"]},
    effect="write",
    risk="medium",
    permission="ops.write",
    operation_key="act:{order}",
    isolation="process",
)
