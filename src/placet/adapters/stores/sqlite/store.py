"""The store port over one SQLite file."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.sqlite import listing
from placet.adapters.stores.sqlite.admitting import SqliteCredentials
from placet.adapters.stores.sqlite.archive import SqliteArchive
from placet.adapters.stores.sqlite.co_commit import co_commit
from placet.adapters.stores.sqlite.connection import open_file, read_only, translated
from placet.adapters.stores.sqlite.grants import SqliteGrants
from placet.adapters.stores.sqlite.long_looks import moment, read_apart
from placet.adapters.stores.sqlite.outbox import SqliteOutbox
from placet.adapters.stores.sqlite.reminders import SqliteReminders
from placet.adapters.stores.sqlite.runs import SqliteRuns
from placet.adapters.stores.sqlite.tables import KEY_CHECK, SQL, same_ask_bindings
from placet.adapters.stores.sqlite.writer import Writer
from placet.errors import KeyMaterialError
from placet.model.approval import (
    Answer,
    Approval,
    ApprovalState,
    Mac,
    OtherVotes,
    Question,
    SignedAnswer,
    SignedVote,
)
from placet.model.audit import AuditEvent, ChainedEvent, ChainHead
from placet.model.custody import KeyUse
from placet.model.effect import BrokenEffect, Effect, EffectState, UnknownEffects
from placet.model.identifiers import ApprovalId, CallId, OperationKey, OwnerId, Token, WriterId
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
    SameAsk,
    Settlement,
    Step,
    Turn,
    Withdrawal,
)
from placet.model.listing import Mark
from placet.model.stopping import StopLeave, StopNote, StopRecord
from placet.model.waking import Topic
from placet.model.watching import WaitingMark
from placet.ports.clock import Clock
from placet.ports.keys import STORE_CHECK, KeyPurpose, Keys
from placet.ports.meter import Meter
from placet.ports.store import AuditSnapshot, Heard
from placet.ports.wakeups import Wakeup, silence
from placet.rules.approvals import instant_text
from placet.rules.chains import heads_form

_ROWS_AT_ONCE = 5_000
_IN_FLIGHT = frozenset({EffectState.DISPATCHED, EffectState.UNKNOWN})
_APPROVAL_ID, _ASKED_AT = 0, 16  # columns of `approvals`


class SqliteStore(SqliteArchive, SqliteCredentials, SqliteGrants, SqliteOutbox, SqliteReminders, SqliteRuns):
    """Verbs go to the writer thread and come back durable; look-ups read the last committed state.

    The clock of a SQLite store is the host's: all processes that share the file share the host.
    """

    def __init__(self, path: Path, *, keys: Keys, clock: Clock, writer: WriterId, meter: Meter, heard: Heard) -> None:
        """Open or make the store.

        Raises:
            StoreMissing, StoreNotWritable, StoreCorrupt, StoreTooNew: see `open_file`.
            KeyMaterialError: the key is not the one this store was made with.
        """
        self._path = path
        self._clock = clock
        connection = open_file(path)
        try:
            with translated(path):
                _check_key(connection, keys)
                heads = [rows.head_from(row) for row in connection.execute(SQL["unremembered_heads"])]
                self._reader = read_only(path)
        except BaseException:
            connection.close()
            raise
        self._reading = threading.Lock()  # looking is allowed from any thread, one at a time
        self._chain = ChainWriter(keys, writer, opened_after=heads_form(heads))
        self._writer = Writer(path, connection, self._chain, clock=clock, meter=meter, heard=heard)

    # ------------------------------------------------------------ ledger

    async def claim(self, claim: Claim) -> ClaimAnswer:
        return await self._writer.transact(lambda tables: verbs.claim(tables, claim, self._clock.now()))

    async def turn(self, turn: Turn) -> MoveAnswer:
        return await self._writer.transact(lambda tables: verbs.turn(tables, turn, self._clock.now()))

    async def settle(self, settlement: Settlement) -> MoveAnswer:
        return await self._writer.transact(lambda tables: verbs.settle(tables, settlement, self._clock.now()))

    def co_commit(self, connection: object, settlement: Settlement) -> CoCommitAnswer:
        return co_commit(connection, settlement, path=self._path, chain=self._chain, now=self._clock.now())

    async def void(self, tenant: str, operation_key: OperationKey, token: Token) -> bool:
        return await self._writer.transact(
            lambda tables: verbs.void(tables, tenant, operation_key, token, self._clock.now())
        )

    async def effect(self, tenant: str, operation_key: OperationKey) -> Effect | None:
        row = next(iter(self._read("effect", tenant, operation_key)), None)
        return None if row is None else rows.effect_from(row)

    async def effects(
        self, *, tenant: str | None, states: Sequence[EffectState], limit: int, subject: str | None = None
    ) -> tuple[Effect | BrokenEffect, ...]:
        names = json.dumps([state.value for state in states])
        if _IN_FLIGHT.issuperset(states):
            return self._effects("effects_in_flight", names, subject, limit, tenant)
        if tenant is None:
            return self._effects("effects_of_all", names, subject, limit)
        return self._effects("effects_of_tenant", names, subject, limit, tenant)

    async def effects_after(
        self, tenant: str, mark: Mark | None, *, states: Sequence[EffectState], limit: int, subject: str | None
    ) -> tuple[Effect | BrokenEffect, ...]:
        name = "effects_in_flight_after" if _IN_FLIGHT.issuperset(states) else "effects_of_tenant_after"
        names = json.dumps([state.value for state in states])
        return self._effects(name, names, subject, limit, tenant, *rows.place_of(mark))

    async def longest_unknown(
        self, *, tenant: str, subject: str | None, limit: int, skip: int = 0
    ) -> tuple[Effect | BrokenEffect, ...]:
        return self._effects("longest_unknown", tenant, subject, limit, skip)

    async def unknown_effects(self) -> UnknownEffects:
        return rows.unknown_effects_from(self._read("unknown_effects"))

    async def broken_effects(self, *, tenant: str | None, subject: str | None, limit: int) -> tuple[BrokenEffect, ...]:
        """Some thousand rows at a time, from threads of their own, so that calls go on meanwhile."""
        found: list[BrokenEffect] = []
        after, last = 0, await asyncio.to_thread(self._end_of_rows, 0)
        while last is not None and len(found) < limit:
            rest = limit - len(found)
            several = await asyncio.to_thread(self._effects, "effects_between", after, last, tenant, subject)
            found += [effect for effect in several if isinstance(effect, BrokenEffect)][:rest]
            after, last = last, await asyncio.to_thread(self._end_of_rows, last)
        return tuple(found)

    def _end_of_rows(self, after: int) -> int | None:
        found: int | None = self._read("end_of_rows", after, _ROWS_AT_ONCE)[0][0]
        return found

    async def heartbeat(self, owner: OwnerId, *, lease_seconds: float) -> int:
        return await self._writer.transact(
            lambda tables: verbs.heartbeat(tables, owner, lease_seconds, self._clock.now())
        )

    async def stranded(self, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        return self._effects("stranded", rows.microseconds(self._clock.now()), limit)

    async def take_over(self, effect: Effect, events: tuple[AuditEvent, ...]) -> MoveAnswer:
        return await self._writer.transact(lambda tables: verbs.take_over(tables, effect, events, self._clock.now()))

    async def due_for_probe(self, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        return self._effects("due_for_probe", rows.microseconds(self._clock.now()), limit)

    async def begin_probe(self, effect: Effect, *, seconds: float) -> bool:
        return await self._writer.transact(lambda tables: verbs.begin_probe(tables, effect, seconds, self._clock.now()))

    async def probed_in_vain(self, effect: Effect, *, next_probe_seconds: float) -> None:
        await self._writer.transact(
            lambda tables: verbs.probed_in_vain(tables, effect, next_probe_seconds, self._clock.now())
        )

    async def owner_died(self, effect: Effect) -> None:
        await self._writer.transact(lambda tables: verbs.owner_died(tables, effect, self._clock.now()))

    async def reconcile(self, reconciliation: Reconciliation) -> MoveAnswer:
        return await self._writer.transact(lambda tables: verbs.reconcile(tables, reconciliation, self._clock.now()))

    # ------------------------------------------------------------ approvals

    async def ask(
        self,
        question: Question,
        mac: Mac,
        same: SameAsk,
        *,
        step: Step,
        events: tuple[AuditEvent, ...],
        closing: tuple[Withdrawal, ...] = (),
    ) -> Approval | RecordAnswer:
        return await self._writer.transact(
            lambda tables: verbs.ask(tables, question, mac, same, step, events, self._clock.now(), closing)
        )

    async def same_ask(self, ask: SameAsk) -> tuple[Approval, ...]:
        return tuple(rows.approval_from(row) for row in self._read("same_ask", *same_ask_bindings(ask)))

    async def closed_ask(
        self, ask: SameAsk, *, call_id: CallId, fingerprint: str, own_key: OperationKey
    ) -> tuple[Approval, ...]:
        bindings = (*same_ask_bindings(ask)[:5], call_id, fingerprint, own_key)
        return tuple(rows.approval_from(row) for row in self._read("closed_ask", *bindings))

    async def approval(self, tenant: str, approval_id: ApprovalId) -> Approval | None:
        row = next(iter(self._read("approval", tenant, approval_id)), None)
        return None if row is None else rows.approval_from(row)

    async def approvals(self, tenant: str, *, states: Sequence[ApprovalState], limit: int) -> tuple[Approval, ...]:
        found = self._approvals("approvals_of_tenant", tenant, states, limit)
        found.sort(key=lambda row: row[_ASKED_AT], reverse=True)
        return tuple(rows.approval_from(row) for row in found[:limit])

    async def approvals_after(
        self, tenant: str, mark: Mark | None, *, states: Sequence[ApprovalState], limit: int
    ) -> tuple[Approval, ...]:
        found = self._approvals("approvals_of_tenant_after", tenant, states, *rows.place_of(mark), limit)
        found.sort(key=lambda row: (row[_ASKED_AT], row[_APPROVAL_ID]), reverse=True)
        return tuple(rows.approval_from(row) for row in found[:limit])

    async def waiting_marks(self, tenant: str, *, limit: int) -> tuple[WaitingMark, ...]:
        return tuple(map(rows.waiting_mark_from, self._read("waiting_marks", tenant, limit)))

    def _approvals(
        self, name: str, tenant: str, states: Sequence[ApprovalState], *bindings: Any
    ) -> list[tuple[Any, ...]]:
        """State by state, as the index has them, and as of one moment."""
        found: list[tuple[Any, ...]] = []
        with self._reading, translated(self._path):
            self._reader.execute("BEGIN")
            try:
                for state in sorted(set(states)):
                    found += self._reader.execute(SQL[name], (tenant, state.value, *bindings))
            finally:
                self._reader.execute("ROLLBACK")
        return found

    async def overdue_approvals(self, *, limit: int) -> tuple[Approval, ...]:
        now = instant_text(self._clock.now())
        return tuple(rows.approval_from(row) for row in self._read("overdue_approvals", now, limit))

    async def answer(
        self, approval: Approval, answer: Answer, signature: Mac, *, events: tuple[AuditEvent, ...]
    ) -> Approval:
        return await self._writer.transact(lambda tables: verbs.answer(tables, approval, answer, signature, events))

    async def edit(
        self, approval: Approval, question: Question, mac: Mac, same: SameAsk, *, events: tuple[AuditEvent, ...]
    ) -> Approval:
        return await self._writer.transact(lambda tables: verbs.edit(tables, approval, question, mac, same, events))

    async def edits(self, ask: SameAsk) -> tuple[Approval, ...]:
        return tuple(rows.approval_from(row) for row in self._read("edits", *same_ask_bindings(ask)[:5]))

    async def votes(self, tenant: str, approval_id: ApprovalId) -> tuple[SignedVote, ...]:
        return tuple(rows.vote_from(row) for row in self._read("votes", tenant, approval_id))

    async def vote(
        self,
        approval: Approval,
        vote: SignedVote,
        *,
        among: tuple[SignedVote, ...],
        closing: SignedAnswer | None,
        events: tuple[AuditEvent, ...],
    ) -> Approval | OtherVotes:
        return await self._writer.transact(lambda tables: verbs.vote(tables, approval, vote, among, closing, events))

    async def retire(self, approval: Approval, state: ApprovalState, *, events: tuple[AuditEvent, ...]) -> Approval:
        return await self._writer.transact(lambda tables: verbs.retire(tables, approval, state, events))

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
        return await self._writer.transact(
            lambda tables: verbs.record(
                tables,
                events,
                self._clock.now,
                step=step,
                starts_tool=starts_tool,
                denies_tool=denies_tool,
                opens=opens,
                closes=closes,
            )
        )

    async def chain_waiting(self) -> int:
        """Every batch of the writer chains what waits before anything else; so one that does nothing is enough."""
        waiting = self._read("count_waiting")[0][0]
        if waiting:
            await self._writer.transact(lambda tables: None)
        return int(waiting)

    async def lost_reads(self, *, limit: int) -> tuple[LostRead, ...]:
        found = self._read("lost_reads", rows.microseconds(self._clock.now()), limit)
        return tuple(LostRead(place=Place(writer=row[0], sequence=row[1]), started=row[2].encode()) for row in found)

    async def close_lost_read(self, lost: LostRead, event: AuditEvent) -> bool:
        return await self._writer.transact(lambda tables: verbs.close_lost_read(tables, lost, event))

    async def pending_count(self) -> int:
        return int(self._read("pending_count")[0][0])

    async def stop(self, scope: str, events: tuple[AuditEvent, ...], *, note: StopNote | None = None) -> int:
        return await self._writer.transact(
            lambda tables: verbs.stop(tables, scope, events, self._clock.now(), note=note)
        )

    async def resume(
        self, scope: str, events: tuple[AuditEvent, ...], *, leave: StopLeave = StopLeave.DEPLOYMENT
    ) -> bool:
        return await self._writer.transact(lambda tables: verbs.resume(tables, scope, events, leave))

    async def stops(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self._read("stops"))

    async def stop_records(self) -> tuple[StopRecord, ...]:
        return tuple(rows.stop_record_from(row) for row in self._read("stop_records"))

    async def adopt_key(self, check: Mac, *, events: tuple[AuditEvent, ...]) -> None:
        await self._writer.transact(lambda tables: verbs.adopt_key(tables, check, events))

    async def adopted_key(self) -> str:
        found = self._read("meta", KEY_CHECK)
        return rows.mac_from(found[0][0] if found else "").key_id

    async def key_uses(self) -> tuple[KeyUse, ...]:
        return rows.key_uses_from(self._read("key_uses", rows.microseconds(self._clock.now())))

    async def now(self) -> datetime:
        return self._clock.now()

    async def chained(self, *, tenant: str | None = None, newest: int | None = None) -> AsyncIterator[ChainedEvent]:
        """Reads through a connection of its own, so that a long export disturbs nobody."""
        if newest is not None:
            last = ("newest", newest) if tenant is None else ("newest_of_tenant", tenant, newest)
            for row in (await read_apart(self._path, *last))[::-1]:
                yield rows.event_from(row)
            return
        wanted = ("chained",) if tenant is None else ("chained_of_tenant", tenant)
        async with moment(self._path) as look:
            async for row in look.each(*wanted):
                yield rows.event_from(row)

    async def events_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[ChainedEvent, ...]:
        several = await read_apart(self._path, "events_of_tenant_after", tenant, *rows.place_of_event(mark), limit)
        return tuple(map(rows.event_from, several))

    @asynccontextmanager
    async def snapshot(self, *, tenant: str | None = None) -> AsyncIterator[AuditSnapshot]:
        counting = ("count_events",) if tenant is None else ("count_events_of_tenant", tenant)
        async with moment(self._path) as look:
            (count,) = (await look.found(*counting))[0]
            yield AuditSnapshot(
                heads=tuple(map(rows.head_from, await look.found("heads"))),
                count=count,
                events=_events(look.each("chained")),
                tombstones=tuple(map(rows.tombstone_from, await look.found("tombstones"))),
            )

    async def heads(self) -> tuple[ChainHead, ...]:
        return tuple(rows.head_from(row) for row in self._read("heads"))

    def waiting_for(self, topic: Topic) -> AbstractContextManager[Wakeup]:
        return silence()

    @property
    def writer(self) -> WriterId:
        return self._chain.writer

    @property
    def commits(self) -> int:
        return self._writer.commits

    async def close(self) -> None:
        self._reader.close()  # first: the last connection to go folds the write-ahead log into the file
        self._writer.close()

    def _effects(self, name: str, *bindings: Any) -> tuple[Effect | BrokenEffect, ...]:
        with self._reading, translated(self._path):
            return listing.effects(self._reader, SQL[name], bindings)

    def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]:
        with self._reading, translated(self._path):
            found: list[tuple[Any, ...]] = self._reader.execute(SQL[name], bindings).fetchall()
            return found


async def _events(found: AsyncIterator[tuple[Any, ...]]) -> AsyncIterator[ChainedEvent]:
    async for row in found:
        yield rows.event_from(row)


def _check_key(connection: apsw.Connection, keys: Keys) -> None:
    """The first opening writes a check value; every later one must know the key that made it."""
    row = connection.execute(SQL["meta"], (KEY_CHECK,)).fetchone()
    if row is None:
        mac = keys.mac(KeyPurpose.STORE, STORE_CHECK)
        connection.execute(SQL["first_meta"], (KEY_CHECK, rows.mac_text(mac)))
        row = connection.execute(SQL["meta"], (KEY_CHECK,)).fetchone()  # whoever was first
    check = rows.mac_from(row[0] if row is not None else "")
    if not keys.is_authentic(KeyPurpose.STORE, STORE_CHECK, check):
        raise KeyMaterialError(
            "This key does not belong to this store, or is a copy from before its last rotation.", code="key_mismatch"
        )
