"""Looking: look-ups of effects that wait are one statement, everything else is one each. Nothing here changes a row.

Reads use connections of their own, so that no look-up waits for a commit: one for what is quick and on the path of a
call, one for lists and counts. An export, and whatever else takes long, opens one for as long as it lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from placet.adapters.stores import rows
from placet.adapters.stores.postgres.acknowledged import Acknowledged
from placet.adapters.stores.postgres.batch import shaped
from placet.adapters.stores.postgres.connection import FAULTS, Address, connect, fault_of, is_lost
from placet.adapters.stores.postgres.memory import Memory
from placet.adapters.stores.postgres.orders import Intake, Order, deliver, fail
from placet.adapters.stores.postgres.outage import Outage, newest
from placet.adapters.stores.postgres.reading_wishes import Reading
from placet.adapters.stores.postgres.statements import SQL
from placet.errors import StoreCorrupt, StoreError, StoreUnavailable
from placet.ports.store import nobody

MAX_LOOKUPS: Final = 256
_BY_NAME: Final = {"effects_at": rows.effect_from, "approvals_at": rows.approval_from}
_NAME_COLUMNS: Final = {"effects_at": (0, 1), "approvals_at": (1, 0)}
_LOCKING: Final = {"run": "run_locked"}
_CHUNK: Final = 500
QUICK: Final = frozenset(
    {
        "effects_at",
        "approvals_at",
        "same_ask",
        "stops",
        "stop_records",
        "meta",
        "clock",
        "holds",
        "count_waiting",
        "credential",
        "standing_grants",
        "run",
        "checkpoint",
        "due_runs",
        "next_due_run",
    }
)
"""Looks that are on the path of a call, or as short; all others may be long, and keep these waiting no more."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """One statement to be read, and its bindings."""

    name: str
    bindings: tuple[Any, ...]


async def read_all(
    connection: asyncpg.Connection, readings: Sequence[Reading], *, is_locking: bool = False
) -> dict[Reading, Any]:
    """What each finds, as tables ask for it. Rows by name are read together, and locked in the order of their names."""
    found: dict[Reading, Any] = {}
    for statement in _BY_NAME:
        wanted = sorted({reading.bindings for reading in readings if reading.name == statement})
        if wanted:
            by_name = await rows_at(connection, statement, wanted, is_locking=is_locking)
            found.update({Reading(statement, name): by_name.get(name) for name in wanted})
    for reading in readings:
        if reading.name not in _BY_NAME:
            name = _LOCKING.get(reading.name, reading.name) if is_locking else reading.name
            found[reading] = _shaped(reading.name, await connection.fetch(SQL[name], *reading.bindings))
    return found


def _shaped(name: str, found: Sequence[Any]) -> Any:
    """As `shaped`; or why it cannot be read: of those who are decided together, it is told to who needs it alone."""
    try:
        return shaped(name, found)
    except StoreCorrupt as fault:
        return fault


async def rows_at(
    connection: asyncpg.Connection, statement: str, names: Sequence[tuple[Any, ...]], *, is_locking: bool = False
) -> dict[tuple[Any, ...], Any]:
    """Effects or approvals by tenant and name, each with its version; or why a row cannot be read."""
    first, second = _NAME_COLUMNS[statement]
    sql = SQL[f"{statement}_locked" if is_locking else statement]
    tenants, keys = [name[0] for name in names], [name[1] for name in names]
    found: dict[tuple[Any, ...], Any] = {}
    for row in await connection.fetch(sql, tenants, keys):
        try:
            found[row[first], row[second]] = (_BY_NAME[statement](tuple(row)[:-1]), row[-1])
        except StoreCorrupt as fault:
            found[row[first], row[second]] = fault
    return found


class Reader:
    """Serves look-ups of one kind over a connection of its own, in the thread of its store."""

    def __init__(self, address: Address, intake: Intake, memory: Memory, acknowledged: Acknowledged) -> None:
        self._address = address
        self._intake = intake
        self._memory = memory
        self._acknowledged = acknowledged
        self._connection: asyncpg.Connection | None = None
        self._outage = Outage(address)

    async def serve(self) -> None:
        """Until the intake is closed and empty."""
        while await self._intake.wait():
            orders = self._intake.take(MAX_LOOKUPS)
            if effects := [order for order in orders if order.work.name == "effects_at"]:
                await self._answered(effects, self._look_for_effects)
            for order in orders:
                if order.work.name != "effects_at":
                    await self._answered([order], self._look)
            deliver(orders, nobody)

    async def _answered(self, orders: list[Order], look: Callable[[list[Order]], Awaitable[None]]) -> None:
        """Each with its answer, or all of these, and no others, with the fault."""
        try:
            await look(orders)
        except StoreError as fault:
            fail(orders, fault)
        except Exception:
            self._let_go()
            fail(orders, fault_of(Exception(), self._address))

    async def _look_for_effects(self, orders: list[Order]) -> None:
        names = sorted({order.work.bindings for order in orders})
        found = await self._twice(lambda connection: _effects(connection, names), newest(orders))
        for order in orders:
            self._answer(order, found.get(order.work.bindings))

    async def _look(self, orders: list[Order]) -> None:
        (order,) = orders
        name, bound = order.work.name, order.work.bindings
        order.answer = await self._twice(lambda connection: connection.fetch(SQL[name], *bound), order.put_at)
        if name == "same_ask":
            self._see_approvals(order)

    def _answer(self, order: Order, row: Any) -> None:
        """A row as it is, remembered for the batch that may change it; or why it cannot be read."""
        try:
            order.answer = None if row is None else rows.effect_from(tuple(row)[:-1])
        except StoreError as fault:
            order.fault = fault
            return
        if row is not None:
            self._memory.see_effect(order.work.bindings, order.answer, row[-1])

    def _see_approvals(self, order: Order) -> None:
        """A claim may spend one of them next."""
        for row in order.answer:
            approval = rows.approval_from(tuple(row)[:-1])
            self._memory.see_approval((approval.question.tenant, approval.question.approval_id), approval, row[-1])

    async def _twice(self, work: Callable[[asyncpg.Connection], Awaitable[Any]], waiting_since: float) -> Any:
        """Once more on a new connection, if the first was lost: looking twice changes nothing.

        Raises:
            StoreError: nothing was found out.
        """
        for is_last in (False, True):
            try:
                return await work(await self._ready(waiting_since))
            except FAULTS as foreign:
                if is_lost(foreign):
                    self._let_go()
                    if not is_last:
                        continue
                fault = fault_of(foreign, self._address)
            raise fault
        return None

    async def _ready(self, waiting_since: float) -> asyncpg.Connection:
        """The connection, made anew if it was lost; tried for as long as a writer's is.

        Raises:
            StoreError: the database could not be reached within its time, or has lost what it had acknowledged.
        """
        self._acknowledged.require()
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        self._outage.check(waiting_since)
        self._connection = await self._outage.reached(self._connected)
        return self._connection

    async def _connected(self, seconds: float) -> asyncpg.Connection:
        return await looking(self._address, self._acknowledged, seconds)

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*FAULTS):
                await connection.close(timeout=2.0)


async def _effects(connection: asyncpg.Connection, names: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], Any]:
    found = await connection.fetch(SQL["effects_at"], [name[0] for name in names], [name[1] for name in names])
    return {(row[0], row[1]): row for row in found}


async def looking(address: Address, acknowledged: Acknowledged, seconds: float | None = None) -> asyncpg.Connection:
    """A new connection to a server that has all that it acknowledged.

    Raises:
        StoreWentBack: it has not.
        What asyncpg and sockets raise: `FAULTS`.
    """
    connection = await connect(address, timeout_seconds=seconds)
    try:
        await acknowledged.look(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


@asynccontextmanager
async def long_look(address: Address, acknowledged: Acknowledged) -> AsyncIterator[asyncpg.Connection]:
    """A connection of its own, in one read-only transaction that sees one moment."""
    connection = await looking(address, acknowledged)
    try:
        await connection.execute("SET statement_timeout = 0")
        await connection.execute("SET idle_in_transaction_session_timeout = 0")
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield connection
    finally:
        connection.terminate()


class Stream:
    """The rows of one statement, a chunk at a time. Every method runs in the store's thread."""

    def __init__(self, address: Address, acknowledged: Acknowledged, name: str, bindings: tuple[Any, ...]) -> None:
        self._address = address
        self._acknowledged = acknowledged
        self._name = name
        self._bindings = bindings
        self._look = long_look(address, acknowledged)
        self._cursor: Any = None
        self._connection: asyncpg.Connection | None = None
        self._turn = asyncio.Lock()
        self._is_ended = False

    async def begin(self, *statements: tuple[str, tuple[Any, ...]]) -> list[list[Any]]:
        """Open the moment, and what other statements find in it.

        Raises:
            StoreUnavailable, StoreWentBack: it cannot be opened; nothing is left of it.
        """
        fault: StoreError = StoreUnavailable("The store is closed.")
        async with self._turn:
            try:
                if self._is_ended:
                    raise fault
                self._acknowledged.require()
                self._connection = await self._look.__aenter__()
                found = [list(await self._connection.fetch(SQL[name], *bound)) for name, bound in statements]
                self._cursor = await self._connection.cursor(SQL[self._name], *self._bindings)
                return found
            except StoreError as known:
                fault = known
            except FAULTS as foreign:
                fault = fault_of(foreign, self._address)
        await self.end()
        raise fault

    async def next_rows(self) -> list[Any]:
        """The next ones; none at the end.

        Raises:
            StoreUnavailable: they are not to be had, or the stream was ended meanwhile.
            StoreWentBack: they may be those of a server that has lost some.
        """
        self._acknowledged.require()
        fault: StoreError = StoreUnavailable("The store is closed.")
        async with self._turn:
            if not self._is_ended:
                try:
                    return list(await self._cursor.fetch(_CHUNK))
                except FAULTS as foreign:
                    if not self._is_ended:
                        fault = fault_of(foreign, self._address)
        raise fault

    async def end(self) -> None:
        """When this returns, nobody waits for rows of it any more."""
        self._is_ended = True
        self._let_go()
        async with self._turn:
            self._let_go()  # it was being opened

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
