"""Looks that may be long: over connections of their own, some hundred rows at a time, read by threads.

The event loop goes on between one batch and the next, whatever is asked for and however large the file is; no look-up
on the path of a call waits for one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import apsw

from placet.adapters.stores.sqlite.connection import read_only, translated
from placet.adapters.stores.sqlite.tables import SQL
from placet.ports.waiting import in_a_thread

ROWS_AT_ONCE: Final = 250
Row = tuple[Any, ...]


class Moment:
    """The store as it was at one moment, for one reader. Threads take turns: no two of them use it at once."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self._path = path
        self._connection = connection

    async def found(self, name: str, *bindings: Any) -> list[Row]:
        """All rows of a statement that has few."""

        def read() -> list[Row]:
            with translated(self._path):
                return self._connection.execute(SQL[name], bindings).fetchall()

        return await in_a_thread(read)

    async def each(self, name: str, *bindings: Any) -> AsyncIterator[Row]:
        """The rows of a statement that may have any number, as they are asked for."""
        cursor: apsw.Cursor | None = None

        def read() -> list[Row]:
            nonlocal cursor
            with translated(self._path):
                if cursor is None:
                    cursor = self._connection.execute(SQL[name], bindings)
                return list(islice(cursor, ROWS_AT_ONCE))

        while several := await in_a_thread(read):
            for row in several:
                yield row


@asynccontextmanager
async def moment(path: Path) -> AsyncIterator[Moment]:
    """One moment, for as long as this lasts. What is written meanwhile is not seen, and the file keeps what it was.

    Raises:
        StoreError: as `translated` says, also while rows are read.
    """

    with translated(path):
        connection = read_only(path)
        connection.execute("BEGIN")  # reads nothing yet
    try:
        yield Moment(path, connection)
    finally:
        connection.close(True)


async def read_apart(path: Path, name: str, *bindings: Any) -> list[Row]:
    """All rows of one statement, by a thread and over a connection of its own."""

    def read() -> list[Row]:
        with translated(path):
            connection = read_only(path)
            try:
                return connection.execute(SQL[name], bindings).fetchall()
            finally:
                connection.close(True)

    return await in_a_thread(read)
