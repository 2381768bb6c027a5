"""python -m tests.mcp_conformance.everything [--stdio]: over HTTP it takes a free port and prints its address first."""

from __future__ import annotations

import asyncio
import socket
import sys
import warnings
from typing import Any

import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.mcp_conformance.everything import reading, tools

NAME = "everything"


def server() -> Server[Any]:
    hint = CacheHint(ttl_ms=60_000, scope="public")
    lists = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
    with warnings.catch_warnings():  # it serves the older revisions too, and those have logging levels
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        made: Server[Any] = Server(
            NAME,
            version="1.0.0",
            instructions="It has one of everything.",
            cache_hints=dict.fromkeys(lists, hint),  # type: ignore[arg-type]  # the keys are a closed Literal
            on_list_tools=tools.list_tools,
            on_call_tool=tools.call_tool,
            on_list_resources=reading.list_resources,
            on_list_resource_templates=reading.list_templates,
            on_read_resource=reading.read_resource,
            on_subscribe_resource=reading.subscribe,
            on_unsubscribe_resource=reading.unsubscribe,
            on_subscriptions_listen=ListenHandler(tools.BUS),
            on_list_prompts=reading.list_prompts,
            on_get_prompt=reading.get_prompt,
            on_completion=reading.complete,
            on_set_logging_level=reading.set_level,
        )
    made.middleware.append(RequestStateBoundary(RequestStateSecurity(keys=[b"e" * 32]), default_audience=NAME))
    return made


async def over_stdio() -> None:
    made = server()
    async with stdio_server() as (reads, writes):
        await made.run(reads, writes, made.create_initialization_options())


def over_http() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    print(f"http://127.0.0.1:{port}/mcp", flush=True)
    app = server().streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none")).run(sockets=[listening])


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    asyncio.run(over_stdio()) if "--stdio" in sys.argv[1:] else over_http()
