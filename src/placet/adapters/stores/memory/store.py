"""The store port over tables in memory. One lock is the transaction."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import datetime
from typing import TypeVar

from placet.adapters.stores import verbs
from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.memory.admitting import MemoryCredentials
from placet.adapters.stores.memory.archive import MemoryArchive
from placet.adapters.stores.memory.grants import MemoryGrants
from placet.adapters.stores.memory.outbox import MemoryOutbox
from placet.adapters.stores.memory.reminders import MemoryReminders
from placet.adapters.stores.memory.runs import MemoryRuns
from placet.adapters.stores.memory.tables import MemoryTables
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
from placet.model.credentials import CredentialKind
from placet.model.custody import KeyUse
from placet.model.effect import BrokenEffect, Effect, EffectState, UnknownEffects, UnknownGroup
from placet.model.identifiers import ApprovalId, CallId, OperationKey, OwnerId, Token, WriterId
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
    Withdrawal,
)
from placet.model.listing import Mark
from placet.model.principal import subjects_of
from placet.model.stopping import StopLeave, StopNote, StopRecord
from placet.model.waking import Topic
from placet.model.watching import WaitingMark
from placet.ports.clock import Clock, elapsed_seconds
from placet.ports.keys import Keys, sealed_under
from placet.ports.meter import Meter
from placet.ports.store import AuditSnapshot, Heard, nobody
from placet.ports.wakeups import Wakeup, silence
from placet.rules.listing import mark_of_approval, mark_of_effect, mark_of_event, page

Answered = TypeVar("Answered")


class MemoryStore(MemoryArchive, MemoryCredentials, MemoryGrants, MemoryOutbox, MemoryReminders, MemoryRuns):
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

    async def effects_after(
        self, tenant: str, mark: Mark | None, *, states: Sequence[EffectState], limit: int, subject: str | None
    ) -> tuple[Effect, ...]:
        found = await self.effects(tenant=tenant, states=states, limit=len(self._tables.effects), subject=subject)
        return page(found, mark_of_effect, mark, limit)

    async def longest_unknown(
        self, *, tenant: str, subject: str | None, limit: int, skip: int = 0
    ) -> tuple[Effect, ...]:
        everything = len(self._tables.effects)
        found = await self.effects(tenant=tenant, states=(EffectState.UNKNOWN,), limit=everything, subject=subject)
        return tuple(sorted(found, key=lambda e: (e.updated_at, e.operation_key))[skip : skip + limit])

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
        self,
        question: Question,
        mac: Mac,
        same: SameAsk,
        *,
        step: Step,
        events: tuple[AuditEvent, ...],
        closing: tuple[Withdrawal, ...] = (),
    ) -> Approval | RecordAnswer:
        return self._transact(
            lambda tables: verbs.ask(tables, question, mac, same, step, events, self._clock.now(), closing)
        )

    async def same_ask(self, ask: SameAsk) -> tuple[Approval, ...]:
        return self._tables.standing_approvals(ask)

    async def closed_ask(
        self, ask: SameAsk, *, call_id: CallId, fingerprint: str, own_key: OperationKey
    ) -> tuple[Approval, ...]:
        if (ask.tenant, ask.run_id, call_id, fingerprint) not in self._tables.steps:
            return ()
        return self._tables.closed_approvals(ask, own_key=own_key)

    async def approval(self, tenant: str, approval_id: ApprovalId) -> Approval | None:
        return self._tables.approval(tenant, approval_id)

    async def approvals(self, tenant: str, *, states: Sequence[ApprovalState], limit: int) -> tuple[Approval, ...]:
        found = [a for a in self._tables.approvals.values() if a.question.tenant == tenant and a.state in states]
        return tuple(found[::-1][:limit])

    async def approvals_after(
        self, tenant: str, mark: Mark | None, *, states: Sequence[ApprovalState], limit: int
    ) -> tuple[Approval, ...]:
        found = await self.approvals(tenant, states=states, limit=len(self._tables.approvals))
        return page(found, mark_of_approval, mark, limit)

    async def waiting_marks(self, tenant: str, *, limit: int) -> tuple[WaitingMark, ...]:
        pending = await self.approvals_after(tenant, None, states=(ApprovalState.PENDING,), limit=limit)
        names = [(tenant, each.question.approval_id) for each in pending]
        return tuple(
            WaitingMark(
                approval_id=name[1],
                version=f"{len(self._tables.votes(*name))}.{len(self._tables.told(*name))}",
            )
            for name in names
        )

    async def overdue_approvals(self, *, limit: int) -> tuple[Approval, ...]:
        now = self._clock.now()
        pending = [a for a in self._tables.approvals.values() if a.state is ApprovalState.PENDING]
        overdue = [a for a in pending if a.question.decide_by <= now]
        return tuple(sorted(overdue, key=lambda a: a.question.asked_at)[:limit])

    async def answer(
        self, approval: Approval, answer: Answer, signature: Mac, *, events: tuple[AuditEvent, ...]
    ) -> Approval:
        return self._transact(lambda tables: verbs.answer(tables, approval, answer, signature, events))

    async def edit(
        self, approval: Approval, question: Question, mac: Mac, same: SameAsk, *, events: tuple[AuditEvent, ...]
    ) -> Approval:
        return self._transact(lambda tables: verbs.edit(tables, approval, question, mac, same, events))

    async def edits(self, ask: SameAsk) -> tuple[Approval, ...]:
        return tuple(self._tables.edited(ask))

    async def votes(self, tenant: str, approval_id: ApprovalId) -> tuple[SignedVote, ...]:
        return self._tables.votes(tenant, approval_id)

    async def vote(
        self,
        approval: Approval,
        vote: SignedVote,
        *,
        among: tuple[SignedVote, ...],
        closing: SignedAnswer | None,
        events: tuple[AuditEvent, ...],
    ) -> Approval | OtherVotes:
        return self._transact(lambda tables: verbs.vote(tables, approval, vote, among, closing, events))

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
        return _key_uses(self._tables, self._clock.now())

    async def now(self) -> datetime:
        return self._clock.now()

    async def chained(self, *, tenant: str | None = None, newest: int | None = None) -> AsyncIterator[ChainedEvent]:
        events = [event for event in self._tables.events if tenant in (None, _tenant_of(event))]
        for event in events if newest is None else events[-newest:]:
            yield event

    async def events_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[ChainedEvent, ...]:
        found = [event for event in self._tables.events if _tenant_of(event) == tenant]
        return page(found, mark_of_event, mark, limit)

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

    def waiting_for(self, topic: Topic) -> AbstractContextManager[Wakeup]:
        return silence()

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


def _key_uses(tables: MemoryTables, now: datetime) -> tuple[KeyUse, ...]:
    remembered = (ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.DENIED)
    unsettled = (EffectState.PREPARED, EffectState.DISPATCHED, EffectState.UNKNOWN)
    effects = tables.effects.values()
    counts = {
        "approvals": Counter(
            key_id for a in tables.approvals.values() if a.state in remembered for key_id in _keys_of(a, tables)
        ),
        "checkpoints": Counter(
            sealed_under(row.sealed) for key, row in tables.checkpoints.items() if not tables.runs[key].status.is_over
        ),
        "arguments": Counter(sealed_under(e.sealed_arguments) for e in effects if e.state in unsettled),
        "results": Counter(sealed_under(e.sealed_result) for e in effects if e.sealed_result is not None),
        "events": Counter(event.key_id for event in tables.events),
        "api_keys": Counter(row.mac.key_id for row in tables.rows_of(CredentialKind.API_KEY) if row.ends_at > now),
    }
    key_ids = sorted({key_id for counter in counts.values() for key_id in counter})
    return tuple(KeyUse(key_id=each, **{name: counter[each] for name, counter in counts.items()}) for each in key_ids)


def _keys_of(approval: Approval, tables: MemoryTables) -> set[str]:
    question = approval.question
    signature = {approval.signature.key_id} if approval.signature is not None else set()
    votes = {each.signature.key_id for each in tables.votes(question.tenant, question.approval_id)}
    return {approval.question_mac.key_id, sealed_under(question.sealed_arguments), *signature, *votes}


def _tenant_of(event: ChainedEvent) -> str:
    return str(json.loads(event.body)["tenant"])
