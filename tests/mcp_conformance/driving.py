"""The gateway's other side: a server of the suite is its upstream, and a client drives it through the whole of it.

python -m tests.mcp_conformance.driving SOCKET      drives whatever `command.py` hands over, one after the other

A call goes from an SDK client over HTTP to the gateway's door, through the gate, and from there to the suite. The suite
starts a command for each scenario; that one hands over here, so that nothing is loaded sixty times.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp.client.session import ClientRequestContext

from placet.adapters.transports.mcp.authorizing import SignInFailed
from placet.errors import UpstreamUnreachable
from placet.model.contract import TextRule
from placet.model.upstreams import Credential, ToolTerms
from tests.mcp_conformance.gateway import all_of, gateway, harmless, upstream_at
from tests.mcp_conformance.operating import Operator

Context = dict[str, Any]
Drive = Callable[[Client, Context], Awaitable[None]]


def terms_of(tool: str) -> ToolTerms:
    """The suite sends control characters on purpose."""
    return replace(harmless(tool), text=TextRule.FREE)


async def answers(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """A person who takes what is proposed, and says yes to the rest."""
    assert isinstance(params, types.ElicitRequestFormParams)
    fields = dict(params.requested_schema.get("properties", {}))
    content = {name: field.get("default", True) for name, field in fields.items()}
    return types.ElicitResult(action="accept", content=content)


async def add(client: Client, told: Context) -> None:
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def call_everything(client: Client, told: Context) -> None:
    for tool in (await client.list_tools()).tools:
        properties = tool.input_schema.get("properties", {})
        await client.call_tool(tool.name, {name: _example(field) for name, field in properties.items()})


async def call_as_told(client: Client, told: Context) -> None:
    """The suite's own calls. A null where a contract wants a truth value is no call; without that member it is one."""
    for call in told["toolCalls"]:
        result = await client.call_tool(call["name"], call["arguments"])
        if result.is_error:
            given = {name: value for name, value in call["arguments"].items() if value is not None}
            await client.call_tool(call["name"], given)


async def list_only(client: Client, told: Context) -> None:
    await client.list_tools()


def _example(field: dict[str, Any]) -> Any:
    return {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}.get(field.get("type", ""), "a")


DRIVES: dict[str, Drive] = {
    "initialize": list_only,
    "tools_call": add,
    "request-metadata": list_only,
    "http-custom-headers": call_as_told,
    "json-schema-ref-no-deref": list_only,
}


ASKED_DURING_A_CALL = frozenset({"elicitation-sep1034-client-defaults"})
"""An older server asks while its call waits, so it takes a client that can be asked then."""


async def driven(scenario: str, told: Context, url: str) -> None:
    """
    Raises:
        UpstreamUnreachable, SignInFailed: the gateway will have nothing to do with that server, as some scenarios want.
    """
    drive = DRIVES.get(scenario, call_everything)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if not scenario.startswith("auth/"):
            mode = "legacy" if scenario in ASKED_DURING_A_CALL else "auto"
            await through_the_gateway(folder, url, drive, told, mode=mode)
            return
        operator = Operator(url, folder, told)
        await operator.signs_in()
        try:
            await through_the_gateway(folder, url, drive, told, credential=operator.credential)
            is_done = not operator.is_asked_for_more
        except UpstreamUnreachable:
            is_done = False
        if not is_done:  # once more, and no more: an operator is no loop
            await operator.signs_in()
            await through_the_gateway(folder, url, drive, told, credential=operator.credential)


async def through_the_gateway(
    folder: Path, url: str, drive: Drive, told: Context, *, mode: str = "auto", credential: Credential | None = None
) -> None:
    async with (
        gateway(folder, all_of(upstream_at(url, folder, credential)), terms_of) as opened,
        Client(opened.url, mode=mode, elicitation_callback=answers) as client,  # type: ignore[arg-type]
    ):
        await drive(client, told)


async def serve(socket: str) -> None:
    """Answer each scenario that is handed over with what its command is to say and end with."""

    async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handed = json.loads(await reader.readline())
        words = ""
        try:
            await driven(handed["scenario"], handed["context"], handed["url"])
        except (UpstreamUnreachable, SignInFailed) as refused:
            words = str(refused)
        except BaseException:
            words = traceback.format_exc()
        writer.write(json.dumps(words).encode() + b"\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(taken, socket)
    print(socket, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
