"""Over TLS of the listener's own every answer comes whole, small ones and large ones."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import httpx

from placet.model.serving import Certificate
from placet.serve.http_server import HttpServer, listening_socket
from placet.serve.tls import tls_of
from tests.certificates import write_certificate

PATIENCE_SECONDS = 60
LARGE = b"x" * 3_000_000


async def app(scope: Any, receive: Any, send: Any) -> None:
    body = LARGE if scope["path"] == "/large" else b"small"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def test_answers_come_whole(tmp_path: Path) -> None:
    chain, key = write_certificate(tmp_path, "127.0.0.1")
    server = HttpServer(
        app, listening_socket("127.0.0.1", 0), grace_seconds=1.0, tls=tls_of(Certificate(chain=chain, key=key))
    )
    await server.start()
    trusted = ssl.create_default_context(cafile=str(chain))
    async with httpx.AsyncClient(verify=trusted, base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        one_by_one = [(await client.get(path)).content for path in ("/", "/large", "/", "/", "/large")]
        together = await asyncio.gather(*(client.get("/") for _ in range(20)))
    await server.stop()

    assert one_by_one == [b"small", LARGE, b"small", b"small", LARGE]
    assert [answer.content for answer in together] == [b"small"] * 20


async def test_whoever_begins_no_tls_is_let_go_as_soon_as_whoever_sends_no_head(tmp_path: Path) -> None:
    """The library would wait for a minute."""
    chain, key = write_certificate(tmp_path, "127.0.0.1")
    place = listening_socket("127.0.0.1", 0)
    tls = tls_of(Certificate(chain=chain, key=key))
    server = HttpServer(app, place, grace_seconds=1.0, head_seconds=0.2, tls=tls)
    await server.start()
    reader, writer = await asyncio.open_connection(*place.getsockname()[:2])
    said = await asyncio.wait_for(reader.read(1), 30)
    writer.close()
    await server.stop()

    assert said == b""
