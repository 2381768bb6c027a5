"""Servers for a session, one database per test from a template, and a database whose clock a test owns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from placet.adapters.stores.postgres.connection import Address, address_of, connect
from placet.adapters.stores.postgres.migrating import migrate
from placet.testing.fakes import FakeClock
from tests.postgres.server import Admin, Server, binaries

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_numbers = count()
_SERVERS = frozenset({"cluster", "sound_cluster"})
_OWN_CLOCK = (
    "CREATE SCHEMA own_clock",
    "CREATE TABLE own_clock.shown (at bigint)",
    "INSERT INTO own_clock.shown VALUES (0)",
    "CREATE OR REPLACE FUNCTION placet.clock_now() RETURNS bigint LANGUAGE sql VOLATILE AS "
    "'SELECT at FROM own_clock.shown'",
)


@dataclass(frozen=True, kw_only=True)
class Database:
    """One empty store."""

    admin: Admin
    name: str
    server: Server | None = None

    @property
    def url(self) -> str:
        return self.admin.database_url(self.name)

    def address(self, *, patience_seconds: float = 10.0) -> Address:
        return address_of(self.url, patience_seconds=patience_seconds)

    def execute(self, *statements: str) -> None:
        self.admin.execute(*statements, database=self.name)

    def fetch(self, statement: str, *bindings: object) -> list[tuple[object, ...]]:
        return self.admin.fetch(statement, *bindings, database=self.name)


class Cluster:
    """A server and its templates."""

    def __init__(self, version: str, url: str, server: Server | None) -> None:
        self.version = version
        self.server = server
        self.admin = Admin(url)
        self._label = f"placet_{os.getpid()}_{version}"
        self._templates: set[str] = set()

    def template(self, *statements: str) -> str:
        name = f"{self._label}_t{len(statements)}"
        if name not in self._templates:
            self.admin.execute(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
            self.admin.run(_migrated(address_of(self.admin.database_url(name))))
            self.admin.execute(*statements, database=name) if statements else None
            self._templates.add(name)
        return name

    def database(self, *, own_clock: bool = False, is_empty: bool = False) -> Database:
        name = f"{self._label}_{next(_numbers)}"
        template = "template0" if is_empty else self.template(*(_OWN_CLOCK if own_clock else ()))
        self.admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return Database(admin=self.admin, name=name, server=self.server)

    def drop(self, database: Database) -> None:
        self.admin.execute(f"DROP DATABASE IF EXISTS {database.name} WITH (FORCE)")

    def close(self) -> None:
        if self.server is None:
            for name in self._templates:
                self.admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.admin.close()
        if self.server is not None:
            self.server.remove()


async def _migrated(address: Address) -> None:
    connection = await connect(address)
    try:
        await migrate(connection, address)
    finally:
        await connection.close()


class DatabaseClock(FakeClock):
    """A fake clock that the database's own clock follows."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._show()

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._show()

    def _show(self) -> None:
        at = (self.now() - _EPOCH) // timedelta(microseconds=1)
        self._database.execute(f"UPDATE own_clock.shown SET at = {at}")


def _versions() -> list[str]:
    """The wheel's server, or those that PLACET_TEST_SERVERS names by their major versions: "15", or "15,18"."""
    if os.environ.get("PLACET_TEST_POSTGRES_URL"):
        return ["given"]
    return (os.environ.get("PLACET_TEST_SERVERS") or "18").split(",")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever takes one of these servers is marked, so that it can be run again on another."""
    for item in items:
        if _SERVERS & set(getattr(item, "fixturenames", ())):
            item.add_marker("server")


@pytest.fixture(scope="session", params=_versions())
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Each of the servers, one after the other. One that is not here is a failure: nothing would be tested."""
    version, given = request.param, os.environ.get("PLACET_TEST_POSTGRES_URL")
    server = None if given else Server(folder_of(version))
    cluster = Cluster(version, given or server.url(), server)  # type: ignore[union-attr]
    yield cluster
    cluster.close()


@pytest.fixture
def databases(cluster: Cluster) -> Iterator[Callable[..., Database]]:
    """Makes databases that are gone after the test."""
    made: list[Database] = []

    def make(*, own_clock: bool = False, is_empty: bool = False) -> Database:
        made.append(cluster.database(own_clock=own_clock, is_empty=is_empty))
        return made[-1]

    yield make
    for database in made:
        cluster.drop(database)


@pytest.fixture
def database(databases: Callable[..., Database]) -> Database:
    return databases()


def folder_of(version: str) -> Path:
    """The binaries of one version."""
    found = binaries()
    if version not in found:
        pytest.fail(
            f"no PostgreSQL {version}: requirements/dev.txt installs 18, Debian's postgresql-15 is 15; "
            "or set PLACET_TEST_SERVERS, or PLACET_TEST_POSTGRES_URL"
        )
    return found[version]
