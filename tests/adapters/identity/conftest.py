"""A door over a store in memory, with time in the test's hands."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from placet.adapters.identity.api_keys import ApiKeySignIn
from placet.adapters.identity.secrets import SystemSecrets
from placet.adapters.keys import KeyRing
from placet.adapters.stores.memory import MemoryStore
from placet.engine.api_keys import ApiKeys, NewApiKey
from placet.engine.chronicle import Chronicle
from placet.engine.credentials import CredentialRows
from placet.model.identifiers import WriterId
from placet.model.principal import Principal
from placet.testing.fakes import FakeClock, RecordingMeter

MARA = Principal.person("mara", tenant="acme", scopes=["api_keys.manage"])


@dataclass
class House:
    """A store, its keys, and whoever is at its door."""

    clock: FakeClock = field(default_factory=FakeClock)
    keys: KeyRing = field(default_factory=KeyRing.ephemeral)
    meter: RecordingMeter = field(default_factory=RecordingMeter)

    def __post_init__(self) -> None:
        self.store: Any = MemoryStore(keys=self.keys, clock=self.clock, writer=WriterId("w"), meter=self.meter)
        self.chronicle = Chronicle(keys=self.keys, clock=self.clock)
        self.rows = CredentialRows(store=self.store, keys=self.keys, chronicle=self.chronicle)
        self.secrets = SystemSecrets()
        self.api_keys = ApiKeys(store=self.store, keys=self.keys, chronicle=self.chronicle, secrets=self.secrets)
        self.door = ApiKeySignIn(store=self.store, rows=self.rows, secrets=self.secrets)

    async def key(self, subject: str = "bot", **more: Any) -> NewApiKey:
        return await self.api_keys.create(subject, by=MARA, **more)

    async def told(self) -> list[dict[str, Any]]:
        return [orjson.loads(event.body) async for event in self.store.chained()]


@pytest.fixture
def house() -> House:
    return House()


__all__ = ["MARA", "AsyncIterator", "House", "Iterator", "house"]
