"""What runs in the processes that die or race. Started by the fork server, so keep it importable on its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import apsw

import placet
from placet.bootstrap import stores
from placet.bootstrap.opening import Opening
from placet.bootstrap.surroundings import system_clock
from placet.engine.gate import Gate
from placet.model.effect import EffectState
from placet.model.outcome import Outcome
from placet.rules.contracts import Tool
from placet.testing.kill_points import KillPoint, Mortal, SentinelRemote, die
from tests.at_once import at_once, each_at_once

FORK_SERVER = get_context("forkserver")
FORK_SERVER.set_forkserver_preload(["placet.bootstrap.opening", "placet.testing.kill_points", "pydantic", "apsw"])

LEASE_SECONDS = 0.3
SETTINGS = placet.GateSettings(
    lease_seconds=LEASE_SECONDS,
    pause_seconds=0.1,
    grace_seconds=0.1,
    recovery_seconds=60.0,
    call_seconds=20.0,
    probe_seconds=2.0,  # a row whose looker died is due again this much, and a lease, later
)
"""Short enough to wait for, and no faster than two busy cores can follow."""

AGENT = placet.Principal.agent("agent-1", tenant="acme", roles=["operator"], scopes=["pay"])
STRANGER = placet.Principal.agent("agent-2", tenant="acme", roles=["operator"], scopes=["pay"])
ELSEWHERE = placet.Principal.agent("agent-1", tenant="other", roles=["operator"], scopes=["pay"])
PERSON = placet.Principal.person(
    "mara", tenant="acme", roles=["admin"], scopes=["approvals.decide", "effects.reconcile", "effects.read"]
)


LATER_SECONDS = 60.0
"""After so long nothing is left of any deadline or lease here; an approval is good for longer."""


class SharedTime:
    """This machine's clocks, for all processes of a folder put ahead by what a file there says.

    So a deadline may be as long as a busy machine wants it, and nobody waits until it is over.
    """

    def __init__(self, folder: Path | str) -> None:
        self._inner = system_clock()
        self._file = Path(folder, "ahead")

    def now(self) -> datetime:
        return self._inner.now() + timedelta(seconds=self._ahead())

    def monotonic(self) -> float:
        return self._inner.monotonic() + self._ahead()

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)

    def pass_by(self, seconds: float = LATER_SECONDS) -> None:
        """At once, and for all of them."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(str(self._ahead() + seconds))
        draft.rename(self._file)

    def _ahead(self) -> float:
        return float(self._file.read_text()) if self._file.exists() else 0.0


def time_passes(store: str | Path, folder: Path) -> None:
    """For the processes of the folder, and for their database, which has a clock of its own."""
    SharedTime(folder).pass_by()
    if str(store).startswith("postgresql://"):
        at_once(_moved(str(store), round(SharedTime(folder)._ahead() * 1_000_000)))


async def _moved(url: str, microseconds: int) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "CREATE OR REPLACE FUNCTION placet.clock_now() RETURNS bigint LANGUAGE sql VOLATILE AS "
            f"'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + {microseconds}'"
        )
    finally:
        await connection.close()


