"""One thread that writes: whatever callers wait is committed together.

The verbs of a batch share a savepoint. If one of them fails, all are taken back and each runs again in a savepoint of
its own, so one caller's fault is not another's; the commit is one fsync for all. A verb is durable when its caller
hears of it, and not before. Callers cannot cancel a verb they have handed over: the answer comes, and the cancellation
is raised at their next wait.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import apsw

from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.co_commits import chain_waiting
from placet.adapters.stores.sqlite.connection import connect, translated
from placet.adapters.stores.sqlite.tables import SQL, SqliteTables
from placet.errors import MisuseError, PlacetError, StoreError, StoreInDoubt, StoreUnavailable
from placet.model.audit import AuditEvent
from placet.ports.clock import Clock, elapsed_seconds
from placet.ports.meter import Meter
from placet.ports.store import Heard
from placet.ports.waiting import Unbreakable, whatever_happens
from placet.rules.chains import GENESIS

MAX_BATCH = 256

Answered = TypeVar("Answered")
Verb = Callable[[SqliteTables], Any]


@dataclass(slots=True)
class _Order:
    verb: Verb
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any] | None
    answer: Any = None
    fault: BaseException | None = None
    events: tuple[AuditEvent, ...] = ()


class Writer:
    """The only writing connection of this process to its store."""

    def __init__(
        self,
        path: Path,
        connection: apsw.Connection,
        chain: ChainWriter,
        *,
        clock: Clock,
        meter: Meter,
        heard: Heard,
    ) -> None:
        self._path = path
        self._connection = connection
        self._chain = chain
        self._tables = SqliteTables(connection, chain)
        self._clock = clock
        self._meter = meter
        self._heard = heard
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._door = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        self._is_broken = False
        self.commits = 0
        self._thread = threading.Thread(target=self._serve, name="placet-writer", daemon=True)
        self._thread.start()

    async def transact(self, verb: Callable[[SqliteTables], Answered]) -> Answered:
        """Run the verb in the next batch; return once it is durable.

        Raises:
            StoreUnavailable: nothing of it was committed.
            StoreInDoubt: the commit's own answer was lost.
            MisuseError: the store was opened before a fork; the writing thread is the parent's.
        """
        if os.getpid() != self._process:
            raise MisuseError("The store belongs to another process: open a gate after the fork.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answered] = Unbreakable(loop=loop)
        with self._door:  # what was let in before it closed is served, and nothing is let in after
            if self._closed:
                raise StoreUnavailable("The store is closed.")
            self._orders.put(_Order(verb=verb, loop=loop, future=future))
        await whatever_happens(future)
        answer: Answered = future.result()
        return answer

    def close(self) -> None:
        """Serve what has been handed over, then end. Idempotent."""
        if self._closed or os.getpid() != self._process:
            return
        with self._door:
            self._closed = True
            self._orders.put(None)
        self._thread.join()
        self._connection.close()

    # ------------------------------------------------------------ the thread

    def _serve(self) -> None:
        while (order := self._orders.get()) is not None:
            batch, is_last = self._waiting(order)
            try:
                self._commit(batch)
            except Exception:  # a fault between the planned ones must not take the thread, and all who wait, with it
                _fail(batch, StoreInDoubt("The store broke off."))
                self._is_broken = True
            if self._is_broken:
                self._let_go()
            _deliver(batch, self._heard)
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
        started = self._clock.monotonic()
        try:
            with translated(self._path):
                if self._is_broken:
                    self._reopen()
                self._connection.execute("BEGIN IMMEDIATE")
                self._tables.begin()
                self._tables.note_key_check()
        except StoreError as fault:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            _fail(batch, fault)
            return
        end = self._chain.end
        changes = self._connection.total_changes()
        chaining = self._chaining(batch[0].loop)
        if self._connection.in_transaction:  # else chaining met a fault, and SQLite gave it up
            self._run_all(batch, is_alone=len(batch) == 1 and not chaining)
        refusal = self._put_head(end) or self._finish()
        if refusal is not None:
            self._chain.rewind(end)
            _fail(batch, refusal)
        elif self._connection.total_changes() > changes:
            self.commits += 1
            self._meter.committed(operations=len(batch), seconds=elapsed_seconds(self._clock, started))
            batch += chaining

    def _chaining(self, loop: asyncio.AbstractEventLoop) -> list[_Order]:
        """What co-commits left to be chained goes first; a fault of it is nobody else's, and a later batch tries again.

        Its events are heard where the first of the batch is, as nobody else is at hand.
        """
        order = _Order(verb=lambda tables: chain_waiting(tables, self._chain, self._clock.now), loop=loop, future=None)
        with suppress(StoreError), translated(self._path):
            if self._connection.in_transaction and self._tables.has_waiting():
                self._run(order)
        return [order] if order.events else []

    def _run_all(self, batch: list[_Order], *, is_alone: bool) -> None:
        if is_alone:
            self._run_alone(batch[0])
        elif not self._run_together(batch):
            for order in batch:
                self._run(order)

    def _run_alone(self, order: _Order) -> None:
        """Run the only one of its transaction, which needs no savepoint: if it fails, nothing is committed."""
        self._tables.appended.clear()
        try:
            with translated(self._path):
                order.answer = order.verb(self._tables)
            order.events = tuple(self._tables.appended)
        except BaseException as fault:
            order.fault = _told(fault)
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _run_together(self, batch: list[_Order]) -> bool:
        """Run them in one savepoint, as nearly always all of them succeed; false if one did not, and nothing stands."""
        end, order = self._chain.end, batch[0]
        self._connection.execute("SAVEPOINT batch")
        try:
            with translated(self._path):
                for order in batch:
                    self._tables.appended.clear()
                    order.answer = order.verb(self._tables)
                    order.events = tuple(self._tables.appended)
        except BaseException as fault:
            self._chain.rewind(end)
            self._tables.begin()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO batch")
                self._connection.execute("RELEASE batch")
            else:
                order.fault = _told(fault)  # SQLite gave the transaction up: none of them runs again
            return False
        self._connection.execute("RELEASE batch")
        return True

    def _run(self, order: _Order) -> None:
        if not self._connection.in_transaction:
            return
        end = self._chain.end
        self._tables.appended.clear()
        self._connection.execute("SAVEPOINT verb")
        try:
            with translated(self._path):
                order.answer = order.verb(self._tables)
            order.events = tuple(self._tables.appended)
        except BaseException as fault:
            order.fault = _told(fault)
            self._chain.rewind(end)
            self._tables.begin()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO verb")
        if self._connection.in_transaction:
            self._connection.execute("RELEASE verb")

    def _put_head(self, end: tuple[int, str]) -> StoreError | None:
        """The chain's new end, in the same transaction; why nothing of it can be committed, if so."""
        try:
            with translated(self._path):
                if self._connection.in_transaction and self._chain.end != end:
                    self._tables.put_head()
        except StoreError as fault:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            return fault
        if self._connection.in_transaction:
            return None
        return StoreUnavailable("The store gave the transaction up.")  # SQLite did: disk full, or an I/O fault

    def _finish(self) -> StoreError | None:
        """Commit. A fault of COMMIT itself, but for a lock or a full disk, leaves it open what a restart will find."""
        try:
            self._connection.execute("COMMIT")
            return None
        except apsw.BusyError:
            self._connection.execute("ROLLBACK")
            return StoreUnavailable("The store is locked by another process.")
        except apsw.FullError:  # the frame that makes a commit is the last one written, and had no room
            self._is_broken = True
            return StoreUnavailable("The disk of the store is full.", hint="Free space, then ask again.")
        except apsw.Error:
            self._is_broken = True
            return StoreInDoubt("The commit's answer was lost.")

    def _let_go(self) -> None:
        """Release the write lock now, for other processes, and not only when the next order reopens the store."""
        with suppress(apsw.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            return
        with suppress(apsw.Error):  # a file that is closed holds no lock
            self._connection.close(True)

    def _reopen(self) -> None:
        """A fresh connection reads what is really there, and so do we."""
        self._connection.close(True)
        self._connection = connect(self._path)
        self._tables = SqliteTables(self._connection, self._chain)
        row = self._connection.execute(SQL["end_of_chain"], (self._chain.writer,)).fetchone()
        self._chain.rewind((0, GENESIS) if row is None else (row[0], row[1]))
        self._is_broken = False


def _told(fault: BaseException) -> PlacetError:
    return fault if isinstance(fault, PlacetError) else StoreUnavailable("The store could not do it.")


def _fail(batch: list[_Order], fault: StoreError) -> None:
    for order in batch:
        if order.fault is None:
            order.fault = fault


def _deliver(batch: list[_Order], heard: Heard) -> None:
    """Wake every caller, one hop per event loop, and let the events be heard there."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Order]] = {}
    for order in batch:
        by_loop.setdefault(order.loop, []).append(order)
    for loop, orders in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, orders, heard)
        except RuntimeError:
            continue  # that loop is closed; nobody waits there any more


def _resolve(orders: list[_Order], heard: Heard) -> None:
    for order in orders:
        if order.future is None or order.future.done():
            continue
        if order.fault is not None:
            order.future.set_exception(order.fault)
        else:
            order.future.set_result(order.answer)
    for order in orders:  # after every answer, so that a fault of a listener keeps nobody waiting
        if order.fault is None and order.events:
            heard(order.events)
