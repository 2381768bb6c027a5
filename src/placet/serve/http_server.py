"""One HTTP listener. It is uvicorn, and this is what it does not do by itself:

- whoever sends the head of a request too slowly, begins no TLS, or reads nothing of its answer, is cut off;
- a body whose end is said in two ways is not read;
- nothing is said to the outside of what serves here, and nothing of a request is logged by anybody but the API;
- signals are left to whoever owns the process.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from placet.errors import ConfigurationError
from placet.http_api.guard import MAX_HEAD_BYTES
from placet.serve.unread import UNREAD_SECONDS, LetsGoOfUnread

MAX_CONNECTIONS = 4_096
KEEP_ALIVE_SECONDS = 30
HEAD_SECONDS = 15.0
_BACKLOG = 512
_log = logging.getLogger("placet.serve")


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address of this machine; port 0 lets the system choose.

    Raises:
        ConfigurationError: it cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.socket(family, kind, protocol)
    except OSError:
        raise _no_place(host, port) from None
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(_BACKLOG)
        opened.setblocking(False)
        return opened
    except OSError:
        opened.close()
    raise _no_place(host, port)


def url_of(at: socket.socket, *, tls: ssl.SSLContext | None) -> str:
    """Where a listener at this socket is, for this machine."""
    host, port = at.getsockname()[:2]
    return f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"


def _no_place(host: str, port: int) -> ConfigurationError:
    return ConfigurationError(
        f"This process cannot listen at {host!r}, port {port}.",
        code="cannot_listen",
        hint="Another process has the port, or the address is not this machine's: --host, --port.",
    )


class HttpServer:
    """Serves one application on one socket, in the event loop that starts it.

    Attributes:
        url: where it is.
    """

    def __init__(
        self,
        app: ASGIApp,
        at: socket.socket,
        *,
        grace_seconds: float = 5.0,
        head_seconds: float = HEAD_SECONDS,
        unread_seconds: float = UNREAD_SECONDS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """
        Args:
            tls: without it, it speaks plain HTTP.
            grace_seconds: how long answers that are under way may take once it is told to stop.
            head_seconds: how long a client may take to send the head of a request, and before that to agree on TLS.
            unread_seconds: how long a client may take nothing of its answer.
        """
        self.url = url_of(at, tls=tls)
        self._socket = at
        self._grace_seconds = grace_seconds
        self._server = _Server(
            uvicorn.Config(
                _with_one_length(app),
                http=_protocol(head_seconds, unread_seconds),
                ws="none",
                lifespan="off",
                loop="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ssl_context_factory=None if tls is None else lambda config, usual: tls,
                limit_concurrency=MAX_CONNECTIONS,
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=max(1, int(grace_seconds)),
            ),
            handshake_seconds=None if tls is None else head_seconds,
        )
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """It answers when this returns."""
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[self._socket]))
        started = asyncio.ensure_future(self._server.has_started.wait())
        await asyncio.wait((self._serving, started), return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._serving.done():
            self._serving.result()

    async def stop(self) -> None:
        """Accept nobody more, let answers end within the grace, and cut off the rest."""
        if self._serving is None:
            self._socket.close()
            return
        self._server.should_exit = True
        await asyncio.wait((self._serving,), timeout=2 * self._grace_seconds + 5.0)


def _with_one_length(app: ASGIApp) -> ASGIApp:
    """Refuses a body whose end is said in two ways, and what comes after it: a proxy may have gone by the other one.

    Source: RFC 9112, section 6.1.
    """

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope.get("headers", ())}
        if {b"content-length", b"transfer-encoding"} <= names:
            answer: ASGIApp = PlainTextResponse("two_lengths\n", 400, headers={"Connection": "close"})
        else:
            answer = app
        await answer(scope, receive, send)

    return served


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, *, handshake_seconds: float | None) -> None:
        super().__init__(config)
        self._handshake_seconds = handshake_seconds
        self.has_started = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As the library does it, which leaves whoever never begins TLS a minute and has no setting for it."""
        protocol: Any = partial(
            cast(Any, self.config.http_protocol_class),
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self.servers = [
            await asyncio.get_running_loop().create_server(
                protocol,
                sock=each,
                ssl=self.config.ssl,
                backlog=self.config.backlog,
                ssl_handshake_timeout=self._handshake_seconds,
            )
            for each in sockets or ()
        ]
        self.started = True
        self.has_started.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they are the process's


def _protocol(head_seconds: float, unread_seconds: float) -> type[H11Protocol]:
    class Protocol(LetsGoOfUnread):
        """Counts the time a client takes to send the head of a request, from its first byte on a new connection or
        after the last answer; how long the body may take is the API's to say.
        """

        _head_deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._await_head()

        def data_received(self, data: bytes) -> None:
            if self._head_deadline is None and self._is_between_requests():
                self._await_head()
            super().data_received(data)
            if not self._is_between_requests():
                self._forget_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget_head()
            super().connection_lost(exc)

        def _is_between_requests(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _await_head(self) -> None:
            self._head_deadline = self.loop.call_later(head_seconds, self._cut_off)

        def _forget_head(self) -> None:
            if self._head_deadline is not None:
                self._head_deadline.cancel()
                self._head_deadline = None

        def _cut_off(self) -> None:
            self._head_deadline = None
            if self._is_between_requests() and not self.transport.is_closing():
                _log.info("client too slow")
                self.transport.close()

    Protocol.unread_seconds = unread_seconds
    return Protocol
