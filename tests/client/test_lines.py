"""A connection of the synchronous client is cut when the time of its call is over, with TLS as without."""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path

import httpx
import pytest

from placet.client.lines import Line, Lines
from tests.certificates import write_certificate

_BEGINS = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


@pytest.mark.parametrize("is_kept", [False, True], ids=["new", "kept"])
async def test_a_connection_is_cut_below_tls_whether_it_is_new_or_was_kept(tmp_path: Path, is_kept: bool) -> None:
    heads: list[bytes] = []

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while is_kept and not heads:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(_BEGINS)
        hung_up = asyncio.ensure_future(reader.read())
        while not (await asyncio.wait((hung_up,), timeout=0.01))[0]:
            writer.write(b" ")
        writer.close()

    certificate, key = write_certificate(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(drip, "127.0.0.1", 0, ssl=context)
    url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    line = Line({"verify": ssl.create_default_context(cafile=str(certificate)), "timeout": 30.0})

    def get(seconds: float) -> bytes:
        with line.within(seconds), line.client.stream("GET", url, extensions={"trace": line.trace}) as response:
            return b"".join(response.iter_raw())

    if is_kept:
        assert await asyncio.to_thread(get, 30.0) == b"{}"
        assert not line.is_cut
    with pytest.raises(httpx.HTTPError):
        await asyncio.to_thread(get, 0.2)
    assert line.is_cut
    line.client.close()
    server.close()


def test_nothing_of_a_call_cuts_the_next_one() -> None:
    line = Line({})
    for _ in range(20):
        with line.within(30.0):
            assert not line.is_cut
        assert not [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
    line.client.close()


def test_no_two_calls_at_once_are_on_one_line_and_lines_are_used_again() -> None:
    lines = Lines({})
    with lines.line() as first, lines.line() as second:
        assert first is not second
    with lines.line() as again:
        assert again in (first, second)
    lines.close()

    assert first.client.is_closed and second.client.is_closed
