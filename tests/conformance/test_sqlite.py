"""The embedded store is a placet store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import apsw
import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.sqlite import SqliteStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.model.identifiers import WriterId
from placet.ports.store import nobody
from placet.testing.conformance import HandlersTransaction, MakeStore, StoreConformance, Subject
from placet.testing.fakes import FakeClock

pytestmark = [pytest.mark.req("B112", "C042"), pytest.mark.case("H08")]


class Database:
    """The store's file, as a handler uses it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[HandlersTransaction]:
        connection = self._opened()

        async def write(word: str) -> None:
            connection.execute("INSERT INTO words VALUES (?)", (word,))

        with connection:
            yield HandlersTransaction(connection=connection, write=write)

    async def words(self) -> list[str]:
        return [str(row[0]) for row in self._opened().execute("SELECT word FROM words ORDER BY rowid")]

    def _opened(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path))
        connection.execute("CREATE TABLE IF NOT EXISTS words (word TEXT)")
        return connection


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    async def make_store(self, tmp_path: Path) -> AsyncIterator[MakeStore]:
        opened: list[SqliteStore] = []
        places = count()

        async def make() -> Subject:
            keys, clock, path, writers = KeyRing.ephemeral(), FakeClock(), tmp_path / f"{next(places)}.db", count(1)

            async def open_it() -> SqliteStore:
                writer = WriterId(f"w-{next(writers)}")
                opened.append(
                    SqliteStore(path, keys=keys, clock=clock, writer=writer, meter=QuietMeter(), heard=nobody)
                )
                return opened[-1]

            return Subject(
                store=await open_it(),
                clock=clock,
                linker=ChainLinker(keys),
                open_again=open_it,
                database=Database(path),
            )

        yield make
        for store in opened:
            await store.close()
