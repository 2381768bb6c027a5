"""A PostgreSQL server to measure on: one that is named, or one of our own that goes with us.

Our own has its files in memory unless something else is said, and its fsync is slowed by a known time, so that a commit
costs the same everywhere. It keeps its promises: fsync and synchronous_commit are on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from placet.proof import slow_disk
from placet.proof.private_server import NoServer, binaries, private_server

_CLIENTS = ("psql", "pgbench")
_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "listen_addresses": "",
    "max_connections": "120",
    # No checkpoint falls into one round and not into the next.
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchServer:
    """A server that answers.

    Attributes:
        url: with whatever lets one in; it is not shown to anybody.
        folder: where its client programs are; None for those on the PATH.
        fsync_added_us: by how much its fsync is slowed; None where it is not ours to know.
    """

    url: str
    folder: Path | None
    fsync_added_us: int | None

    def command(self, name: str) -> str:
        """Raises:
        NoServer: there is no such program.
        """
        found = shutil.which(name, path=None if self.folder is None else str(self.folder))
        if found is None:
            raise NoServer(f"there is no {name} on the PATH")
        return found

    def address(self, schema: str) -> str:
        """The URL of a store in a schema of its own."""
        parts = urlsplit(self.url)
        options = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "placet_schema"]
        query = urlencode([*options, ("placet_schema", schema)], quote_via=quote, safe="/")
        return f"{parts.scheme}://{parts.netloc}{parts.path}?{query}"

    @property
    def database(self) -> str:
        """What client programs are told: the URL without its password, which others on the machine would see there."""
        parts = urlsplit(self.url)
        place, at, host = parts.netloc.rpartition("@")
        options = [pair for pair in parse_qsl(parts.query) if pair[0] not in ("password", "placet_schema")]
        query = urlencode(options, quote_via=quote, safe="/")
        return f"{parts.scheme}://{place.partition(':')[0]}{at}{host}{parts.path}" + (f"?{query}" if query else "")

    def environment(self, schema: str, settings: dict[str, str] | None = None) -> dict[str, str]:
        """For client programs: the password, the schema, and what else a session is set to."""
        parts = urlsplit(self.url)
        word = dict(parse_qsl(parts.query)).get("password") or unquote(parts.password or "")
        listed = {"search_path": f"{schema},pg_temp", **(settings or {})}
        options = " ".join(f"-c {name}={value}" for name, value in listed.items())
        return {**os.environ, "PGOPTIONS": options, "LC_ALL": "C", **({"PGPASSWORD": word} if word else {})}

    def ask(self, statements: str, *, schema: str = "public") -> str:
        """What `psql` answers, unaligned and without headings.

        Raises:
            NoServer: the server refused; it said why on our standard error.
        """
        done = subprocess.run(
            [self.command("psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self.database],
            input=statements, text=True, stdout=subprocess.PIPE, env=self.environment(schema), check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise NoServer("the server did not do what psql asked of it; see above")
        return done.stdout.strip()

    def transactions(self) -> int:
        """Transactions that wrote anything, so far: each had a number of its own, at once and exactly.

        `pg_stat_database.xact_commit` is behind by up to a second for each session, and counts those that only read.
        """
        return int(self.ask("SELECT pg_snapshot_xmax(pg_current_snapshot());"))


@contextmanager
def opened(where: str, *, folder: Path, fsync_us: int) -> Iterator[BenchServer]:
    """The server to measure on: `private`, or the URL of one that is there, on which schemas are made and dropped.

    Raises:
        NoServer, NoSlowDisk: it cannot be had here.
    """
    if where != "private":
        yield BenchServer(url=where, folder=None, fsync_added_us=None)
        return
    binaries(_CLIENTS)  # before anything is built for them
    with slow_disk.library() as library:
        preloaded = ":".join(part for part in (library, os.environ.get("LD_PRELOAD", "")) if part)
        environment = {"LD_PRELOAD": preloaded, slow_disk.SLOWED_BY: str(fsync_us)}
        with private_server(folder, settings=_SETTINGS, environment=environment, beside=_CLIENTS) as private:
            yield BenchServer(url=private.url, folder=private.binaries, fsync_added_us=fsync_us)


@contextmanager
def schema_of_its_own(server: BenchServer, name: str) -> Iterator[str]:
    """A schema that nobody else uses, and that is gone afterwards; whoever uses it makes what is in it."""
    server.ask(f"CREATE SCHEMA {name};")
    try:
        yield name
    finally:
        server.ask(f"SET client_min_messages = warning; DROP SCHEMA {name} CASCADE;")