@dataclass(frozen=True, kw_only=True)
class Place:
    """One store, one remote, one folder."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "placet.db"

    @property
    def remote(self) -> SentinelRemote:
        return SentinelRemote(self.folder / "remote.jsonl")

    def later(self) -> None:
        """What a dead process left is over from now on."""
        time_passes(self.store, self.folder)


def tools(remote: SentinelRemote, *, dies: str = "", seconds: float = 0.0, timeout_seconds: float) -> list[Tool]:
    """The tools of every process. `dies`: where inside a handler this process ends."""

    async def probe(context: placet.ProbeContext) -> placet.Found | placet.Absent:
        value = remote.found(f"{context.tenant}/{context.operation_key}")
        return placet.Absent() if value is None else placet.Found(result=value)

    async def act(key: str, value: object) -> None:
        if dies == "before_remote":
            die()
        await asyncio.sleep(seconds)
        remote.act(key, value)
        if dies == "after_remote":
            die()

    bound = placet.Remote(arrival_bound_seconds=0.05)

    @placet.tool(
        effect="write",
        risk="medium",
        permission="pay",
        operation_key="pay:{order}",
        probe=probe,
        remote=bound,
        timeout_seconds=timeout_seconds,
    )
    async def pay(order: str, amount: int, call: placet.CallContext) -> dict[str, int]:
        await act(f"{call.tenant}/{call.operation_key}", {"amount": amount})
        return {"amount": amount}

    @placet.tool(
        effect="write",
        risk="medium",
        permission="pay",
        approval="always",
        probe=probe,
        remote=bound,
        timeout_seconds=timeout_seconds,
    )
    async def refund(order: str, amount: int, call: placet.CallContext) -> dict[str, int]:
        await act(f"{call.tenant}/{call.operation_key}", {"amount": amount})
        return {"amount": amount}

    @placet.tool(
        effect="idempotent_write",
        risk="medium",
        permission="pay",
        operation_key="top-up:{order}",
        probe=probe,
        remote=placet.Remote(honours_key=True, arrival_bound_seconds=0.05),
        timeout_seconds=timeout_seconds,
        retry=placet.RetryPolicy(max_attempts=3, initial_delay_seconds=0.001, max_delay_seconds=0.001),
    )
    async def top_up(order: str, amount: int, call: placet.CallContext) -> dict[str, int]:
        remote.act_once(f"{call.tenant}/{call.operation_key}", {"amount": amount})
        if call.attempt == 1:
            raise placet.RemoteStatus(503)
        return {"amount": amount}

    @placet.tool(effect="read")
    async def balance(order: str) -> int:
        if dies:
            die()
        return 7

    return [pay, refund, top_up, balance]


def open_gate(place: Place, *, dies: str = "", seconds: float = 0.0, timeout_seconds: float = 20.0) -> Opening:
    return placet.open(
        tools=tools(place.remote, dies=dies, seconds=seconds, timeout_seconds=timeout_seconds),
        store=place.store,
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
        clock=SharedTime(place.folder),
    )


def proposal(tool: str = "pay", *, order: str = "o-1", call_id: str = "call-1", amount: int = 5) -> dict[str, Any]:
    arguments = {"order": order} if tool == "balance" else {"order": order, "amount": amount}
    return {"call_id": call_id, "tool": tool, "arguments": arguments}


async def served(ask: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Ask again while nothing ran: a database waits for a row for two seconds, and who holds it may stand still."""
    while (outcome := await ask()).code == "boundary_unavailable":
        continue
    return outcome


async def approve(gate: Gate, approval_id: str) -> None:
    view = await gate.desk.show(approval_id, by=PERSON)
    await gate.desk.approve(approval_id, digest=view.digest, by=PERSON)


