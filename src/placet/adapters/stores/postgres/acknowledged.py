"""What the database has acknowledged to this process, and whether it has lost any of it.

Every connection that is made, whatever for, first looks at the process's own row, which counts its commits. If it
counts fewer than were acknowledged, or is gone, another server without them has been promoted, or a backup restored.
From then on nothing is written, nor told of the shortened ledger: an operation that is missing in it may have acted.
"""

from __future__ import annotations

import logging
from typing import Final

import asyncpg

from placet.adapters.stores.postgres.connection import Address
from placet.adapters.stores.postgres.statements import SQL
from placet.errors import StoreWentBack
from placet.model.identifiers import WriterId

_log: Final = logging.getLogger("placet.store")


class Acknowledged:
    """One for all connections of a store. Used in its thread.

    Attributes:
        commits: how many of the writer's commits are known to be durable.
    """

    def __init__(self, address: Address, writer: WriterId) -> None:
        self._address = address
        self._writer = writer
        self._went_back = False
        self.commits = 0

    def require(self) -> None:
        """Raises:
        StoreWentBack: it was found that some are lost.
        """
        if self._went_back:
            raise StoreWentBack(f"The store has lost commits that it had acknowledged: {self._address.shown}")

    def compare(self, counted: int | None, *, at_least: int) -> None:
        """Hold what the own row counts, None without one, against what was acknowledged before it was asked for.

        Raises:
            StoreWentBack: it is less, or was so before.
        """
        if (counted is None or counted < at_least) and not self._went_back:
            self._went_back = True
            _log.error("the store has lost commits that it had acknowledged", extra={"code": StoreWentBack.code})
        self.require()

    async def look(self, connection: asyncpg.Connection) -> None:
        """Before a new connection is read from.

        Raises:
            StoreWentBack: it is one to a server that has lost some.
        """
        before = self.commits
        try:
            counted = await connection.fetchval(SQL["own_commits"], self._writer)
        except asyncpg.UndefinedTableError:
            counted = None  # the whole store is gone
        self.compare(counted, at_least=before)
