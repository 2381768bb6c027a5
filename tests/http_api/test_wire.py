"""What only a real server on a real socket shows: time, size, disconnects, and what a wire says by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from placet.http_api import HttpSettings
from placet.serve.http_server import HttpServer, listening_socket
from tests.http_api.conftest import Api, MakeApi

Opened = tuple[Api, "Wire"]
PROPOSAL = {"run": "r1", "call_id": "c1", "tool": "note", "arguments": {"word": "a"}}


class Wire:
    """Connections to one server."""

    def __init__(self, host: str, port: int, server: HttpServer) -> None:
        self._place = (host, port)
        self._server = server

    def places(self) -> int:
        """How many connections the server holds."""
        return len(self.protocols())

    def protocols(self) -> list[Any]:
        return list(self._server._server.server_state.connections)

    async def until(self, places: int) -> None:
        async with asyncio.timeout(60):
            while self.places() != places:
                await asyncio.sleep(0)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self._place)

    async def says(self, request: bytes) -> bytes:
        """All that is answered to these bytes until the server closes."""
        reader, writer = await self.connect()
        writer.write(request)
        await writer.drain()
        try:
            return await asyncio.wait_for(reader.read(), 60)
        finally:
            writer.close()


def head(method: str = "POST", path: str = "/v1/proposals", *more: str, who: str = "t-agent") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: placet.test", f"Authorization: Bearer {who}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def post(document: object, *more: str, close: bool = True) -> bytes:
    body = json.dumps(document).encode()
    ending = ("Connection: close",) if close else ()
    return (
        head("POST", "/v1/proposals", "Content-Type: application/json", f"Content-Length: {len(body)}", *ending, *more)
        + body
    )


def read(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    start, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = start.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), {name.lower(): value for name, value in headers.items()}, body


@pytest.fixture
async def serve(make_api: MakeApi) -> AsyncIterator[Callable[..., Awaitable[Opened]]]:
    async with AsyncExitStack() as opened:

        async def start(
            *, settings: HttpSettings | None = None, head_seconds: float = 30.0, unread_seconds: float = 30.0
        ) -> Opened:
            api = await make_api(settings=settings or HttpSettings(poll_seconds=0.02))
            at = listening_socket("127.0.0.1", 0)
            host, port = at.getsockname()
            server = HttpServer(
                api.app, at, grace_seconds=1.0, head_seconds=head_seconds, unread_seconds=unread_seconds
            )
            await server.start()
            opened.push_async_callback(server.stop)
            return api, Wire(host, port, server)

        yield start


async def test_a_proposal_goes_over_a_real_wire_and_nothing_says_what_serves(
    serve: Callable[..., Awaitable[Opened]],
) -> None:
    api, wire = await serve()
    status, headers, body = read(await wire.says(post(PROPOSAL)))

    assert (status, json.loads(body)["result"]) == (200, "noted a")
    assert "server" not in headers
    assert api.desk.done == [{"word": "a", "count": 1.0, "many": 0}]


async def test_a_body_that_does_not_come_in_time_is_408_and_nothing_runs(
    serve: Callable[..., Awaitable[Opened]],
) -> None:
    api, wire = await serve(settings=HttpSettings(body_seconds=0.1))
    slow = head("POST", "/v1/proposals", "Content-Type: application/json", "Content-Length: 100") + b'{"run":'
    status, headers, body = read(await wire.says(slow))

    assert (status, json.loads(body)["code"], headers["connection"]) == (408, "body_too_slow", "close")
    assert api.desk.done == []


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_a_body_that_is_too_large_is_413_before_it_is_read_or_while_it_comes(
    serve: Callable[..., Awaitable[Opened]], is_chunked: bool
) -> None:
    api, wire = await serve(settings=HttpSettings(max_body_bytes=1_000))
    kind = "Content-Type: application/json"
    if is_chunked:
        chunk = b"200\r\n" + b"a" * 512 + b"\r\n"
        request = head("POST", "/v1/proposals", kind, "Transfer-Encoding: chunked") + 2 * chunk
    else:
        request = head("POST", "/v1/proposals", kind, "Content-Length: 1001")
    status, headers, body = read(await wire.says(request))

    assert (status, json.loads(body)["code"], headers["connection"]) == (413, "body_too_large", "close")
    assert json.loads(body)["max_bytes"] == 1_000
    assert api.desk.done == []


async def test_a_body_as_large_as_allowed_is_taken(serve: Callable[..., Awaitable[Opened]]) -> None:
    _, wire = await serve(settings=HttpSettings(max_body_bytes=len(json.dumps(PROPOSAL))))
    status, _, _ = read(await wire.says(post(PROPOSAL)))

    assert status == 200


async def test_whoever_sends_a_head_too_slowly_is_cut_off(serve: Callable[..., Awaitable[Opened]]) -> None:
    _, wire = await serve(head_seconds=0.1)

    assert await wire.says(b"") == b""
    assert await wire.says(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ") == b""
    reader, writer = await wire.connect()
    writer.write(head("GET", "/healthz"))
    assert (await asyncio.wait_for(reader.readuntil(b"}"), 30)).startswith(b"HTTP/1.1 200")
    writer.write(b"GET /healthz HT")
    assert await asyncio.wait_for(reader.read(), 20) == b""
    writer.close()


async def test_a_head_that_is_too_large_is_refused(serve: Callable[..., Awaitable[Opened]]) -> None:
    _, wire = await serve()
    whole = head("GET", "/v1/tools", "Connection: close", "X-Large: " + "a" * 16_384)
    endless = b"GET /v1/tools HTTP/1.1\r\nX-Large: " + b"a" * 100_000
    status, _, body = read(await wire.says(whole))

    assert (status, json.loads(body)["code"]) == (431, "head_too_large")
    assert read(await wire.says(endless))[0] == 400


async def test_two_lengths_of_one_body_are_refused(serve: Callable[..., Awaitable[Opened]]) -> None:
    api, wire = await serve()
    for lines in (("Content-Length: 5", "Content-Length: 6"), ("Content-Length: 5", "Transfer-Encoding: chunked")):
        request = (
            head("POST", "/v1/proposals", "Content-Type: application/json", "Connection: close", *lines) + b"0\r\n\r\n"
        )
        status, _, _ = read(await wire.says(request))
        assert status == 400
    assert api.desk.done == []


async def test_a_client_that_goes_while_its_tool_runs_loses_nothing(serve: Callable[..., Awaitable[Opened]]) -> None:
    """The attempt ends, its result is on record, and the same ask is answered from there."""
    api, wire = await serve()
    proposal = PROPOSAL | {"tool": "slow"}
    _, writer = await wire.connect()
    writer.write(post(proposal, close=False))
    await asyncio.wait_for(api.desk.begun.wait(), 30)
    writer.close()
    await writer.wait_closed()
    api.desk.may_end.set()

    status, _, body = read(await wire.says(post(proposal)))

    assert (status, json.loads(body)["result"]) == (200, "slowly a")
    assert api.desk.done == [{"word": "a"}]
    assert [event["kind"] for event in await api.events("started", "completed")][:2] == ["started", "completed"]


async def test_a_client_that_goes_while_it_waits_gives_its_place_back_at_once(
    serve: Callable[..., Awaitable[Opened]],
) -> None:
    api, wire = await serve(settings=HttpSettings(poll_seconds=3_000.0, max_wait_seconds=3_000.0, max_waiting_each=1))
    question = PROPOSAL | {"tool": "pay", "arguments": {"amount": 1}}
    _, writer = await wire.connect()
    writer.write(post(question, "Prefer: wait=3000", close=False))
    waiting = api.app.state.door.waiting
    async with asyncio.timeout(30):
        while not waiting._room._inside:
            await asyncio.sleep(0.001)
        writer.close()
        while waiting._room._inside:
            await asyncio.sleep(0.001)

    assert len(await api.events("approval_asked")) == 1


async def test_head_and_options_are_answered_and_decide_nothing(serve: Callable[..., Awaitable[Opened]]) -> None:
    api, wire = await serve()
    view = await api.asked()
    for method in ("HEAD", "OPTIONS", "GET", "TRACE"):
        path = f"/v1/approvals/{view['approval_id']}/decision"
        status, headers, _ = read(await wire.says(head(method, path, "Connection: close", who="t-mara")))
        assert (status, headers["allow"]) == (405, "POST")
    assert await api.events("approval_approved", "approval_denied") == []


@pytest.mark.parametrize("target", ["http://evil.test/v1/tools", "*", "/v1/../v1/tools", "/v1/tools%00"])
async def test_other_forms_of_a_target_are_no_address(serve: Callable[..., Awaitable[Opened]], target: str) -> None:
    _, wire = await serve()
    status, _, _ = read(await wire.says(head("GET", target, "Connection: close")))

    assert status in (400, 404)


async def test_a_websocket_is_not_opened(serve: Callable[..., Awaitable[Opened]]) -> None:
    _, wire = await serve()
    lines = ("Connection: Upgrade, close", "Upgrade: websocket", "Sec-WebSocket-Key: a", "Sec-WebSocket-Version: 13")
    status, _, _ = read(await wire.says(head("GET", "/v1/approvals/events", *lines, who="t-agent")))

    assert status == 403


async def test_a_body_whose_end_is_said_in_two_ways_is_not_read_and_nothing_after_it_either(
    serve: Callable[..., Awaitable[Opened]],
) -> None:
    """What stands in front may go by the other one, and take the rest of it for somebody else's request."""
    api, wire = await serve()
    body = json.dumps(PROPOSAL).encode()
    both = ("Content-Type: application/json", "Transfer-Encoding: chunked", "Content-Length: 6")
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    said = await wire.says(head("POST", "/v1/proposals", *both) + chunked + head("GET", "/healthz"))

    status, headers, _ = read(said)
    assert (status, headers["connection"], said.count(b"HTTP/1.1")) == (400, "close", 1)
    assert api.desk.done == []


