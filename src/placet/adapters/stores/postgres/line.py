"""The writer's connection, and what is known after it was lost.

    commit asked for ── answer lost ── connect again ── raise the epoch of our own row ── what it says is the truth

Raising the epoch waits for a transaction of ours that is still alive, and one that comes later finds the epoch changed
and writes nothing. So the count of commits that stands there then will never change behind our back.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import asyncpg

from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.postgres.batch import Turnstile
from placet.adapters.stores.postgres.connection import FAULTS, Address, connect, fault_of, may_pass
from placet.adapters.stores.postgres.memory import Memory
from placet.adapters.stores.postgres.statements import SQL
from placet.errors import StoreError, StoreUnavailable

_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 1.0
_CLOSING_SECONDS: Final = 2.0


class Line:
    """One dedicated connection that comes back by itself. Used by one task."""

    def __init__(self, address: Address, chain: ChainWriter, memory: Memory) -> None:
        self._address = address
        self._chain = chain
        self._memory = memory
        self._connection: asyncpg.Connection | None = None
        self.turnstile = Turnstile(epoch=0, commits=0)
        self.reconnections = 0

    async def open(self, connection: asyncpg.Connection) -> None:
        """Take a connection over, and make the writer's row on it."""
        await self._stand(connection, "open_writer", self._chain.writer, self._chain.end[1])

    async def ready(self) -> asyncpg.Connection:
        """The connection, made anew if it was lost.

        Raises:
            StoreError: the database could not be reached within its time; nothing was sent.
        """
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
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
        self.turnstile = Turnstile(epoch=self.turnstile.epoch, commits=self.turnstile.commits + 1)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*FAULTS):
                await connection.execute(SQL["forget_writer"], self._chain.writer, timeout=_CLOSING_SECONDS)
            with suppress(*FAULTS):
                await connection.close(timeout=_CLOSING_SECONDS)

    async def _again(self) -> None:
        """Connect, and learn from our own row where we stand."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._address.patience_seconds
        pause, fault = _FIRST_PAUSE_SECONDS, None
        while True:
            try:
                left = until - loop.time()
                connection = await connect(self._address, timeout_seconds=left)
                await self._stand(connection, "raise_epoch", self._chain.writer)
                self.reconnections += 1
                return
            except StoreError as known:
                fault = known
            except FAULTS as foreign:
                fault = fault_of(foreign, self._address)
                if not may_pass(foreign):
                    break
            if loop.time() + pause > until:
                break
            await _pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        raise fault

    async def _stand(self, connection: asyncpg.Connection, statement: str, *bindings: Any) -> None:
        try:
            row = await connection.fetchrow(SQL[statement], *bindings)
        except BaseException:
            connection.terminate()
            raise
        if row is None:
            connection.terminate()
            raise StoreUnavailable(
                f"The store is not the one that was opened: {self._address.shown}", hint="Open a new gate."
            )
        self._connection = connection
        self.turnstile = Turnstile(epoch=row["epoch"], commits=row["commits"])
        self._chain.rewind((row["sequence"], row["link"]))
        self._memory.clear()


async def _pause(seconds: float) -> None:
    """Real time, whatever clock the store was given: it is the database that is waited for."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().create_future()
