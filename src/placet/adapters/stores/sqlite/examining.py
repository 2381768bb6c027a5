"""Examining a store without changing a byte of its folder.

    no log beside it       the file alone is read, as one that nobody changes
    a log and its index    whoever has it open goes on; the index is read and never written
    a log, no index        nobody has it open and something was lost or moved; a copy elsewhere is read

A log that appears while the file is read as one that nobody changes makes the look begin anew.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from placet.adapters.stores import rows
from placet.adapters.stores.sqlite import listing
from placet.adapters.stores.sqlite.connection import APPLICATION_ID, connect, translated
from placet.adapters.stores.sqlite.statements import migrations, statements
from placet.adapters.stores.sqlite.tables import KEY_CHECK
from placet.adapters.stores.sqlite.tables import SQL as STORE_SQL
from placet.errors import StoreMissing, StoreUnavailable
from placet.model.approval import Approval, Mac
from placet.model.audit import ChainedEvent, ChainHead, ChainTombstone
from placet.model.effect import BrokenEffect, Effect
from placet.ports.examining import ChainEnd, Layout

SQL = statements((resources.files(__package__) / "examining.sql").read_text("utf-8"))
_LOOKS = 3
_PATIENCE_MILLISECONDS = 2_000
_MOST_DAMAGE = 20


@contextmanager
def examine(path: Path) -> Iterator[SqliteExamination]:
    """One look at the store.

    Raises:
        StoreMissing: there is none.
        StoreError: it cannot be read; `StoreUnavailable` if it was opened and closed again and again meanwhile.
    """
    if not path.is_file():
        raise StoreMissing(f"There is no store at {path}")
    with ExitStack() as opened:
        yield _opened(path, opened)


def _opened(path: Path, opened: ExitStack) -> SqliteExamination:
    log = path.with_name(path.name + "-wal")
    for _ in range(_LOOKS):
        is_alone = not log.exists()
        with translated(path):
            connection = _connection(path, opened)
        if is_alone == (not log.exists()):
            opened.callback(connection.close, True)
            return SqliteExamination(path, connection)
        connection.close(True)
    raise StoreUnavailable(f"The store is opened and closed all the time: {path}")


def _connection(path: Path, opened: ExitStack) -> apsw.Connection:
    log, index = path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")
    if not log.exists():
        how = "immutable=1"
    elif index.exists():
        how = "readonly_shm=1"
    else:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="placet-look-")))
        shutil.copyfile(log, folder / log.name)
        path = Path(shutil.copyfile(path, folder / path.name))
        how = "cache=private"
    name = f"file:{quote(str(path.absolute()))}?mode=ro&{how}"
    connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_timeout(_PATIENCE_MILLISECONDS)
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the moment everything is as of
    except BaseException:
        connection.close(True)
        raise
    return connection


def library_version() -> tuple[int, ...]:
    """The SQLite that stores are opened with here."""
    return tuple(int(part) for part in apsw.sqlite_lib_version().split("."))


def connection_settings() -> dict[str, str]:
    """What connections to a store have set, read back from one to a file of no meaning."""
    with tempfile.TemporaryDirectory(prefix="placet-look-") as folder, translated(Path(folder)):
        connection = connect(Path(folder) / "settings.db")
        try:
            return {name: str(connection.pragma(name)) for name in ("journal_mode", "synchronous")}
        finally:
            connection.close(True)


class SqliteExamination:
    """See `ports.examining.Examination`."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self._path = path
        self._connection = connection

    def now(self, host: datetime) -> datetime:
        return host

    def layout(self) -> Layout:
        version = int(self._one("PRAGMA user_version"))
        latest = migrations()[-1][0]
        known = min(version, latest)
        differences = _schema_in(self._connection, of=_tables_of(known)).items() ^ _schema_of(known).items()
        return Layout(
            is_ours=int(self._one("PRAGMA application_id")) == APPLICATION_ID,
            version=version,
            latest=latest,
            differences=() if version > latest else tuple(sorted({name for name, _ in differences})),
        )

    def damage(self) -> tuple[str, ...]:
        return self._damage(f"PRAGMA quick_check({_MOST_DAMAGE})")

    def damage_in_depth(self) -> tuple[str, ...]:
        return self._damage(f"PRAGMA integrity_check({_MOST_DAMAGE})")

    def _damage(self, statement: str) -> tuple[str, ...]:
        """SQLite's own words may quote what is in the file, so only how many there are is told."""
        found = self._all(statement)
        if found == [("ok",)]:
            return ()
        more = " or more" if len(found) >= _MOST_DAMAGE else ""
        return (f"{len(found)}{more} faults in its pages, rows or indexes",)

    def key_check(self) -> Mac:
        found = self._all(STORE_SQL["meta"], KEY_CHECK)
        return rows.mac_from(found[0][0] if found else "")

    def heads(self) -> tuple[ChainHead, ...]:
        return tuple(rows.head_from(row) for row in self._all(STORE_SQL["heads"]))

    def tombstones(self) -> tuple[ChainTombstone, ...]:
        if not self._all(SQL["has_tombstones"]):
            return ()
        return tuple(rows.tombstone_from(row) for row in self._all(STORE_SQL["tombstones"]))

    def chained(self) -> Iterator[ChainedEvent]:
        with translated(self._path):
            for row in self._connection.execute(STORE_SQL["chained"]):
                yield rows.event_from(row)

    def chain_ends(self, *, writers: int, events: int) -> tuple[ChainEnd, ...]:
        heads = {head.writer: head for head in self.heads()}
        newest = [writer for writer, _ in self._all(SQL["newest_writers"], writers)]
        return tuple(self._end(heads[writer], events) for writer in newest)

    def _end(self, head: ChainHead, events: int) -> ChainEnd:
        found = [rows.event_from(row) for row in self._all(SQL["end_of_writer"], head.writer, events + 1)][::-1]
        is_cut = len(found) > events
        before = found[0].link if is_cut else None
        return ChainEnd(head=head, before=before, events=tuple(found[1:] if is_cut else found))

    def newest_instant(self) -> datetime | None:
        """By the ends of the chains: whatever changes is told there in the same transaction."""
        found = self._all(SQL["newest_writers"], 1)
        try:
            said = datetime.fromisoformat(found[0][1]) if found and found[0][1] is not None else None
        except (ValueError, TypeError):
            return None  # a row altered by hand, which the audit's own check tells of
        return said if said is None or said.tzinfo is not None else None

    def stops(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self._all(STORE_SQL["stops"]))

    def effects(self, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        with translated(self._path):
            return listing.in_transaction(self._connection, SQL["all_effects"], (limit,))

    def approvals_in_force(self, *, limit: int) -> tuple[Approval, ...]:
        return tuple(rows.approval_from(row) for row in self._all(SQL["approvals_in_force"], limit))

    def unknown_since(self) -> tuple[datetime, ...]:
        found = (rows.instant(row[0]) for row in self._all(SQL["unknown_since"]))
        return tuple(each for each in found if each is not None)

    def stranded(self, *, now: datetime) -> int:
        return int(self._one(SQL["stranded_count"], rows.microseconds(now)))

    def _one(self, statement: str, *bindings: Any) -> Any:
        return self._all(statement, *bindings)[0][0]

    def _all(self, statement: str, *bindings: Any) -> list[tuple[Any, ...]]:
        with translated(self._path):
            found: list[tuple[Any, ...]] = self._connection.execute(statement, bindings).fetchall()
            return found


def _schema_in(connection: apsw.Connection, *, of: frozenset[str]) -> dict[str, str]:
    """What stands on these tables. Others in the file are not ours to judge: they are of handlers that co-commit."""
    found: list[tuple[Any, ...]] = connection.execute(SQL["schema"]).fetchall()
    return {name: text for name, text, table in found if table in of}


def _tables_of(version: int) -> frozenset[str]:
    return frozenset(name.removeprefix("table ") for name in _schema_of(version) if name.startswith("table "))


def _schema_of(version: int) -> dict[str, str]:
    """What the migrations up to a version make."""
    connection = apsw.Connection(":memory:")
    try:
        for number, text in migrations():
            if number <= version:
                connection.execute(text)
        found: list[tuple[Any, ...]] = connection.execute(SQL["schema"]).fetchall()
        return {name: text for name, text, _ in found}
    finally:
        connection.close()
