"""Fills a SQLite store with years, past its writer: straight into its tables, which get their indexes afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from placet.bootstrap.stores import open_existing_store
from placet.proof.growth import audit, ledger
from placet.proof.growth.audit import Audit
from placet.proof.growth.ledger import Ledger, Row
from placet.proof.growth.specimens import Raw, looked_at, opened, perform
from placet.proof.growth.years import Years
from placet.proof.workloads import NotMeasured

_EMPTIED = ("effects", "approvals", "steps", "step_fingerprints", "runs", "audit_events", "audit_heads")


async def fill(path: Path, *, effects: int, events: int, told: Callable[[str], None]) -> Years:
    """Make a store at `path` and fill it; what is in it.

    Not durable before it returns: what an earlier end leaves is no store.

    Raises:
        NotMeasured: the disk did not take it.
        PlacetError: the store could not be made.
    """
    try:
        return await _filled(path, effects=effects, events=events, told=told)
    except apsw.Error as error:  # its text may repeat rows
        why = f"the disk did not take the rows of a large ledger: {type(error).__name__}"
    raise NotMeasured(why)


async def _filled(path: Path, *, effects: int, events: int, told: Callable[[str], None]) -> Years:
    async with opened(path) as gate:
        approval = await perform(gate)
        now = await gate.store.now()
    keys, store = open_existing_store(path)
    await store.close()
    connection = apsw.Connection(str(path))
    try:
        for name, value in (("journal_mode", "off"), ("synchronous", "off"), ("locking_mode", "exclusive")):
            connection.pragma(name, value)
        connection.pragma("temp_store", "file")
        connection.pragma("cache_size", -500_000)
        specimens = looked_at(lambda table: _rows(connection, table), approval)
        years = Years.until(now, effects=effects, events=events, of=specimens)
        of_ledger, of_audit = Ledger(years, specimens, keys), Audit(years, specimens, keys)
        with _bare(connection):
            for table in _EMPTIED:
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own words
            told("the ledger")
            _put(connection, "effects", tuple(specimens.write.effect), of_ledger.effects())
            _put(connection, "approvals", tuple(specimens.approval), of_ledger.approvals())
            _put(connection, "step_fingerprints", ledger.STEP_COLUMNS, of_ledger.steps())
            connection.execute("INSERT OR IGNORE INTO steps SELECT tenant, run_id, call_id FROM step_fingerprints")
            _put(connection, "runs", ledger.RUN_COLUMNS, of_ledger.runs())
            told("the audit")
            _put(connection, "audit_events", audit.EVENT_COLUMNS, of_audit.events())
            _put(connection, "audit_heads", audit.HEAD_COLUMNS, of_audit.heads())
            told("indexes")
        return years
    finally:
        connection.close(True)


def _rows(connection: apsw.Connection, table: str) -> list[Raw]:
    cursor = connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")  # noqa: S608 - our own words
    return [dict(zip([name for name, _ in cursor.getdescription()], row, strict=True)) for row in cursor]


@contextmanager
def _bare(connection: apsw.Connection) -> Iterator[None]:
    """Without triggers and indexes, which are made again at once when all rows are there."""
    query = "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    taken = [tuple(map(str, row)) for row in connection.execute(query)]
    for kind, name, _ in taken:
        connection.execute(f'DROP {kind} "{name}"')
    yield
    for _, _, sql in taken:
        connection.execute(sql)


def _put(connection: apsw.Connection, table: str, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
    places = ", ".join("?" * len(columns))
    connection.execute("BEGIN")
    connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)  # noqa: S608
    connection.execute("COMMIT")
