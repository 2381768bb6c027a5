"""A database that could not be reached, as those see it who waited for it meanwhile: they need not try again.

lost ── tried for as long as patience lasts ── not reached:  all who waited by then are told so, at once
                                                             whoever comes later has it tried once, and not for long
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

import asyncpg

from placet.adapters.stores.postgres.connection import FAULTS, Address, fault_of, may_pass
from placet.adapters.stores.postgres.orders import Order
from placet.errors import StoreError, StoreWentBack

_ONE_TRY_SECONDS: Final = 2.0
_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 1.0


class Outage:
    """What is known of it. Used by one task; instants are those of its loop's clock."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._found: tuple[float, StoreError] | None = None

    async def reached(self, connected: Callable[[float], Awaitable[asyncpg.Connection]]) -> asyncpg.Connection:
        """A connection, tried for as long as patience lasts; each try is told how many seconds are left.

        Raises:
            StoreError: it could not be reached, which is known from now on; nothing was sent.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self.patience_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                connection = await connected(until - loop.time())
                self.is_over()
                return connection
            except StoreError as known:
                fault, is_final = known, isinstance(known, StoreWentBack)
            except FAULTS as foreign:
                fault, is_final = fault_of(foreign, self._address), not may_pass(foreign)
            if is_final or self.is_known or loop.time() + pause > until:
                break
            await _rest(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        self.found(fault, loop.time())
        raise fault

    def found(self, fault: StoreError, at: float) -> None:
        """It was tried to the end, and could not be reached."""
        self._found = (at, fault)

    def is_over(self) -> None:
        self._found = None

    def check(self, waiting_since: float) -> None:
        """Raises:
        StoreError: it was found to be away after everybody concerned had begun to wait. Nothing was sent for them.
        """
        if self._found is not None and waiting_since <= self._found[0]:
            raise self._found[1].with_traceback(None)

    @property
    def patience_seconds(self) -> float:
        """How long it is tried to be reached now."""
        whole = self._address.patience_seconds
        return whole if self._found is None else min(whole, _ONE_TRY_SECONDS)

    @property
    def is_known(self) -> bool:
        return self._found is not None


async def _rest(seconds: float) -> None:
    """Real time, whatever clock the store was given: it is the database that is waited for."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().create_future()


def newest(orders: Iterable[Order]) -> float:
    """Since when all of them wait."""
    return max(order.put_at for order in orders)
