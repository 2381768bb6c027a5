"""A stream that breaks off is taken up again; whatever keeps us from that, the request itself had left long before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from placet.adapters import name_lookups
from placet.adapters.clock import SystemClock
from placet.adapters.reaching import ReachingTransport
from placet.adapters.referenced_secrets import SecretMissing
from placet.adapters.transports.mcp.attention import Attention, Share
from placet.adapters.transports.mcp.authorizing import Authorized
from placet.adapters.transports.mcp.faults import Doubtful, RequestFault
from placet.adapters.transports.mcp.messages import Answer, Message
from placet.adapters.transports.mcp.streamable import StreamableChannel
from placet.adapters.transports.mcp.token_file import TokenFile
from placet.model.issuers import Network

SECONDS = 30.0
BROKEN_OFF = b"id: e1\ndata:\n\n"
ANSWER = b'id: e2\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'


@dataclass
class Service:
    """Acts on whatever is posted, begins to answer, and breaks off; asked to go on, it does as it is told."""

    status: int = 200
    stays: bool = False
    port: int = 0
    seen: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method = head.partition(" ")[0]
        self.seen.append(method)
        status, body = (200, BROKEN_OFF) if method == "POST" else (self.status, ANSWER)
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n".encode())
        writer.write(body)
        await writer.drain()
        if self.stays and method == "GET":
            await reader.read()
            self.left.set()
        writer.close()


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[str]:
    server = await asyncio.start_server(service.answer, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"http://localhost:{service.port}/mcp"


class Soon(SystemClock):
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Secret:
    """Is there once, for the request itself."""

    def __init__(self, *, times: int) -> None:
        self._left = times

    def __call__(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        self._left -= 1
        if self._left < 0:
            raise SecretMissing
        return {"authorization": "Bearer x"}, {}


async def asked(
    url: str,
    transport: httpx.AsyncBaseTransport,
    *,
    shown: Secret | None = None,
    leaves: asyncio.Event | None = None,
    version: str = "2025-11-25",
) -> RequestFault | Message:
    told: asyncio.Future[RequestFault | Message] = asyncio.get_running_loop().create_future()
    channel = StreamableChannel(
        url, transport, shown=shown or Secret(times=99), connect_seconds=SECONDS, most_bytes=4_194_304,
        clock=Soon(), share=Share(Attention(SystemClock().monotonic)), awaits=lambda _: True,
        heard=lambda message, _: told.set_result(message), failed=lambda _, fault: told.set_result(fault),  # type: ignore[arg-type]
        flooded=lambda: None, retired=lambda: None, missed=lambda: None,
    )  # fmt: skip
    channel.speaks(version, knows_sessions=version != "2026-07-28")
    try:
        await channel.ask(1, b"{}", headers={}, before=lambda: None)
        async with asyncio.timeout(SECONDS):
            found = await told
            if leaves is not None:
                await leaves.wait()
            return found
    finally:
        await channel.close()


async def test_it_is_taken_up_where_it_broke_off() -> None:
    service = Service()
    async with serving(service) as url:
        assert isinstance(await asked(url, ReachingTransport(Network.LOOPBACK)), Answer)
    assert service.seen == ["POST", "GET"]


async def test_the_newer_era_takes_nothing_up_again() -> None:
    service = Service()
    async with serving(service) as url:
        found = await asked(url, ReachingTransport(Network.LOOPBACK), version="2026-07-28")
    assert service.seen == ["POST"] and isinstance(found, Doubtful)


async def test_the_stream_that_brought_the_answer_is_not_kept_open() -> None:
    service = Service(stays=True)
    async with serving(service) as url:
        assert isinstance(await asked(url, ReachingTransport(Network.LOOPBACK), leaves=service.left), Answer)


async def test_a_secret_that_has_gone_meanwhile_does_not_unsay_what_had_left() -> None:
    service = Service()
    async with serving(service) as url:
        found = await asked(url, ReachingTransport(Network.LOOPBACK), shown=Secret(times=1))
    assert service.seen == ["POST"] and isinstance(found, Doubtful)


async def test_an_address_that_may_not_be_reached_any_more_does_not_either(monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter(["127.0.0.1"])
    monkeypatch.setattr(name_lookups, "resolve", lambda _: [next(said, "10.0.0.1")])
    service = Service()
    async with serving(service) as url:
        found = await asked(url, ReachingTransport(Network.LOOPBACK))
    assert service.seen == ["POST"] and isinstance(found, Doubtful)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("is_signed_in", [True, False], ids=["with a token of a sign-in", "with a fixed one"])
async def test_a_server_that_acts_and_then_lets_nobody_in_does_not_either(
    tmp_path: Path, status: int, is_signed_in: bool
) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"tokens": {"access_token": "a", "token_type": "Bearer"}}))
    service = Service(status=status)
    async with serving(service) as url:
        transport: httpx.AsyncBaseTransport = ReachingTransport(Network.LOOPBACK)
        if is_signed_in:
            transport = Authorized(url, transport, TokenFile(tokens))
        found = await asked(url, transport)
    assert service.seen == ["POST", "GET"] and isinstance(found, Doubtful)
