"""One task that writes: whatever callers wait is decided, compared and committed together, in one round trip.

    decide on what is remembered ── apply ── durable, answers are given
                                      └── something was otherwise ── decide again under locks ── commit

While the database works on one batch the next one gathers; it is sent before the answers of the last are handed out. A
verb is durable when its caller hears of it, and not before. Callers cannot cancel a verb they have handed over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg

from placet.adapters.stores import rows
from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.co_commits import MOST_AT_ONCE, chain_waiting
from placet.adapters.stores.postgres.batch import bindings, key_check_of, note_read, remember, shaped
from placet.adapters.stores.postgres.bell import Bell
from placet.adapters.stores.postgres.connection import (
    FAULTS,
    Address,
    fault_of,
    is_data,
    is_held,
    is_late,
    is_lost,
    is_repeatable,
)
from placet.adapters.stores.postgres.line import Line
from placet.adapters.stores.postgres.memory import Memory
from placet.adapters.stores.postgres.migrating import KEY_CHECK
from placet.adapters.stores.postgres.orders import How, Intake, Order, deliver, fail
from placet.adapters.stores.postgres.outage import newest
from placet.adapters.stores.postgres.overlay import REFUSALS, PredictedTables
from placet.adapters.stores.postgres.reading import read_all
from placet.adapters.stores.postgres.reading_wishes import NotTogether, Reading, Unread
from placet.adapters.stores.postgres.sizes import SizeTeller
from placet.adapters.stores.postgres.statements import SQL
from placet.adapters.stores.postgres.topics import topics_of
from placet.errors import PlacetError, StoreError, StoreInDoubt, StoreUnavailable, StoreWentBack
from placet.ports.clock import Clock, elapsed_seconds
from placet.ports.meter import Meter
from placet.ports.store import Heard

MAX_BATCH: Final = 256
_CHAINING_WAITS_BATCHES: Final = 16
_TRIES: Final = 12
_ROUNDS: Final = 16
_BUSY: Final = "Other writers of the store were faster every time."
_TOO_MUCH: Final = "This is more than one transaction of the store decides."


class Writer:
    """Decides and commits the orders of this process, in the thread of its store."""

    def __init__(
        self,
        address: Address,
        line: Line,
        chain: ChainWriter,
        memory: Memory,
        intake: Intake,
        bell: Bell,
        *,
        clock: Clock,
        meter: Meter,
        heard: Heard,
    ) -> None:
        self._address = address
        self._line = line
        self._chain = chain
        self._memory = memory
        self._intake = intake
        self._bell = bell
        self._clock = clock
        self._meter = meter
        self._heard = heard
        self._told: tuple[datetime, float] | None = None
        self._sends = False
        self._is_anything_waiting = False
        self._heard_in: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._batches_since = 0
        self._sizes = SizeTeller(address)
        self.commits = 0
        self.counts: Counter[str] = Counter()
        """How batches went: `fast`, `locked`, `reads`, `round_trips`, `in_doubt`."""

    async def serve(self) -> None:
        """Until the intake is closed and empty."""
        done: list[Order] = []
        while True:
            if not self._intake.has_any:
                deliver(done, self._heard)
                done = []
                if not self._is_anything_waiting and not await self._intake.wait():
                    return
            batch = self._next_batch()
            if not done:  # nobody to hand anything to meanwhile
                done = await self._written(batch)
                continue
            writing = asyncio.ensure_future(self._written(batch))
            await asyncio.sleep(0)  # noqa: TID251  # lets the batch be decided and sent; no time passes
            deliver(done, self._heard)
            done = await writing

    async def close(self) -> None:
        """End what goes on beside the orders."""
        await self._sizes.close()

    def _next_batch(self) -> list[Order]:
        """Callers first; what co-commits left to be chained when none waits, or has waited long enough."""
        if self._is_anything_waiting:
            self._batches_since += 1
            if not self._intake.has_any or self._batches_since > _CHAINING_WAITS_BATCHES:
                self._is_anything_waiting, self._batches_since = False, 0
                return [Order(work=self.chain_waiting, loop=self._heard_in, future=None, how=How.LOCKED)]
        batch = self._intake.take(MAX_BATCH)
        self._heard_in = batch[0].loop
        return batch

    async def _written(self, batch: list[Order]) -> list[Order]:
        """Every order of the batch with its answer or its fault."""
        try:
            if batch[0].how is How.TOGETHER:
                await self._together(batch)
            else:
                await self._locked(batch, batch[0].how)
        except StoreError as fault:
            fail(batch, fault)
        except Exception:  # a fault between the planned ones must not take the task, and all who wait, with it
            self._line.let_go()
            fail(batch, StoreInDoubt("The store broke off."))
        if batch[0].future is None:  # it saw its own leavings, which are gone with its commit
            self._is_anything_waiting = batch[0].fault is None and batch[0].answer == MOST_AT_ONCE
        return batch

    def chain_waiting(self, tables: PredictedTables) -> int:
        return chain_waiting(tables, self._chain, lambda: tables.now)

    # ------------------------------------------------------------ together

    async def _together(self, batch: list[Order]) -> None:
        """One round trip, and one commit; what cannot go so goes under locks."""
        for _ in range(_TRIES):
            connection = await self._line.ready(newest(batch))
            if (apart := await self._try_together(connection, batch)) is not None:
                for order in apart:
                    await self._each(order)
                return
        fail(batch, StoreUnavailable("The store could not be kept open long enough."))

    async def _try_together(self, connection: asyncpg.Connection, batch: list[Order]) -> list[Order] | None:
        """Orders that are left to be decided by themselves; None if it never landed and is to be sent anew."""
        started = self._clock.monotonic()
        end = self._chain.end
        self._sends = False
        foreign: BaseException
        try:
            tables, apart = await self._decided(connection, batch)
            row = await self._apply(connection, tables)
        except FAULTS as fault:
            foreign = fault
        else:
            self._note(tables, row, len(batch) - len(apart), started)
            self.counts["fast"] += 1
            return apart
        self._chain.rewind(end)
        return await self._after(foreign, batch)

    async def _after(self, foreign: BaseException, batch: list[Order]) -> list[Order] | None:
        """What comes after a fault of the fast path."""
        if is_late(foreign) or is_lost(foreign):
            if await self._has_landed(batch):
                return _undecided(batch)
            for order in batch:
                order.reset()
            return None
        for order in batch:
            order.reset()
        if is_repeatable(foreign):
            await self._locked(batch, How.LOCKED)
            return []
        if is_data(foreign) or (is_held(foreign) and len(batch) > 1):
            return list(batch)  # one by one, so that only one of them fails
        raise fault_of(foreign, self._address)

    async def _has_landed(self, batch: list[Order]) -> bool:
        """After a lost answer: whether what was asked for is durable.

        Raises:
            StoreError: it cannot be found out in time.
        """
        sent = self._sends
        self.counts["in_doubt"] += sent
        try:
            has_landed = await self._line.became_of_it()
        except StoreWentBack:
            raise
        except StoreError:
            if not sent:
                raise
            raise StoreInDoubt("The commit's answer was lost.") from None
        if has_landed:
            self.commits += 1
        return has_landed and sent

    async def _decided(self, connection: asyncpg.Connection, batch: list[Order]) -> tuple[PredictedTables, list[Order]]:
        """Every order decided on one set of tables; those that have to be decided apart."""
        await self._know_the_basics(connection)
        tables = PredictedTables(self._memory, self._chain, now=self._now(), is_locked=False)
        return tables, await self._decide(connection, tables, batch)

    async def _decide(
        self, connection: asyncpg.Connection, tables: PredictedTables, orders: list[Order]
    ) -> list[Order]:
        """Decide all, and read for it whatever they need; those that cannot be decided together with the others."""
        apart: list[Order] = []
        for _ in range(_ROUNDS):
            left = [order for order in orders if not order.is_decided and order not in apart]
            unread = self._run_all(tables, left, apart)
            if not unread:
                return apart
            await self._read(connection, tables, unread)
        return _undecided(orders)

    def _run_all(self, tables: PredictedTables, orders: list[Order], apart: list[Order]) -> list[Reading]:
        """Decide each; what has to be read before the others can be."""
        unread: list[Reading] = []
        for order in orders:
            end = self._chain.end
            tables.begin()
            try:
                answer = order.work(tables)
                if tables.presumed and isinstance(answer, REFUSALS):
                    raise Unread(*tables.presumed)
                order.is_decided, order.answer, order.events = True, answer, tuple(tables.appended)
                continue
            except Unread as need:
                unread.extend(need.readings)
                tables.unsee()
            except NotTogether:
                tables.unsee()
                apart.append(order)
            except PlacetError as fault:
                order.is_decided, order.fault = True, fault
            except Exception:
                order.is_decided, order.fault = True, StoreUnavailable("The store could not do it.")
            tables.roll_back()
            self._chain.rewind(end)
        return list(dict.fromkeys(unread))

    async def _apply(self, connection: asyncpg.Connection, tables: PredictedTables) -> Any:
        """Compare and write; None if there is nothing of either."""
        if not tables.is_writing and not tables.is_comparing:
            return None
        bound = bindings(tables, self._chain, self._memory.key_check, self._line.turnstile)
        sent_at = self._clock.monotonic()
        self._sends = tables.is_writing
        self.counts["round_trips"] += 1
        row = await connection.fetchrow(SQL["apply"], *bound)
        self._hear_clock(row["at"], sent_at)
        return row

    def _note(self, tables: PredictedTables, row: Any, operations: int, started: float) -> None:
        if row is None:
            return
        self._is_anything_waiting = row["is_anything_waiting"]
        remember(self._memory, tables, row["mark"])
        if tables.is_writing:
            self._line.committed()
            self.commits += 1
            self._sizes.after(self.commits)
            self._bell.ring(topics_of(tables))
            self._meter.committed(operations=operations, seconds=elapsed_seconds(self._clock, started))

    # ------------------------------------------------------------ under locks

    async def _each(self, order: Order) -> None:
        try:
            await self._locked([order], How.LOCKED)
        except StoreError as fault:
            fail([order], fault)

    async def _locked(self, orders: list[Order], how: How) -> None:
        """Decide on rows that nobody else can change, and commit.

        Raises:
            StoreError: why none of them could be.
        """
        for _ in range(_TRIES):
            connection = await self._line.ready(newest(orders))
            for order in orders:
                order.reset()
            end = self._chain.end
            self._sends = False
            foreign: BaseException
            try:
                await self._try_locked(connection, orders, how)
            except FAULTS as fault:
                foreign = fault
            except BaseException:
                self._chain.rewind(end)
                await self._roll_back(connection)
                raise
            else:
                self.counts["locked"] += 1
                return
            self._chain.rewind(end)
            if is_late(foreign) or is_lost(foreign):
                if await self._has_landed(orders):
                    for order in _undecided(orders):
                        await self._each(order)
                    return
                continue
            await self._roll_back(connection)
            if is_repeatable(foreign):
                continue
            if (is_data(foreign) or is_held(foreign)) and len(orders) > 1:
                for order in orders:
                    await self._each(order)
                return
            raise fault_of(foreign, self._address)
        raise StoreUnavailable(_BUSY)

    async def _try_locked(self, connection: asyncpg.Connection, orders: list[Order], how: How) -> None:
        started = self._clock.monotonic()
        await connection.execute("BEGIN")
        if how is How.ALONE:  # waits for every host's transaction, a suspended one's until the server ends it
            await connection.execute(SQL["patiently"])
        sent_at = self._clock.monotonic()
        at = await connection.fetchval(SQL["alone" if how is How.ALONE else "share"])
        self._hear_clock(at, sent_at)
        self._memory.key_check = await connection.fetchval(SQL["meta"], KEY_CHECK)
        self._chain.noted(key_check_of(self._memory.key_check))
        self.counts["round_trips"] += 3
        now = rows.instant(at) or self._now()
        tables = PredictedTables(self._memory, self._chain, now=now, is_locked=True)
        apart = await self._decide(connection, tables, orders)
        if apart and len(orders) == 1:  # by itself it would be no further: nothing of it is written
            raise StoreUnavailable(_TOO_MUCH, hint="Ask for less at once.")
        await self._commit(connection, tables, len(orders) - len(apart), started)
        for order in apart:  # a second change of one row, after the first is durable
            await self._each(order)

    async def _commit(
        self, connection: asyncpg.Connection, tables: PredictedTables, operations: int, started: float
    ) -> None:
        for (tenant, approval_id), closed in sorted(tables.closed_first.items()):  # read under its lock
            await connection.execute(SQL["close_approval"], closed.state.value, tenant, approval_id)
        row = await self._apply(connection, tables)
        for name, bound in tables.statements:
            await connection.execute(SQL[name], *bound)
        self.counts["round_trips"] += 1 + len(tables.closed_first) + len(tables.statements)
        self._sends = tables.is_writing
        await connection.execute("COMMIT")
        self._note(tables, row, operations, started)
        if tables.statements:
            self._memory.stops, self._memory.key_check = None, None

    async def _roll_back(self, connection: asyncpg.Connection) -> None:
        try:
            await connection.execute("ROLLBACK")
        except FAULTS:
            self._line.let_go()

    # ------------------------------------------------------------ reading and time

    async def _read(self, connection: asyncpg.Connection, tables: PredictedTables, readings: Sequence[Reading]) -> None:
        self.counts["reads"] += 1
        found = await read_all(connection, readings, is_locking=tables.is_locked)
        for reading, value in found.items():
            tables.known[reading] = value
            note_read(self._memory, reading.name, reading.bindings, value)

    async def _know_the_basics(self, connection: asyncpg.Connection) -> None:
        """What every batch compares, read once, and again after it was found to be otherwise."""
        if self._memory.key_check is None:
            self._memory.key_check = await connection.fetchval(SQL["meta"], KEY_CHECK)
        self._chain.noted(key_check_of(self._memory.key_check))
        if self._memory.stops is None:
            self._memory.stops = shaped("stops", await connection.fetch(SQL["stops"]))
        if self._told is None:
            sent_at = self._clock.monotonic()
            self._hear_clock(await connection.fetchval(SQL["clock"]), sent_at)

    def _hear_clock(self, at: int, sent_at: float) -> None:
        """What the database said, somewhere between asking and hearing: in the middle the error is smallest."""
        instant = rows.instant(at)
        if instant is not None:
            self._told = (instant, sent_at + elapsed_seconds(self._clock, sent_at) / 2)

    def _now(self) -> datetime:
        """The database's time: what it said last, and what has passed since. It compares what is made of it."""
        assert self._told is not None  # noqa: S101  # `_know_the_basics` asked
        at, sent_at = self._told
        return at + timedelta(seconds=elapsed_seconds(self._clock, sent_at))


def _undecided(orders: list[Order]) -> list[Order]:
    return [order for order in orders if not order.is_decided]
