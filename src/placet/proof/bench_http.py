"""The rows of a bench that say what the HTTP front door costs: governed reads in memory, beside the bare framework.

Each side is a process of its own that is asked by this one over some connections that stay open, in turns. Where the
libraries of the front door are not installed the rows are missing, with the reason.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from typing import Final

from placet.proof.bench_rows import Row, Values
from placet.proof.workloads import NotMeasured

RATIOS: Final = (Row("http_to_bare", "HTTP governed read in memory : bare FastAPI, requests/s", "x", 2),)
ABSOLUTES: Final = (
    Row("http_rate", "HTTP governed read in memory", "requests/s", 0),
    Row("http_bare_rate", "bare FastAPI, the same read", "requests/s", 0),
)
ROWS: Final = (*RATIOS, *ABSOLUTES)
_SERVED: Final = "placet.serve.measured"  # by name: it stands further out than this
_CONNECTIONS: Final = 8
_WARM_UP: Final = 50
_PATIENCE_SECONDS: Final = 60.0
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def measured(values: Values, *, rounds: int, seconds: float) -> dict[str, str]:
    """Put into its rows what was measured; why each of them is missing, if it is."""
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    why = f"{', '.join(missing)} is not installed"
    if not missing:
        try:
            for _ in range(rounds):
                bare, governed = _rate("bare", seconds), _rate("governed", seconds)
                values["http_bare_rate"].append(bare)
                values["http_rate"].append(governed)
                values["http_to_bare"].append(governed / bare)
            return {}
        except NotMeasured as wrong:
            why = str(wrong)
    for row in ROWS:
        values[row.name].clear()
    return {row.name: why for row in ROWS}


def _rate(kind: str, seconds: float) -> float:
    """Requests a second.

    Raises:
        NotMeasured: it was not served, or not answered as it should be.
    """
    command = [sys.executable, "-m", _SERVED, kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as served:
        try:
            line = served.stdout.readline() if served.stdout is not None else b""
            if not line.strip().isdigit():
                raise NotMeasured(f"{_SERVED} did not serve")
            return asyncio.run(_asked(int(line), seconds))
        finally:
            served.kill()


async def _asked(port: int, seconds: float) -> float:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS + seconds):
            connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(_CONNECTIONS)]
            try:
                await _while(connections, lambda number: number < _WARM_UP)
                began = time.perf_counter()
                answered = await _while(connections, lambda number: time.perf_counter() - began < seconds)
                return answered / (time.perf_counter() - began)
            finally:
                for _, writer in connections:
                    writer.close()
                for _, writer in connections:
                    with suppress(ConnectionError):
                        await writer.wait_closed()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        pass
    raise NotMeasured("the server did not answer")


async def _while(connections: list[Connection], goes_on: Callable[[int], bool]) -> int:
    """How many were answered, over all connections."""

    async def ask(place: int, connection: Connection) -> int:
        number = 0
        while goes_on(number):
            await _one(connection, f"c-{place}-{next(_numbers)}")
            number += 1
        return number

    return sum(await asyncio.gather(*(ask(place, each) for place, each in enumerate(connections))))


async def _one(connection: Connection, call_id: str) -> None:
    """One request and its answer.

    Raises:
        NotMeasured: it was no success.
    """
    reader, writer = connection
    arguments = {"customer_id": "C-1042", "limit": 20, "note": "spring"}
    body = json.dumps({"run": "bench", "call_id": call_id, "tool": "read_orders", "arguments": arguments}).encode()
    writer.write(_HEAD % len(body) + body)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    answer = await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 200") or b'"succeeded"' not in answer:
        raise NotMeasured("a read over HTTP did not succeed")


_HEAD: Final = (
    b"POST /v1/proposals HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer bench\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
_numbers = count()
