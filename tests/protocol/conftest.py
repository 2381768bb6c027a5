"""The stores that traces are replayed on: opened as often as a trace has processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.memory import MemoryStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.model.identifiers import WriterId
from placet.ports.store import Store, nobody
from tests.protocol.stage import MakeStore, TraceClock


@pytest.fixture(params=["memory", "sqlite"])
async def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MakeStore]:
    keys, writers, opened = KeyRing.ephemeral(), count(1), list[Store]()

    async def in_memory(clock: TraceClock) -> tuple[KeyRing, Store]:
        if not opened:
            opened.append(MemoryStore(keys=keys, clock=clock, writer=WriterId("w"), meter=QuietMeter(), heard=nobody))
        return keys, opened[0]

    async def in_a_file(clock: TraceClock) -> tuple[KeyRing, Store]:
        from placet.adapters.stores.sqlite import SqliteStore

        writer = WriterId(f"w-{next(writers)}")
        store = SqliteStore(
            tmp_path / "placet.db", keys=keys, clock=clock, writer=writer, meter=QuietMeter(), heard=nobody
        )
        return keys, store

    yield in_memory if request.param == "memory" else in_a_file
