"""What `placet bench` calls over MCP: a server with a tool that does nothing, and a gate in front of it.

python -m placet.serve.measured_mcp upstream        prints its address, and serves until its input ends
python -m placet.serve.measured_mcp through URL     the same, through a gate with that server behind it
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent
from mcp_types import Tool as ListedTool
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from placet.bootstrap.addresses import MEMORY
from placet.bootstrap.opening import Recovery, open_gate
from placet.bootstrap.surroundings import mcp_meter, random_ids, system_clock
from placet.bootstrap.upstreams import live_definitions, mcp_upstream
from placet.engine.settings import GateSettings
from placet.mcp_server import METHODS, OUTCOMES, McpDoor, McpServer, Resource
from placet.model.contract import EffectClass, Risk
from placet.model.issuers import Network
from placet.model.pins import Definition, Pin, Pins
from placet.model.principal import Principal
from placet.model.upstreams import Manifest, StreamableWay, ToolTerms, Upstream
from placet.rules.pins import definition_digest
from placet.rules.serving import MCP_PATH
from placet.serve.http_server import HttpServer, listening_socket, url_of
from placet.serve.mcp_front import mcp_front
from placet.serve.serving import Doors, serving

NAME: Final = "bench"
WAITED_SECONDS: Final = 0.05
_AGENT: Final = Principal.agent("bench-agent", tenant="bench", roles=("operator",))
_SETTINGS: Final = GateSettings(lease_seconds=3600.0, max_steps=10_000_000)
_NO_ARGUMENTS: Final = {"type": "object", "properties": {}, "additionalProperties": False}


def _upstream() -> Starlette:
    """As the SDK makes it; the one tool answers at once, the other after a while."""

    async def listed(ctx: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                ListedTool(name=name, description=f"{name.capitalize()}.", input_schema=dict(_NO_ARGUMENTS))
                for name in ("nothing", "wait")
            ]
        )

    async def called(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
        if params.name == "wait":
            await system_clock().sleep(WAITED_SECONDS)
        return CallToolResult(content=[TextContent(text="done")])

    server: Server[Any] = Server(NAME, version="1", on_list_tools=listed, on_call_tool=called)
    return server.streamable_http_app()


class _Everybody:
    """Signs everybody in: what that costs is the sign-in's, and the server behind has none."""

    async def principal_of(self, credential: str) -> Principal:
        return _AGENT


def _with_credential(app: ASGIApp) -> ASGIApp:
    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer bench")]}
        await app(scope, receive, send)

    return asked


async def _through(url: str) -> None:
    declared = Upstream(name=NAME, way=StreamableWay(url=url, network=Network.LOOPBACK), manifest=Path("bench.toml"))
    found = await live_definitions(declared)
    pins = Pins(pins={(each.server, each.tool): _accepted(each) for each in found})
    terms = {each.tool: _terms(each.tool) for each in found}
    behind = mcp_upstream(declared, Manifest(server=NAME, terms=terms), pins)
    opening = open_gate(tools=[], upstreams=[behind], store=MEMORY, settings=_SETTINGS, recovery=Recovery.MANUAL)
    async with opening as gate:
        running = opening.running
        assert running is not None  # noqa: S101  it is open
        mcp = McpServer(
            gate=gate,
            keys=running.keys,
            clock=system_clock(),
            ids=random_ids(),
            meter=mcp_meter(None, methods=METHODS, outcomes=OUTCOMES),
            version="1",
        )

        at = listening_socket("127.0.0.1", 0)
        site = url_of(at, tls=None)
        everybody = _Everybody()
        door = McpDoor(mcp, sign_in=everybody, resource=Resource(site=site, audience=f"{site}{MCP_PATH}"))
        front = mcp_front(mcp, door, metrics=None)
        doors = Doors(sign_in=everybody, metrics=None, mcp=replace(front, app=_with_credential(front.app)))
        async with serving(gate, doors, at, round_seconds=3_600.0) as process:
            await _until_told(f"{process.url}{MCP_PATH}")
            await process.end(1.0)


async def _bare() -> None:
    at = listening_socket("127.0.0.1", 0)
    app = _upstream()
    async with app.router.lifespan_context(app):
        server = HttpServer(app, at, grace_seconds=1.0)
        await server.start()
        await _until_told(f"{url_of(at, tls=None)}{MCP_PATH}")
        await server.stop()


async def _until_told(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


def _terms(tool: str) -> ToolTerms:
    return ToolTerms(tool=tool, effect=EffectClass.READ, risk=Risk.LOW, permission=None)


def _accepted(definition: Definition) -> Pin:
    return Pin(
        definition=definition,
        digest=definition_digest(definition),
        accepted_by="bench",
        accepted_at=datetime(2026, 1, 1, tzinfo=UTC),
        mac="",
        key_id="",
    )


if __name__ == "__main__":
    asyncio.run(_bare() if sys.argv[1] == "upstream" else _through(sys.argv[2]))
