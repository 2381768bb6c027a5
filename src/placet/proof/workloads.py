"""What `placet bench` runs: governed reads and writes as a program would submit them, and the floor beside them.

Each workload runs for some seconds in a fresh place and tells what it measured. Gates are opened as any program opens
them, with the default policy, audit and log sink; only recovery and the heartbeat are kept from mixing in.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from placet.bootstrap.addresses import MEMORY
from placet.bootstrap.opening import Recovery, open_gate
from placet.engine.gate import Gate
from placet.engine.settings import GateSettings
from placet.model.principal import Principal
from placet.rules.contracts import tool

CALLS_PER_RUN = 100
"""A run's budget is 200 steps, so callers begin a new one now and then."""
_WARM_UP_CALLS = 20
_MEMORY_CALLERS = 16
_MEMORY_WARM_UP_CALLS = 1_000
"""By then SQLite's page cache and its log have the size they keep."""
_RESIDENT = Path("/proc/self/statm")
_SETTINGS = GateSettings(lease_seconds=3600.0)  # no heartbeat, so that a lone write's commits are its own
_AGENT = Principal.agent("bench-agent", tenant="bench", roles=("operator",), scopes=("bench.write",))


@tool(effect="read")
async def read_orders(customer_id: str, limit: int, note: str = "") -> dict[str, int]:
    """Count a customer's orders."""
    return {"open": 1, "total": 3}


