"""Servers of the newer era that are not understood at once: slow to begin, or strict about the revision."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from placet.adapters.transports.mcp import negotiating
from placet.bootstrap.upstreams import live_definitions
from placet.model.upstreams import StdioWay, Upstream, UpstreamBounds

SERVER = """
import json, sys

def answer(asked, **said):
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)

SELF = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
LISTED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [
    {"name": "look", "inputSchema": {"type": "object", "properties": {}}}]}
count = 0
heard = open(sys.argv[2], "a", buffering=1)
for line in sys.stdin:
    asked = json.loads(line)
    print(asked.get("method"), file=heard)
    match asked.get("method"):
        case "server/discover":
            count += 1
            if count > 1:
                answer(asked, result=SELF)
            elif sys.argv[1] == "strict":
                wanted = {"supported": ["2026-07-28"], "requested": "2026-07-28"}
                answer(asked, error={"code": -32022, "message": "Unsupported", "data": wanted})
        case "tools/list":
            answer(asked, result=LISTED)
        case "initialize":
            answer(asked, error={"code": -32601, "message": "Method not found"})
"""


async def tools_of(folder: Path, how: str) -> list[str]:
    script = folder / "server.py"
    script.write_text(SERVER)
    way = StdioWay(command=sys.executable, args=(str(script), how, str(folder / "heard")), folder=folder)
    declared = Upstream(
        name="strange", way=way, manifest=folder / "strange.toml", bounds=UpstreamBounds(connect_seconds=60.0)
    )
    return [each.tool for each in await live_definitions(declared)]


async def test_a_server_that_knows_no_greeting_was_only_slow_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(negotiating, "DISCOVER_SECONDS", 0.1)  # the first question is never answered, however long
    assert await tools_of(tmp_path, "slow") == ["look"]


async def test_a_server_that_names_our_revision_is_asked_once_more(tmp_path: Path) -> None:
    assert await tools_of(tmp_path, "strict") == ["look"]
    heard = (tmp_path / "heard").read_text().splitlines()
    assert heard[:3] == ["server/discover", "server/discover", "tools/list"]
