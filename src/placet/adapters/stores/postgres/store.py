"""The store port over one PostgreSQL database, for any number of processes on any number of hosts.

    callers' loops ── orders ──▶ the store's thread:  writer (one connection)   decides, compares, commits
                   ── look-ups ─▶                     reader (another)          looks for rows
                   ── lists ────▶                     reader (one more)         counts and lists

The rules stay in Python, in the verbs; the database compares what they read and keeps what they wrote. The clock of the
store is the database's, whatever the hosts' clocks say.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from datetime import datetime
from typing import Any

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.postgres.acknowledged import Acknowledged
from placet.adapters.stores.postgres.admitting import PostgresCredentials
from placet.adapters.stores.postgres.approvals import PostgresApprovals
from placet.adapters.stores.postgres.archive import PostgresArchive
from placet.adapters.stores.postgres.bell import Bell
from placet.adapters.stores.postgres.co_commit import co_commit
from placet.adapters.stores.postgres.connection import FAULTS, Address, connect, fault_of
from placet.adapters.stores.postgres.grants import PostgresGrants
from placet.adapters.stores.postgres.line import Line
from placet.adapters.stores.postgres.memory import Memory
from placet.adapters.stores.postgres.migrating import KEY_CHECK, check_key, migrate
from placet.adapters.stores.postgres.orders import How, Intake, StoreThread, ended, handed_over
from placet.adapters.stores.postgres.outbox import PostgresOutbox
from placet.adapters.stores.postgres.overlay import PredictedTables
from placet.adapters.stores.postgres.pages import PostgresPages
from placet.adapters.stores.postgres.reading import QUICK, Lookup, Reader, Stream
from placet.adapters.stores.postgres.reminders import PostgresReminders
from placet.adapters.stores.postgres.runs import PostgresRuns
from placet.adapters.stores.postgres.statements import SQL
from placet.adapters.stores.postgres.writer import Writer
from placet.errors import StoreError, StoreUnavailable
from placet.model.approval import (
    Mac,
)
from placet.model.audit import AuditEvent, ChainedEvent, ChainHead
from placet.model.custody import KeyUse
from placet.model.effect import BrokenEffect, Effect, EffectState, UnknownEffects
from placet.model.identifiers import OperationKey, OwnerId, Token, WriterId
from placet.model.ledger import (
    Claim,
    ClaimAnswer,
    CoCommitAnswer,
    LostRead,
    MoveAnswer,
    OpenRead,
    Place,
    Reconciliation,
    RecordAnswer,
    Settlement,
    Step,
    Turn,
)
from placet.model.stopping import StopLeave, StopNote, StopRecord
from placet.model.waking import Topic
from placet.ports.clock import Clock
from placet.ports.keys import Keys
from placet.ports.meter import Meter
from placet.ports.store import AuditSnapshot, Heard
from placet.ports.waiting import whatever_happens
from placet.ports.wakeups import Wakeup
from placet.rules.chains import heads_form

_STRETCH = 1_000
_IN_FLIGHT = frozenset({EffectState.DISPATCHED, EffectState.UNKNOWN})


class PostgresStore(
    PostgresApprovals,
    PostgresArchive,
    PostgresCredentials,
    PostgresGrants,
    PostgresOutbox,
    PostgresPages,
    PostgresReminders,
    PostgresRuns,
):
    """Verbs go to the writer and come back durable; look-ups read the last committed state."""

    def __init__(
        self, address: Address, *, keys: Keys, clock: Clock, writer: WriterId, meter: Meter, heard: Heard
    ) -> None:
        """Open the store, or make its schema in a database that is there.

        Raises:
            StoreUnavailable, StoreCorrupt, StoreTooNew: it cannot be opened; see `migrate`.
            KeyMaterialError: the key is not the one this store was made with.
        """
        self._address = address
        self._keys = keys
        self._clock = clock
        self._meter = meter
        self._heard = heard
        self._writer_id = writer
        self._thread = StoreThread()
        self._is_closed = False
        self._streams: set[Stream] = set()
        try:
            self._thread.run(self._open())
        except BaseException:
            self._thread.stop()
            raise

    async def _open(self) -> None:
        try:
            connection = await connect(self._address)
            try:
                await migrate(connection, self._address)
                await check_key(connection, self._keys)
                heads = [rows.head_from(tuple(row)) for row in await connection.fetch(SQL["unremembered_heads"])]
                self._chain = ChainWriter(self._keys, self._writer_id, opened_after=heads_form(heads))
                memory = Memory()
                self._acknowledged = Acknowledged(self._address, self._writer_id)
                self._line = Line(self._address, self._chain, memory, self._acknowledged)
                await self._line.open(connection)
            except BaseException:
                connection.terminate()
                raise
        except FAULTS as foreign:
            fault: StoreError = fault_of(foreign, self._address)
        else:
            self._orders = Intake(self._thread.loop)
            self._lookups, self._lists = Intake(self._thread.loop), Intake(self._thread.loop)
            self._bell = Bell(self._address, self._keys, self._thread.loop)
            self._writer = Writer(
                self._address,
                self._line,
                self._chain,
                memory,
                self._orders,
                self._bell,
                clock=self._clock,
                meter=self._meter,
                heard=self._heard,
            )
            self._readers = [
                Reader(self._address, intake, memory, self._acknowledged) for intake in (self._lookups, self._lists)
            ]
            serving = [self._writer.serve(), *(reader.serve() for reader in self._readers)]
            self._tasks = [asyncio.ensure_future(each) for each in serving]
            self._ringing = asyncio.ensure_future(self._bell.serve())
            return
        raise fault

    async def _write(
        self,
        verb: Callable[[PredictedTables], Any],
        how: How = How.TOGETHER,
        about: tuple[str, str] | None = None,
    ) -> Any:
        return await handed_over(self._orders, self._thread, verb, how, about)

    async def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]:
        intake = self._lookups if name in QUICK else self._lists
        found = await handed_over(intake, self._thread, Lookup(name, bindings))  # type: ignore[arg-type]
        return [tuple(row) for row in found]

    # ------------------------------------------------------------ ledger

    async def claim(self, claim: Claim) -> ClaimAnswer:
        def verb(tables: PredictedTables) -> ClaimAnswer:
            if claim.expected_fence == 0:
                tables.presume_absent(claim.tenant, claim.operation_key)
            return verbs.claim(tables, claim, tables.now)

        how = How.TOGETHER if claim.grant is None else How.LOCKED  # its row is read under its lock, and counted there
        answer: ClaimAnswer = await self._write(verb, how)
        return answer

    async def turn(self, turn: Turn) -> MoveAnswer:
        answer: MoveAnswer = await self._write(lambda tables: verbs.turn(tables, turn, tables.now))
        return answer

    async def settle(self, settlement: Settlement) -> MoveAnswer:
        answer: MoveAnswer = await self._write(lambda tables: verbs.settle(tables, settlement, tables.now))
        return answer

    def co_commit(self, connection: object, settlement: Settlement) -> Coroutine[Any, Any, CoCommitAnswer]:
        return co_commit(connection, settlement, address=self._address, chain=self._chain)

    async def void(self, tenant: str, operation_key: OperationKey, token: Token) -> bool:
        return bool(
            await self._write(lambda tables: verbs.void(tables, tenant, operation_key, token, tables.now), How.ALONE)
        )

    async def effect(self, tenant: str, operation_key: OperationKey) -> Effect | None:
        lookup: Any = Lookup("effects_at", (tenant, operation_key))
        effect: Effect | None = await handed_over(self._lookups, self._thread, lookup)
        return effect

    async def effects(
        self, *, tenant: str | None, states: Sequence[EffectState], limit: int, subject: str | None = None
    ) -> tuple[Effect | BrokenEffect, ...]:
        names = [state.value for state in states]
        if _IN_FLIGHT.issuperset(states):
            return await self._effects("effects_in_flight", names, subject, limit, tenant)
        if tenant is None:
            return await self._effects("effects_of_all", names, subject, limit)
        return await self._effects("effects_of_tenant", names, subject, limit, tenant)

    async def longest_unknown(
        self, *, tenant: str, subject: str | None, limit: int, skip: int = 0
    ) -> tuple[Effect | BrokenEffect, ...]:
        return await self._effects("longest_unknown", tenant, subject, limit, skip)

    async def unknown_effects(self) -> UnknownEffects:
        return rows.unknown_effects_from(await self._read("unknown_effects"))

    async def broken_effects(self, *, tenant: str | None, subject: str | None, limit: int) -> tuple[BrokenEffect, ...]:
        broken: list[BrokenEffect] = []
        last = ("", "")
        while len(broken) < limit:
            found = await self._read("rows_after", *last, _STRETCH, tenant, subject)
            broken += [each for each in map(rows.effect_or_broken, found) if isinstance(each, BrokenEffect)]
            if len(found) < _STRETCH:
                break
            last = found[-1][:2]
        return tuple(broken[:limit])

    async def heartbeat(self, owner: OwnerId, *, lease_seconds: float) -> int:
        return int(
            await self._write(lambda tables: verbs.heartbeat(tables, owner, lease_seconds, tables.now), How.LOCKED)
        )

    async def stranded(self, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        return await self._effects("stranded", limit)

    async def take_over(self, effect: Effect, events: tuple[AuditEvent, ...]) -> MoveAnswer:
        answer: MoveAnswer = await self._write(
            lambda tables: verbs.take_over(tables, effect, events, tables.now), How.LOCKED
        )
        return answer

    async def due_for_probe(self, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        return await self._effects("due_for_probe", limit)

    async def begin_probe(self, effect: Effect, *, seconds: float) -> bool:
        return bool(
            await self._write(lambda tables: verbs.begin_probe(tables, effect, seconds, tables.now), How.LOCKED)
        )

    async def probed_in_vain(self, effect: Effect, *, next_probe_seconds: float) -> None:
        await self._write(
            lambda tables: verbs.probed_in_vain(tables, effect, next_probe_seconds, tables.now), How.LOCKED
        )

    async def owner_died(self, effect: Effect) -> None:
        await self._write(lambda tables: verbs.owner_died(tables, effect, tables.now), How.LOCKED)

    async def reconcile(self, reconciliation: Reconciliation) -> MoveAnswer:
        answer: MoveAnswer = await self._write(
            lambda tables: verbs.reconcile(tables, reconciliation, tables.now), How.LOCKED
        )
        return answer

    # ------------------------------------------------------------ runs, stops, audit

    async def record(
        self,
        events: tuple[AuditEvent, ...],
        *,
        step: Step | None = None,
        starts_tool: str | None = None,
        denies_tool: str | None = None,
        opens: OpenRead | None = None,
        closes: Place | None = None,
    ) -> RecordAnswer:
        answer: RecordAnswer = await self._write(
            lambda tables: verbs.record(
                tables,
                events,
                lambda: tables.now,
                step=step,
                starts_tool=starts_tool,
                denies_tool=denies_tool,
                opens=opens,
                closes=closes,
            )
        )
        return answer

    async def chain_waiting(self) -> int:
        """Look first: nearly always there is nothing. What another process is chaining still waits."""
        waiting = int((await self._read("count_waiting"))[0][0])
        if waiting:
            await self._write(self._writer.chain_waiting, How.LOCKED)
        return waiting

    async def lost_reads(self, *, limit: int) -> tuple[LostRead, ...]:
        found = await self._read("lost_reads", limit)
        return tuple(LostRead(place=Place(writer=row[0], sequence=row[1]), started=row[2].encode()) for row in found)

    async def close_lost_read(self, lost: LostRead, event: AuditEvent) -> bool:
        return bool(await self._write(lambda tables: verbs.close_lost_read(tables, lost, event), How.LOCKED))

    async def pending_count(self) -> int:
        return int((await self._read("pending_count"))[0][0])

    async def stop(self, scope: str, events: tuple[AuditEvent, ...], *, note: StopNote | None = None) -> int:
        return int(
            await self._write(lambda tables: verbs.stop(tables, scope, events, tables.now, note=note), How.ALONE)
        )

    async def resume(
        self, scope: str, events: tuple[AuditEvent, ...], *, leave: StopLeave = StopLeave.DEPLOYMENT
    ) -> bool:
        return bool(await self._write(lambda tables: verbs.resume(tables, scope, events, leave), How.ALONE))

    async def stops(self) -> tuple[str, ...]:
        return tuple(row[0] for row in await self._read("stops"))

    async def stop_records(self) -> tuple[StopRecord, ...]:
        return tuple(map(rows.stop_record_from, await self._read("stop_records")))

    async def adopt_key(self, check: Mac, *, events: tuple[AuditEvent, ...]) -> None:
        await self._write(lambda tables: verbs.adopt_key(tables, check, events), How.ALONE)

    async def adopted_key(self) -> str:
        found = await self._read("meta", KEY_CHECK)
        return rows.mac_from(found[0][0] if found else "").key_id

    async def key_uses(self) -> tuple[KeyUse, ...]:
        async with self._moment("key_uses") as (_, found):
            return rows.key_uses_from([tuple(row) async for row in found])

    async def now(self) -> datetime:
        at = rows.instant((await self._read("clock"))[0][0])
        assert at is not None  # noqa: S101  # a clock says something
        return at

    # ------------------------------------------------------------ the audit

    async def chained(self, *, tenant: str | None = None, newest: int | None = None) -> AsyncIterator[ChainedEvent]:
        """Reads through a connection of its own, so that a long export disturbs nobody."""
        if newest is not None:
            some = (
                await self._read("newest", newest)
                if tenant is None
                else await self._read("newest_of_tenant", tenant, newest)
            )
            for row in some[::-1]:
                yield rows.event_from(row)
            return
        name, bound = ("chained", ()) if tenant is None else ("chained_of_tenant", (tenant,))
        async with self._moment(name, bound) as (_, found):
            async for row in found:
                yield rows.event_from(row)

    @asynccontextmanager
    async def snapshot(self, *, tenant: str | None = None) -> AsyncIterator[AuditSnapshot]:
        beside = (("count_events", (tenant,)), ("heads", ()), ("tombstones", ()))
        async with self._moment("chained", (), *beside) as ((count, heads, tombstones), found):
            yield AuditSnapshot(
                heads=tuple(rows.head_from(tuple(row)) for row in heads),
                count=count[0][0],
                events=_events(found),
                tombstones=tuple(rows.tombstone_from(tuple(row)) for row in tombstones),
            )

    async def heads(self) -> tuple[ChainHead, ...]:
        return tuple(map(rows.head_from, await self._read("heads")))

    @asynccontextmanager
    async def _moment(
        self, name: str, bound: tuple[Any, ...] = (), *beside: tuple[str, tuple[Any, ...]]
    ) -> AsyncIterator[tuple[list[list[Any]], AsyncIterator[Any]]]:
        """The rows of a statement, and what others find beside it at the same moment."""
        self._thread.check_process()
        stream = Stream(self._address, self._acknowledged, name, bound)
        self._streams.add(stream)  # first, so that whoever closes the store ends it
        try:
            if self._is_closed:
                raise StoreUnavailable("The store is closed.")
            yield await self._thread.carry(stream.begin(*beside)), self._each(stream)
        finally:
            with suppress(StoreUnavailable):  # closed, and this was ended with it
                await self._thread.carry(stream.end())
            self._streams.discard(stream)

    async def _each(self, stream: Stream) -> AsyncIterator[Any]:
        while found := await self._thread.carry(stream.next_rows()):
            for row in found:
                yield row

    # ------------------------------------------------------------ itself

    def waiting_for(self, topic: Topic) -> AbstractContextManager[Wakeup]:
        return self._bell.waiting_for(topic)

    @property
    def writer(self) -> WriterId:
        return self._chain.writer

    @property
    def commits(self) -> int:
        return self._writer.commits

    @property
    def counts(self) -> Counter[str]:
        """How this process's batches went; see `Writer`."""
        return self._writer.counts

    async def close(self) -> None:
        """Serve what has been handed over, then end. Idempotent."""
        if self._is_closed or not self._thread.is_ours:
            return
        self._is_closed = True  # first: no stream begins that nobody would end
        await self._thread.carry(self._end())
        await whatever_happens(asyncio.ensure_future(asyncio.to_thread(self._thread.stop)))

    async def _end(self) -> None:
        self._orders.close()
        self._lookups.close()
        self._lists.close()
        await asyncio.gather(*(stream.end() for stream in tuple(self._streams)))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await ended(self._ringing)
        await self._writer.close()
        await self._line.close()
        for reader in self._readers:
            await reader.close()

    async def _effects(self, name: str, *bound: Any) -> tuple[Effect | BrokenEffect, ...]:
        return tuple(map(rows.effect_or_broken, await self._read(name, *bound)))


async def _events(found: AsyncIterator[Any]) -> AsyncIterator[ChainedEvent]:
    async for row in found:
        yield rows.event_from(row)
