"""The SDK's own client, in every mode, against a gateway in another process: it needs to know nothing of placet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.mcp_server.conftest import PATIENCE_SECONDS, Gateway
from tests.mcp_server.tools import acted

MODES = ("auto", "legacy", "2026-07-28")


@asynccontextmanager
async def client_of(gateway: Gateway, mode: Any, *, token: str = "t-agent", **more: Any) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS) as http,
        Client(streamable_http_client(f"{gateway.url}/mcp", http_client=http), mode=mode, **more) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_lists_calls_and_believes_the_output_schema(standing: Gateway, mode: str) -> None:
    async with client_of(standing, mode) as client:
        names, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            if (cursor := page.next_cursor) is None:
                break
        assert names == ["broken", "look", "much", "note", "pay", "slow"]
        result = await client.call_tool("look", {"word": mode, "number": 3.0})
        assert result.structured_content["result"] == {"said": mode, "number": 3.0}
        assert not result.is_error
        failed = await client.call_tool("broken", {"word": "a"})
        assert failed.is_error and "secret" not in str(failed)


@pytest.mark.case("L05")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_is_told_the_same_of_hidden_and_of_no_tools(standing: Gateway, mode: str) -> None:
    async with client_of(standing, mode, token="t-viewer") as client:
        found = []
        for name in ("note", "nothing"):
            with pytest.raises(MCPError) as refused:
                await client.call_tool(name, {"word": "a"})
            found.append((refused.value.error.code, refused.value.error.message, refused.value.error.data))
        assert found[0] == found[1]


async def test_a_client_that_opens_pages_has_the_result_once_a_person_has_decided(standing: Gateway) -> None:
    opened: list[str] = []

    async def opens(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams)
        opened.append(params.url)
        await asyncio.to_thread(standing.decide, params.url.rpartition("/")[2])
        return types.ElicitResult(action="accept")

    async with client_of(standing, "2026-07-28", elicitation_callback=opens) as client:
        result = await client.call_tool("pay", {"amount": 42})
    assert result.structured_content["result"] == {"paid": 42}
    assert len(opened) == 1
    assert acted(standing.folder).count("paid 42") == 1


async def test_what_a_client_asks_again_by_itself_runs_once(standing: Gateway) -> None:
    async with client_of(standing, "legacy") as client:
        pending = await client.call_tool("pay", {"amount": 43})
        assert pending.is_error
        retry = pending.meta["io.placet/retry"]
        await asyncio.to_thread(standing.decide, retry["io.placet/approval"])
        statuses = [
            (await client.call_tool("pay", {"amount": 43}, meta=retry)).structured_content["status"] for _ in range(2)
        ]
    assert statuses == ["succeeded", "replayed"]
    assert acted(standing.folder).count("paid 43") == 1


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_that_gives_up_closes_its_call_and_goes_on(standing: Gateway, mode: str) -> None:
    word = f"given up {mode}"
    meta = {"io.placet/run": f"r-{mode}", "io.placet/call-id": "c1"}
    async with client_of(standing, mode) as client:
        calling = asyncio.ensure_future(client.call_tool("slow", {"word": word}, meta=meta))
        while f"began {word}" not in acted(standing.folder):
            await asyncio.sleep(0.02)
        calling.cancel()
        await asyncio.wait((calling,))
        status = "in_progress"
        while status == "in_progress":  # until the attempt is closed
            again = await client.call_tool("slow", {"word": word}, meta=meta)
            status = again.structured_content["status"]
        assert status == "unknown"
        assert not (await client.call_tool("look", {"word": "on"})).is_error
    assert f"ended {word}" not in acted(standing.folder)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_hears_that_its_call_still_runs(standing: Gateway, mode: str) -> None:
    heard: list[float] = []

    async def hears(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)
        if len(heard) == 3:
            (standing.folder / "may_end").touch()

    async with client_of(standing, mode) as client:
        result = await client.call_tool("slow", {"word": f"told {mode}"}, progress_callback=hears)
    (standing.folder / "may_end").unlink()
    assert result.structured_content["result"] == f"told {mode}"
    assert heard[:3] == sorted(heard[:3])


async def test_told_to_end_a_gateway_answers_what_runs_and_ends(gateway: Gateway) -> None:
    async with client_of(gateway, "2026-07-28") as client:
        page = await client.list_tools()  # else the client asks for them with its answer, and the gateway has ended
        while page.next_cursor is not None:
            page = await client.list_tools(cursor=page.next_cursor)
        calling = asyncio.ensure_future(client.call_tool("slow", {"word": "last"}))
        while "began last" not in acted(gateway.folder):
            await asyncio.sleep(0.02)
        ending = asyncio.ensure_future(asyncio.to_thread(gateway.stop))
        (gateway.folder / "may_end").touch()
        assert (await calling).structured_content["result"] == "last"
        assert await ending == 0
