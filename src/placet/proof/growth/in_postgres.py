"""Fills a PostgreSQL store with years, past its writer: by COPY, in one transaction, into tables made empty by it.

A server whose `wal_level` is `minimal` writes such rows once. They are frozen as they come, as a vacuum would have left
them, so that none runs while something is measured.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from placet.bootstrap.stores import open_existing_store
from placet.proof.growth import audit, ledger
from placet.proof.growth.audit import Audit
from placet.proof.growth.ledger import Ledger, Row
from placet.proof.growth.specimens import Place, Raw, looked_at, opened, perform
from placet.proof.growth.years import Years
from placet.proof.workloads import NotMeasured

_TABLES = ("effects", "approvals", "step_fingerprints", "runs", "audit_events", "audit_heads")
_PIECE_BYTES = 512_000
_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


async def fill(place: Place, connection: Any, *, effects: int, events: int, told: Callable[[str], None]) -> Years:
    """Make a store and fill it; what is in it.

    Args:
        connection: of asyncpg, to the store's schema, as the owner of its tables.

    Raises:
        NotMeasured: the server took none of it.
        PlacetError: the store could not be made.
    """
    import asyncpg

    try:
        return await _filled(place, connection, effects=effects, events=events, told=told)
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:  # its text may repeat rows
        why = f"the server did not take the rows of a large ledger: {_named(error)}"
    raise NotMeasured(why)


def _named(error: Exception) -> str:
    """The server's own word for it, or the class."""
    import asyncpg

    if not isinstance(error, asyncpg.PostgresError):
        return type(error).__name__
    return f"{type(error).__name__} ({error.sqlstate})"


async def _filled(place: Place, connection: Any, *, effects: int, events: int, told: Callable[[str], None]) -> Years:
    async with opened(place.store, place.key) as gate:
        approval = await perform(gate)
        now = await gate.store.now()
    keys, closed = open_existing_store(place.store, key=place.key)
    await closed.close()
    rows = {table: await _rows(connection, table) for table in ("audit_events", "effects", "approvals")}
    specimens = looked_at(rows.__getitem__, approval)
    years = Years.until(now, effects=effects, events=events, of=specimens)
    of_ledger, of_audit = Ledger(years, specimens, keys), Audit(years, specimens, keys)
    async with connection.transaction():
        secured = await _secured(connection)
        for table in _TABLES:
            await connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        for table in secured:  # COPY goes past no policy, and the owner of a table is exempt from it where not forced
            await connection.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        await connection.execute(f"TRUNCATE {', '.join(_TABLES)}")
        told("the ledger")
        await _put(connection, "effects", tuple(specimens.write.effect), of_ledger.effects())
        await _put(connection, "approvals", tuple(specimens.approval), of_ledger.approvals())
        await _put(connection, "step_fingerprints", ledger.STEP_COLUMNS, of_ledger.steps())
        await _put(connection, "runs", ledger.RUN_COLUMNS, of_ledger.runs())
        told("the audit")
        await _put(connection, "audit_events", audit.EVENT_COLUMNS, of_audit.events())
        await _put(connection, "audit_heads", audit.HEAD_COLUMNS, of_audit.heads())
        for table in _TABLES:
            await connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        for table in secured:
            await connection.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    told("statistics")
    await connection.execute(f"ANALYZE {', '.join(_TABLES)}")
    return years


async def _secured(connection: Any) -> list[str]:
    """Those of the tables whose policies hold for their owner too."""
    query = "SELECT relname FROM pg_class WHERE relforcerowsecurity AND oid = ANY ($1::text[]::regclass[])"
    return [row["relname"] for row in await connection.fetch(query, list(_TABLES))]


async def _rows(connection: Any, table: str) -> list[Raw]:
    return [dict(row) for row in await connection.fetch(f"SELECT * FROM {table} ORDER BY 1, 2")]  # noqa: S608 - our own words


async def _put(connection: Any, table: str, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
    await connection.copy_to_table(table, source=_pieces(rows), columns=columns, format="text", freeze=True)


async def _pieces(rows: Iterable[Row]) -> AsyncIterator[bytes]:
    lines: list[str] = []
    size = 0
    for row in rows:
        lines.append("\t".join(map(_field, row)))
        size += len(lines[-1])
        if size > _PIECE_BYTES:
            yield ("\n".join(lines) + "\n").encode()
            lines, size = [], 0
    if lines:
        yield ("\n".join(lines) + "\n").encode()


def _field(value: object) -> str:
    if value is None:
        return "\\N"
    if type(value) is bytes:
        return f"\\\\x{value.hex()}"
    text = str(value)
    return text if not any(each in text for each in "\\\t\n\r") else text.translate(_ESCAPED)
