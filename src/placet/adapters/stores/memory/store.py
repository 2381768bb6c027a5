"""Tables as dictionaries. One lock is the transaction, and every write knows how to be undone."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from placet.adapters.stores import verbs
from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.memory.archive import MemoryArchive
from placet.model.approval import Answer, Approval, ApprovalState, Mac, Question
from placet.model.audit import AuditEvent, ChainedEvent, ChainHead, ChainTombstone
from placet.model.custody import KeyUse
from placet.model.effect import BrokenEffect, Effect, EffectState, UnknownEffects, UnknownGroup
from placet.model.identifiers import ApprovalId, OperationKey, OwnerId, RunId, Token, WriterId
from placet.model.ledger import (
    Claim,
    ClaimAnswer,
    CoCommitAnswer,
    LostRead,
    MoveAnswer,
    NotCovered,
    OpenRead,
    Place,
    Reconciliation,
    RecordAnswer,
    SameAsk,
    Settlement,
    Step,
    Turn,
    run_scope,
    tool_scope,
)
from placet.model.making import changed
from placet.model.principal import subjects_of
from placet.model.retention import Hold
from placet.model.run import Run
from placet.model.stopping import StopLeave, StopNote, StopRecord
from placet.ports.clock import Clock, elapsed_seconds
from placet.ports.keys import Keys, sealed_under
from placet.ports.meter import Meter
from placet.ports.store import AuditSnapshot, Heard, nobody

Answered = TypeVar("Answered")
Key = TypeVar("Key")
Row = TypeVar("Row")


class MemoryTables:
    """Rows in dictionaries."""

    def __init__(self, chain: ChainWriter) -> None:
        self.effects: dict[tuple[str, OperationKey], Effect] = {}
        self.approvals: dict[tuple[str, ApprovalId], Approval] = {}
        self.runs: dict[tuple[str, RunId], Run] = {}
        self.steps: dict[tuple[str, RunId, str, str], None] = {}
        self.denied: dict[tuple[str, RunId, str], int] = {}
        self.voids: dict[Token, datetime] = {}
        self.stopped: dict[str, datetime] = {}
        self.stop_notes: dict[str, StopNote] = {}
        self.events: list[ChainedEvent] = []
        self.reads: dict[Place, tuple[OwnerId, datetime]] = {}
        self.key_checks: dict[None, Mac] = {}
        self.held: dict[str, Hold] = {}
        self.tombstones: dict[WriterId, ChainTombstone] = {}
        self._chain = chain
        self._undo: list[Callable[[], object]] = []
        self.appended: list[AuditEvent] = []

    def begin(self) -> None:
        self._undo.clear()
        self.appended.clear()

    def roll_back(self) -> None:
        """Undo what was written since `begin`, the last first."""
        while self._undo:
            self._undo.pop()()

    def _put(self, table: dict[Key, Row], key: Key, row: Row) -> None:
        if key in table:
            was = table[key]
            self._undo.append(lambda: table.__setitem__(key, was))
        else:
            self._undo.append(lambda: table.pop(key))
        table[key] = row

    def _drop(self, table: dict[Key, Row], key: Key) -> bool:
        if key not in table:
            return False
        was = table.pop(key)
        self._undo.append(lambda: table.__setitem__(key, was))
        return True

    def effect(self, tenant: str, operation_key: OperationKey) -> Effect | None:
        return self.effects.get((tenant, operation_key))

    def add_effect(self, effect: Effect) -> None:
        self._put(self.effects, (effect.tenant, effect.operation_key), effect)

    def change_effect(self, effect: Effect, *, was: Effect) -> None:
        self.add_effect(effect)

    def is_voided(self, token: Token) -> bool:
        return token in self.voids

    def add_void(self, token: Token, at: datetime) -> None:
        self._put(self.voids, token, at)

    def renew_leases(self, owner: OwnerId, until: datetime) -> int:
        mine = [e for e in self.effects.values() if e.owner == owner and e.state is EffectState.DISPATCHED]
        for effect in mine:
            self.add_effect(replace(effect, lease_until=max(until, effect.lease_until)))
        for place, (reader, lease_until) in list(self.reads.items()):
            if reader == owner:
                self._put(self.reads, place, (owner, max(until, lease_until)))
        return len(mine)

    def approval(self, tenant: str, approval_id: ApprovalId) -> Approval | None:
        return self.approvals.get((tenant, approval_id))

    def open_approval(self, ask: SameAsk) -> Approval | None:
        return next((a for a in self.same(ask) if a.state in (ApprovalState.PENDING, ApprovalState.APPROVED)), None)

    def same(self, ask: SameAsk) -> list[Approval]:
        found = [a for a in self.approvals.values() if _is_same(a.question, ask)]
        return found[::-1]

    def add_approval(self, approval: Approval) -> None:
        self._put(self.approvals, (approval.question.tenant, approval.question.approval_id), approval)

    def change_approval(self, approval: Approval, *, was: Approval) -> None:
        self.add_approval(approval)

    def run(self, tenant: str, run_id: RunId) -> Run | None:
        return self.runs.get((tenant, run_id))

    def has_step(self, step: Step) -> bool:
        return (step.tenant, step.run_id, step.call_id, step.fingerprint) in self.steps

    def add_step(self, step: Step, *, opened_at: datetime, is_first: bool) -> None:
        self._put(self.steps, (step.tenant, step.run_id, step.call_id, step.fingerprint), None)
        if is_first:
            run = Run(
                tenant=step.tenant,
                run_id=step.run_id,
                subject=step.subject,
                policy_version=step.policy_version,
                max_steps=step.max_steps,
                steps=1,
                opened_at=opened_at,
                stepped_at=opened_at,
            )
        else:
            run = self.runs[step.tenant, step.run_id]
            run = changed(run, steps=run.steps + 1, stepped_at=max(opened_at, run.stepped_at or opened_at))
        self._put(self.runs, (step.tenant, step.run_id), run)

    def denials(self, tenant: str, run_id: RunId, tool: str) -> int:
        return self.denied.get((tenant, run_id, tool), 0)

    def add_denial(self, tenant: str, run_id: RunId, tool: str) -> None:
        self._put(self.denied, (tenant, run_id, tool), self.denials(tenant, run_id, tool) + 1)

    def stops(self) -> tuple[str, ...]:
        return tuple(self.stopped)

    def add_stop(self, scope: str, at: datetime) -> None:
        self._put(self.stopped, scope, at)

    def drop_stop(self, scope: str) -> None:
        self._drop(self.stopped, scope)
        self._drop(self.stop_notes, scope)

    def stop_leave(self, scope: str) -> StopLeave | None:
        note = self.stop_notes.get(scope)
        return note.leave if note is not None else None

    def put_stop_note(self, scope: str, note: StopNote) -> None:
        self._put(self.stop_notes, scope, note)

    def count_dispatched(self, scope: str) -> int:
        return sum(
            1
            for e in self.effects.values()
            if e.state is EffectState.DISPATCHED
            and scope in ("all", f"tenant:{e.tenant}", f"tool:{e.tool}", *_own_scopes(e))
        )

    def put_key_check(self, check: Mac) -> None:
        self._put(self.key_checks, None, check)

    def open_read(self, place: Place, owner: OwnerId, lease_until: datetime) -> None:
        self._put(self.reads, place, (owner, lease_until))

    def close_read(self, place: Place) -> bool:
        return self._drop(self.reads, place)

    def append(self, events: Iterable[AuditEvent]) -> Place:
        end, count = self._chain.end, len(self.events)
        self._undo.append(lambda: self._forget(end, count))
        for event in events:
            self.events.append(self._chain.link(event))
            self.appended.append(event)
        return Place(writer=self._chain.writer, sequence=self._chain.end[0])

    def drop_approval(self, tenant: str, approval_id: ApprovalId) -> None:
        self._drop(self.approvals, (tenant, approval_id))

    def drop_run(self, tenant: str, run_id: RunId) -> None:
        self._drop(self.runs, (tenant, run_id))
        for step in [step for step in self.steps if step[:2] == (tenant, run_id)]:
            self._drop(self.steps, step)
        for denied in [denied for denied in self.denied if denied[:2] == (tenant, run_id)]:
            self._drop(self.denied, denied)

    def drop_void(self, token: Token) -> None:
        self._drop(self.voids, token)

    def holds(self) -> frozenset[str]:
        return frozenset(self.held)

    def add_hold(self, hold: Hold) -> None:
        self._put(self.held, hold.scope, hold)

    def drop_hold(self, scope: str) -> None:
        self._drop(self.held, scope)

    def chain_start(self, writer: WriterId) -> int:
        tombstone = self.tombstones.get(writer)
        return 1 if tombstone is None else tombstone.first_kept

    def kept_until(self, writer: WriterId) -> int:
        """What has to stay of the chain: its last event, and reads that recovery may have to complete."""
        ends = [self.events[-1].sequence] if self.events and self.events[-1].writer == writer else [0]
        return min(*ends, *(place.sequence for place in self.reads if place.writer == writer), 2**63)

    def link_at(self, writer: WriterId, sequence: int) -> str | None:
        return next((e.link for e in self.events if (e.writer, e.sequence) == (writer, sequence)), None)

    def cut(self, tombstone: ChainTombstone) -> None:
        was = list(self.events)
        self._undo.append(lambda: self.events.__setitem__(slice(None), was))
        self._put(self.tombstones, tombstone.writer, tombstone)
        self.events[:] = [event for event in was if event.sequence >= tombstone.first_kept]

    def _forget(self, end: tuple[int, str], count: int) -> None:
        self._chain.rewind(end)
        del self.events[count:]


class MemoryStore(MemoryArchive):
    """Every verb of the store port, immediately."""

    def __init__(self, *, keys: Keys, clock: Clock, writer: WriterId, meter: Meter, heard: Heard = nobody) -> None:
        self._chain = ChainWriter(keys, writer, opened_after=b"{}")
        self._first_key = keys.current
        self._tables = MemoryTables(self._chain)
        self._clock = clock
        self._meter = meter
        self._heard = heard
        self._lock = threading.Lock()
        self._commits = 0

    def _transact(self, verb: Callable[[MemoryTables], Answered]) -> Answered:
        with self._lock:
            started = self._clock.monotonic()
            self._tables.begin()
            try:
                answer = verb(self._tables)
            except BaseException:
                self._tables.roll_back()
                raise
            self._commits += 1
            events = tuple(self._tables.appended)
        self._meter.committed(operations=1, seconds=elapsed_seconds(self._clock, started))
        if events:
            self._heard(events)
        return answer

    # ------------------------------------------------------------ ledger

    async def claim(self, claim: Claim) -> ClaimAnswer:
        return self._transact(lambda tables: verbs.claim(tables, claim, self._clock.now()))

    async def turn(self, turn: Turn) -> MoveAnswer:
        return self._transact(lambda tables: verbs.turn(tables, turn, self._clock.now()))

    async def settle(self, settlement: Settlement) -> MoveAnswer:
        return self._transact(lambda tables: verbs.settle(tables, settlement, self._clock.now()))

    def co_commit(self, connection: object, settlement: Settlement) -> CoCommitAnswer:
        """No transaction of a handler reaches dictionaries."""
        return NotCovered(reason="store_in_memory")

    async def void(self, tenant: str, operation_key: OperationKey, token: Token) -> bool:
        return self._transact(lambda tables: verbs.void(tables, tenant, operation_key, token, self._clock.now()))

    async def effect(self, tenant: str, operation_key: OperationKey) -> Effect | None:
        return self._tables.effect(tenant, operation_key)

    async def effects(
        self, *, tenant: str | None, states: Sequence[EffectState], limit: int, subject: str | None = None
    ) -> tuple[Effect, ...]:
        found = [
            e
            for e in self._tables.effects.values()
            if e.state in states
            and tenant in (None, e.tenant)
            and (subject is None or subject in subjects_of(e.subject))
        ]
        return tuple(sorted(found, key=lambda e: e.updated_at, reverse=True)[:limit])

    async def unknown_effects(self) -> UnknownEffects:
        unknown = [e for e in self._tables.effects.values() if e.state is EffectState.UNKNOWN]
        groups = Counter((e.tool, e.probes) for e in unknown)
        return UnknownEffects(
            count=len(unknown),
            oldest_at=min((e.updated_at for e in unknown), default=None),
            groups=tuple(
                UnknownGroup(tool=tool, probes=probes, count=count) for (tool, probes), count in sorted(groups.items())
            ),
        )

    async def broken_effects(self, *, tenant: str | None, subject: str | None, limit: int) -> tuple[BrokenEffect, ...]:
        return ()  # what is in memory, nobody changes by hand

    async def heartbeat(self, owner: OwnerId, *, lease_seconds: float) -> int:
        return self._transact(lambda tables: verbs.heartbeat(tables, owner, lease_seconds, self._clock.now()))

    async def stranded(self, *, limit: int) -> tuple[Effect, ...]:
        now = self._clock.now()
        dispatched = [e for e in self._tables.effects.values() if e.state is EffectState.DISPATCHED]
        return tuple([e for e in dispatched if e.lease_until <= now][:limit])

    async def take_over(self, effect: Effect, events: tuple[AuditEvent, ...]) -> MoveAnswer:
        return self._transact(lambda tables: verbs.take_over(tables, effect, events, self._clock.now()))

    async def due_for_probe(self, *, limit: int) -> tuple[Effect, ...]:
        now = self._clock.now()
        unknown = [e for e in self._tables.effects.values() if e.state is EffectState.UNKNOWN]
        return tuple([e for e in unknown if e.probe_after is None or e.probe_after <= now][:limit])

    async def begin_probe(self, effect: Effect, *, seconds: float) -> bool:
        return self._transact(lambda tables: verbs.begin_probe(tables, effect, seconds, self._clock.now()))

    async def probed_in_vain(self, effect: Effect, *, next_probe_seconds: float) -> None:
        self._transact(lambda tables: verbs.probed_in_vain(tables, effect, next_probe_seconds, self._clock.now()))

    async def owner_died(self, effect: Effect) -> None:
        self._transact(lambda tables: verbs.owner_died(tables, effect, self._clock.now()))

    async def reconcile(self, reconciliation: Reconciliation) -> MoveAnswer:
        return self._transact(lambda tables: verbs.reconcile(tables, reconciliation, self._clock.now()))

    # ------------------------------------------------------------ approvals

    async def ask(
        self, question: Question, mac: Mac, same: SameAsk, *, step: Step, events: tuple[AuditEvent, ...]
    ) -> Approval | RecordAnswer:
        return self._transact(lambda tables: verbs.ask(tables, question, mac, same, step, events, self._clock.now()))

    async def same_ask(self, ask: SameAsk) -> tuple[Approval, ...]:
        wanted = (ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.DENIED)
        return tuple(a for a in self._tables.same(ask) if a.state in wanted)

    async def approval(self, tenant: str, approval_id: ApprovalId) -> Approval | None:
        return self._tables.approval(tenant, approval_id)

    async def approvals(self, tenant: str, *, states: Sequence[ApprovalState], limit: int) -> tuple[Approval, ...]:
        found = [a for a in self._tables.approvals.values() if a.question.tenant == tenant and a.state in states]
        return tuple(found[::-1][:limit])

    async def overdue_approvals(self, *, limit: int) -> tuple[Approval, ...]:
        now = self._clock.now()
        pending = [a for a in self._tables.approvals.values() if a.state is ApprovalState.PENDING]
        overdue = [a for a in pending if a.question.decide_by <= now]
        return tuple(sorted(overdue, key=lambda a: a.question.asked_at)[:limit])

    async def answer(
        self, approval: Approval, answer: Answer, signature: Mac, *, events: tuple[AuditEvent, ...]
    ) -> Approval:
        return self._transact(lambda tables: verbs.answer(tables, approval, answer, signature, events))

    async def retire(self, approval: Approval, state: ApprovalState, *, events: tuple[AuditEvent, ...]) -> Approval:
        return self._transact(lambda tables: verbs.retire(tables, approval, state, events))

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
        return self._transact(
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
        return 0

    async def lost_reads(self, *, limit: int) -> tuple[LostRead, ...]:
        now = self._clock.now()
        bodies = {(event.writer, event.sequence): event.body for event in self._tables.events}
        lost = [place for place, (_, lease_until) in self._tables.reads.items() if lease_until <= now]
        return tuple(LostRead(place=place, started=bodies[place.writer, place.sequence]) for place in lost[:limit])

    async def close_lost_read(self, lost: LostRead, event: AuditEvent) -> bool:
        return self._transact(lambda tables: verbs.close_lost_read(tables, lost, event))

    async def pending_count(self) -> int:
        return sum(1 for approval in self._tables.approvals.values() if approval.state is ApprovalState.PENDING)

    async def stop(self, scope: str, events: tuple[AuditEvent, ...], *, note: StopNote | None = None) -> int:
        return self._transact(lambda tables: verbs.stop(tables, scope, events, self._clock.now(), note=note))

    async def resume(
        self, scope: str, events: tuple[AuditEvent, ...], *, leave: StopLeave = StopLeave.DEPLOYMENT
    ) -> bool:
        return self._transact(lambda tables: verbs.resume(tables, scope, events, leave))

    async def stops(self) -> tuple[str, ...]:
        return self._tables.stops()

    async def stop_records(self) -> tuple[StopRecord, ...]:
        stopped = sorted(self._tables.stopped.items(), key=lambda item: (item[1], item[0]))
        notes = self._tables.stop_notes
        return tuple(StopRecord(scope=scope, stopped_at=at, note=notes.get(scope)) for scope, at in stopped)

    async def adopt_key(self, check: Mac, *, events: tuple[AuditEvent, ...]) -> None:
        self._transact(lambda tables: verbs.adopt_key(tables, check, events))

    async def adopted_key(self) -> str:
        check = self._tables.key_checks.get(None)
        return check.key_id if check is not None else self._first_key

    async def key_uses(self) -> tuple[KeyUse, ...]:
        return _key_uses(self._tables)

    async def now(self) -> datetime:
        return self._clock.now()

    async def chained(self, *, tenant: str | None = None, newest: int | None = None) -> AsyncIterator[ChainedEvent]:
        events = [event for event in self._tables.events if tenant in (None, _tenant_of(event))]
        for event in events if newest is None else events[-newest:]:
            yield event

    @asynccontextmanager
    async def snapshot(self, *, tenant: str | None = None) -> AsyncIterator[AuditSnapshot]:
        with self._lock:
            events, heads = tuple(self._tables.events), self._heads()
            tombstones = tuple(self._tables.tombstones.values())
        count = sum(1 for event in events if tenant in (None, _tenant_of(event)))
        yield AuditSnapshot(heads=heads, count=count, events=_each(events), tombstones=tombstones)

    async def heads(self) -> tuple[ChainHead, ...]:
        return self._heads()

    def _heads(self) -> tuple[ChainHead, ...]:
        return (self._chain.head(),) if self._tables.events else ()

    @property
    def writer(self) -> WriterId:
        return self._chain.writer

    @property
    def commits(self) -> int:
        return self._commits

    async def close(self) -> None:
        return None


async def _each(events: tuple[ChainedEvent, ...]) -> AsyncIterator[ChainedEvent]:
    for event in events:
        yield event


def _key_uses(tables: MemoryTables) -> tuple[KeyUse, ...]:
    remembered = (ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.DENIED)
    unsettled = (EffectState.PREPARED, EffectState.DISPATCHED, EffectState.UNKNOWN)
    effects = tables.effects.values()
    counts = {
        "approvals": Counter(
            key_id for a in tables.approvals.values() if a.state in remembered for key_id in _keys_of(a)
        ),
        "arguments": Counter(sealed_under(e.sealed_arguments) for e in effects if e.state in unsettled),
        "results": Counter(sealed_under(e.sealed_result) for e in effects if e.sealed_result is not None),
        "events": Counter(event.key_id for event in tables.events),
    }
    key_ids = sorted({key_id for counter in counts.values() for key_id in counter})
    return tuple(KeyUse(key_id=each, **{name: counter[each] for name, counter in counts.items()}) for each in key_ids)


def _own_scopes(effect: Effect) -> tuple[str, str]:
    return tool_scope(effect.tenant, effect.tool), run_scope(effect.tenant, effect.run_id)


def _keys_of(approval: Approval) -> set[str]:
    signature = {approval.signature.key_id} if approval.signature is not None else set()
    return {approval.question_mac.key_id, sealed_under(approval.question.sealed_arguments), *signature}


def _tenant_of(event: ChainedEvent) -> str:
    return str(json.loads(event.body)["tenant"])


def _is_same(question: Question, ask: SameAsk) -> bool:
    return (
        question.tenant == ask.tenant
        and question.subject == ask.subject
        and question.run_id == ask.run_id
        and question.tool == ask.tool
        and question.argument_digest == ask.argument_digest
        and ask.policy_version in (None, question.policy_version)
        and (ask.operation_key is None or question.operation_key == ask.operation_key)
    )
