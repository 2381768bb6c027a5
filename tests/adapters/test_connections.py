"""A connection sends a request whole, keeps a bounded part of what nobody reads, and says exactly how it ended."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpcore
import pytest

from placet.adapters.connections import Connection, Connections
from tests.certificates import write_certificate

MANY = 1 << 20


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30.0)
        yield listening


@asynccontextmanager
async def connected(listener: socket.socket) -> AsyncIterator[tuple[Connection, socket.socket]]:
    """Our end and the other one, which does not block."""
    ours = await Connections().connect_tcp(*listener.getsockname())
    assert isinstance(ours, Connection)
    theirs, _ = listener.accept()
    theirs.setblocking(False)
    try:
        with theirs:
            yield ours, theirs
    finally:
        await ours.aclose()


async def heard(theirs: socket.socket) -> bytes:
    async with asyncio.timeout(30.0):
        return await asyncio.get_running_loop().sock_recv(theirs, MANY)


async def reading(ours: Connection) -> asyncio.Task[bytes]:
    """One who waits already."""
    task = asyncio.create_task(ours.read(MANY))
    await asyncio.sleep(0)
    return task


async def test_what_is_written_leaves_in_one_piece_when_its_answer_is_waited_for(listener: socket.socket) -> None:
    async with connected(listener) as (ours, theirs):
        await ours.write(b"head ")
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        await ours.write(b"body")
        answer = await reading(ours)
        assert await heard(theirs) == b"head body"
        theirs.send(b"answer")
        assert await asyncio.wait_for(answer, 30.0) == b"answer"


async def test_a_piece_that_is_larger_than_what_is_asked_for_comes_in_parts(listener: socket.socket) -> None:
    async with connected(listener) as (ours, theirs):
        answer = await reading(ours)
        theirs.send(b"abcdef")
        assert await asyncio.wait_for(answer, 30.0) == b"abcdef"
        answer = asyncio.create_task(ours.read(4))
        theirs.send(b"ghijkl")
        assert (await asyncio.wait_for(answer, 30.0), await ours.read(4)) == (b"ghij", b"kl")


async def test_of_what_nobody_reads_no_more_than_a_bound_is_kept_and_all_of_it_can_still_be_read(
    listener: socket.socket,
) -> None:
    async with connected(listener) as (ours, theirs):
        sent = turns = 0
        while sent < 64 * MANY and turns < 100:
            try:
                sent += theirs.send(b"x" * 65_536)
                turns = 0
            except BlockingIOError:
                await asyncio.sleep(0)
                turns += 1
        assert sent < 64 * MANY, "the other side is never told to wait"
        assert ours._wire.unread_bytes < 65_536 + 262_144 + 1
        theirs.shutdown(socket.SHUT_WR)
        ours.has_begun()
        came = 0
        while piece := await asyncio.wait_for(ours.read(MANY), 30.0):
            came += len(piece)
        assert came == sent


async def test_what_came_to_an_idle_connection_shows_before_the_loop_has_turned(listener: socket.socket) -> None:
    async with connected(listener) as (ours, theirs):
        assert not ours.get_extra_info("is_readable")
        theirs.shutdown(socket.SHUT_WR)
        assert select.select([ours.get_extra_info("socket")], [], [], 30.0)[0]
        assert ours.get_extra_info("is_readable")
    assert ours.get_extra_info("is_readable"), "one that is closed is of no use either"


async def test_whoever_stops_waiting_takes_nothing_along(listener: socket.socket) -> None:
    async with connected(listener) as (ours, theirs):
        answer = await reading(ours)
        answer.cancel()
        await asyncio.wait((answer,))
        theirs.send(b"later")
        assert await asyncio.wait_for(ours.read(MANY), 30.0) == b"later"


async def test_silence_is_a_timeout(listener: socket.socket) -> None:
    async with connected(listener) as (ours, _):
        with pytest.raises(httpcore.ReadTimeout):
            await ours.read(MANY, timeout=0.001)


async def test_a_request_that_nobody_reads_is_a_timeout(listener: socket.socket) -> None:
    async with connected(listener) as (ours, _):
        with pytest.raises(httpcore.WriteTimeout):
            await ours.write(b"x" * 64 * MANY, timeout=0.001)


async def test_a_large_request_waits_for_its_reader(listener: socket.socket) -> None:
    async with connected(listener) as (ours, theirs):
        writing = asyncio.create_task(ours.write(b"x" * 16 * MANY))
        came = 0
        while came < 16 * MANY:
            came += len(await heard(theirs))
        await asyncio.wait_for(writing, 30.0)


async def test_an_answer_may_end_while_its_request_is_still_being_written(listener: socket.socket) -> None:
    async with connected(listener) as (ours, theirs):
        await ours.write(b"head ")
        answer = await reading(ours)
        assert await heard(theirs) == b"head "
        theirs.send(b"no more")
        theirs.shutdown(socket.SHUT_WR)
        assert await asyncio.wait_for(answer, 30.0) == b"no more"
        assert await asyncio.wait_for(ours.read(MANY), 30.0) == b""
        await ours.write(b"body")
        assert await ours.read(MANY) == b""
        assert await heard(theirs) == b"body"


async def test_a_connection_that_was_broken_off_is_a_fault_and_no_end(listener: socket.socket) -> None:
    async with connected(listener) as (ours, theirs):
        answer = await reading(ours)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        with pytest.raises(httpcore.ReadError):
            await asyncio.wait_for(answer, 30.0)
        with pytest.raises(httpcore.WriteError):
            await ours.write(b"more")


async def test_what_came_before_it_was_broken_off_is_read_first(listener: socket.socket) -> None:
    async with connected(listener) as (ours, theirs):
        theirs.send(b"said")
        assert await asyncio.wait_for(ours.read(2), 30.0) == b"sa"
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        while not ours._wire.is_lost:
            await asyncio.sleep(0)
        assert await ours.read(MANY) == b"id"
        with pytest.raises(httpcore.ReadError):
            await ours.read(MANY)


async def test_an_address_where_nobody_listens_is_a_connection_that_failed() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(httpcore.ConnectError):
            await Connections().connect_tcp(*taken.getsockname())


async def over_tls(listener: socket.socket, folder: Path, goodbye: str) -> tuple[int, str]:
    """How many bytes of an answer of `MANY` came, and how it ended."""
    certificate, key = write_certificate(folder, "here.test")
    speaking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    speaking.load_cert_chain(certificate, key)

    def answers() -> None:
        accepted, _ = listener.accept()
        with accepted, speaking.wrap_socket(accepted, server_side=True) as theirs:
            theirs.recv(MANY)
            theirs.sendall(b"x" * MANY)
            if goodbye == "said":
                theirs.unwrap().close()
            else:
                theirs.shutdown(socket.SHUT_WR)

    answering = asyncio.create_task(asyncio.to_thread(answers))
    bare = await Connections().connect_tcp(*listener.getsockname())
    trusted = ssl.create_default_context(cafile=certificate)
    ours = await bare.start_tls(trusted, "here.test", timeout=30.0)
    assert isinstance(ours, Connection) and ours.get_extra_info("ssl_object") is not None
    await ours.write(b"request")
    ours.has_begun()
    came, end = 0, "ended"
    try:
        while piece := await asyncio.wait_for(ours.read(65_536), 30.0):
            came += len(piece)
    except httpcore.ReadError:
        end = "broken off"
    await ours.aclose()
    await answering
    return came, end


async def test_over_tls_all_of_it_comes_and_then_the_end(
    listener: socket.socket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await over_tls(listener, tmp_path, "said") == (MANY, "ended")
    assert not caplog.records


async def test_over_tls_an_end_that_anybody_on_the_way_may_have_made_is_a_fault(
    listener: socket.socket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await over_tls(listener, tmp_path, "unsaid") == (MANY, "broken off")
    assert not caplog.records


async def test_what_came_in_clear_is_never_read_as_what_came_over_tls(listener: socket.socket, tmp_path: Path) -> None:
    certificate, _ = write_certificate(tmp_path, "here.test")
    async with connected(listener) as (ours, theirs):
        theirs.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nEVIL")
        async with asyncio.timeout(30.0):
            while not ours._wire.has_news:
                await asyncio.sleep(0)
        with pytest.raises(httpcore.ConnectError, match="before TLS"):
            await ours.start_tls(ssl.create_default_context(cafile=certificate), "here.test", timeout=30.0)
        with suppress(ConnectionResetError):
            assert await heard(theirs) == b"", "a word of ours left"


async def test_a_side_that_begins_no_tls_is_a_connection_that_failed(listener: socket.socket) -> None:
    async with connected(listener) as (ours, theirs):
        beginning = asyncio.create_task(ours.start_tls(httpcore.default_ssl_context(), "here.test", timeout=30.0))
        await heard(theirs)
        theirs.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(httpcore.ConnectError):
            await beginning
        with pytest.raises(httpcore.WriteError):
            await ours.write(b"in clear")


class Turns:
    """How often the loop has turned."""

    def __init__(self) -> None:
        self.count = 0
        self._goes_on = True
        asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        self.count += 1
        if self._goes_on:
            asyncio.get_running_loop().call_soon(self._tick)

    def end(self) -> None:
        self._goes_on = False


async def all_there(ours: Connection, theirs: socket.socket, said: bytes) -> None:
    theirs.sendall(said)
    async with asyncio.timeout(30.0):
        while ours._wire.unread_bytes < len(said):
            await asyncio.sleep(0)


async def test_everybody_has_their_turn_before_each_little_of_what_may_be_many_events(listener: socket.socket) -> None:
    said = b"1\r\n \r\n" * 5_000
    async with connected(listener) as (ours, theirs):
        await all_there(ours, theirs, said)
        ours.has_begun()
        turns, came, seen = Turns(), b"", set()
        while len(came) < len(said):
            came += await ours.read(65_536)
            seen.add(turns.count)
        turns.end()
    assert came == said
    assert len(seen) >= len(said) / 1_024, "more was read in one turn"


async def test_what_has_few_lines_is_read_at_once(listener: socket.socket) -> None:
    async with connected(listener) as (ours, theirs):
        await all_there(ours, theirs, b"x" * 30_000)
        assert len(await ours.read(65_536)) > 20_000


@pytest.mark.parametrize("lines", [b"a:b\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"], ids=["headers", "more to come"])
async def test_a_head_of_very_many_lines_is_not_read_to_its_end(listener: socket.socket, lines: bytes) -> None:
    """Each of them costs as much as a long one, and a server can have us ask for such heads."""
    async with connected(listener) as (ours, theirs):
        for _ in range(2):
            await ours.write(b"request")
            answer = await reading(ours)
            theirs.setblocking(True)
            sending = asyncio.create_task(asyncio.to_thread(theirs.sendall, lines * 2_000))
            came = await asyncio.wait_for(answer, 30.0)
            with pytest.raises(httpcore.ReadError):
                while True:
                    came += await asyncio.wait_for(ours.read(65_536), 30.0)
            await sending
            assert 512 < came.count(b"\n") <= 512 + 1_024
            ours.has_begun()
            left = len(lines) * 2_000 - len(came)
            while left:
                left -= len(await asyncio.wait_for(ours.read(65_536), 30.0))


async def test_the_head_of_an_answer_comes_to_an_end_and_its_body_goes_on(listener: socket.socket) -> None:
    said = (b"HTTP/1.1 103 Early Hints\r\nlink: " + b"x" * 900 + b"\r\n\r\n") * 100
    async with connected(listener) as (ours, theirs):
        await ours.write(b"request")
        answer = await reading(ours)
        theirs.setblocking(True)
        sending = asyncio.create_task(asyncio.to_thread(theirs.sendall, said))
        came = len(await asyncio.wait_for(answer, 30.0))
        with pytest.raises(httpcore.ReadError):
            while True:
                came += len(await asyncio.wait_for(ours.read(65_536), 30.0))
        assert came == 65_536
        ours.has_begun()
        while came < len(said):
            came += len(await asyncio.wait_for(ours.read(65_536), 30.0))
        await sending
        await ours.write(b"the next request")
        sending = asyncio.create_task(asyncio.to_thread(theirs.sendall, said))
        came = 0
        with pytest.raises(httpcore.ReadError):
            while True:
                came += len(await asyncio.wait_for(ours.read(65_536), 30.0))
        await sending
        assert came == 65_536, "the next head is counted anew"
