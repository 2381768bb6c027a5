"""The scratch store as somebody with a database client sees it: what may be changed there without the key."""

from __future__ import annotations

from pathlib import Path

import apsw

from placet.bootstrap import open_existing_store, verify_audit
from placet.rules.audit import ChainReport


def changed(store: Path, *statements: str) -> None:
    """Change the closed scratch store by hand, past every trigger that might stand in the way of history."""
    connection = apsw.Connection(str(store))
    try:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN ('audit_events', 'audit_heads')"
        ).fetchall():
            connection.execute(f'DROP TRIGGER "{name}"')
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()


async def audit_of(store: Path, key: Path) -> ChainReport:
    """The whole audit of a closed scratch store, held against its chains."""
    keys, opened = open_existing_store(store, key=key)
    try:
        return await verify_audit(opened, keys)
    finally:
        await opened.close()


def texts_of(store: Path) -> bytes:
    """Everything that lies in the closed scratch store's file."""
    return store.read_bytes()
