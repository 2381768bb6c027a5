"""Tables as a batch sees them before it is written: what is remembered or was read, and on top what its verbs wrote.

    together   rows are as this process remembers them, and what cannot be remembered is presumed; all of it is compared
    locked     rows are read under their locks, and nothing is presumed

A verb that asks for what is not known yet is stopped by `Unread`, before it wrote anything, and runs again once it is
read. A refusal that rests on a presumption is not given: it is read first, too. Orders of the same batch were let in
meanwhile, on what was presumed: that is what is compared, whatever was read after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

from placet.adapters.stores import rows
from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.postgres.grants import PostgresGrantTables
from placet.adapters.stores.postgres.memory import Mark, Memory
from placet.adapters.stores.postgres.migrating import KEY_CHECK
from placet.adapters.stores.postgres.outbox_tables import PostgresOutboxTables
from placet.adapters.stores.postgres.reading_wishes import NotTogether, Reading, Unread
from placet.adapters.stores.postgres.reminder_tables import PostgresReminderTables
from placet.adapters.stores.postgres.run_tables import PostgresRunTables
from placet.errors import StoreError
from placet.model.approval import Approval, ApprovalState, Mac, Question, SignedVote
from placet.model.audit import AuditEvent, ChainedEvent, ChainTombstone, UnchainedEvent
from placet.model.credentials import CredentialKind, StoredCredential
from placet.model.effect import Effect
from placet.model.identifiers import ApprovalId, OperationKey, OwnerId, Token, WriterId
from placet.model.ledger import NotYourRun, OutsideRun, OverBudget, Place, SameAsk, ToolClosed
from placet.model.retention import Hold
from placet.model.stopping import StopLeave, StopNote
from placet.rules.audit import event_of

REFUSALS = (OverBudget, OutsideRun, NotYourRun, ToolClosed)
"""Answers that rest on a run and on what was refused in it, which the fast path only presumes."""


class PredictedTables(PostgresGrantTables, PostgresOutboxTables, PostgresReminderTables, PostgresRunTables):
    """`verbs.Tables` over what is known. One of these is one batch."""

    def __init__(self, memory: Memory, chain: ChainWriter, *, now: datetime, is_locked: bool) -> None:
        super().__init__()
        self._memory = memory
        self._chain = chain
        self.is_locked = is_locked
        self._undo: list[Callable[[], object]] = []
        self._seen_first: list[tuple[dict[Any, Any], Any]] = []
        self.now = now
        self.known: dict[Reading, Any] = {}
        self.presumed: list[Reading] = []
        self.appended: list[AuditEvent] = []
        self._absent: set[tuple[str, str]] = set()
        # what is compared
        self.effects_seen: dict[tuple[str, str], Mark | None] = {}
        self.approvals_seen: dict[tuple[str, str], Mark | None] = {}
        self.stops_seen: tuple[str, ...] | None = None
        self.unvoided: list[Token] = []
        self.not_after: datetime | None = None
        # what is written
        self.new_effects: dict[tuple[str, str], Effect] = {}
        self.changed_effects: dict[tuple[str, str], Effect] = {}
        self.new_approvals: dict[tuple[str, str], Approval] = {}
        self.changed_approvals: dict[tuple[str, str], Approval] = {}
        self.closed_first: dict[tuple[str, str], Approval] = {}
        self.opened: dict[Place, tuple[OwnerId, datetime]] = {}
        self.closed: list[Place] = []
        self.events: list[ChainedEvent] = []
        self.statements: list[tuple[str, tuple[Any, ...]]] = []
        self._chained_before: frozenset[bytes] = frozenset()
        self._dropped: list[int] = []
        self._refused: list[int] = []

    # ------------------------------------------------------------ one order of the batch

    def begin(self) -> None:
        self._undo.clear()
        self._seen_first.clear()
        self.presumed.clear()
        self.appended.clear()
        self._absent.clear()

    def roll_back(self) -> None:
        """Undo what was written since `begin`, the last first; what was seen is compared all the same."""
        while self._undo:
            self._undo.pop()()

    def unsee(self) -> None:
        """Nothing rests on what was first seen since `begin`: that order is decided again."""
        while self._seen_first:
            table, key = self._seen_first.pop()
            del table[key]

    def _see(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """What is compared is what the first of the batch has seen that was decided; nothing read later replaces it."""
        if key not in table:
            table[key] = value
            self._seen_first.append((table, key))

    def presume_absent(self, tenant: str, operation_key: OperationKey) -> None:
        """A claim says that there was no such effect: unless it is remembered, there is none."""
        self._absent.add((tenant, operation_key))

    @property
    def is_writing(self) -> bool:
        return bool(
            self.events
            or self.new_effects
            or self.changed_effects
            or self.new_approvals
            or self.changed_approvals
            or self.steps
            or self.denials_added
            or self.tallies_added
            or self.opened
            or self.closed
            or self.statements
        )

    @property
    def is_comparing(self) -> bool:
        """Whether an answer rests on anything that the database has not said in this very transaction."""
        return not self.is_locked and bool(
            self.effects_seen
            or self.approvals_seen
            or self.denials_seen
            or self.unvoided
            or self.stops_seen is not None
        )

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        if key in table:
            was = table[key]
            self._undo.append(lambda: table.__setitem__(key, was))
        else:
            self._undo.append(lambda: table.pop(key))
        table[key] = value

    def _known(self, name: str, *bindings: Any) -> Any:
        reading = Reading(name, bindings)
        if reading not in self.known:
            raise Unread(reading)
        return self.known[reading]

    def need(self, readings: Iterable[Reading]) -> None:
        """Have all of them read at once, where a verb would be stopped at one after the other."""
        if unread := [reading for reading in readings if reading not in self.known]:
            raise Unread(*unread)

    def _perhaps(self, name: str, *bindings: Any) -> tuple[bool, Any]:
        """What was read, if it was; under locks it has to be."""
        reading = Reading(name, bindings)
        if reading in self.known:
            return True, self.known[reading]
        if self.is_locked:
            raise Unread(reading)
        return False, None

    def _state(self, name: str, *bindings: Any) -> None:
        """A statement to be run with the batch, which nothing but a lock protects."""
        if not self.is_locked:
            raise NotTogether
        self.statements.append((name, bindings))
        self._undo.append(self.statements.pop)

    # ------------------------------------------------------------ effects

    def effect(self, tenant: str, operation_key: OperationKey) -> Effect | None:
        key = (tenant, operation_key)
        written = self.changed_effects.get(key) or self.new_effects.get(key)
        if written is not None:
            return written
        is_known, found = self._perhaps("effects_at", tenant, operation_key)
        if not is_known:
            found = self._memory.effects.get(key)
            if found is None and key not in self._absent:
                raise Unread(Reading("effects_at", key))
        if isinstance(found, StoreError):
            raise found
        self._see(self.effects_seen, key, None if found is None else found[1])
        return None if found is None else found[0]

    def add_effect(self, effect: Effect) -> None:
        self._put(self.new_effects, (effect.tenant, effect.operation_key), effect)

    def change_effect(self, effect: Effect, *, was: Effect) -> None:
        key = (effect.tenant, effect.operation_key)
        if key in self.changed_effects or key in self.new_effects:
            raise NotTogether
        self._put(self.changed_effects, key, effect)

    def is_voided(self, token: Token) -> bool:
        is_known, found = self._perhaps("is_voided", token)
        if not is_known:
            self.unvoided.append(token)
        return bool(found)

    def add_void(self, token: Token, at: datetime) -> None:
        self._state("add_void", token, rows.microseconds(at))

    def renew_leases(self, owner: OwnerId, until: datetime) -> int:
        if not self.is_locked:
            raise NotTogether
        names = self._known("renew_leases", owner, rows.microseconds(until))
        for row in names:
            self._memory.effects.drop((row[0], row[1]))
        return len(names)

    # ------------------------------------------------------------ approvals

    def approval(self, tenant: str, approval_id: ApprovalId) -> Approval | None:
        key = (tenant, approval_id)
        written = self.changed_approvals.get(key) or self.new_approvals.get(key) or self.closed_first.get(key)
        if written is not None:
            return written
        is_known, found = self._perhaps("approvals_at", tenant, approval_id)
        if not is_known:
            found = self._memory.approvals.get(key)
            if found is None:
                raise Unread(Reading("approvals_at", key))
        self._see(self.approvals_seen, key, None if found is None else found[1])
        return None if found is None else found[0]

    def open_approval(self, ask: SameAsk) -> Approval | None:
        """Looked for under a lock of the question's own: one that is not there yet cannot be locked or compared."""
        if not self.is_locked:
            raise NotTogether
        question = (ask.tenant, ask.subject, ask.run_id, ask.tool, ask.argument_digest)
        self._known("lock_question", json.dumps(question))
        found = self._known("open_approval", *question, ask.policy_version, ask.operation_key)
        if not found:
            return None
        approval = rows.approval_from(tuple(found[0])[:-1])
        self._see(self.approvals_seen, (approval.question.tenant, approval.question.approval_id), found[0][-1])
        return approval

    def standing_approvals(self, ask: SameAsk) -> tuple[Approval, ...]:
        """Under the question's own lock, so that none is asked meanwhile, and under their rows': none is answered."""
        question = (ask.tenant, ask.subject, ask.run_id, ask.tool, ask.argument_digest)
        self._known("lock_question", json.dumps(question))
        found = self._known("standing_approvals", *question, ask.policy_version, ask.operation_key)
        standing = [(rows.approval_from(tuple(row)[:-1]), row[-1]) for row in found]
        for approval, mark in standing:
            self._see(self.approvals_seen, (approval.question.tenant, approval.question.approval_id), mark)
        return tuple(approval for approval, _ in standing)

    def add_approval(self, approval: Approval) -> None:
        """One that takes another's place in the index of open questions comes after that one is closed."""
        for key, closed in tuple(self.changed_approvals.items()):
            if _place(closed) == _place(approval):
                del self.changed_approvals[key]
                self._undo.append(partial(self.changed_approvals.__setitem__, key, closed))
                self._put(self.closed_first, key, closed)
        self._put(self.new_approvals, (approval.question.tenant, approval.question.approval_id), approval)

    def change_approval(self, approval: Approval, *, was: Approval) -> None:
        key = (approval.question.tenant, approval.question.approval_id)
        if key in self.changed_approvals or key in self.new_approvals or key in self.closed_first:
            raise NotTogether
        if approval.state is ApprovalState.SPENT and approval.answer is not None:
            self.not_after = min(self.not_after or approval.answer.expires_at, approval.answer.expires_at)
        self._put(self.changed_approvals, key, approval)

    def add_edit(self, of: Question, edited_id: ApprovalId) -> None:
        self._state("add_edit", *rows.edit_row(of, edited_id))

    def votes(self, tenant: str, approval_id: ApprovalId) -> tuple[SignedVote, ...]:
        """Read after their question was locked, so nobody adds one meanwhile."""
        if not self.is_locked:
            raise NotTogether
        return tuple(rows.vote_from(tuple(row)) for row in self._known("votes", tenant, approval_id))

    def add_vote(self, tenant: str, approval_id: ApprovalId, vote: SignedVote) -> None:
        self._state("add_vote", *rows.vote_row(tenant, approval_id, vote))

    # ------------------------------------------------------------ stops

    def stops(self) -> tuple[str, ...]:
        is_known, found = self._perhaps("stops")
        if not is_known:
            found = self._memory.stops
            if found is None:
                raise Unread(Reading("stops"))
        self.stops_seen = found
        return tuple(found)

    def add_stop(self, scope: str, at: datetime) -> None:
        self._state("add_stop", scope, rows.microseconds(at))

    def drop_stop(self, scope: str) -> None:
        self._state("drop_stop", scope)

    def stop_leave(self, scope: str) -> StopLeave | None:
        found = self._known("stop_leave", scope)
        return StopLeave(found[0][0]) if found else None

    def put_stop_note(self, scope: str, note: StopNote) -> None:
        self._state("put_stop_note", scope, note.subject, note.tenant, note.leave.value, note.sealed_reason)

    def count_dispatched(self, scope: str) -> int:
        return int(self._known("count_dispatched", scope)[0][0])

    # ------------------------------------------------------------ audit

    def open_read(self, place: Place, owner: OwnerId, lease_until: datetime) -> None:
        self._put(self.opened, place, (owner, lease_until))

    def close_read(self, place: Place) -> bool:
        if place in self.closed:
            return False
        if self.is_locked or not self._is_remembered(place):
            if not self.is_locked:
                raise NotTogether
            if not self._known("has_read", place.writer, place.sequence):
                return False
        self.closed.append(place)
        self._undo.append(self.closed.pop)
        return True

    def _is_remembered(self, place: Place) -> bool:
        return place in self._memory.reads

    def append(self, events: Iterable[AuditEvent]) -> Place:
        for event in events:
            self._append(self._chain.link(event))
            self.appended.append(event)
        return Place(writer=self._chain.writer, sequence=self._chain.end[0])

    def _append(self, chained: ChainedEvent) -> None:
        self.events.append(chained)
        self._undo.append(self.events.pop)

    def put_key_check(self, check: Mac) -> None:
        self._state("put_meta", KEY_CHECK, rows.mac_text(check))

    # ------------------------------------------------------------ what co-commits left

    def waiting(self, limit: int) -> list[UnchainedEvent]:
        """By one writer at a time: of two copies of an event, each would chain one and see no other."""
        if not self._known("take_chaining")[0][0]:
            return []
        found = self._known("waiting", limit)
        self._chained_before = frozenset(body.encode() for _, body, _, _, is_chained in found if is_chained)
        return [
            UnchainedEvent(number=number, body=body.encode(), mac=Mac(key_id=key_id, value=mac))
            for number, body, key_id, mac, _ in found
        ]

    def is_chained(self, body: bytes) -> bool:
        """Also by this very batch: somebody may have put the same event there twice."""
        return body in self._chained_before or any(event.body == body for event in self.events)

    def append_waiting(self, waiting: UnchainedEvent) -> None:
        self._append(self._chain.link_body(waiting.body))
        event = event_of(waiting.body)
        if event is not None:
            self.appended.append(event)

    def drop_waiting(self, waiting: UnchainedEvent) -> None:
        self._state_of_many("drop_waiting", self._dropped, waiting.number)

    def refuse_waiting(self, waiting: UnchainedEvent) -> None:
        self._state_of_many("refuse_waiting", self._refused, waiting.number)

    def _state_of_many(self, name: str, numbers: list[int], number: int) -> None:
        """One statement for all of a batch."""
        if not numbers:
            self._state(name, numbers)
        numbers.append(number)
        self._undo.append(numbers.pop)

    # ------------------------------------------------------------ credentials

    def credential(self, kind: CredentialKind, name: str) -> StoredCredential | None:
        """Read under its lock: a link opens one session, whoever asks for another on whatever host."""
        if not self.is_locked:
            raise NotTogether
        found = self._known("credential_locked", kind.value, name)
        return rows.credential_from(tuple(found[0])) if found else None

    def add_credential(self, row: StoredCredential) -> None:
        self._state("add_credential", *rows.credential_row(row))

    def change_credential(self, row: StoredCredential) -> None:
        self._state("change_credential", *rows.credential_row(row))

    def drop_credential(self, kind: CredentialKind, name: str) -> None:
        self._state("drop_credential", kind.value, name)

    def touch_credential(self, row: StoredCredential, at: datetime) -> None:
        self._state("touch_credential", row.kind.value, row.name, rows.microseconds(at))

    # ------------------------------------------------------------ forgetting

    def drop_approval(self, tenant: str, approval_id: ApprovalId) -> None:
        self._state("drop_approval", tenant, approval_id)
        self._state("drop_votes", tenant, approval_id)
        self._state("drop_edit", tenant, approval_id)
        self._state("drop_reminders", tenant, approval_id)

    def drop_void(self, token: Token) -> None:
        self._state("drop_void", token)

    def holds(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._known("holds"))

    def add_hold(self, hold: Hold) -> None:
        self._state("add_hold", hold.scope, hold.held_by, rows.microseconds(hold.held_at))

    def drop_hold(self, scope: str) -> None:
        self._state("drop_hold", scope)

    def chain_start(self, writer: WriterId) -> int:
        found = self._known("chain_start", writer)
        return int(found[0][0]) if found else 1

    def kept_until(self, writer: WriterId) -> int:
        found = self._known("kept_until", writer)
        return int(found[0][0]) if found and found[0][0] is not None else 0

    def link_at(self, writer: WriterId, sequence: int) -> str | None:
        found = self._known("link_at", writer, sequence)
        return str(found[0][0]) if found else None

    def cut(self, tombstone: ChainTombstone) -> None:
        self._state("put_tombstone", *rows.tombstone_row(tombstone))
        self._state("allow_cutting")
        self._state("cut", tombstone.writer, tombstone.first_kept)


def _place(approval: Approval) -> tuple[str, ...]:
    """Where of one question at most is open."""
    of = approval.question
    return of.tenant, of.subject, of.run_id, of.tool, of.argument_digest, of.policy_version, of.operation_key
