"""Settling an effect in the transaction that its handler has open, on a connection of its own to the store's file.

The connection must be one of apsw. The `sqlite3` of the standard library is another copy of SQLite in this process,
and two copies do not see each other's locks on one file: both would write at once (https://sqlite.org/howtocorrupt.html,
section 2.2.1). Nor may other files be attached: in a write-ahead log a commit is atomic in one file only.

A refusal leaves the transaction open and dooms it: SQLite turns its commit into a rollback, whatever the handler does
with the refusal. Rolled back here, a `with connection:` around it would fail at its end, and hide why.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from placet.adapters.stores import co_commits, rows
from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.sqlite.tables import SQL
from placet.errors import PlacetError, StoreUnavailable
from placet.model.approval import Mac
from placet.model.effect import Effect
from placet.model.identifiers import OperationKey
from placet.model.ledger import CoCommitAnswer, CoCommitted, NotCovered, Settlement

_SYNCHRONOUS_OFF = 0
_HOOK = "placet co-commit"


def co_commit(
    connection: object, settlement: Settlement, *, path: Path, chain: ChainWriter, now: datetime
) -> CoCommitAnswer:
    """Settle inside the open transaction of a connection to the file at `path`.

    Raises:
        StoreUnavailable: SQLite did not take it; the transaction cannot be committed any more.
    """
    if not isinstance(connection, apsw.Connection):
        return NotCovered(reason="not_an_apsw_connection")
    try:
        reason = _lacks(connection, path)
    except (apsw.Error, OSError):
        reason = "no_connection"
    if reason is not None:
        return NotCovered(reason=reason)
    try:
        answer = co_commits.co_commit(_HandlersTables(connection), chain, settlement, now)
    except PlacetError as fault:
        refusal: PlacetError | None = fault
    except apsw.Error:  # locked, or changed since this transaction began to read
        refusal = StoreUnavailable("The transaction could not settle its effect.")
    else:
        refusal = None
        if isinstance(answer, CoCommitted):
            return answer
    _doom(connection)
    if refusal is not None:
        raise refusal
    return answer


def _lacks(connection: apsw.Connection, path: Path) -> str | None:
    """What keeps the transaction from being one that settles an effect of the store."""
    if not connection.in_transaction:
        return "no_transaction"
    cursor = _quiet_cursor(connection)
    files = {name: file for _, name, file in cursor.execute("PRAGMA database_list") if file}
    main = files.pop("main", None)
    if main is None or not os.path.samefile(main, path):
        return "another_database"
    files.pop("temp", None)
    if files:
        return "other_files_attached"
    ((level,),) = cursor.execute("PRAGMA main.synchronous").fetchall()
    return "not_synchronous" if level == _SYNCHRONOUS_OFF else None


class _HandlersTables:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._cursor = _quiet_cursor(connection)

    def lock_effect(self, tenant: str, operation_key: OperationKey) -> Effect | None:
        if self._write("lock_effect", tenant, operation_key) == 0:
            return None
        row = self._cursor.execute(SQL["effect"], (tenant, operation_key)).fetchone()
        return None if row is None else rows.effect_from(row)

    def change_effect(self, effect: Effect, *, was: Effect) -> None:
        if self._write("change_effect", *rows.effect_change(effect, was=was)) != 1:
            raise StoreUnavailable("The ledger row moved under its transaction.")

    def add_waiting(self, body: bytes, mac: Mac) -> None:
        self._write("add_waiting", body.decode(), mac.key_id, mac.value)

    def _write(self, name: str, *bindings: Any) -> int:
        self._cursor.execute(SQL[name], bindings)
        return self._connection.changes()


def _quiet_cursor(connection: apsw.Connection) -> apsw.Cursor:
    """One whose rows are plain, and of which the handler's own tracers hear nothing."""
    cursor = apsw.Cursor(connection)
    cursor.exec_trace = lambda *_: True
    cursor.row_trace = lambda _, row: row
    return cursor


def _doom(connection: apsw.Connection) -> None:
    """Have SQLite roll this transaction back when somebody commits it; the next one is free again."""
    is_doomed = connection.in_transaction  # a full disk, for one, has rolled it back already

    def at_commit() -> bool:
        return is_doomed

    def rolled_back() -> None:
        nonlocal is_doomed
        is_doomed = False

    connection.set_commit_hook(at_commit, id=_HOOK)
    connection.set_rollback_hook(rolled_back, id=_HOOK)
