"""A standby that follows a private server, and is promoted."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.places import for_sockets
from tests.postgres.server import Admin, Server, _not_root
from tests.processes import children_of

_SECONDS = 60.0


class Standby(Server):
    """Made from a running server by `pg_basebackup`; streams from it until it is promoted or gone."""

    def __init__(self, folder: Path, primary: Server) -> None:
        self._bin = folder
        self._fsync = True
        self._settings = {}
        self.root = Path(tempfile.mkdtemp(prefix="plpg-", dir=for_sockets()))
        self._before = _not_root()
        if self._before[:1] == ["setpriv"]:
            shutil.chown(self.root, "nobody", "nogroup")
        self._run("pg_basebackup", "-h", str(primary.root), "-U", "postgres", "-D", self._data, "-R", "-X", "stream",
                  "-c", "fast", "--no-sync")  # fmt: skip
        self.process = self._started()

    def promote(self) -> None:
        """From its return on it takes changes."""
        admin = Admin(self.url())
        try:
            assert admin.fetch("SELECT pg_promote(true, 60)") == [(True,)]
        finally:
            admin.close()


def followed(primary: Server, *, is_synchronous: bool) -> None:
    """Wait until a standby streams from the server; every commit waits for it from then on, or none does."""
    admin = Admin(primary.url())
    try:
        names = "'*'" if is_synchronous else "''"
        admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = {names}")
        admin.execute("SELECT pg_reload_conf()")
        wanted = "sync_state = 'sync'" if is_synchronous else "sync_state = 'async'"
        until = time.monotonic() + _SECONDS
        while not admin.fetch(f"SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND {wanted}"):
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        admin.close()


def both(first: Server, second: Server, database: str) -> str:
    """One URL that names two servers."""
    return f"postgresql://postgres@/{database}?host={first.root},{second.root}&target_session_attrs=read-write"


def frozen(server: Server) -> None:
    """As a host that answers nothing any more, and does not refuse either."""
    for process in _family(server):
        subprocess.run(["kill", "-STOP", str(process)], check=False)


def _family(server: Server) -> list[int]:
    return [server.process.pid, *children_of(server.process.pid)]
