"""The MCP door of a real gate: in this process, asked through ASGI; or as a process of its own, which can be killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

import placet
from placet import Gate
from placet.bootstrap.relaying import relay_sides
from placet.bootstrap.surroundings import mcp_meter, random_ids, system_clock
from placet.mcp_server import METHODS, OUTCOMES, McpDoor, McpServer, McpSettings, Resource
from placet.mcp_server.relay import UpstreamRelay
from placet.ports.rate_limits import RateLimiter
from placet.ports.sign_in import SignIn
from placet.serve.mcp_front import mcp_front
from placet.testing import FixedSignIn
from tests.cli.interpreter import SERVERS, Interpreter, Started
from tests.mcp_server.tools import MARA, SETTINGS, WHO, tools_of

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60.0
SITE = "https://placet.test"
MODERN = "2026-07-28"
OLDER = "2025-11-25"
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
WITH_PAGES: dict[str, Any] = {"elicitation": {"url": {}, "form": {}}}
PUBLIC = Resource(site=SITE, audience=f"{SITE}/mcp", issuers=("https://issuer.test",), is_public=True)
_SERVED = Interpreter("tests.mcp_server.served", loads=SERVERS)
QUICK = McpSettings(wait_seconds=0.2, poll_seconds=0.02, progress_seconds=0.02, max_rounds=3, page_size=4)


def modern(
    method: str,
    params: dict[str, Any] | None = None,
    *,
    capabilities: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    request_id: int = 1,
) -> dict[str, Any]:
    """A message of 2026-07-28, with all it has to say of its client."""
    envelope = {VERSION: MODERN, CAPABILITIES: capabilities or {}, **(meta or {})}
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {"_meta": envelope, **(params or {})}}


def headers_of(message: dict[str, Any], token: str | None = "t-agent") -> dict[str, str]:
    """The headers that have to mirror it."""
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": MODERN,
        "mcp-method": message["method"],
    }
    named = message["params"].get("name", message["params"].get("uri"))
    if named is not None:
        headers["mcp-name"] = named
    return headers | ({} if token is None else {"authorization": f"Bearer {token}"})


def said_in(answer: httpx.Response) -> dict[str, Any]:
    """The last message of an answer, whichever way it came."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
        return dict(json.loads(lines[-1]))
    return dict(answer.json())


@dataclass
class InProcess:
    """One open gate, its MCP door, and what a test asks of them."""

    gate: Gate
    mcp: McpServer
    door: McpDoor
    client: httpx.AsyncClient
    folder: Path
    registry: CollectorRegistry

    async def post(
        self, message: dict[str, Any], *, as_: str | None = "t-agent", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        sent = headers_of(message, as_) | (headers or {})
        return await self.client.post("/mcp", content=json.dumps(message).encode(), headers=sent)

    async def ask(
        self, method: str, params: dict[str, Any] | None = None, *, as_: str | None = "t-agent", **more: Any
    ) -> dict[str, Any]:
        return said_in(await self.post(modern(method, params, **more), as_=as_))

    async def call(self, tool: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        return await self.ask("tools/call", {"name": tool, "arguments": arguments}, **more)

    async def events(self, *kinds: str) -> list[dict[str, Any]]:
        found = [json.loads(event.body) async for event in self.gate.store.chained()]
        return [event for event in found if not kinds or event["kind"] in kinds]

    async def approve(self, approval_id: str) -> None:
        view = await self.gate.desk.show(approval_id, by=MARA)
        await self.gate.desk.approve(approval_id, by=MARA, digest=view.digest)


@asynccontextmanager
async def in_process(
    folder: Path,
    *,
    settings: McpSettings = QUICK,
    sign_in: SignIn | None = None,
    rate_limiter: RateLimiter | None = None,
    store: str | Path | None = None,
    resource: Resource | None = None,
    tools: list[placet.Tool] | None = None,
    **more: Any,
) -> AsyncIterator[InProcess]:
    registry = CollectorRegistry()
    opening = placet.open(
        tools=tools_of(folder) if tools is None else tools,
        store=store or folder / "placet.db",
        settings=SETTINGS,
        recovery="manual",
        metrics=registry,
        **more,
    )
    async with opening as gate:
        assert opening.running is not None
        sides = relay_sides(opening.running.upstreams)
        mcp = McpServer(
            gate=gate,
            relay=UpstreamRelay(gate=gate, sides=sides) if sides else None,
            keys=opening.running.keys,
            clock=system_clock(),
            ids=random_ids(),
            meter=mcp_meter(registry, methods=METHODS, outcomes=OUTCOMES),
            version="test",
            settings=settings,
            pages=f"{SITE}/console/approvals/",
        )
        found = resource or Resource(
            site=SITE, audience=f"{SITE}/mcp", issuers=("https://issuer.test",), is_public=True
        )
        door = McpDoor(mcp, sign_in=sign_in or FixedSignIn(WHO), resource=found, rate_limiter=rate_limiter)
        app = mcp_front(mcp, door, metrics=registry).app
        transport = httpx.ASGITransport(app=app)
        async with door.running(), httpx.AsyncClient(transport=transport, base_url=SITE) as client:
            yield InProcess(gate=gate, mcp=mcp, door=door, client=client, folder=folder, registry=registry)


# ---------------------------------------------------------------- a process of its own


@dataclass
class Gateway:
    """A process that serves API and MCP at one address, and others after it on the same folder."""

    folder: Path
    wait_seconds: float = 20.0
    port: int = 0
    url: str = ""
    process: Started | None = field(default=None, repr=False)

    def start(self) -> None:
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
        process = _SERVED.start((str(self.folder), str(self.port), str(self.wait_seconds)), REPOSITORY, kept)
        assert process is not None
        self.process = process
        self.url = process.stdout.readline().decode().strip()
        self.port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        self.kill()
        self.start()

    def _end(self, how: signal.Signals) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        os.kill(process.pid, how)
        code = process.wait(PATIENCE_SECONDS)
        process.close()
        return code

    def post(
        self, message: dict[str, Any], *, as_: str | None = "t-agent", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        sent = headers_of(message, as_) | (headers or {})
        return httpx.post(f"{self.url}/mcp", json=message, headers=sent, timeout=PATIENCE_SECONDS)

    def ask(
        self, method: str, params: dict[str, Any] | None = None, *, as_: str | None = "t-agent", **more: Any
    ) -> dict[str, Any]:
        return said_in(self.post(modern(method, params, **more), as_=as_))

    def decide(self, approval_id: str, decision: str = "approve") -> None:
        """As a person who has signed in to the API."""
        mara = {"authorization": "Bearer t-mara"}
        place = f"{self.url}/v1/approvals/{approval_id}"
        shown = httpx.get(place, headers=mara, timeout=PATIENCE_SECONDS).json()
        body = {"decision": decision, "digest": shown["digest"]} | ({"reason": "no"} if decision == "deny" else {})
        answer = httpx.post(f"{place}/decision", json=body, headers=mara, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 200, answer.text


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    found = Gateway(folder=tmp_path)
    found.start()
    yield found
    found.kill()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One for all tests of a module."""
    found = Gateway(folder=tmp_path_factory.mktemp("gateway"))
    found.start()
    yield found
    found.kill()
