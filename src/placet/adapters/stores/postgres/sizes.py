"""Telling the server how large the tables of a young store have become, beside everything else.

A server that knows nothing of a table may walk through a tenant's rows to find one, and keep to that plan. Its own
statistics come by and by; a new store would be slow until then, the more the busier it is. No caller waits for this,
whatever becomes of it: it has a connection of its own for as long as it lasts.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from placet.adapters.stores.postgres.connection import Address, connect, translated
from placet.adapters.stores.postgres.orders import ended
from placet.adapters.stores.postgres.statements import SQL

_log: Final = logging.getLogger("placet.store")
_FIRST_LOOK_COMMITS: Final = 16
_LONGEST_SECONDS: Final = 300.0


class SizeTeller:
    """Looks again each time the writer's commits have doubled."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._next_look = _FIRST_LOOK_COMMITS
        self._telling: asyncio.Task[None] | None = None

    def after(self, commits: int) -> None:
        """So many transactions are durable. Returns at once."""
        if commits >= self._next_look and (self._telling is None or self._telling.done()):
            self._next_look = 2 * commits
            self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        try:
            await self._look()
        except Exception as fault:  # its own statistics will come
            code = translated(fault, self._address).code
            _log.warning("the server could not be told how large its tables are", extra={"code": code})

    async def _look(self) -> None:
        connection = await connect(self._address)
        try:
            if await connection.fetchval(SQL["is_thought_small"]):
                await connection.execute(f"SET statement_timeout = '{_LONGEST_SECONDS}s'")
                await connection.execute(SQL["tell_sizes"], timeout=_LONGEST_SECONDS)
        finally:
            connection.terminate()

    async def close(self) -> None:
        """Break it off, if it is under way."""
        if self._telling is not None:
            await ended(self._telling)
