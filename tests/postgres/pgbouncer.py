"""A real PgBouncer before a private server, on a socket of its own, gone with its parent."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tests.places import for_sockets
from tests.postgres.server import Server, _not_root

_START_SECONDS = 60.0


def require_pgbouncer() -> str:
    """Where it is. Without one the test is skipped, and has failed where nothing may be."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if found is not None:
        return found
    pytest.skip("no PgBouncer: install the Debian package pgbouncer")


class PgBouncer:
    """Its address is a folder with a socket, as a server's is."""

    def __init__(self, server: Server, *, pool_mode: str, settings: dict[str, str] | None = None) -> None:
        program = require_pgbouncer()
        self.root = Path(tempfile.mkdtemp(prefix="plpb-", dir=for_sockets()))
        before = _not_root()
        lines = {
            "listen_addr": "", "unix_socket_dir": str(self.root), "listen_port": "5432", "auth_type": "any",
            "pool_mode": pool_mode, "default_pool_size": "20", "logfile": str(self.root / "log"),
            **(settings or {}),
        }  # fmt: skip
        config = self.root / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n* = host={server.root} port=5432 user=postgres\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in lines.items()),
            "utf-8",
        )
        if before[:1] == ["setpriv"]:
            shutil.chown(self.root, "nobody", "nogroup")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "INT", *before, program, "-q", str(config)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        until = time.monotonic() + _START_SECONDS
        while not self._serves():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self.root / "log").read_text("utf-8", "replace")[-2_000:])
            time.sleep(0.02)

    def _serves(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.root / ".s.PGSQL.5432")) == 0

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.root}"

    def remove(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.root, ignore_errors=True)