@tool(effect="write", risk="low", permission="bench.write")
async def open_ticket(title: str, body: str, priority: int) -> dict[str, str]:
    """Open a ticket."""
    return {"ticket_id": "T-1", "state": "open"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One round of one workload.

    Attributes:
        seconds, cpu_seconds: of the whole round, on the wall and in this process.
        latencies: seconds of each call, sorted.
        commits: durable commits made, as the store counts them.
        transactions: the same, as the server counted them; 0 where nobody was asked.
    """

    seconds: float
    cpu_seconds: float
    latencies: tuple[float, ...]
    commits: int
    transactions: int = 0

    @property
    def calls(self) -> int:
        return len(self.latencies)

    def percentile(self, share: float) -> float:
        return self.latencies[min(self.calls - 1, int(self.calls * share))]


class NotMeasured(Exception):
    """A workload did not do what it is measured for; the message says what happened instead."""


def governed_reads(seconds: float) -> Sample:
    """One caller reads through a gate whose store is in memory."""
    return asyncio.run(_governed(MEMORY, 1, seconds, _read))


def governed_writes(folder: Path, *, callers: int, seconds: float) -> Sample:
    """Callers write through a gate on a SQLite file, each its next call after its last."""
    with tempfile.TemporaryDirectory(prefix="placet-bench-", dir=folder) as place:
        return asyncio.run(_governed(f"{place}/bench.db", callers, seconds, _write))


def governed_writes_there(
    store: str, *, key: Path, callers: int, seconds: float, transactions: Callable[[], int]
) -> Sample:
    """Callers write through a gate on the database of a URL, whose transactions somebody else counts, too.

    Args:
        transactions: asked right before and right after what is measured, while nothing runs.
    """
    return asyncio.run(_governed(store, callers, seconds, _write, key=key, transactions=transactions))


def one_governed_write(store: str, *, key: Path) -> None:
    """One, so that what it leaves can be looked at."""

    async def write() -> None:
        opening = open_gate(tools=(open_ticket,), store=store, key=key, settings=_SETTINGS, recovery=Recovery.MANUAL)
        async with opening as gate:
            await _write(gate, 0, 0)

    asyncio.run(write())


def bare_commits(folder: Path, *, seconds: float) -> Sample:
    """The floor: SQLite alone, one caller, two durable commits of the size of a claim and a settlement per call."""
    with tempfile.TemporaryDirectory(prefix="placet-bench-", dir=folder) as place:
        connection = apsw.Connection(f"{place}/floor.db")
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.execute("CREATE TABLE effects (id INTEGER PRIMARY KEY, state TEXT, row BLOB, result BLOB)")
        connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, body BLOB)")
        filler, event = bytes(1024), bytes(1024)

        def call(number: int) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO effects VALUES (?, 'dispatched', ?, NULL)", (number, filler))
            connection.execute("INSERT INTO events (body) VALUES (?)", (event,))
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE effects SET state = 'committed', result = ? WHERE id = ?", (b"{}", number))
            connection.execute("INSERT INTO events (body) VALUES (?)", (event,))
            connection.execute("COMMIT")

        for number in range(_WARM_UP_CALLS):
            call(-1 - number)
        latencies: list[float] = []
        began, cpu = time.perf_counter(), time.process_time()
        now = began
        while now - began < seconds or not latencies:
            call(len(latencies))
            latencies.append(time.perf_counter() - now)
            now += latencies[-1]
        sample = Sample(
            seconds=now - began,
            cpu_seconds=time.process_time() - cpu,
            latencies=tuple(sorted(latencies)),
            commits=2 * len(latencies),
        )
        connection.close()
        return sample


def memory_per_write(folder: Path, *, calls: int) -> float:
    """Bytes of resident memory that a process gains per governed write on SQLite, over so many after 1,000.

    Raises:
        NotMeasured: the process failed, or this system does not tell what memory is resident.
    """
    command = f"from placet.proof.workloads import tell_memory; tell_memory({str(folder)!r}, {calls})"
    done = subprocess.run([sys.executable, "-c", command], check=False, capture_output=True, text=True)
    try:
        return float(done.stdout)
    except ValueError:
        pass
    raise NotMeasured("the process failed" if _RESIDENT.exists() else "this system does not tell resident memory")


def tell_memory(folder: str, calls: int) -> None:
    """What `memory_per_write` asks of its process: to write, and to print what that took."""
    with tempfile.TemporaryDirectory(prefix="placet-bench-", dir=folder) as place:
        print(asyncio.run(_memory(f"{place}/bench.db", calls)))


def process_seconds(*arguments: str) -> float:
    """How long a whole process of this Python takes, its start included; its output is thrown away.

    Raises:
        NotMeasured: it failed.
    """
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], check=False, capture_output=True, env=dict(os.environ))
    took = time.perf_counter() - began
    if done.returncode != 0:
        raise NotMeasured(f"python {' '.join(arguments)} ended with {done.returncode}")
    return took


# ---------------------------------------------------------------- callers


async def _memory(store: str, calls: int) -> float:
    opening = open_gate(tools=(open_ticket,), store=store, settings=_SETTINGS, recovery=Recovery.MANUAL)

    async with opening as gate:

        async def written(first: int, last: int) -> None:
            for begin in range(first, last, _MEMORY_CALLERS):
                several = range(begin, min(begin + _MEMORY_CALLERS, last))
                await asyncio.gather(*(_write(gate, number % _MEMORY_CALLERS, number) for number in several))

        await written(0, _MEMORY_WARM_UP_CALLS)
        gc.collect()
        before = _resident_bytes()
        await written(_MEMORY_WARM_UP_CALLS, _MEMORY_WARM_UP_CALLS + calls)
        gc.collect()
        return (_resident_bytes() - before) / calls


def _resident_bytes() -> int:
    return int(_RESIDENT.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


_OneCall = Callable[[Gate, int, int], Awaitable[None]]


async def _governed(
    store: str,
    callers: int,
    seconds: float,
    one_call: _OneCall,
    *,
    key: Path | None = None,
    transactions: Callable[[], int] = lambda: 0,
) -> Sample:
    tools = (read_orders, open_ticket)
    opening = open_gate(tools=tools, store=store, key=key, settings=_SETTINGS, recovery=Recovery.MANUAL)
    latencies: list[float] = []
    async with opening as gate:

        async def calls(caller: int, first: int, until: Callable[[int], bool]) -> None:
            number = first
            while True:
                began = time.perf_counter()
                await one_call(gate, caller, number)
                latencies.append(time.perf_counter() - began)
                number += 1
                if until(number - first):
                    return

        await asyncio.gather(*(calls(caller, 0, lambda made: made >= _WARM_UP_CALLS) for caller in range(callers)))
        latencies.clear()
        counted = transactions()
        commits, began, cpu = gate.store.commits, time.perf_counter(), time.process_time()
        end = began + seconds
        first = CALLS_PER_RUN  # a run of its own
        await asyncio.gather(
            *(calls(caller, first, lambda made: time.perf_counter() >= end) for caller in range(callers))
        )
        took, cpu_took = time.perf_counter() - began, time.process_time() - cpu
        return Sample(
            seconds=took,
            cpu_seconds=cpu_took,
            latencies=tuple(sorted(latencies)),
            commits=gate.store.commits - commits,
            transactions=transactions() - counted,
        )


async def _read(gate: Gate, caller: int, number: int) -> None:
    arguments = {"customer_id": f"C-{number}", "limit": 10, "note": "as asked"}
    await _submit(gate, caller, number, read_orders.contract.name, arguments)


async def _write(gate: Gate, caller: int, number: int) -> None:
    arguments = {"title": f"Ticket {caller}-{number}", "body": "The printer is on fire again.", "priority": 2}
    await _submit(gate, caller, number, open_ticket.contract.name, arguments)


async def _submit(gate: Gate, caller: int, number: int, name: str, arguments: dict[str, object]) -> None:
    proposal = {"call_id": f"call-{number}", "tool": name, "arguments": arguments}
    outcome = await gate.submit(proposal, principal=_AGENT, run=f"run-{caller}-{number // CALLS_PER_RUN}")
    if not outcome.is_success:
        raise NotMeasured(f"a call of {name} came out as {outcome.code}")
