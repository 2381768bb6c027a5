"""Runs that this process has taken for a step, and their signs of life."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from placet.model.run import RunTake
from placet.ports.store import Store


class Driven:
    """What is under way of runs; the heartbeat of the gate keeps it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._under_way: dict[RunTake, int] = {}

    @property
    def any(self) -> bool:
        return bool(self._under_way)

    @contextmanager
    def step(self, take: RunTake, fence: int) -> Iterator[None]:
        self._under_way[take] = fence
        try:
            yield
        finally:
            self._under_way.pop(take, None)

    async def beat(self) -> None:
        """Keep each of them; one that somebody else has by now is noticed when its step is laid down.

        Raises:
            StoreError: some may not have been kept; the next beat comes before their leases end.
        """
        for take, fence in tuple(self._under_way.items()):
            await self._store.keep_run(take, fence)
