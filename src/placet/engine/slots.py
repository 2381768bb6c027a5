"""Processes that may run at once, shared by all tenants of a gate, and who gets the next one.

A slot is held from before the claim until the call ends, but for the pauses between its attempts. One that becomes free
goes to the tenant that holds the fewest, and among equals to the one that has waited longest for its turn; within a
tenant calls keep their order. So however many calls one tenant has waiting, another's wait for the next slot only.
"""

from __future__ import annotations

import asyncio
from collections import deque

from placet.ports.waiting import owe_cancellation


class Slots:
    """Used from one event loop only. Where somebody waits, no slot is free."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._held: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # in the order of the tenants' turns

    @property
    def has_free(self) -> bool:
        return self._free > 0

    def waiting(self, tenant: str) -> int:
        """How many calls of this tenant wait."""
        return len(self._waiting.get(tenant, ()))

    def take(self, tenant: str) -> bool:
        """Take a slot at once; false if none is free."""
        if self._free == 0:
            return False
        self._free -= 1
        self._held[tenant] = self._held.get(tenant, 0) + 1
        return True

    async def wait(self, tenant: str, *, seconds: float) -> bool:
        """Wait for a slot; false if there was none in time, or the caller, who is owed its cancellation, has left."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        is_taken = False
        try:
            is_taken = await has_come(turn, seconds=seconds)
        finally:
            if not turn.done():
                self._leave(tenant, turn)
            elif not is_taken:
                self.free(tenant)
        return is_taken

    def free(self, tenant: str) -> None:
        """Pass a slot of this tenant on to whoever is next, or have one free more."""
        self._held[tenant] -= 1
        if self._held[tenant] == 0:
            del self._held[tenant]
        if not self._waiting:
            self._free += 1
            return
        heir = min(self._waiting, key=lambda waits: self._held.get(waits, 0))
        queue = self._waiting.pop(heir)
        turn = queue.popleft()
        if queue:
            self._waiting[heir] = queue  # behind the others
        self._held[heir] = self._held.get(heir, 0) + 1
        turn.set_result(None)

    def _leave(self, tenant: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting[tenant]
        queue.remove(turn)
        if not queue:
            del self._waiting[tenant]


async def has_come(turn: asyncio.Future[None], *, seconds: float) -> bool:
    """Wait for a turn; false if it did not come in time, or the caller, who is owed its cancellation, has left."""
    try:
        await asyncio.wait((turn,), timeout=seconds)
        return turn.done()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        owe_cancellation()
        return False
