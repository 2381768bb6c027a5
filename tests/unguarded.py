"""What somebody does first who changes a store by hand."""

from __future__ import annotations

import apsw


def unguarded(connection: apsw.Connection) -> apsw.Connection:
    """The connection, with no trigger left that would refuse a change."""
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f'DROP TRIGGER "{name}"')
    return connection
