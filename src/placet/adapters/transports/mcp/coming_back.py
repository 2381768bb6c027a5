"""Where an operator's browser comes back to after a sign-in: one page on this host, for one visit.

GET /callback?code=…&state=…&iss=…   what it says goes to whoever waits, who holds it against what was sent
anything else                        404, and nothing is taken from it
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

PATH: Final = "/callback"
_LONGEST_LINE: Final = 16_384
_READ_SECONDS: Final = 10.0
_SAID: Final = "Thank you. This page may be closed; the command line says whether the sign-in holds.\n"

ComeBack = Callable[[], Awaitable[AuthorizationCodeResult]]


@asynccontextmanager
async def coming_back(port: int) -> AsyncIterator[tuple[str, ComeBack]]:
    """The address to come back to, and the wait for who does, while the block lasts.

    Args:
        port: on the loopback address; 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """
    came: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                line = await reader.readline()
            answer = _answer_in(line)
            if answer is not None and not came.done():
                came.set_result(answer)
            writer.write(_page(is_found=answer is not None))
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(visited, "127.0.0.1", port, limit=_LONGEST_LINE)
    async with server:
        taken = server.sockets[0].getsockname()[1]

        async def come_back() -> AuthorizationCodeResult:
            return await asyncio.shield(came)

        try:
            yield f"http://127.0.0.1:{taken}{PATH}", come_back
        finally:
            came.cancel()


def _answer_in(line: bytes) -> AuthorizationCodeResult | None:
    method, _, rest = line.decode("latin-1").partition(" ")
    target = urlsplit(rest.partition(" ")[0])
    if method != "GET" or target.path != PATH:
        return None
    said = parse_qs(target.query, keep_blank_values=True)
    if any(len(said.get(name, ())) > 1 for name in ("code", "state", "iss")):
        return None  # which of two was meant cannot be told
    first = {name: values[0] for name, values in said.items()}
    return AuthorizationCodeResult(code=first.get("code", ""), state=first.get("state"), iss=first.get("iss"))


def _page(*, is_found: bool) -> bytes:
    status, text = ("200 OK", _SAID) if is_found else ("404 Not Found", "There is nothing here.\n")
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
    )
    return (head + text).encode()
