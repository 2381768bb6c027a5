"""Clients of others against `placet mcp serve`: the inspector's command line, and the SDK's client in another process.

Slow: each of them is a program of its own, and so is the gateway, which is killed and started again in between.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import PATIENCE_SECONDS, Project
from tests.mcp_conformance import suite

INSPECTOR = suite.PACKAGES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
MANUAL = Path(__file__).resolve().parents[2] / "docs" / "mcp.md"
NPX = "    npx @modelcontextprotocol/inspector@2.12.0 "
RUN = "io.placet/run=the-run"
SDK = """
import asyncio, json, sys
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

async def asked(url, key, mode):
    http = httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"})
    async with http, Client(streamable_http_client(url, http_client=http), mode=mode) as client:
        names = sorted(tool.name for tool in (await client.list_tools()).tools)
        result = await client.call_tool("ask", {"text": "hello"}, meta={"io.placet/run": "the-run"})
        return {"tools": names, "result": result.model_dump(by_alias=True, mode="json", exclude_none=True)}

async def main(url, key):
    print(json.dumps([await asked(url, key, mode) for mode in ("2026-07-28", "legacy")]))

asyncio.run(main(*sys.argv[1:]))
"""

pytestmark = pytest.mark.slow


@contextmanager
def served(project: Project) -> Iterator[str]:
    """It is killed when the block ends, and says goodbye to nobody."""
    server = project.start("mcp", "serve", "--http", "127.0.0.1:0")
    try:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        assert url.endswith("/mcp")
        yield url
    finally:
        server.kill()
        server.communicate(timeout=PATIENCE_SECONDS)


def inspected(url: str, key: str, *words: str) -> dict[str, Any]:
    """What the inspector's command line prints of its answer."""
    return _printed(["--cli", url, "--transport", "http", "--header", f"Authorization: Bearer {key}", *words])


def _printed(words: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [str(suite.node()), str(INSPECTOR), *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def documented(mark: str, **instead: str) -> dict[str, Any]:
    """What the inspector prints for the line of docs/mcp.md that has this in it, with other words in place of some."""
    (line,) = [each for each in MANUAL.read_text().splitlines() if each.startswith(NPX) and mark in each]
    words = shlex.split(line.removeprefix(NPX))
    placet = str(Path(sys.executable).with_name("placet"))
    return _printed([instead.get(each, placet if each == "placet" else each) for each in words])


def asked_by_inspector(url: str, key: str) -> dict[str, Any]:
    call = ("--method", "tools/call", "--tool-name", "ask", "--tool-arg", "text=hello")
    return inspected(url, key, *call, "--tool-metadata", RUN)


def asked_by_sdk(url: str, key: str) -> list[dict[str, Any]]:
    """In both eras."""
    done = subprocess.run(
        [sys.executable, "-c", SDK, url, key],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.fixture
def key(project: Project) -> str:
    project.rewrite('scopes = ["approvals.decide"', 'scopes = ["api_keys.manage", "approvals.decide"')
    return project.run("api-keys", "create", "bot", "--role", "admin", "--scope", "things.write").out.strip()


def outcome_of(result: dict[str, Any]) -> dict[str, Any]:
    return dict(result["_meta"]["io.placet/outcome"])


@pytest.mark.req("B183")
def test_the_inspector_and_the_sdk_with_an_approval_and_a_killed_gateway_in_between(project: Project, key: str) -> None:
    if not INSPECTOR.is_file():
        pytest.skip("no inspector: make .npm/.ready")
    with served(project) as url:
        at, credential = "http://127.0.0.1:8421/mcp", "Authorization: Bearer KEY"
        listed = documented(" --transport http ", **{at: url, credential: f"Authorization: Bearer {key}"})
        waiting = asked_by_inspector(url, key)
    assert {"ask", "look"} <= {tool["name"] for tool in listed["tools"]}
    assert outcome_of(waiting)["status"] == "awaiting_approval"
    assert not (project.folder / "asked.txt").exists()
    assert project.approved(outcome_of(waiting)["approval_id"]).code == 0
    with served(project) as url:
        done = asked_by_inspector(url, key)
        newer, older = asked_by_sdk(url, key)
    assert outcome_of(done)["status"] == "succeeded"
    assert "ask" in newer["tools"]
    assert outcome_of(newer["result"])["status"] == "replayed"
    assert outcome_of(older["result"])["status"] == "replayed"
    assert (project.folder / "asked.txt").read_text() == "ran\n"


@pytest.mark.exhaustive
def test_the_inspector_over_standard_input_and_output_as_the_manual_types_it(project: Project) -> None:
    if not INSPECTOR.is_file():
        pytest.skip("no inspector: make .npm/.ready")
    listed = documented(" -- ", **{"placet.toml": str(project.folder / "placet.toml")})
    assert {"ask", "look"} <= {tool["name"] for tool in listed["tools"]}
