"""Published MCP servers, of both registries, behind one gate: started without a network, and governed like any tool.

Slow: programs of others start, and some of them take seconds for that.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import Principal
from placet.bootstrap.joined import Joined
from placet.bootstrap.upstreams import live_definitions, mcp_upstream
from placet.model.contract import ApprovalMode, EffectClass, Risk
from placet.model.outcome import AwaitingApproval, Failed, Replayed, Succeeded
from placet.model.pins import Pins
from placet.model.upstreams import Manifest, StdioWay, ToolTerms, Upstream, UpstreamBounds
from tests.mcp_conformance import suite
from tests.mcp_conformance.gateway import pinned

PROGRAMS = suite.REPOSITORY / ".mcp-servers" / "bin"
PACKAGES = suite.PACKAGES / "@modelcontextprotocol"
AGENT = Principal.agent("agent", tenant="acme", roles=("admin",), scopes=("w",))
MARA = Principal.person("mara", tenant="acme", roles=("admin",), scopes=("approvals.decide", "w"))
PATIENT = UpstreamBounds(connect_seconds=120.0)
WRITE = {"effect": EffectClass.WRITE, "risk": Risk.MEDIUM, "permission": "w", "timeout_seconds": 60.0}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def the_servers() -> None:
    if not (PROGRAMS / "mcp-server-time").is_file() or not (PACKAGES / "server-memory").is_dir():
        pytest.skip("no published servers: make .mcp-servers/.ready .npm/.ready")


def reads(tool: str) -> ToolTerms:
    return ToolTerms(tool=tool, effect=EffectClass.READ, risk=Risk.LOW, permission=None, timeout_seconds=60.0)


def writes(tool: str, **more: Any) -> ToolTerms:
    return ToolTerms(tool=tool, **{**WRITE, **more})


def from_pypi(name: str, program: str, folder: Path, *terms: ToolTerms) -> tuple[Upstream, Manifest]:
    return declared(name, str(PROGRAMS / program), (), folder, terms)


def from_npm(name: str, package: str, arguments: tuple[str, ...], folder: Path, *terms: ToolTerms) -> Any:
    program = str(PACKAGES / package / "dist" / "index.js")
    return declared(name, str(suite.node()), (program, *arguments), folder, terms)


def declared(
    name: str, command: str, arguments: tuple[str, ...], folder: Path, terms: tuple[ToolTerms, ...]
) -> tuple[Upstream, Manifest]:
    way = StdioWay(
        command=command, args=arguments, folder=folder, environment={"MEMORY_FILE_PATH": str(folder / "graph")}
    )
    upstream = Upstream(name=name, way=way, manifest=folder / f"{name}.toml", bounds=PATIENT)
    return upstream, Manifest(server=name, terms={each.tool: each for each in terms})


async def joined(upstream: Upstream, manifest: Manifest) -> Joined:
    """What its server says of itself now is accepted, all of it."""
    definitions = await live_definitions(upstream)
    return mcp_upstream(upstream, manifest, Pins(pins={(each.server, each.tool): pinned(each) for each in definitions}))


@asynccontextmanager
async def gate_with(folder: Path, *declarations: tuple[Upstream, Manifest]) -> AsyncIterator[placet.Gate]:
    upstreams = await asyncio.gather(*(joined(*each) for each in declarations))
    opening = placet.open(tools=[], upstreams=upstreams, store=folder / "placet.db", recovery="manual")
    async with opening as gate:
        yield gate


async def asked(gate: placet.Gate, call_id: str, tool: str, **arguments: Any) -> Any:
    proposal = {"call_id": call_id, "tool": tool, "arguments": arguments}
    return await gate.submit(proposal, principal=AGENT, run="published", timeout_seconds=100.0)


def text_of(outcome: Any) -> str:
    assert isinstance(outcome, Succeeded | Replayed), outcome
    return json.dumps(outcome.result)


@pytest.mark.req("B186")
async def test_servers_of_both_registries_are_called_through_one_gate(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    for arguments in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "first")):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=_made(repository), check=True)
    async with gate_with(
        tmp_path,
        from_pypi("time", "mcp-server-time", tmp_path, reads("convert_time")),
        from_pypi("git", "mcp-server-git", tmp_path, reads("git_log"), writes("git_create_branch")),
        from_npm("memory", "server-memory", (), tmp_path, writes("create_entities"), reads("read_graph")),
    ) as gate:
        converted = await asked(
            gate, "c1", "time.convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"
        )
        assert "21:00" in text_of(converted)
        assert "first" in text_of(await asked(gate, "c2", "git.git_log", repo_path=str(repository)))
        branched = await asked(gate, "c3", "git.git_create_branch", repo_path=str(repository), branch_name="topic")
        assert isinstance(branched, Succeeded), branched
        assert (repository / ".git" / "refs" / "heads" / "topic").is_file()
        entity = {"name": "placet", "entityType": "boundary", "observations": ["it pleases"]}
        assert isinstance(await asked(gate, "c4", "memory.create_entities", entities=[entity]), Succeeded)
        assert "it pleases" in text_of(await asked(gate, "c5", "memory.read_graph"))


@pytest.mark.req("B186")
async def test_a_published_server_writes_a_file_once_and_only_after_a_person_has_said_so(tmp_path: Path) -> None:
    folder = _made(tmp_path / "files")
    letter = folder / "letter.txt"
    asks = writes("write_file", approval=ApprovalMode.ALWAYS)
    async with gate_with(tmp_path, from_npm("files", "server-filesystem", (str(folder),), tmp_path, asks)) as gate:
        wish = {"path": str(letter), "content": "Dear all"}
        waiting = await asked(gate, "c1", "files.write_file", **wish)
        assert isinstance(waiting, AwaitingApproval)
        assert not letter.exists()
        view = await gate.desk.show(waiting.approval_id, by=MARA)
        await gate.desk.approve(waiting.approval_id, digest=view.digest, by=MARA)
        assert isinstance(await asked(gate, "c1", "files.write_file", **wish), Succeeded)
        assert letter.read_text() == "Dear all"
        letter.unlink()
        assert isinstance(await asked(gate, "c1", "files.write_file", **wish), Replayed)
        assert not letter.exists()


async def test_what_a_published_server_refuses_is_told_as_its_words(tmp_path: Path) -> None:
    folder = _made(tmp_path / "files")
    reading = from_npm("files", "server-filesystem", (str(folder),), tmp_path, reads("read_text_file"))
    async with gate_with(tmp_path, reading) as gate:
        outside = await asked(gate, "c1", "files.read_text_file", path="/etc/hostname")
    assert isinstance(outside, Failed)
    assert outside.words is not None
    assert "denied" in outside.words


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder
