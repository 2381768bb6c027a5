"""Handlers for `test_processes.py`: a new process has to find them, so they stand in a module of their own."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import placet
from placet import CallContext, ProbeContext
from placet.testing.kill_points import SentinelRemote

BOUND = placet.Remote(arrival_bound_seconds=0.05)


def forever() -> None:
    while True:
        signal.pause()


async def became_of(context: ProbeContext) -> placet.Found | placet.Absent:
    arguments: Any = context.arguments
    value = SentinelRemote(Path(arguments["folder"], "remote.jsonl")).found(context.operation_key)
    return placet.Absent() if value is None else placet.Found(result={"order": str(value)})


@placet.tool(effect="read", isolation="process")
def look(word: str) -> dict[str, int | str]:
    return {"word": word, "pid": os.getpid()}


@placet.tool(
    effect="write", risk="medium", permission="ops.write", isolation="process", operation_key="pay:{order}",
    probe=became_of, remote=BOUND, timeout_seconds=20.0,
)  # fmt: skip
def pay(order: str, folder: str, how: str, context: CallContext) -> dict[str, str]:
    """Pays, and then or before does what the test says."""
    Path(folder, "started").write_text(str(os.getpid()))
    if how == "hangs_before":
        forever()
    context.guard()
    SentinelRemote(Path(folder, "remote.jsonl")).act(context.operation_key, order)
    match how:
        case "hangs_after":
            forever()
        case "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        case "rejects":
            raise placet.ToolRejected("no s3cr3t-free room")
        case "leaks":
            print("s3cr3t", file=sys.stderr, flush=True)
            raise ValueError("s3cr3t")
        case "breaks":
            return {"order": "x" * 70_000}
    return {"order": order}


@placet.tool(
    effect="idempotent_write", risk="medium", permission="ops.write", isolation="process", operation_key="set:{order}",
    retry=placet.RetryPolicy(max_attempts=3, initial_delay_seconds=0.001, max_delay_seconds=0.001),
)  # fmt: skip
async def settle(order: str, folder: str, context: CallContext) -> dict[str, str]:
    """Dies in its first attempt, after it acted."""
    SentinelRemote(Path(folder, "remote.jsonl")).act(context.operation_key, order)
    if context.attempt == 1:
        os._exit(1)
    return {"order": order}


@placet.tool(
    effect="write", risk="medium", permission="ops.write", isolation="process", timeout_seconds=0.02,
    retry=placet.RetryPolicy(max_attempts=1),
)  # fmt: skip
def too_slow_to_start(word: str) -> str:
    return word


def until_told(folder: str, name: str) -> None:
    """Leave word that one has begun, and wait until told to go on."""
    Path(folder, f"{name}.begun").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.01)


@placet.tool(
    effect="write", risk="medium", permission="ops.write", isolation="process", approval="always", timeout_seconds=20.0,
    breaker=placet.Breaker(faults=2, within_seconds=60.0, open_seconds=30.0), retry=placet.RetryPolicy(max_attempts=1),
)  # fmt: skip
def guarded(word: str, folder: str) -> str:
    until_told(folder, word)
    return word


@placet.tool(
    effect="read", isolation="process", timeout_seconds=20.0,
    breaker=placet.Breaker(faults=2, within_seconds=60.0, open_seconds=30.0), retry=placet.RetryPolicy(max_attempts=1),
)  # fmt: skip
def slow_look(word: str, folder: str) -> str:
    until_told(folder, word)
    return word


@placet.tool(
    effect="idempotent_write", risk="medium", permission="ops.write", isolation="process", timeout_seconds=20.0,
    retry=placet.RetryPolicy(max_attempts=2, initial_delay_seconds=0.001, max_delay_seconds=0.001),
)  # fmt: skip
def busy_once(word: str, folder: str, context: CallContext) -> int:
    """Its remote is busy at first and asks to wait."""
    if context.attempt == 1:
        raise placet.RemoteStatus(429, retry_after="1")
    return context.attempt


@placet.tool(
    effect="read", isolation="process", timeout_seconds=20.0, retry=placet.RetryPolicy(max_attempts=1),
    breaker=placet.Breaker(faults=2, within_seconds=60.0, open_seconds=30.0),
)  # fmt: skip
def says_not_sent(word: str) -> str:
    raise placet.NotSent("no route")


def version_of(context: ProbeContext) -> dict[str, int]:
    arguments: Any = context.arguments
    return {"version": int(Path(arguments["folder"], "version").read_text()), "wide": 2**70}


@placet.tool(
    effect="write", risk="medium", permission="ops.write", isolation="process", approval="always",
    precondition=version_of, remote=BOUND, timeout_seconds=20.0,
)  # fmt: skip
def close(folder: str, context: CallContext) -> str:
    return repr(context.precondition)
