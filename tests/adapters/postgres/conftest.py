"""Stores on a database of the test's own, as other processes would open them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import pytest

from placet.adapters.clock import SystemClock
from placet.adapters.keys import KeyRing
from placet.adapters.stores.postgres import PostgresStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.model.identifiers import WriterId
from placet.ports.clock import Clock
from placet.ports.store import nobody
from tests.postgres.fixtures import Database

OpenStore = Callable[..., PostgresStore]


@pytest.fixture
def ring() -> KeyRing:
    return KeyRing.ephemeral()


@pytest.fixture
def clock() -> Clock:
    return SystemClock()


@pytest.fixture
async def open_store(database: Database, ring: KeyRing, clock: Clock) -> AsyncIterator[OpenStore]:
    """Opens the database once more, as another process would; closed after the test."""
    opened: list[PostgresStore] = []
    writers = count(1)

    def open_it(address: Any = None, *, patience_seconds: float = 10.0, **changes: Any) -> PostgresStore:
        common: dict[str, Any] = {
            "keys": ring, "clock": clock, "writer": WriterId(f"w-{next(writers)}"), "meter": QuietMeter(),
            "heard": nobody, **changes,
        }  # fmt: skip
        opened.append(PostgresStore(address or database.address(patience_seconds=patience_seconds), **common))
        return opened[-1]

    yield open_it
    for store in opened:
        await store.close()
