"""Addresses that were mistyped: none of them is a new ledger, and each miss says what to look at."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

import placet
from placet.adapters.keys import KeyRing
from placet.bootstrap.stores import make_store, open_existing_store, open_store
from placet.errors import StoreMissing, StoreUnavailable
from placet.ports.store import Store
from tests.postgres.fixtures import Cluster, Database, folder_of
from tests.postgres.server import Server


def schemas(database: Database) -> list[str]:
    found = database.fetch(
        "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' AND nspname <> 'information_schema' ORDER BY 1"
    )
    return [str(row[0]) for row in found]


def elsewhere(database: Database, schema: str = "misspelt") -> str:
    return f"{database.url}{'&' if '?' in database.url else '?'}placet_schema={schema}"


async def test_a_key_whose_store_is_not_there_makes_no_new_ledger(database: Database, tmp_path: Path) -> None:
    """Under the same key everything that was done could be done again."""
    key = tmp_path / "k"
    async with placet.open(tools=(), store=database.url, key=key):
        pass
    before = schemas(database)

    with pytest.raises(StoreMissing) as refused:
        async with placet.open(tools=(), store=elsewhere(database), key=key):
            pass

    assert refused.value.code == "store_lost" and "placet_schema" in refused.value.hint
    assert "placet init --store-only" in refused.value.hint
    assert schemas(database) == before


async def test_who_asks_for_a_new_store_under_a_key_that_is_there_gets_one(database: Database, tmp_path: Path) -> None:
    """As on a host whose key came before its store."""
    key = tmp_path / "k"
    _, first = await asyncio.to_thread(make_store, database.url, key=key)
    await first.close()
    before = key.read_bytes()

    _, store = await asyncio.to_thread(make_store, elsewhere(database, "second"), key=key)
    await store.close()

    assert key.read_bytes() == before
    async with placet.open(tools=(), store=elsewhere(database, "second"), key=key):
        pass


async def test_the_first_gate_of_a_database_makes_store_and_key_together(database: Database, tmp_path: Path) -> None:
    async with placet.open(tools=(), store=database.url, key=tmp_path / "k"):
        pass
    assert (tmp_path / "k").exists()


@pytest.fixture
def stranger(databases: Callable[..., Database], request: pytest.FixtureRequest) -> Iterator[tuple[Database, str]]:
    """A database, and the name of a role that may connect to it and nothing else."""
    database = databases(is_empty=request.param)
    role = f"stranger_{database.name}"
    database.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", f"CREATE ROLE {role} LOGIN")
    yield database, role
    database.execute(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


RIGHTS = {
    "no schema": (True, (), "GRANT CREATE ON DATABASE {database} TO {role}"),
    "tables that another made": (
        False,
        ("GRANT USAGE ON SCHEMA placet TO {role}", "GRANT SELECT ON ALL TABLES IN SCHEMA placet TO {role}"),
        "GRANT ALL ON ALL TABLES IN SCHEMA placet TO {role}",
    ),
}


@pytest.mark.parametrize(
    ("stranger", "before", "grant"), RIGHTS.values(), ids=list(RIGHTS), indirect=["stranger"]
)  # fmt: skip
@pytest.mark.parametrize("make", [open_store, make_store])
def test_a_store_that_may_not_be_made_leaves_no_key(
    stranger: tuple[Database, str],
    before: tuple[str, ...],
    grant: str,
    make: Callable[..., tuple[KeyRing, Store]],
    tmp_path: Path,
) -> None:
    """It would stand in the way of the next opening, as the key of a lost store does."""
    database, role = stranger
    database.execute(*(each.format(role=role) for each in before))
    parts = urlsplit(database.url)
    url = urlunsplit(parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}"))

    with pytest.raises(StoreUnavailable, match="lacks a right"):
        make(url, key=tmp_path / "k")
    assert not (tmp_path / "k").exists()

    database.execute(grant.format(database=database.name, role=role))
    _, store = make(url, key=tmp_path / "k")
    asyncio.run(store.close())


STARTER = """
import sys
from pathlib import Path
from placet.bootstrap.stores import open_store
sys.stdin.readline()
open_store(sys.argv[1], key=Path(sys.argv[2]))
print("open", flush=True)
"""


@pytest.mark.timeout(120)
def test_starters_at_once_wait_for_the_one_that_has_the_key(database: Database, tmp_path: Path) -> None:
    url, key = elsewhere(database, "at_once"), str(tmp_path / "k")
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", STARTER, url, key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    try:
        for each in starters:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        assert [each.communicate(timeout=100)[0] for each in starters] == ["open\n"] * 6
    finally:
        for each in starters:
            each.kill()
            each.wait()


# ---------------------------------------------------------------- why a database was not reached


HOST = f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}.7"
"""This machine by a name of this process's own, so that no other test's server listens there."""


@pytest.fixture
def guarded(cluster: Cluster) -> Iterator[Server]:
    """A server on a port, that asks for a password."""
    if cluster.server is None:
        pytest.fail("a server whose pg_hba.conf a test may write is one of its own")
    server = Server(
        folder_of(cluster.version), settings={"password_encryption": "scram-sha-256", "listen_addresses": HOST}
    )
    own = Cluster(cluster.version, server.url(), server)
    own.admin.execute("CREATE ROLE mara LOGIN PASSWORD 'r1ghtpw'")
    (server.root / "data" / "pg_hba.conf").write_text(
        "local all mara scram-sha-256\nlocal postgres postgres trust\nlocal template1 postgres reject\n", "utf-8"
    )
    own.admin.execute("SELECT pg_reload_conf()")
    yield server
    own.close()


MISSES = {
    "wrong port": ("postgresql://mara:r1ghtpw@127.0.0.1:1/postgres", "port"),
    "wrong port, name of two addresses": ("postgresql://mara:r1ghtpw@localhost:1/postgres", "port"),
    "unknown host": ("postgresql://mara:r1ghtpw@no-such-host.invalid/postgres", "spelt"),
    "no socket": ("postgresql://mara:r1ghtpw@/postgres?host=/nowhere", "socket"),
    "wrong password": ("postgresql://mara:wr0ngpw@/postgres?host={root}", "password"),
    "no such user": ("postgresql://nobody:r1ghtpw@/postgres?host={root}", "user"),
    "no such database": ("postgresql://mara:r1ghtpw@/nowhere?host={root}", "database's name"),
    "no TLS there": (f"postgresql://mara:r1ghtpw@{HOST}/postgres?sslmode=require", "ssl = on"),
    "no authority to verify by": (f"postgresql://mara:r1ghtpw@{HOST}/postgres?sslmode=verify-full", "sslrootcert=FILE"),
    "no file of an authority": (
        f"postgresql://mara:r1ghtpw@{HOST}/postgres?sslmode=require&sslrootcert=/nowhere/mara.crt",
        "Check sslrootcert= in",
    ),
    "no file of an authority, at a socket": (
        "postgresql://mara:r1ghtpw@/postgres?host={root}&sslmode=verify-ca&sslrootcert=/nowhere/mara.crt",
        "Check sslrootcert= in",
    ),
    "an option nobody takes": ("postgresql://mara:r1ghtpw@/postgres?host={root}&conect_timeout=3", "behind the ?"),
    "let in from nowhere": ("postgresql://postgres@/template1?host={root}", "pg_hba.conf"),
}


def test_each_miss_has_its_own_next_step_and_repeats_no_password(
    guarded: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # where a certificate of an authority may lie
    said: dict[str, str] = {}
    for what, (url, word) in MISSES.items():
        with pytest.raises(StoreUnavailable) as missed:
            open_existing_store(url.format(root=guarded.root), key=tmp_path / "k")
        assert word in missed.value.hint, (what, missed.value, missed.value.hint)
        said[what] = str(missed.value).split(": postgresql")[0]
        assert not any(secret in str(missed.value) + missed.value.hint for secret in ("r1ghtpw", "wr0ngpw", "mara"))
        assert missed.value.__cause__ is None and missed.value.__context__ is None
    assert len(set(said.values())) == 10, said  # a port of two addresses is a port; two ways not to be let in are one


@pytest.mark.parametrize(
    ("options", "variables", "hint"),
    [
        ("sslcert={none}", {}, "Check sslcert= in the store's address"),
        ("sslcert={none}&sslkey={none}", {}, "Check sslcert= and sslkey= in the store's address"),
        ("sslcrl={none}", {}, "Check sslcrl= in the store's address"),
        ("sslrootcert={folder}/file/x", {}, "Check sslrootcert= in the store's address"),
        ("sslrootcert={folder}", {}, "Check sslrootcert= in the store's address"),
        ("", {"PGSSLROOTCERT": "{none}"}, "Check PGSSLROOTCERT in the environment"),
        ("", {"PGSSLCERT": "{none}", "PGSSLKEY": "{none}"}, "Check PGSSLCERT and PGSSLKEY in the environment"),
        ("", {"PGSSLCRL": "{none}"}, "Check PGSSLCRL in the environment"),
        ("sslrootcert={none}", {"PGSSLROOTCERT": "{folder}/file"}, "Check sslrootcert= in the store's address"),
        ("sslcert={folder}/file&sslcert={none}", {}, "Check sslcert= in the store's address"),
        ("sslcert={none}&sslkey={folder}/file", {"PGSSLKEY": "{none}"}, "Check sslcert= in the store's address"),
        ("", {"PGSSLCERT": "{none}", "PGSSLKEY": "{folder}/file"}, "Check PGSSLCERT in the environment"),
        (
            "sslcert={none}",
            {"PGSSLKEY": "{none}"},
            "Check sslcert= in the store's address, and PGSSLKEY in the environment",
        ),
    ],
)
def test_a_file_of_tls_that_is_not_there_is_no_missing_socket(
    options: str, variables: dict[str, str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").write_text("x", "utf-8")
    places = {"none": tmp_path / "mara.crt", "folder": tmp_path}
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(**places))

    for host in ("127.0.0.1", "%2Fnowhere"):
        with pytest.raises(StoreUnavailable) as missed:
            open_existing_store(
                f"postgresql://{host}:1/l?sslmode=require&{options.format(**places)}".rstrip("&"), key=tmp_path / "k"
            )

        assert str(missed.value).startswith("A file that TLS with the server needs cannot be read: postgresql://")
        assert missed.value.hint.startswith(f"{hint}: ") and "mara" not in str(missed.value) + missed.value.hint


def test_a_missing_socket_is_one_though_the_files_of_tls_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").write_text("x", "utf-8")

    with pytest.raises(StoreUnavailable, match="There is no server's socket"):
        open_existing_store(f"postgresql://%2Fnowhere/l?sslmode=prefer&sslrootcert={tmp_path}/file", key=tmp_path / "k")


def test_a_server_that_is_gone_later_is_told_the_same_way(cluster: Cluster, tmp_path: Path) -> None:
    if cluster.server is None:
        pytest.fail("a server that a test may stop is one of its own")
    server = Server(folder_of(cluster.version))
    url = server.url()
    _, store = open_store(url, key=tmp_path / "k")
    asyncio.run(store.close())
    server.terminate()
    try:
        with pytest.raises(StoreUnavailable) as missed:
            open_existing_store(url, key=tmp_path / "k")
        assert "Is the server started" in missed.value.hint
    finally:
        server.remove()
        shutil.rmtree(server.root, ignore_errors=True)