async def test_a_body_that_is_said_to_be_encoded_too_is_415(serve: Callable[..., Awaitable[Opened]]) -> None:
    api, wire = await serve()
    status, _, body = read(
        await wire.says(post(PROPOSAL, "Content-Encoding: identity", "Content-Encoding: gzip")),
    )

    assert (status, json.loads(body)["code"]) == (415, "media_type_unsupported")
    assert api.desk.done == []


# ---------------------------------------------------------------- whoever does not read


async def test_whoever_reads_nothing_of_its_answer_holds_no_place(serve: Callable[..., Awaitable[Opened]]) -> None:
    """More than the sockets of both ends hold, asked for on one connection, and not a byte of it read."""
    _, wire = await serve(unread_seconds=0.1)
    _, writer = await wire.connect()
    await wire.until(1)
    writer.transport.pause_reading()
    with suppress(ConnectionError):
        while wire.places():
            writer.write(head("GET", "/openapi.json") * 20)
            await asyncio.wait_for(writer.drain(), 60)
    await wire.until(0)
    writer.close()


async def test_whoever_has_taken_something_since_the_last_look_is_served_on(
    serve: Callable[..., Awaitable[Opened]],
) -> None:
    _, wire = await serve(unread_seconds=3_600.0)
    _, writer = await wire.connect()
    await wire.until(1)
    writer.transport.pause_reading()
    (protocol,) = wire.protocols()
    while not protocol.flow.write_paused:
        writer.write(head("GET", "/openapi.json") * 20)
        await asyncio.sleep(0)
    left = protocol.transport.get_write_buffer_size()
    protocol._look_now(left + 1)
    assert not protocol.transport.is_closing()
    protocol._look_now(left)
    await wire.until(0)
    writer.close()


async def test_whoever_reads_slowly_is_served_to_the_end(serve: Callable[..., Awaitable[Opened]]) -> None:
    _, wire = await serve(unread_seconds=30.0)
    request = head("GET", "/openapi.json")
    whole = await wire.says(head("GET", "/openapi.json", "Connection: close"))
    reader, writer = await wire.connect()
    writer.write(request * 9 + head("GET", "/openapi.json", "Connection: close"))
    taken = 0
    while piece := await asyncio.wait_for(reader.read(1_000), 60):
        taken += len(piece)
    writer.close()

    assert taken >= 9 * len(whole)
