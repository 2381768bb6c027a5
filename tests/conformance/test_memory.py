"""The memory store is a placet store."""

from collections.abc import AsyncIterator

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.memory import MemoryStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.model.identifiers import WriterId
from placet.testing.conformance import MakeStore, StoreConformance, Subject
from placet.testing.fakes import FakeClock

pytestmark = [pytest.mark.req("C042"), pytest.mark.case("H08")]


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    async def make_store(self) -> AsyncIterator[MakeStore]:
        async def make() -> Subject:
            keys, clock = KeyRing.ephemeral(), FakeClock()
            store = MemoryStore(keys=keys, clock=clock, writer=WriterId("w-1"), meter=QuietMeter())
            return Subject(store=store, clock=clock, linker=ChainLinker(keys))

        yield make
