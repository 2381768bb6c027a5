"""The MCP front door in a process that serves: guarded like the API, and alone where nothing else is served.

The library behind it is loaded by whoever opens the door; a process without one never needs it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from placet.bootstrap.surroundings import http_meter, random_ids, system_clock
from placet.http_api.guard import Guard

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from placet.mcp_server import McpDoor, McpServer

IN_FRONT = "placet_host"
"""Where in a request's scope stands the name that a trusted proxy was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpFront:
    """The door, and around it what is true of every request: its id, what every answer carries, what is counted.

    Attributes:
        app: what answers.
    """

    door: McpDoor
    mcp: McpServer
    app: ASGIApp

    def is_for(self, path: str) -> bool:
        return self.door.is_for(path)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.door.running():
            yield

    def close(self) -> None:
        """Let nobody wait any longer."""
        self.mcp.close()


def mcp_front(mcp: McpServer, door: McpDoor, *, metrics: CollectorRegistry | None) -> McpFront:
    from placet.mcp_server.resource import METADATA_PATHS, PATH

    routes = {PATH, *METADATA_PATHS}

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in routes:
            scope["route"] = SimpleNamespace(path=scope["path"])
        await door(scope, receive, send)

    app = Guard(routed, clock=system_clock(), ids=random_ids(), meter=http_meter(metrics, routes=routes))
    return McpFront(door=door, mcp=mcp, app=app)
