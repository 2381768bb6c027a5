"""Opening the file: settings, schema, and the faults of an operating system translated once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from placet.adapters.stores.sqlite.statements import migrations
from placet.errors import (
    PlacetError,
    StoreCorrupt,
    StoreError,
    StoreMissing,
    StoreNotWritable,
    StoreTooNew,
    StoreUnavailable,
)

APPLICATION_ID = 0x706C6174  # "plat"
BUSY_TIMEOUT_MILLISECONDS = 10_000
_SWITCH_TRIES = 20


def open_file(path: Path) -> apsw.Connection:
    """Open an existing store, or make one in an existing, writable folder, at today's schema.

    Safe for many processes at once: the schema is made under the write lock.

    Raises:
        StoreNotWritable, StoreMissing, StoreCorrupt, StoreTooNew, StoreUnavailable: nothing was changed.
    """
    if not path.parent.is_dir():
        raise StoreMissing(f"The folder of the store does not exist: {path.parent}", hint="Make the folder first.")
    target = path if path.exists() else path.parent
    if not os.access(target, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise StoreNotWritable(f"The store cannot be written: {path}")
    if not path.exists():  # SQLite gives its other files the mode of this one
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    with translated(path):
        connection = connect(path)
        try:
            _migrate(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def connect(path: Path) -> apsw.Connection:
    """One connection with the settings every connection to a store has."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(BUSY_TIMEOUT_MILLISECONDS)
    _switch_to_wal(connection)
    connection.pragma("synchronous", "full")
    return connection


def _switch_to_wal(connection: apsw.Connection) -> None:
    """Starters that switch one new file at the same time may lock each other out, in spite of the busy timeout."""
    for _ in range(_SWITCH_TRIES):
        try:
            connection.pragma("journal_mode", "wal")
            return
        except apsw.BusyError:
            connection.execute("BEGIN IMMEDIATE")  # waits for whoever was faster
            connection.execute("ROLLBACK")
    connection.pragma("journal_mode", "wal")


def read_only(path: Path) -> apsw.Connection:
    """A connection that can only look."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(BUSY_TIMEOUT_MILLISECONDS)
    return connection


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's faults become ours, without their texts."""
    try:
        yield
        return
    except PlacetError:
        raise
    except (apsw.NotADBError, apsw.CorruptError, UnicodeDecodeError):
        fault: StoreError = StoreCorrupt(f"This file is not a sound placet store: {path}")
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError):
        fault = StoreNotWritable(f"The store cannot be opened for writing: {path}")
    except apsw.FullError:
        fault = StoreUnavailable(f"The disk of the store is full: {path}", hint="Free space, then ask again.")
    except apsw.Error:
        fault = StoreUnavailable(f"The store did not serve: {path}")
    raise fault


def _migrate(connection: apsw.Connection, path: Path) -> None:
    steps = migrations()
    latest = steps[-1][0]
    connection.execute("BEGIN")  # one snapshot: another starter may be making the schema right now
    try:
        is_latest = _version(connection, path) == latest
    finally:
        connection.execute("ROLLBACK")
    if is_latest:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, path)  # again, under the lock: somebody may have been faster
        for number, text in steps:
            if number > version:
                connection.execute(text)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", latest)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: apsw.Connection, path: Path) -> int:
    version, application = int(connection.pragma("user_version")), int(connection.pragma("application_id"))
    is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    if application != APPLICATION_ID and not is_empty:
        raise StoreCorrupt(f"This file is not a placet store: {path}")
    if version > migrations()[-1][0]:
        raise StoreTooNew(f"The store {path} was made by a newer placet (schema {version}).")
    return version
