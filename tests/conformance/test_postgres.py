"""The store for many hosts is a placet store, on every server that is here."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import asyncpg
import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.postgres import PostgresStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.model.identifiers import WriterId
from placet.ports.store import nobody
from placet.testing.conformance import HandlersTransaction, MakeStore, StoreConformance, Subject
from tests.postgres.fixtures import Database, DatabaseClock

pytestmark = [pytest.mark.req("C042"), pytest.mark.case("H08")]


class HandlersTable:
    """The store's database, as a handler uses it: over a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.execute("CREATE TABLE words (number bigint GENERATED ALWAYS AS IDENTITY, word text)")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[HandlersTransaction]:
        connection = await asyncpg.connect(self._database.url)

        async def write(word: str) -> None:
            await connection.execute("INSERT INTO words (word) VALUES ($1)", word)

        try:
            async with connection.transaction():
                yield HandlersTransaction(connection=connection, write=write)
        finally:
            await connection.close()

    async def words(self) -> list[str]:
        return [str(row[0]) for row in self._database.fetch("SELECT word FROM words ORDER BY number")]


class TestPostgresStore(StoreConformance):
    @pytest.fixture
    async def make_store(self, databases: Callable[..., Database]) -> AsyncIterator[MakeStore]:
        opened: list[PostgresStore] = []

        async def make() -> Subject:
            database, keys, writers = databases(own_clock=True), KeyRing.ephemeral(), count(1)
            clock = DatabaseClock(database)

            async def open_it() -> PostgresStore:
                writer = WriterId(f"w-{next(writers)}")
                opened.append(
                    PostgresStore(
                        database.address(), keys=keys, clock=clock, writer=writer, meter=QuietMeter(), heard=nobody
                    )
                )
                return opened[-1]

            return Subject(
                store=await open_it(),
                clock=clock,
                linker=ChainLinker(keys),
                open_again=open_it,
                database=HandlersTable(database),
            )

        yield make
        for store in opened:
            await store.close()
