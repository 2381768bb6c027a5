"""Tables as dictionaries. Every write knows how to be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.memory.outbox import MemoryOutboxTables
from placet.adapters.stores.memory.reminders import MemoryReminderTables
from placet.adapters.stores.memory.run_tables import MemoryRunTables
from placet.errors import StoreUnavailable
from placet.model.approval import Approval, ApprovalState, Mac, Question, SignedVote, VoteKind
from placet.model.audit import AuditEvent, ChainedEvent, ChainTombstone
from placet.model.credentials import CredentialKind, StoredCredential
from placet.model.effect import Effect, EffectState
from placet.model.grant import Grant, GrantId, StoredGrant
from placet.model.identifiers import ApprovalId, OperationKey, OwnerId, Token, WriterId
from placet.model.ledger import (
    Place,
    SameAsk,
    scopes_of,
)
from placet.model.retention import Hold
from placet.model.stopping import StopLeave, StopNote

Key = TypeVar("Key")
Row = TypeVar("Row")


class MemoryTables(MemoryOutboxTables, MemoryReminderTables, MemoryRunTables):
    """Rows in dictionaries."""

    def __init__(self, chain: ChainWriter) -> None:
        super().__init__()
        self.effects: dict[tuple[str, OperationKey], Effect] = {}
        self.approvals: dict[tuple[str, ApprovalId], Approval] = {}
        self.edits: dict[tuple[str, ApprovalId], Question] = {}
        self.cast: dict[tuple[str, ApprovalId, str, VoteKind], SignedVote] = {}
        self.voids: dict[Token, datetime] = {}
        self.stopped: dict[str, datetime] = {}
        self.stop_notes: dict[str, StopNote] = {}
        self.events: list[ChainedEvent] = []
        self.reads: dict[Place, tuple[OwnerId, datetime]] = {}
        self.key_checks: dict[None, Mac] = {}
        self.held: dict[str, Hold] = {}
        self.tombstones: dict[WriterId, ChainTombstone] = {}
        self.credentials: dict[tuple[CredentialKind, str], StoredCredential] = {}
        self.grants: dict[tuple[str, GrantId], StoredGrant] = {}
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

    def standing_approvals(self, ask: SameAsk) -> tuple[Approval, ...]:
        wanted = (ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.DENIED)
        return tuple(each for each in self.same(ask) if each.state in wanted)

    def closed_approvals(self, ask: SameAsk, *, own_key: OperationKey) -> tuple[Approval, ...]:
        found = self.same(replace(ask, policy_version=None, operation_key=None))
        if any(each.question.operation_key == own_key for each in found):
            return ()
        return tuple(each for each in found if each.state in (ApprovalState.SPENT, ApprovalState.WITHDRAWN))[:8]

    def same(self, ask: SameAsk) -> list[Approval]:
        found = [a for a in self.approvals.values() if _is_same(a.question, ask)]
        return found[::-1]

    def add_approval(self, approval: Approval) -> None:
        self._put(self.approvals, (approval.question.tenant, approval.question.approval_id), approval)

    def change_approval(self, approval: Approval, *, was: Approval) -> None:
        self.add_approval(approval)
        self.wake(approval, was=was)

    def add_edit(self, of: Question, edited_id: ApprovalId) -> None:
        self._put(self.edits, (of.tenant, edited_id), of)

    def edited(self, ask: SameAsk) -> list[Approval]:
        wish = replace(ask, policy_version=None, operation_key=None)
        found = [key for key, of in self.edits.items() if _is_same(of, wish)]
        return [self.approvals[key] for key in reversed(found) if key in self.approvals]

    def votes(self, tenant: str, approval_id: ApprovalId) -> tuple[SignedVote, ...]:
        mine = [key for key in self.cast if key[:2] == (tenant, approval_id)]
        return tuple(self.cast[key] for key in sorted(mine))

    def add_vote(self, tenant: str, approval_id: ApprovalId, vote: SignedVote) -> None:
        key = (tenant, approval_id, vote.vote.voter, vote.vote.kind)
        if key in self.cast:
            raise StoreUnavailable("There is such a vote already.")
        self._put(self.cast, key, vote)

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
            if e.state is EffectState.DISPATCHED and scope in scopes_of(e.tenant, e.tool, e.run_id)
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
        for key in [key for key in self.cast if key[:2] == (tenant, approval_id)]:
            self._drop(self.cast, key)
        self._drop(self.edits, (tenant, approval_id))
        self._drop(self.reminders, (tenant, approval_id))

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

    def credential(self, kind: CredentialKind, name: str) -> StoredCredential | None:
        return self.credentials.get((kind, name))

    def rows_of(self, kind: CredentialKind) -> list[StoredCredential]:
        return [row for row in self.credentials.values() if row.kind is kind]

    def add_credential(self, row: StoredCredential) -> None:
        self._put(self.credentials, (row.kind, row.name), row)

    def change_credential(self, row: StoredCredential) -> None:
        self.add_credential(row)

    def drop_credential(self, kind: CredentialKind, name: str) -> None:
        self._drop(self.credentials, (kind, name))

    def touch_credential(self, row: StoredCredential, at: datetime) -> None:
        self.add_credential(replace(row, used_at=at))

    def grant(self, tenant: str, grant_id: GrantId) -> StoredGrant | None:
        return self.grants.get((tenant, grant_id))

    def add_grant(self, stored: StoredGrant) -> None:
        if (stored.grant.tenant, stored.grant.grant_id) in self.grants:
            raise StoreUnavailable("There is such a grant already.")
        self._put_grant(stored)

    def use_grant(self, stored: StoredGrant, at: datetime) -> None:
        self._put_grant(replace(stored, uses=stored.uses + 1, used_at=at))

    def revoke_grant(self, was: StoredGrant, revoked: Grant, mac: Mac) -> None:
        self._put_grant(replace(was, grant=revoked, mac=mac))

    def _put_grant(self, stored: StoredGrant) -> None:
        self._put(self.grants, (stored.grant.tenant, stored.grant.grant_id), stored)

    def end_grant(self, stored: StoredGrant, at: datetime) -> None:
        self._put_grant(replace(stored, grant=replace(stored.grant, revoked_at=at)))

    def _forget(self, end: tuple[int, str], count: int) -> None:
        self._chain.rewind(end)
        del self.events[count:]


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
