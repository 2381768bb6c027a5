"""Opening a store in a database: its schema, its key, and what is said where it cannot be opened."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import placet
from placet.adapters.keys import KeyRing, create_key_file
from placet.adapters.stores import postgres
from placet.adapters.stores.postgres import address_of
from placet.adapters.stores.postgres.migrating import _MIGRATION_LOCK
from placet.bootstrap.addresses import shown_store
from placet.bootstrap.stores import is_made, make_store, open_existing_store, open_store
from placet.errors import (
    ConfigurationError,
    KeyMaterialError,
    PlacetError,
    StoreCorrupt,
    StoreMissing,
    StoreTooNew,
    StoreUnavailable,
)
from placet.model.ledger import Recorded
from placet.testing.conformance import an_event
from tests.adapters.postgres.conftest import OpenStore
from tests.postgres.fixtures import Database

_STARTER = """
import asyncio, sys
from pathlib import Path
from placet.bootstrap.stores import open_store
from placet.testing.conformance import an_event

async def start(url, key):
    _, store = open_store(url, key=Path(key))
    sys.stdin.readline()
    await store.record((an_event(),))
    await store.close()

asyncio.run(start(*sys.argv[1:]))
"""


@pytest.mark.case("O05")
def test_eight_processes_that_start_at_once_on_an_empty_database_share_one_store(
    databases: Any, tmp_path: Path
) -> None:
    database = databases(is_empty=True)
    program = tmp_path / "starter.py"
    program.write_text(_STARTER, "utf-8")
    starters = [
        subprocess.Popen(
            [sys.executable, str(program), database.url, str(tmp_path / "key")],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(8)
    ]
    ends = [(each.communicate(b"go\n", timeout=100)[1], each.returncode) for each in starters]

    assert ends == [(b"", 0)] * 8
    assert database.fetch("SELECT count(DISTINCT writer) FROM placet.audit_events") == [(8,)]
    assert database.fetch("SELECT count(*) FROM placet.placet_meta WHERE name = 'key_check'") == [(1,)]


@pytest.mark.case("O05")
async def test_who_looked_before_another_made_key_and_store_opens_that_one(
    databases: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower one has seen no key when it asks for the store; both are there when it hears."""
    database, key = databases(is_empty=True), tmp_path / "key"
    real = postgres.is_made

    def looked_at_late(address: Any) -> bool:
        monkeypatch.setattr(postgres, "is_made", real)
        asyncio.run(_opened_and_closed(database.url, key))
        return real(address)

    monkeypatch.setattr(postgres, "is_made", looked_at_late)
    await asyncio.to_thread(_open_and_close, database.url, key)

    assert database.fetch("SELECT count(*) FROM placet.placet_meta WHERE name = 'key_check'") == [(1,)]


@pytest.mark.case("O05")
async def test_one_starter_at_a_time_makes_key_and_store_however_long_the_tables_take(
    databases: Any, tmp_path: Path
) -> None:
    database, key = databases(is_empty=True), tmp_path / "key"
    hog = await asyncpg.connect(database.url)
    await hog.execute("SELECT pg_advisory_lock($1)", _MIGRATION_LOCK)
    first = asyncio.create_task(asyncio.to_thread(_open_and_close, database.url, key))
    await _waiters(hog, 1)
    assert not key.exists()  # a key without a store is taken for a lost store's
    others = [asyncio.create_task(asyncio.to_thread(_open_and_close, database.url, key)) for _ in range(3)]
    await _waiters(hog, 4)
    assert not any(each.done() for each in (first, *others))
    await hog.close()

    await asyncio.gather(first, *others)


async def test_a_starter_that_ends_between_key_and_store_leaves_no_licence_for_another_ledger(
    databases: Any, tmp_path: Path
) -> None:
    """It may as well be a ledger that was lost; a person says which, with `placet init --store-only`."""
    database, key = databases(is_empty=True), tmp_path / "key"
    create_key_file(key)

    with pytest.raises(StoreMissing) as refused:
        await asyncio.to_thread(open_store, database.url, key=key)

    assert refused.value.code == "store_lost"
    _, store = await asyncio.to_thread(make_store, database.url, key=key)
    await store.close()


def _open_and_close(url: str, key: Path) -> None:
    asyncio.run(_opened_and_closed(url, key))


async def _waiters(hog: asyncpg.Connection, count: int) -> None:
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()"
    async with asyncio.timeout(30):
        while await hog.fetchval(waits) < count:
            await asyncio.sleep(0.01)


async def test_starters_wait_for_whoever_makes_the_schema(databases: Any, open_store: OpenStore) -> None:
    database = databases(is_empty=True)
    hog = await asyncpg.connect(database.url)
    await hog.execute("SELECT pg_advisory_lock($1)", _MIGRATION_LOCK)
    starting = [asyncio.create_task(asyncio.to_thread(open_store, database.address())) for _ in range(3)]
    await _waiters(hog, len(starting))
    await hog.close()

    stores = await asyncio.gather(*starting)
    assert all([isinstance(await store.record((an_event(),)), Recorded) for store in stores])


def test_a_schema_of_a_newer_placet_is_refused_and_left_alone(database: Database, open_store: OpenStore) -> None:
    database.execute("UPDATE placet.placet_meta SET value = '999' WHERE name = 'schema_version'")

    with pytest.raises(StoreTooNew):
        open_store()

    assert database.fetch("SELECT value FROM placet.placet_meta WHERE name = 'schema_version'") == [("999",)]


