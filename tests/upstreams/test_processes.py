"""A server process gets little, and is never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from placet.model.destinations import SecretPlace, SecretRef
from placet.model.upstreams import Statefulness, StdioWay, Upstream
from tests.processes import children_of, is_gone, parent_of
from tests.upstreams.scene import SERVERS, Server, gate_with, joined, over_stdio, submit, until, wait_until

GATEWAY = """
import asyncio, sys
from pathlib import Path
from tests.upstreams.scene import Server, gate_with, joined, over_stdio, submit
async def main():
    async with gate_with(joined(over_stdio(Server(Path(sys.argv[1]))))) as gate:
        await submit(gate, "desk.echo")
        print("up", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
FORKS = """
import os, sys, time, runpy
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
HARMLESS = {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}


@pytest.mark.case("K10")
async def test_a_server_gets_a_few_harmless_variables_and_those_that_are_named(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    monkeypatch.setenv("SECRET_X", "of the host")
    monkeypatch.setenv("DESK_TOKEN", "from-the-host")
    environment = {
        "PLAIN": "as it is",
        "TOKEN": SecretRef(place=SecretPlace.ENVIRONMENT, name="DESK_TOKEN"),
        "OTHER": SecretRef(place=SecretPlace.FILE, name=str(tmp_path / "token")),
    }
    async with gate_with(joined(over_stdio(server, way={"environment": environment}))) as gate:
        await submit(gate, "desk.echo")

    got = server.lines("started")[0]["environment"]
    assert {name: got[name] for name in ("PLAIN", "TOKEN", "OTHER")} == {
        "PLAIN": "as it is", "TOKEN": "from-the-host", "OTHER": "from-a-file",
    }  # fmt: skip
    assert set(got) - {"PLAIN", "TOKEN", "OTHER"} <= HARMLESS
    assert got["PATH"] == os.environ["PATH"]


@pytest.mark.case("K10")
async def test_without_its_secret_a_server_is_not_started(server: Server) -> None:
    ref = SecretRef(place=SecretPlace.ENVIRONMENT, name="NOT_THERE")
    async with gate_with(joined(over_stdio(server, way={"environment": {"TOKEN": ref}}))) as gate:
        outcome = await submit(gate, "desk.note")

    assert outcome.code == "upstream_unavailable" and server.lines("started") == []


@pytest.mark.case("K10")
async def test_it_is_the_leader_of_a_group_of_its_own_and_ends_with_the_gate(server: Server) -> None:
    async with gate_with(joined(over_stdio(server))) as gate:
        await submit(gate, "desk.echo")
        process = server.process

    assert server.lines("started")[0]["group"] == process != os.getpgid(0)
    assert is_gone(process)
    assert server.lines("ended")  # it saw its input end, and was not killed


@pytest.mark.case("K10")
async def test_what_a_server_started_ends_with_it_though_it_left_the_group(server: Server) -> None:
    upstream = over_stdio(server)
    assert isinstance(upstream.way, StdioWay)
    upstream = replace(upstream, way=replace(upstream.way, args=("-c", FORKS, *upstream.way.args)))
    async with gate_with(joined(upstream)) as gate:
        await submit(gate, "desk.echo")
        kin = children_of(server.process)
        assert len(kin) == 1

    assert is_gone(server.process)
    await until(lambda: is_gone(kin[0]))


@pytest.mark.case("K10")
async def test_a_server_that_will_not_end_is_killed(tmp_path: Path) -> None:
    """Takes four seconds: it is given two to end by itself, and two after it was told to."""
    server = Server(tmp_path)
    stubborn = (
        "import signal, sys, time, runpy; signal.signal(signal.SIGTERM, signal.SIG_IGN); sys.argv = sys.argv[1:]\n"
        "try:\n    runpy.run_path(sys.argv[0], run_name='__main__')\nfinally:\n    time.sleep(600)"
    )
    upstream = over_stdio(server)
    assert isinstance(upstream.way, StdioWay)
    upstream = replace(upstream, way=replace(upstream.way, args=("-c", stubborn, *upstream.way.args)))
    async with gate_with(joined(upstream)) as gate:
        await submit(gate, "desk.echo")
        process = server.process

    assert is_gone(process)


@pytest.mark.case("K10")
@pytest.mark.parametrize("victim", ["gateway", "warden"])
def test_a_gateway_or_warden_that_is_killed_leaves_no_server_behind(tmp_path: Path, victim: str) -> None:
    server = Server(tmp_path)
    gateway = subprocess.Popen([sys.executable, "-c", GATEWAY, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert gateway.stdout is not None and gateway.stdout.readline() == b"up\n"
        process = server.process
        warden = parent_of(process)
        assert warden != gateway.pid
        os.kill(gateway.pid if victim == "gateway" else warden, signal.SIGKILL)
        wait_until(lambda: is_gone(process))
    finally:
        gateway.kill()
        gateway.wait()
        if gateway.stdout is not None:
            gateway.stdout.close()


async def test_no_shell_reads_what_is_declared(tmp_path: Path) -> None:
    marker = tmp_path / "made by a shell"
    way = StdioWay(command="/bin/echo", args=(f"$(touch '{marker}')", "; touch", f"'{marker}'"), folder=tmp_path)
    upstream = Upstream(name="desk", way=way, manifest=tmp_path / "m", statefulness=Statefulness.STATELESS)
    async with gate_with(joined(upstream)) as gate:
        outcome = await submit(gate, "desk.note")

    assert outcome.code == "upstream_unavailable" and not marker.exists()
    assert SERVERS.is_dir()
