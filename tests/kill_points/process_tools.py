"""A handler that runs in a process of its own, and does what a file says: what a killed gate leaves has to be seen."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import placet
from placet.testing.kill_points import SentinelRemote


async def became_of(context: placet.ProbeContext) -> placet.Found | placet.Absent:
    arguments: Any = context.arguments
    value = SentinelRemote(Path(arguments["folder"], "remote.jsonl")).found(context.operation_key)
    return placet.Absent() if value is None else placet.Found(result=str(value))


@placet.tool(
    effect="write", risk="medium", permission="pay", isolation="process", operation_key="pay:{order}",
    probe=became_of, remote=placet.Remote(arrival_bound_seconds=0.05), timeout_seconds=30.0,
)  # fmt: skip
def pay(order: str, folder: str, context: placet.CallContext) -> str:
    """Hangs, with a child of its own, where the file says so."""
    place = Path(folder)
    mode = (place / "mode").read_text() if (place / "mode").exists() else ""
    if mode == "before":
        _hang(place)
    SentinelRemote(place / "remote.jsonl").act(context.operation_key, order)
    if mode == "after":
        _hang(place)
    return order


def _hang(place: Path) -> None:
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        while True:
            signal.pause()
    draft = place / "draft"
    draft.write_text(json.dumps({"handler": os.getpid(), "warden": os.getppid(), "kin": child}))
    draft.rename(place / "hanging")
    while True:
        signal.pause()
