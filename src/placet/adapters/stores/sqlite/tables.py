"""Tables over one SQLite connection, inside whatever transaction its writer has open."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import apsw

from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.sqlite import rows
from placet.adapters.stores.sqlite.statements import queries
from placet.errors import StoreUnavailable
from placet.model.approval import Approval, Mac
from placet.model.audit import AuditEvent
from placet.model.effect import Effect
from placet.model.identifiers import ApprovalId, OperationKey, OwnerId, RunId, Token
from placet.model.ledger import Place, SameAsk, Step
from placet.model.run import Run

SQL = queries()
KEY_CHECK = "key_check"


class SqliteTables:
    """Rows in SQLite. Changes compare what was read; a miss means two writers, and the transaction is given up."""

    def __init__(self, connection: apsw.Connection, chain: ChainWriter) -> None:
        self._connection = connection
        self._chain = chain
        self.appended: list[AuditEvent] = []

    def _one(self, name: str, *bindings: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(SQL[name], bindings).fetchone()
        return row

    def _write(self, name: str, *bindings: Any) -> int:
        self._connection.execute(SQL[name], bindings)
        return self._connection.changes()

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

    def add_approval(self, approval: Approval) -> None:
        self._write("add_approval", *rows.approval_row(approval))

    def change_approval(self, approval: Approval, *, was: Approval) -> None:
        if self._write("change_approval", *rows.approval_change(approval, was=was)) != 1:
            raise StoreUnavailable("The approval moved under its transaction.")

    def run(self, tenant: str, run_id: RunId) -> Run | None:
        row = self._one("run", tenant, run_id)
        return None if row is None else rows.run_from(row)

    def has_step(self, step: Step) -> bool:
        return self._one("has_step", step.tenant, step.run_id, step.call_id, step.fingerprint) is not None

    def add_step(self, step: Step, *, opened_at: datetime, is_first: bool) -> None:
        self._write("add_step", step.tenant, step.run_id, step.call_id, step.fingerprint)
        self._write("tell_step", step.tenant, step.run_id, step.call_id)
        if is_first:
            at = rows.microseconds(opened_at)
            self._write("open_run", step.tenant, step.run_id, step.subject, step.policy_version, step.max_steps, at)
        else:
            self._write("count_step", step.tenant, step.run_id)

    def denials(self, tenant: str, run_id: RunId, tool: str) -> int:
        row = self._one("denials", tenant, run_id, tool)
        return int(row[0]) if row is not None else 0

    def add_denial(self, tenant: str, run_id: RunId, tool: str) -> None:
        self._write("add_denial", tenant, run_id, tool)

    def stops(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self._connection.execute(SQL["stops"]))

    def add_stop(self, scope: str, at: datetime) -> None:
        self._write("add_stop", scope, rows.microseconds(at))

    def drop_stop(self, scope: str) -> None:
        self._write("drop_stop", scope)

    def count_dispatched(self, scope: str) -> int:
        row = self._one("count_dispatched", scope)
        return int(row[0]) if row is not None else 0

    def open_read(self, place: Place, owner: OwnerId, lease_until: datetime) -> None:
        self._write("open_read", place.writer, place.sequence, owner, rows.microseconds(lease_until))

    def close_read(self, place: Place) -> bool:
        return self._write("close_read", place.writer, place.sequence) == 1

    def append(self, events: Iterable[AuditEvent]) -> Place:
        for event in events:
            chained = self._chain.link(event)
            body = chained.body.decode()
            self._write("append_event", chained.writer, chained.sequence, body, chained.link, chained.key_id)
            self.appended.append(event)
        return Place(writer=self._chain.writer, sequence=self._chain.end[0])

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
        if self._one("has_head", head.writer) is None:
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