def test_a_schema_of_somebody_else_is_refused_and_left_alone(databases: Any, open_store: OpenStore) -> None:
    database = databases(is_empty=True)
    database.execute("CREATE SCHEMA placet", "CREATE TABLE placet.theirs (at bigint)")

    with pytest.raises(StoreCorrupt):
        open_store(database.address())

    tables = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'placet'"
    assert database.fetch(tables) == [(1,)]


def test_a_store_opens_with_its_own_key_alone(open_store: OpenStore) -> None:
    open_store()

    with pytest.raises(KeyMaterialError) as refused:
        open_store(keys=KeyRing.ephemeral())

    assert refused.value.code == "key_mismatch"


async def test_two_schemas_of_one_database_are_two_stores(database: Database, open_store: OpenStore) -> None:
    other = address_of(database.url + "&placet_schema=second")
    first, second = open_store(), open_store(other, keys=KeyRing.ephemeral())

    assert isinstance(await first.record((an_event(),)), Recorded)

    assert (len([e async for e in first.chained()]), len([e async for e in second.chained()])) == (1, 0)


# ---------------------------------------------------------------- through the front


@placet.tool(effect="read")
async def look() -> str:
    return "seen"


AGENT = placet.Principal.agent("agent-1", tenant="acme", roles=("operator",), scopes=("ops.write",))


@pytest.mark.req("C042")
async def test_a_gate_on_a_database_makes_its_store_and_key_and_serves(database: Database, tmp_path: Path) -> None:
    key = tmp_path / "placet.key"
    assert not is_made(database.url)
    async with placet.open(tools=[look], store=database.url, key=key) as gate:
        outcome = await gate.submit({"call_id": "c1", "tool": "look", "arguments": {}}, principal=AGENT, run="r")
        assert outcome.unwrap() == "seen"
        assert (await gate.verify_audit()).holds

    assert is_made(database.url) and key.stat().st_mode & 0o777 == 0o600
    keys, store = await asyncio.to_thread(open_existing_store, database.url, key=key)
    assert len([event async for event in store.chained()]) == 2
    await store.close()
    assert keys.current


def test_several_loops_and_threads_use_one_store(database: Database, tmp_path: Path) -> None:
    with placet.open(tools=[look], store=database.url, key=tmp_path / "key") as gate:

        def ask(number: int) -> Any:
            return gate.submit({"call_id": f"c{number}", "tool": "look", "arguments": {}}, principal=AGENT, run="r")

        async def asked() -> list[Any]:
            return await asyncio.gather(*(asyncio.to_thread(ask, number) for number in range(16)))

        assert all(outcome.is_success for outcome in asyncio.run(asked()))
        assert gate.verify_audit().holds


def test_a_key_is_named_and_never_made_for_a_store_that_has_one(database: Database, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as unnamed:
        open_store(database.url)
    assert "--key" in (unnamed.value.hint or "")
    asyncio.run(_opened_and_closed(database.url, tmp_path / "key"))

    with pytest.raises(KeyMaterialError):
        open_store(database.url, key=tmp_path / "another")

    assert not (tmp_path / "another").exists()


async def _opened_and_closed(url: str, key: Path) -> None:
    _, store = await asyncio.to_thread(open_store, url, key=key)
    await store.close()


def test_looking_at_a_store_that_is_not_there_makes_none(databases: Any, tmp_path: Path) -> None:
    database = databases(is_empty=True)

    with pytest.raises(StoreMissing):
        open_existing_store(database.url, key=tmp_path / "key")

    assert database.fetch("SELECT count(*) FROM pg_namespace WHERE nspname = 'placet'") == [(0,)]
    assert not (tmp_path / "key").exists()


SECRET = "hunter2-s3cret"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://mara:{SECRET}@127.0.0.1:1/ledger",
        f"postgresql://mara:{SECRET}@127.0.0.1:notaport/ledger",
        f"postgresql://127.0.0.1:1/ledger?user=mara&password={SECRET}",
        f"postgres://mara:{SECRET}@[::1/ledger",
        f"postgresql://mara:{SECRET}@127.0.0.1:1/ledger?sslmode=mad",
        f"postgresql://mara:{SECRET}@127.0.0.1:1/ledger?placet_schema=a-b",
    ],
)
def test_a_password_is_in_no_error(url: str, tmp_path: Path) -> None:
    create_key_file(tmp_path / "key", at=None)
    for work in (lambda: open_store(url, key=tmp_path / "key"), lambda: open_store(url), lambda: is_made(url)):
        with pytest.raises(PlacetError) as refused:
            work()
        told = "".join(traceback.format_exception(refused.value)) + str(refused.value) + str(refused.value.hint)
        assert SECRET not in told and "mara" not in told
        assert isinstance(refused.value, (ConfigurationError, StoreUnavailable))
    assert SECRET not in shown_store(url)


def test_without_its_library_the_extra_is_named(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from placet.bootstrap.stores import open_store\n"
        "from placet.errors import ConfigurationError\n"
        "try:\n    open_store('postgresql:///x', key=None)\n"
        "except ConfigurationError as error:\n    print(error.hint)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout) == (0, 'pip install "/path/to/checkout[postgres]"\n'), ran.stderr
