"""One thread that writes: whatever callers wait is committed together.

Each verb runs in its own savepoint, so one caller's fault is not another's; the commit is one fsync for all. A verb
is durable when its caller hears of it, and not before. Callers cannot cancel a verb they have handed over: the answer
comes, and the cancellation is raised at their next wait.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import apsw

from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.sqlite.connection import connect, translated
from placet.adapters.stores.sqlite.tables import SqliteTables
from placet.errors import PlacetError, StoreError, StoreInDoubt, StoreUnavailable
from placet.ports.clock import Clock
from placet.ports.meter import Meter
from placet.ports.waiting import whatever_happens

MAX_BATCH = 256

Answered = TypeVar("Answered")
Verb = Callable[[SqliteTables], Any]


@dataclass(slots=True)
class _Order:
    verb: Verb
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    answer: Any = None
    fault: BaseException | None = None


class Writer:
    """The only writing connection of this process to its store."""

    def __init__(
        self, path: Path, connection: apsw.Connection, chain: ChainWriter, *, clock: Clock, meter: Meter
    ) -> None:
        self._path = path
        self._connection = connection
        self._chain = chain
        self._tables = SqliteTables(connection, chain)
        self._clock = clock
        self._meter = meter
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._closed = False
        self._opened_at = clock.now()
        self.commits = 0
        self._thread = threading.Thread(target=self._serve, name="placet-writer", daemon=True)
        self._thread.start()

    async def transact(self, verb: Callable[[SqliteTables], Answered]) -> Answered:
        """Run the verb in the next batch; return once it is durable.

        Raises:
            StoreUnavailable: nothing of it was committed.
            StoreInDoubt: the commit's own answer was lost.
        """
        if self._closed:
            raise StoreUnavailable("The store is closed.")
        loop = asyncio.get_running_loop()
        order = _Order(verb=verb, loop=loop, future=loop.create_future())
        self._orders.put(order)
        await whatever_happens(order.future)
        answer: Answered = order.future.result()
        return answer

    def close(self) -> None:
        """Serve what has been handed over, then end. Idempotent."""
        if not self._closed:
            self._closed = True
            self._orders.put(None)
            self._thread.join()
            self._connection.close()

    # ------------------------------------------------------------ the thread

    def _serve(self) -> None:
        while (order := self._orders.get()) is not None:
            batch, is_last = self._waiting(order)
            self._commit(batch)
            _deliver(batch)
            if is_last:
                return

    def _waiting(self, first: _Order) -> tuple[list[_Order], bool]:
        batch = [first]
        while len(batch) < MAX_BATCH:
            try:
                order = self._orders.get_nowait()
            except queue.Empty:
                break
            if order is None:
                return batch, True
            batch.append(order)
        return batch, False

    def _commit(self, batch: list[_Order]) -> None:
        end = self._chain.end
        started = self._clock.monotonic()
        try:
            with translated(self._path):
                self._connection.execute("BEGIN IMMEDIATE")
        except StoreError as fault:
            _fail(batch, fault)
            return
        changes = self._connection.total_changes()
        for order in batch:
            self._run(order)
        if not self._connection.in_transaction:  # SQLite gave the whole transaction up (disk full, I/O fault)
            self._chain.rewind(end)
            _fail(batch, StoreUnavailable("The store gave the transaction up."))
            return
        self._finish(batch, end)
        if self._connection.total_changes() > changes:
            self.commits += 1
            self._meter.committed(operations=len(batch), seconds=max(0.0, self._clock.monotonic() - started))

    def _run(self, order: _Order) -> None:
        if not self._connection.in_transaction:
            return
        end = self._chain.end
        self._connection.execute("SAVEPOINT verb")
        try:
            with translated(self._path):
                order.answer = order.verb(self._tables)
        except BaseException as fault:
            order.fault = fault if isinstance(fault, PlacetError) else StoreUnavailable("The store could not do it.")
            self._chain.rewind(end)
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO verb")
        if self._connection.in_transaction:
            self._connection.execute("RELEASE verb")

    def _finish(self, batch: list[_Order], end: tuple[int, str]) -> None:
        """Commit. A fault of COMMIT itself, other than a lock, leaves it open what a restart will find."""
        try:
            if self._chain.end != end:
                self._tables.put_head(self._opened_at)
            self._connection.execute("COMMIT")
            return
        except apsw.BusyError:
            fault: StoreError = StoreUnavailable("The store is locked by another process.")
        except apsw.Error:
            fault = StoreInDoubt("The commit's answer was lost.")
        self._chain.rewind(end)
        _fail(batch, fault)
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        if isinstance(fault, StoreInDoubt):
            self._reopen()

    def _reopen(self) -> None:
        """A fresh connection reads what is really there, and so do we."""
        try:
            self._connection.close(True)
            self._connection = connect(self._path)
        except apsw.Error:
            return  # every further transaction says so
        self._tables = SqliteTables(self._connection, self._chain)
        row = self._connection.execute(
            "SELECT sequence, link FROM audit_events WHERE writer = ? ORDER BY sequence DESC LIMIT 1",
            (self._chain.writer,),
        ).fetchone()
        if row is not None:
            self._chain.rewind((row[0], row[1]))


def _fail(batch: list[_Order], fault: StoreError) -> None:
    for order in batch:
        if order.fault is None:
            order.fault = fault


def _deliver(batch: list[_Order]) -> None:
    """Wake every caller, one hop per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Order]] = {}
    for order in batch:
        by_loop.setdefault(order.loop, []).append(order)
    for loop, orders in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, orders)
        except RuntimeError:
            continue  # that loop is closed; nobody waits there any more


def _resolve(orders: list[_Order]) -> None:
    for order in orders:
        if order.future.done():
            continue
        if order.fault is not None:
            order.future.set_exception(order.fault)
        else:
            order.future.set_result(order.answer)
