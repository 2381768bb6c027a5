"""The writer's connection, and what is known after it was lost.

    commit asked for ── answer lost ── connect again ── raise the epoch of our own row ── what it says is the truth

Raising the epoch waits for a transaction of ours that is still alive, and one that comes later finds the epoch changed
and writes nothing. So the count of commits that stands there then will never change behind our back. If it is smaller
than what we were told, or the row is gone, the database has lost what it had acknowledged: see `Acknowledged`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import asyncpg

from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.postgres.acknowledged import Acknowledged
from placet.adapters.stores.postgres.batch import Turnstile
from placet.adapters.stores.postgres.connection import FAULTS, Address, connect
from placet.adapters.stores.postgres.memory import Memory
from placet.adapters.stores.postgres.outage import Outage
from placet.adapters.stores.postgres.statements import SQL

_CLOSING_SECONDS: Final = 2.0


class Line:
    """One dedicated connection that comes back by itself. Used by one task."""

    def __init__(self, address: Address, chain: ChainWriter, memory: Memory, acknowledged: Acknowledged) -> None:
        self._address = address
        self._chain = chain
        self._acknowledged = acknowledged
        self._memory = memory
        self._connection: asyncpg.Connection | None = None
        self.turnstile = Turnstile(epoch=0, commits=0)
        self._outage = Outage(address)
        self.reconnections = 0

    async def open(self, connection: asyncpg.Connection) -> None:
        """Take a connection over, and make the writer's row on it."""
        await self._stand(connection, "open_writer", self._chain.writer, self._chain.end[1])

    async def ready(self, waiting_since: float) -> asyncpg.Connection:
        """The connection, made anew if it was lost, for orders that all wait since then.

        Raises:
            StoreError: the database could not be reached within its time, or has lost what it had acknowledged;
                nothing was sent.
        """
        self._acknowledged.require()
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        self._outage.check(waiting_since)
        await self._again()
        assert self._connection is not None  # noqa: S101  # what `_again` made
        return self._connection

    async def became_of_it(self) -> bool:
        """Whether the transaction whose answer was lost is durable; if not, it never will be.

        Raises:
            StoreError: the database could not be asked within its time.
        """
        before = self.turnstile.commits
        self.let_go()
        await self._again()
        return self.turnstile.commits > before

    def let_go(self) -> None:
        """Nothing is expected of this connection any more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def committed(self) -> None:
        """Our row has counted one more."""
        self._count(Turnstile(epoch=self.turnstile.epoch, commits=self.turnstile.commits + 1))

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*FAULTS):
                await connection.execute(SQL["forget_writer"], self._chain.writer, timeout=_CLOSING_SECONDS)
            with suppress(*FAULTS):
                await connection.close(timeout=_CLOSING_SECONDS)

    async def _again(self) -> None:
        """Connect, and learn from our own row where we stand.

        Raises:
            StoreError: it could not be reached, or has lost what it had acknowledged.
        """
        self._acknowledged.require()
        await self._outage.reached(self._connected)

    async def _connected(self, seconds: float) -> asyncpg.Connection:
        connection = await connect(self._address, timeout_seconds=seconds)
        await self._stand(connection, "raise_epoch", self._chain.writer)
        self.reconnections += 1
        return connection

    async def _stand(self, connection: asyncpg.Connection, statement: str, *bindings: Any) -> None:
        try:
            row = await self._own_row(connection, statement, *bindings)
            self._acknowledged.compare(None if row is None else row["commits"], at_least=self.turnstile.commits)
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection
        self._count(Turnstile(epoch=row["epoch"], commits=row["commits"]))
        self._chain.rewind((row["sequence"], row["link"]))
        self._memory.clear()

    async def _own_row(self, connection: asyncpg.Connection, statement: str, *bindings: Any) -> Any:
        """None if it is gone: only we drop it, when we close."""
        try:
            return await connection.fetchrow(SQL[statement], *bindings)
        except asyncpg.UndefinedTableError:
            return None  # and the whole store with it

    def _count(self, turnstile: Turnstile) -> None:
        self.turnstile = turnstile
        self._acknowledged.commits = turnstile.commits
