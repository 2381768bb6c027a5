"""Tables over one SQLite connection, inside whatever transaction its writer has open."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import apsw

from placet.adapters.stores import rows
from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.sqlite.outbox_tables import SqliteOutboxTables
from placet.adapters.stores.sqlite.reminder_tables import SqliteReminderTables
from placet.adapters.stores.sqlite.run_tables import SqliteRunTables
from placet.adapters.stores.sqlite.statements import queries
from placet.errors import StoreUnavailable
from placet.model.approval import Approval, Mac, Question, SignedVote
from placet.model.audit import AuditEvent, ChainedEvent, ChainTombstone, UnchainedEvent
from placet.model.credentials import CredentialKind, StoredCredential
from placet.model.effect import Effect
from placet.model.grant import Grant, GrantId, StoredGrant
from placet.model.identifiers import ApprovalId, OperationKey, OwnerId, Token, WriterId
from placet.model.ledger import Place, SameAsk
from placet.model.retention import Hold
from placet.model.stopping import StopLeave, StopNote
from placet.rules.audit import event_of

SQL = queries()
KEY_CHECK = "key_check"


class SqliteTables(SqliteOutboxTables, SqliteReminderTables, SqliteRunTables):
    """Rows in SQLite. Changes compare what was read; a miss means two writers, and the transaction is given up."""

    def __init__(self, connection: apsw.Connection, chain: ChainWriter) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._stops: tuple[str, ...] | None = None
        self._has_head = False
        self._chain = chain
        self.appended: list[AuditEvent] = []

    def _one(self, name: str, *bindings: Any) -> tuple[Any, ...] | None:
        found = self._all(name, *bindings)
        return found[0] if found else None  # read to its end: a statement left open would keep its snapshot

    def _all(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._cursor.execute(SQL[name], bindings).fetchall()
        return found

    def _write(self, name: str, *bindings: Any) -> int:
        self._cursor.execute(SQL[name], bindings)
        return self._connection.changes()

    def begin(self) -> None:
        """A transaction has begun, with the write lock: what nobody else may change now is looked up once in it."""
        self._stops = None

    def effect(self, tenant: str, operation_key: OperationKey) -> Effect | None:
        row = self._one("effect", tenant, operation_key)
        return None if row is None else rows.effect_from(row)

    def add_effect(self, effect: Effect) -> None:
        self._write("add_effect", *rows.effect_row(effect))

    def change_effect(self, effect: Effect, *, was: Effect) -> None:
        if self._write("change_effect", *rows.effect_change(effect, was=was)) != 1:
            raise StoreUnavailable("The ledger row moved under its transaction.")

    def is_voided(self, token: Token) -> bool:
        return self._one("is_voided", token) is not None

    def add_void(self, token: Token, at: datetime) -> None:
        self._write("add_void", token, rows.microseconds(at))

    def renew_leases(self, owner: OwnerId, until: datetime) -> int:
        self._write("renew_reads", rows.microseconds(until), owner)
        return self._write("renew_leases", rows.microseconds(until), owner)

    def approval(self, tenant: str, approval_id: ApprovalId) -> Approval | None:
        row = self._one("approval", tenant, approval_id)
        return None if row is None else rows.approval_from(row)

    def open_approval(self, ask: SameAsk) -> Approval | None:
        found = self._connection.execute(SQL["same_ask"], same_ask_bindings(ask))
        return next((rows.approval_from(row) for row in found if row[8] in ("pending", "approved")), None)

    def standing_approvals(self, ask: SameAsk) -> tuple[Approval, ...]:
        found = self._connection.execute(SQL["same_ask"], same_ask_bindings(ask)).fetchall()
        return tuple(map(rows.approval_from, found))

    def add_approval(self, approval: Approval) -> None:
        self._write("add_approval", *rows.approval_row(approval))

    def change_approval(self, approval: Approval, *, was: Approval) -> None:
        if self._write("change_approval", *rows.approval_change(approval, was=was)) != 1:
            raise StoreUnavailable("The approval moved under its transaction.")

    def add_edit(self, of: Question, edited_id: ApprovalId) -> None:
        self._write("add_edit", *rows.edit_row(of, edited_id))

    def votes(self, tenant: str, approval_id: ApprovalId) -> tuple[SignedVote, ...]:
        found = self._connection.execute(SQL["votes"], (tenant, approval_id)).fetchall()
        return tuple(rows.vote_from(row) for row in found)

    def add_vote(self, tenant: str, approval_id: ApprovalId, vote: SignedVote) -> None:
        self._write("add_vote", *rows.vote_row(tenant, approval_id, vote))

    def stops(self) -> tuple[str, ...]:
        if self._stops is None:
            self._stops = tuple(row[0] for row in self._connection.execute(SQL["stops"]))
        return self._stops

    def add_stop(self, scope: str, at: datetime) -> None:
        self._stops = None
        self._write("add_stop", scope, rows.microseconds(at))

    def drop_stop(self, scope: str) -> None:
        self._stops = None
        self._write("drop_stop", scope)
        self._write("drop_stop_note", scope)

    def stop_leave(self, scope: str) -> StopLeave | None:
        row = self._one("stop_leave", scope)
        return StopLeave(row[0]) if row is not None else None

    def put_stop_note(self, scope: str, note: StopNote) -> None:
        self._write("put_stop_note", scope, note.subject, note.tenant, note.leave.value, note.sealed_reason)

    def count_dispatched(self, scope: str) -> int:
        row = self._one("count_dispatched", scope)
        return int(row[0]) if row is not None else 0

    def open_read(self, place: Place, owner: OwnerId, lease_until: datetime) -> None:
        self._write("open_read", place.writer, place.sequence, owner, rows.microseconds(lease_until))

    def close_read(self, place: Place) -> bool:
        return self._write("close_read", place.writer, place.sequence) == 1

    def append(self, events: Iterable[AuditEvent]) -> Place:
        for event in events:
            self._append(self._chain.link(event))
            self.appended.append(event)
        return Place(writer=self._chain.writer, sequence=self._chain.end[0])

    def _append(self, chained: ChainedEvent) -> None:
        body = chained.body.decode()
        self._write("append_event", chained.writer, chained.sequence, body, chained.link, chained.key_id)

    def has_waiting(self) -> bool:
        return self._one("has_waiting") is not None

    def waiting(self, limit: int) -> list[UnchainedEvent]:
        found = self._connection.execute(SQL["waiting"], (limit,)).fetchall()
        return [rows.unchained_from(row) for row in found]

    def is_chained(self, body: bytes) -> bool:
        return self._one("is_chained", body.decode()) is not None

    def append_waiting(self, waiting: UnchainedEvent) -> None:
        self._append(self._chain.link_body(waiting.body))
        event = event_of(waiting.body)
        if event is not None:
            self.appended.append(event)

    def drop_waiting(self, waiting: UnchainedEvent) -> None:
        self._write("drop_waiting", waiting.number)

    def refuse_waiting(self, waiting: UnchainedEvent) -> None:
        self._write("refuse_waiting", waiting.number)

    def drop_approval(self, tenant: str, approval_id: ApprovalId) -> None:
        for name in ("drop_approval", "drop_votes", "drop_edit", "drop_reminders"):
            self._write(name, tenant, approval_id)

    def drop_void(self, token: Token) -> None:
        self._write("drop_void", token)

    def holds(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._connection.execute(SQL["holds"]))

    def add_hold(self, hold: Hold) -> None:
        self._write("add_hold", hold.scope, hold.held_by, rows.microseconds(hold.held_at))

    def drop_hold(self, scope: str) -> None:
        self._write("drop_hold", scope)

    def chain_start(self, writer: WriterId) -> int:
        row = self._one("chain_start", writer)
        return 1 if row is None else int(row[0])

    def kept_until(self, writer: WriterId) -> int:
        row = self._one("kept_until", writer)
        return int(row[0]) if row is not None and row[0] is not None else 0

    def link_at(self, writer: WriterId, sequence: int) -> str | None:
        row = self._one("link_at", writer, sequence)
        return None if row is None else str(row[0])

    def cut(self, tombstone: ChainTombstone) -> None:
        self._write("put_tombstone", *rows.tombstone_row(tombstone))
        self._write("cut", tombstone.writer, tombstone.first_kept)

    def credential(self, kind: CredentialKind, name: str) -> StoredCredential | None:
        row = self._one("credential", kind.value, name)
        return None if row is None else rows.credential_from(row)

    def add_credential(self, row: StoredCredential) -> None:
        self._write("add_credential", *rows.credential_row(row))

    def change_credential(self, row: StoredCredential) -> None:
        self._write("change_credential", *rows.credential_row(row))

    def drop_credential(self, kind: CredentialKind, name: str) -> None:
        self._write("drop_credential", kind.value, name)

    def touch_credential(self, row: StoredCredential, at: datetime) -> None:
        self._write("touch_credential", row.kind.value, row.name, rows.microseconds(at))

    def grant(self, tenant: str, grant_id: GrantId) -> StoredGrant | None:
        row = self._one("grant", tenant, grant_id)
        return None if row is None else rows.grant_from(row)

    def add_grant(self, stored: StoredGrant) -> None:
        self._write("add_grant", *rows.grant_row(stored))

    def use_grant(self, stored: StoredGrant, at: datetime) -> None:
        seen = (stored.grant.tenant, stored.grant.grant_id, stored.mac.value, stored.uses)
        if self._write("use_grant", rows.microseconds(at), *seen) != 1:
            raise StoreUnavailable("The grant moved under its transaction.")

    def revoke_grant(self, was: StoredGrant, revoked: Grant, mac: Mac) -> None:
        if self._write("revoke_grant", *rows.grant_revocation(revoked, mac, was=was)) != 1:
            raise StoreUnavailable("The grant moved under its transaction.")

    def end_grant(self, stored: StoredGrant, at: datetime) -> None:
        self._write("end_grant", rows.microseconds(at), stored.grant.tenant, stored.grant.grant_id)

    def put_key_check(self, check: Mac) -> None:
        self._write("put_meta", KEY_CHECK, rows.mac_text(check))

    def note_key_check(self) -> None:
        """Let the chain know what the store says of its key, as this transaction sees it."""
        row = self._one("meta", KEY_CHECK)
        self._chain.noted(rows.mac_from(row[0] if row is not None else ""))

    def put_head(self) -> None:
        """The chain's end; with its first events also note which ends of other chains it names."""
        head = self._chain.head()
        opened_after = head.opened_after.decode()
        if not self._has_head:
            self._has_head = self._one("has_head", head.writer) is not None  # one that is there stays
        if not self._has_head:
            for writer, (sequence, _) in json.loads(opened_after).items():
                self._write("remember", sequence, writer)
        self._write("put_head", head.writer, head.sequence, head.link, opened_after, head.key_id, head.mac)


def same_ask_bindings(ask: SameAsk) -> tuple[Any, ...]:
    return (
        ask.tenant,
        ask.subject,
        ask.run_id,
        ask.tool,
        ask.argument_digest,
        ask.policy_version,
        ask.operation_key,
    )