@contextmanager
def mortal_stores(point: KillPoint | None) -> Iterator[None]:
    """Every store this process opens through bootstrap ends it at the point."""
    original = stores.open_store

    def open_store(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        keys, store = original(*args, **kwargs)
        return keys, store if point is None else Mortal(store, point)

    stores.open_store = open_store  # type: ignore[assignment]
    try:
        yield
    finally:
        stores.open_store = original


async def recovered(gate: Gate) -> None:
    """Let recovery run until nothing is left dispatched, unknown or open, for which its time has to be over."""
    open_states = (EffectState.DISPATCHED, EffectState.UNKNOWN)
    async with asyncio.timeout(30):
        while (
            await gate.store.effects(tenant=None, states=open_states, limit=1) or (await gate.verify_audit()).unpaired
        ):
            await gate.reconciler.recover()
            await asyncio.sleep(LEASE_SECONDS / 10)


def assert_audit_is_whole(gate: Gate) -> None:
    """The chains hold, and every started attempt has exactly one completed event."""
    report = at_once(gate.verify_audit())
    assert (report.breaks, report.unpaired) == ((), 0)
    started: Counter[tuple[Any, ...]] = Counter()
    completed: Counter[tuple[Any, ...]] = Counter()
    for event in each_at_once(gate.store.chained()):
        body = json.loads(event.body)
        name = tuple(body.get(key) for key in ("tenant", "run_id", "call_id", "attempt", "fence"))
        if body["kind"] == "started":
            started[name] += 1
        elif body["kind"] == "completed":
            completed[name] += 1
    assert started == completed
    assert all(count == 1 for (*_, fence), count in started.items() if fence)


# ---------------------------------------------------------------- actors


def ask_and_die(folder: str, point: KillPoint | None, dies: str, tool: str, approves: str, call_id: str) -> None:
    """Submit one call in a process that ends somewhere on its way; a process that survives exits with 7."""
    place = Place(folder=Path(folder))

    async def act() -> None:
        with mortal_stores(point):
            async with open_gate(place, dies=dies) as gate:
                if approves:
                    await approve(gate, approves)
                await gate.submit(proposal(tool, call_id=call_id), principal=AGENT, run="run-1")

    asyncio.run(act())
    os._exit(SURVIVED)


def recover_and_die(folder: str, point: KillPoint) -> None:
    """Recover what others left, in a process that ends on its way."""

    async def act() -> None:
        with mortal_stores(point):
            async with open_gate(Place(folder=Path(folder))) as gate:
                await recovered(gate)

    asyncio.run(act())
    os._exit(SURVIVED)


def keep_asking(folder: str, seed: int) -> None:
    """Submit one order after another, four at a time, until killed from outside; note down each that was answered."""
    place = Place(folder=Path(folder))
    answered = SentinelRemote(place.folder / "answered.jsonl")

    async def ask(gate: Gate, order: str) -> None:
        outcome = await gate.submit(proposal(order=order, call_id=order), principal=AGENT, run=f"run-{seed}")
        answered.act(order, outcome.status)

    async def act() -> None:
        async with open_gate(place) as gate:
            for n in range(0, 10_000, 4):
                await asyncio.gather(*(ask(gate, f"o-{seed}-{n + k}") for k in range(4)))

    asyncio.run(act())


def race(folder: str, answers: str, barrier: Any, name: str, asks: list[dict[str, Any]], seconds: float) -> None:
    """Submit all at once, together with the other processes, and write down every outcome."""
    place = Place(folder=Path(folder))

    async def act() -> list[dict[str, Any]]:
        async with open_gate(place, seconds=seconds) as gate:
            barrier.wait(timeout=60)
            outcomes = await asyncio.gather(
                *(gate.submit(ask["proposal"], principal=PRINCIPALS[ask["as"]], run=ask["run"]) for ask in asks)
            )
        return [{"as": ask["as"], **outcome.as_data()} for ask, outcome in zip(asks, outcomes, strict=True)]

    Path(answers, f"{name}.json").write_text(json.dumps(asyncio.run(act())))


def open_together(folder: str, answers: str, barrier: Any, name: str) -> None:
    """Open a store that does not exist yet, together with the other processes, and use it once."""
    place = Place(folder=Path(folder))

    async def act() -> dict[str, Any]:
        barrier.wait(timeout=60)
        try:
            async with open_gate(place) as gate:
                ask = proposal(order=f"o-{name}", call_id=f"call-{name}")
                outcome = await gate.submit(ask, principal=AGENT, run=f"run-{name}")
                return outcome.as_data()
        except placet.PlacetError as fault:
            return {"status": type(fault).__name__, "code": fault.code, "message": str(fault)}

    Path(answers, f"{name}.json").write_text(json.dumps(asyncio.run(act())))


PRINCIPALS = {"agent": AGENT, "stranger": STRANGER, "elsewhere": ELSEWHERE}


# ---------------------------------------------------------------- starting them


def start(actor: Any, *args: Any) -> BaseProcess:
    process = FORK_SERVER.Process(target=actor, args=args, daemon=True)
    process.start()
    return process


def ended(process: BaseProcess, *, within: float = 60.0) -> int:
    process.join(within)
    if process.exitcode is None:
        process.kill()
        process.join(5.0)
        raise AssertionError("the process hung")
    return process.exitcode


def stood_still(process: BaseProcess, store: Path, *, within: float = 60.0) -> None:
    """Suspend the process while it holds no lock of the store: a thread of it may be in the middle of a sign of life.

    One that stands still with the lock keeps everybody from going on, and no lease can help against that.
    """
    until, number = time.monotonic() + within, process.pid or 0
    while True:
        os.kill(number, signal.SIGSTOP)
        while not _stands(number):
            assert time.monotonic() < until, "it does not stand still"
            time.sleep(0.001)
        if _can_be_written(store):
            return
        os.kill(number, signal.SIGCONT)
        assert time.monotonic() < until, "it always stands still with the lock"
        time.sleep(0.005)  # for the transaction to end


def _stands(process: int) -> bool:
    """Every thread: one that waits for the disk stands only after that."""
    threads = Path(f"/proc/{process}/task").glob("*/stat")
    try:
        return all(thread.read_text().rpartition(")")[2].split()[0] in "Tt" for thread in threads)
    except OSError:  # one of them ended meanwhile
        return False


def _can_be_written(store: Path) -> bool:
    connection = apsw.Connection(str(store))
    try:
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return False
    finally:
        connection.close()
    return True


KILLED = -signal.SIGKILL
SURVIVED = 7
