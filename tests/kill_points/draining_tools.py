"""Handlers of every kind that stand still where a file says so, until another says "go"."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import placet
from placet.testing.kill_points import SentinelRemote


async def became_of(context: placet.ProbeContext) -> placet.Found | placet.Absent:
    arguments: Any = context.arguments
    value = SentinelRemote(Path(arguments["folder"], "remote.jsonl")).found(context.operation_key)
    return placet.Absent() if value is None else placet.Found(result=str(value))


WRITE: dict[str, Any] = {
    "effect": "write", "risk": "medium", "permission": "pay", "operation_key": "pay:{order}", "probe": became_of,
    "remote": placet.Remote(arrival_bound_seconds=0.05), "timeout_seconds": 30.0,
}  # fmt: skip


def _waits(place: Path, where: str) -> Iterator[None]:
    """One step for every look whether it may go on; none where it does not stand still."""
    if (place / "mode").read_text() != where:
        return
    (place / "standing").touch()
    while not (place / "go").exists():
        yield


def _act(place: Path, context: placet.CallContext, order: str) -> None:
    SentinelRemote(place / "remote.jsonl").act(context.operation_key, order)


@placet.tool(name="pay_async", **WRITE)
async def pay_async(order: str, folder: str, context: placet.CallContext) -> str:
    """In the gate's own loop."""
    for _ in _waits(Path(folder), "before"):
        await asyncio.sleep(0.01)
    _act(Path(folder), context, order)
    for _ in _waits(Path(folder), "after"):
        await asyncio.sleep(0.01)
    return order


def _pay(order: str, folder: str, context: placet.CallContext) -> str:
    for _ in _waits(Path(folder), "before"):
        time.sleep(0.01)
    _act(Path(folder), context, order)
    for _ in _waits(Path(folder), "after"):
        time.sleep(0.01)
    return order


@placet.tool(name="pay_thread", isolation="thread", **WRITE)
def pay_thread(order: str, folder: str, context: placet.CallContext) -> str:
    """In a thread, which nobody can stop."""
    return _pay(order, folder, context)


@placet.tool(name="pay_process", isolation="process", **WRITE)
def pay_process(order: str, folder: str, context: placet.CallContext) -> str:
    """In a process of its own."""
    return _pay(order, folder, context)


TOOLS = {"async": pay_async, "thread": pay_thread, "process": pay_process}
