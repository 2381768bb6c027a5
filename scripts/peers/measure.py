"""Run by each neighbour's own interpreter, so it needs nothing but the standard library.

One governed write is: decide whether a tool may run with these arguments, make durable that it is about to, run it,
make durable how it ended; a second call under the same key must not run it again. The tool does nothing, so what is
measured is the boundary. Every SQLite connection is held to `synchronous=FULL`, whatever a library asks for: a ledger
that may lose a commit it has acknowledged promises less, and costs less.
"""

from __future__ import annotations

import ctypes
import json
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TITLE, BODY, PRIORITY = "Ticket", "The printer is on fire again.", 2
TICKET = {"ticket_id": "T-1", "state": "open"}
_WARM_UP_CALLS = 20


class FullConnection(sqlite3.Connection):
    """A connection whose commits are on disk when they return."""

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if "synchronous" in sql.lower() and "=" in sql:
            sql = "PRAGMA synchronous=FULL"
        return super().execute(sql, *arguments)


def hold_to_full() -> None:
    """From now on `sqlite3.connect` opens connections that are `synchronous=FULL`."""
    connect = sqlite3.connect

    def full(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened: sqlite3.Connection = connect(*arguments, **{"factory": FullConnection, **options})
        return opened

    sqlite3.connect = full  # type: ignore[assignment]


def fsyncs() -> int:
    """How often this process has asked for durability; 0 where the disk is not slowed, as then nobody counts."""
    try:
        return ctypes.c_long.in_dll(ctypes.CDLL(None), "placet_fsyncs").value
    except ValueError:
        return 0


def measure(call: Callable[[str], object], *, callers: int, seconds: float) -> None:
    """Let callers, each in a thread of its own, write one ticket after another; tell as JSON what came of it."""
    for number in range(_WARM_UP_CALLS):
        call(f"{TITLE} warm-{number}")
    made = [0] * callers
    faults: list[str] = []
    began, synced = time.perf_counter(), fsyncs()
    end = began + seconds

    def writes(caller: int) -> None:
        try:
            while time.perf_counter() < end:
                call(f"{TITLE} {caller}-{made[caller]}")
                made[caller] += 1
        except Exception as fault:
            faults.append(type(fault).__name__)

    threads = [threading.Thread(target=writes, args=(caller,)) for caller in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    told = {"calls": sum(made), "seconds": took, "fsyncs": fsyncs() - synced, "faults": sorted(faults)}
    print(json.dumps(told), flush=True)


def chosen() -> tuple[Path, int, float]:
    """The folder to write to, the callers, and the seconds, from the command line."""
    folder, callers, seconds = sys.argv[1:4]
    return Path(folder), int(callers), float(seconds)
