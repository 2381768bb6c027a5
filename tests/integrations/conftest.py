"""A Temporal server for a module, and databases for what DBOS and LangGraph keep."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.integrations.shop import Shop
from tests.postgres.fixtures import Database

_START_SECONDS = 60.0


class TemporalServer:
    """The dev server with its database in a file, so that it can be killed and comes back with what it had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = _free_port()
        self.process = self._started()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def start(self) -> None:
        """Again after `kill`. In the thread that lives longest: the server ends with the one that started it."""
        self.process = self._started()
        await self.ready()

    async def ready(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while not await _answers(self.address):
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self.folder / "log").read_text("utf-8", "replace")[-2_000:])
            await asyncio.sleep(0.05)

    def _started(self) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).with_name("temporal")
        command = [str(program) if program.exists() else str(shutil.which("temporal")), "server", "start-dev"]
        options = {"ip": "127.0.0.1", "port": self._port, "namespace": "placet", "log-level": "never"}
        options["db-filename"] = self.folder / "temporal.db"  # type: ignore[assignment]
        listed = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command, "--headless", *listed],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
            )


async def _answers(address: str) -> bool:
    try:
        client = await Client.connect(address, namespace="placet")
        async for _ in client.list_workflows(page_size=1):
            break
    except Exception:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    server = TemporalServer(tmp_path_factory.mktemp("temporal"))
    with ThreadPoolExecutor(1) as aside:  # a test that asks for it in the middle has a loop of its own running
        aside.submit(asyncio.run, server.ready()).result()
    yield server
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()


@pytest.fixture
def shop_of(
    tmp_path: Path, request: pytest.FixtureRequest, databases: Callable[..., Database]
) -> Callable[[str], Shop]:
    """A shop whose runs are carried so."""

    def make(kind: str) -> Shop:
        folder = tmp_path / kind
        folder.mkdir()
        return Shop(folder=folder, kind=kind, address=_address(kind), store=_store(kind), run=tmp_path.name)

    def _store(kind: str) -> str:
        """What the gate keeps is where the engine keeps its own: in a database of its own, on the same server."""
        return databases().url if kind.endswith("-postgresql") else ""

    def _address(kind: str) -> str:
        engine, _, where = kind.partition("-")
        if engine == "temporal":
            server: TemporalServer = request.getfixturevalue("temporal")
            return server.address
        if where != "postgresql":
            return ""
        url = databases(is_empty=True).url
        return url.replace("postgresql://", "postgresql+psycopg://", 1) if engine == "dbos" else url

    return make
