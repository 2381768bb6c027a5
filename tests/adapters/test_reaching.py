"""A host is reached at an address that was looked at, and what is said on the way is written down nowhere."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpcore
import httpx
import pytest

from placet.adapters import name_lookups
from placet.adapters.identity.fetching import Fetcher, NotFetched
from placet.adapters.notify.posting import Poster
from placet.adapters.reaching import AddressRefused, ReachingTransport, _Answer, trusted_by
from placet.model.issuers import Network
from placet.ports.notifier import NotDelivered
from placet.testing import FakeClock
from tests.adapters.notify.conftest import Names
from tests.certificates import write_certificate
from tests.openapi.conftest import Service, reply

SECRET = "s3cr3t-of-the-address"


@pytest.fixture
def serving() -> Iterator[Callable[..., Service]]:
    opened: list[Service] = []

    def start(*answers: Any) -> Service:
        opened.append(Service(*answers))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


async def asked(transport: ReachingTransport, url: str) -> httpx.Response:
    try:
        response = await transport.handle_async_request(httpx.Request("GET", url))
        await response.aread()
        await response.aclose()
        return response
    finally:
        await transport.aclose()


async def test_an_answer_comes_as_httpx_has_it(serving: Callable[..., Service]) -> None:
    here = serving(reply(201, b'{"a": 1}', x_mark="b"))
    response = await asked(ReachingTransport(Network.LOOPBACK), here.url + "/p?q=r")
    assert (response.status_code, response.json(), response.headers["x-mark"]) == (201, {"a": 1}, "b")
    assert here.came[0].startswith(b"GET /p?q=r HTTP/1.1\r\n")


async def test_a_client_of_httpx_can_use_it_and_follows_nothing(serving: Callable[..., Service]) -> None:
    here = serving(reply(302, location="/other"))
    async with httpx.AsyncClient(transport=ReachingTransport(Network.LOOPBACK), trust_env=False) as client:
        assert (await client.get(here.url)).status_code == 302
    assert len(here.came) == 1


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/", "ftp://127.0.0.1/", "https://user:pw@127.0.0.1/", "http://a.test/"]
)
async def test_what_is_no_address_for_it_is_refused_before_a_name_is_looked_up(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    names = Names(monkeypatch, ["127.0.0.1"])
    with pytest.raises(AddressRefused):
        await asked(ReachingTransport(Network.LOOPBACK), url)
    assert names.asked == []


async def test_a_host_that_is_also_inside_is_not_reached_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch, ["93.184.216.34", "169.254.169.254"])
    with pytest.raises(AddressRefused):
        await asked(ReachingTransport(Network.PUBLIC), "https://mixed.test/")


async def test_a_name_that_nobody_knows_is_a_connection_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: str) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(name_lookups, "resolve", unknown)
    with pytest.raises(httpx.ConnectError):
        await asked(ReachingTransport(Network.PUBLIC), "https://nowhere.test/")
    sent = await Poster(Network.PUBLIC).post("https://nowhere.test/", b"{}", {}, now=FakeClock().now())
    assert sent == NotDelivered(code="unreachable")
    with pytest.raises(NotFetched, match="unreachable"):
        await Fetcher(Network.PUBLIC).get("https://nowhere.test/")


async def test_a_lookup_that_takes_longer_than_connecting_may_is_a_connection_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = threading.Event()
    monkeypatch.setattr(name_lookups, "resolve", lambda _: ["93.184.216.34"] if said.wait(30.0) else [])
    transport = ReachingTransport(Network.PUBLIC)
    request = httpx.Request("GET", "https://slow.test/", extensions={"timeout": {"connect": 0.01}})
    try:
        with pytest.raises(httpx.ConnectTimeout):
            await transport.handle_async_request(request)
    finally:
        said.set()
        await transport.aclose()


async def test_a_kept_connection_is_used_again_where_that_is_wanted(serving: Callable[..., Service]) -> None:
    def twice(connection: socket.socket) -> None:
        connection.sendall(reply())
        connection.recv(65_536)
        connection.sendall(reply(201))

    here = serving(twice)
    transport = ReachingTransport(Network.LOOPBACK, keep_seconds=60.0)
    statuses = []
    for _ in range(2):
        response = await transport.handle_async_request(httpx.Request("GET", here.url))
        await response.aread()
        await response.aclose()
        statuses.append(response.status_code)
    await transport.aclose()
    assert (statuses, here.connected) == ([200, 201], 1)


@pytest.mark.req("B202")
async def test_neither_addresses_nor_answers_are_logged(
    serving: Callable[..., Service], caplog: pytest.LogCaptureFixture
) -> None:
    here = serving(reply(302, location=f"https://elsewhere.test/{SECRET}", set_cookie=f"a={SECRET}"))
    url = f"{here.url}/hook/{SECRET}?key={SECRET}"
    with caplog.at_level(logging.DEBUG):
        await asked(ReachingTransport(Network.LOOPBACK), url)
        await Poster(Network.LOOPBACK).post(url, SECRET.encode(), {"x-key": SECRET}, now=FakeClock().now())
        with pytest.raises(NotFetched):
            await Fetcher(Network.LOOPBACK).post(url, SECRET.encode(), {"x-key": SECRET})
    assert len(here.came) == 3
    assert SECRET not in caplog.text


async def test_what_others_log_of_their_own_requests_is_left_alone(
    serving: Callable[..., Service], caplog: pytest.LogCaptureFixture
) -> None:
    here = serving(reply(x_mark="theirs"))
    with caplog.at_level(logging.DEBUG):
        await asked(ReachingTransport(Network.LOOPBACK), here.url)
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get(here.url)
    assert "theirs" in caplog.text


async def test_who_is_trusted_is_read_once_for_all_transports_and_again_when_it_changed(tmp_path: Path) -> None:
    certificate, _ = write_certificate(tmp_path, "localhost")
    usual, own = await trusted_by(None), await trusted_by(certificate)

    assert await trusted_by(None) is usual is not own
    assert await trusted_by(certificate) is own
    assert all(each.options & ssl.OP_NO_RENEGOTIATION for each in (usual, own))  # whose cost would be ours
    (tmp_path / "other").mkdir()
    other, _ = write_certificate(tmp_path / "other", "localhost", "other.localhost")
    certificate.write_bytes(other.read_bytes() + b"\n")
    assert await trusted_by(certificate) is not own


async def test_who_is_trusted_is_read_although_every_thread_of_the_loop_is_taken(tmp_path: Path) -> None:
    """A knowledge base is built in them for minutes, and a connection waits for none of that."""
    certificate, _ = write_certificate(tmp_path, "localhost")
    may_end, loop = threading.Event(), asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
    building = loop.run_in_executor(None, may_end.wait)
    try:
        async with asyncio.timeout(30):
            assert await trusted_by(certificate) is not await trusted_by(None)
            with pytest.raises(FileNotFoundError):
                await trusted_by(tmp_path / "nothing.pem")
    finally:
        may_end.set()
        await building


async def test_an_answer_in_pieces_of_next_to_nothing_is_taken_slowly_and_any_other_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def no_time(seconds: float) -> None:
        pauses.append(seconds)

    async def pieces(size: int) -> AsyncIterator[bytes]:
        for _ in range(2_048):
            yield b"x" * size

    monkeypatch.setattr(asyncio, "sleep", no_time)
    for size, expected in ((256, 0), (1, 8)):
        pauses.clear()
        answer = _Answer(httpcore.Response(200, content=pieces(size)))
        assert sum([len(piece) async for piece in answer]) == 2_048 * size
        assert pauses == [0.05] * expected


@pytest.mark.parametrize(("around", "expected"), [(8, 0), (64_000, 10)], ids=["sound", "with long words around each"])
async def test_an_answer_of_which_little_is_said_is_read_slowly(
    monkeypatch: pytest.MonkeyPatch, around: int, expected: int
) -> None:
    """What stands around the pieces of an answer is read too, and nobody above sees it."""
    came, pauses = 0, list[float]()

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal came
        for _ in range(30):
            came += around + 4_096
            yield b"x" * 4_096

    async def paused(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("placet.adapters.reaching.asyncio.sleep", paused)
    answer = _Answer(httpcore.Response(200, content=pieces()), lambda: came)
    assert sum([len(piece) async for piece in answer]) == 30 * 4_096
    assert pauses == [0.05] * expected


async def test_a_service_that_says_much_around_its_answer_is_read_to_its_end(
    serving: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = b"100;x=" + b"a" * 60_000 + b"\r\n" + b"y" * 256 + b"\r\n"
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    here, pauses, sleep = serving(head + chunk * 20 + b"0\r\n\r\n"), list[float](), asyncio.sleep

    async def paused(seconds: float) -> None:
        if seconds:
            pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr("placet.adapters.reaching.asyncio.sleep", paused)
    response = await asked(ReachingTransport(Network.LOOPBACK), here.url)
    assert response.content == b"y" * 256 * 20 and len(pauses) > 3
