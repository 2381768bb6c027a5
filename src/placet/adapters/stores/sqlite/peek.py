"""Looking at a store without touching it: no schema, no lock file, no write-ahead log comes into being.

Good for suggestions only. While nobody has the store open its file is read as it is; while somebody has, their shared
files are used. What cannot be read so is not read.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import apsw

from placet.adapters.stores import rows
from placet.adapters.stores.sqlite.tables import SQL
from placet.model.approval import Approval, ApprovalState

_PATIENCE_MILLISECONDS = 200


def peek_pending(path: Path, tenant: str, *, limit: int) -> tuple[Approval, ...]:
    """Pending approvals as the rows say, newest first; none if the store cannot be read without touching it."""
    bindings = (tenant, ApprovalState.PENDING.value, limit)
    return tuple(rows.approval_from(row) for row in _peek(path, SQL["approvals_of_tenant"], bindings))


def _peek(path: Path, statement: str, bindings: tuple[object, ...]) -> list[tuple[object, ...]]:
    log, shared = path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")
    if not path.is_file() or (log.exists() and not shared.exists()):
        return []
    is_open_elsewhere = log.exists()
    name = f"file:{quote(str(path.absolute()))}?mode=ro" + ("" if is_open_elsewhere else "&immutable=1")
    connection = None
    try:
        connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        connection.set_busy_timeout(_PATIENCE_MILLISECONDS)
        found: list[tuple[object, ...]] = connection.execute(statement, bindings).fetchall()
        return found
    except (apsw.Error, UnicodeDecodeError):
        return []
    finally:
        if connection is not None:
            connection.close(True)
