"""How a host outside is reached: at an address that was looked at, and at no other.

The host's name is resolved once for each connection, every address is held against where the host may be, and the
connection goes to one of these very addresses, so that a name which says something else a moment later changes nothing.
No redirect is followed, no proxy of the environment used, and no cookie kept. Nothing is logged: the libraries below
would write down what a host answers in its headers, and a client of httpx every address, whatever secret is in it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Final

import httpcore
import httpx

from placet.adapters.connections import Connection, Connections
from placet.adapters.name_lookups import addresses_of
from placet.model.issuers import Network
from placet.rules.issuers import may_be_reached, why_not_fetched

CONNECT_SECONDS: Final = 3.0
"""How long one address that says nothing is waited for, where there is another."""
_SCRAP_BYTES: Final = 256
_MOST_SCRAPS: Final = 1_024
"""An answer in more pieces that are next to nothing is taken slowly: each costs as much as a whole one."""
_SCRAPS_AT_ONCE: Final = 128
_MOST_AROUND_BYTES: Final = 131_072
"""The same of one of which so much more has come than it says: what stands around its pieces is read too."""
_PAUSE_SECONDS: Final = 0.05
_FOREIGN: Final = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)

_is_ours: ContextVar[bool] = ContextVar("placet.reaching", default=False)


class _Unsaid(logging.Filter):
    """What a library says of our own requests is said to nobody; what it says of others' is none of our business."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_ours.get()


for _name in ("httpcore.connection", "httpcore.http11"):
    logging.getLogger(_name).addFilter(_Unsaid())


class AddressRefused(httpx.ConnectError):
    """The address is none that may be reached; nothing was sent."""

    def __init__(self) -> None:
        super().__init__("the address is none that may be reached")


class ReachingTransport(httpx.AsyncBaseTransport):
    """Carries requests to hosts that are where they may be. Used from one event loop, and closed there.

    What fails before a connection is there is a `httpx.ConnectError` or `httpx.ConnectTimeout`, and `AddressRefused` is
    one of the former: nothing was sent. An `httpx.AsyncClient` around it follows no redirect unless it is told to.

    Args:
        network: where hosts may be; http is for this host alone, with `Network.LOOPBACK`.
        ca_file: who has signed the host's certificate; the usual authorities if absent.
        connect_seconds: how long one address that says nothing is waited for, where there is another.
        max_connections: at once; further requests wait for one of them.
        keep_seconds: how long a connection that nobody uses is kept; one that is used again may just have been closed
            by its other side, which leaves it open whether the request arrived. 0: every request has its own.
    """

    def __init__(
        self,
        network: Network,
        *,
        ca_file: Path | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        max_connections: int = 1,
        keep_seconds: float = 0.0,
    ) -> None:
        self._network = network
        self._ca_file = ca_file
        self._backend = _CheckedNetwork(network, connect_seconds)
        self._max_connections = max_connections
        self._keep_seconds = keep_seconds
        self._over_tls: httpcore.AsyncConnectionPool | None = None
        self._allowed: tuple[str, httpcore.URL] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = self._allowed_url(request.url)
        pool = self._in_clear if url.scheme == b"http" else await self._secured()
        wanted = httpcore.Request(
            method=request.method,
            url=url,
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _ByUs():
            answer = await pool.handle_async_request(wanted)
        connection = answer.extensions.get("network_stream")
        came: Callable[[], int] = _nothing
        if isinstance(connection, Connection):
            connection.has_begun()
            came = connection.came_since
        return httpx.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Answer(answer, came),
            extensions=answer.extensions,
        )

    def _allowed_url(self, url: httpx.URL) -> httpcore.URL:
        """As the library below wants it; what was asked for last is known.

        Raises:
            AddressRefused: it is none that may be reached.
        """
        said = str(url)
        if self._allowed is not None and self._allowed[0] == said:
            return self._allowed[1]
        if why_not_fetched(said, self._network) is not None:
            raise AddressRefused
        allowed = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        self._allowed = (said, allowed)
        return allowed

    async def aclose(self) -> None:
        with _ByUs():
            secured, self._over_tls = self._over_tls, None
            for pool in (self.__dict__.pop("_in_clear", None), secured):
                if pool is not None:
                    await pool.aclose()

    @cached_property
    def _in_clear(self) -> httpcore.AsyncConnectionPool:
        # Over http nobody shows a certificate.
        return self._pool(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    async def _secured(self) -> httpcore.AsyncConnectionPool:
        if self._over_tls is None:
            trusted = await trusted_by(self._ca_file)
            if self._over_tls is None:  # another request may have been quicker
                self._over_tls = self._pool(trusted)
        return self._over_tls

    def _pool(self, trusted: ssl.SSLContext) -> httpcore.AsyncConnectionPool:
        return httpcore.AsyncConnectionPool(
            ssl_context=trusted,
            network_backend=self._backend,
            max_connections=self._max_connections,
            max_keepalive_connections=self._max_connections if self._keep_seconds else 0,
            keepalive_expiry=self._keep_seconds,
        )


async def trusted_by(ca_file: Path | None) -> ssl.SSLContext:
    """Whose certificates are believed: read once for the whole process, and again when the file is another.

    Reading the usual authorities takes a tenth of a second, and every session with a service needs them.

    Raises:
        OSError: there is no such file, or it holds no certificate.
    """
    if ca_file is None and _usual:
        return _usual[0]
    return await _in_a_thread_of_its_own(partial(_trusted_by, ca_file))


async def _in_a_thread_of_its_own(read: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Those of the loop are few, and others do in them what takes minutes."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[ssl.SSLContext] = loop.create_future()

    def answered(found: ssl.SSLContext | OSError) -> None:
        if answer.done():  # nobody waits any more
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def work() -> None:
        found: ssl.SSLContext | OSError
        try:
            found = read()
        except OSError as fault:
            found = fault
        except Exception:  # in the words of whichever library found out
            found = OSError("no certificates")
        with suppress(RuntimeError):  # its loop has ended meanwhile
            loop.call_soon_threadsafe(answered, found)

    try:
        threading.Thread(target=work, name="placet-trust", daemon=True).start()
    except RuntimeError:
        raise OSError("no thread to read certificates in") from None
    return await answer


_usual: list[ssl.SSLContext] = []
"""The usual authorities, once somebody has read them."""


def _trusted_by(ca_file: Path | None) -> ssl.SSLContext:
    if ca_file is None:
        _usual[:] = [_read("", 0, 0)]
        return _usual[0]
    found = ca_file.stat()
    return _read(str(ca_file), found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=64)
def _read(ca_file: str, _: int, __: int) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file) if ca_file else httpx.create_ssl_context()
    context.options |= ssl.OP_NO_RENEGOTIATION  # a handshake costs as much as a request, and may be wanted without end
    return context


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were looked at."""

    def __init__(self, network: Network, connect_seconds: float) -> None:
        self._network = network
        self._connect_seconds = connect_seconds
        self._inner = Connections()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._addresses(host, timeout)
        share = self._connect_seconds if timeout is None else min(self._connect_seconds, timeout / len(addresses))
        for address in addresses[:-1]:
            try:
                return await self._inner.connect_tcp(address, port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue  # nothing was sent: a host with several addresses may be reached at another of them
        return await self._inner.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise AddressRefused

    async def _addresses(self, host: str, timeout: float | None) -> list[str]:
        """Where the host is, if all of that is where it may be: one that also names an inner address lies."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await addresses_of(host)
        except TimeoutError as fault:
            raise httpcore.ConnectTimeout(str(fault)) from fault
        except OSError as fault:
            raise httpcore.ConnectError(str(fault)) from fault
        if not addresses or not all(may_be_reached(address, self._network) for address in addresses):
            raise AddressRefused
        return [str(ipaddress.ip_address(address)) for address in addresses]


def _nothing() -> int:
    return 0


class _Answer(httpx.AsyncByteStream):
    """
    Args:
        came: how many bytes of its body came over the connection, with all that stands around its pieces.
    """

    def __init__(self, answer: httpcore.Response, came: Callable[[], int] = _nothing) -> None:
        self._answer = answer
        self._came = came

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces, scraps, said, paid = self._answer.aiter_stream(), 0, 0, 0
        while (piece := await self._next(pieces)) is not None:
            said += len(piece)
            around = self._came() - said
            is_due = around > paid + _MOST_AROUND_BYTES
            if is_due:
                paid = around
            if len(piece) < _SCRAP_BYTES:
                scraps += 1
                is_due = is_due or (scraps > _MOST_SCRAPS and scraps % _SCRAPS_AT_ONCE == 0)
            if is_due:
                await asyncio.sleep(_PAUSE_SECONDS)  # noqa: TID251  # real time: it is the loop that is spared
            yield piece

    async def _next(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        with _ByUs():  # not around the yield: whoever iterates is somebody else
            return await anext(pieces, None)

    async def aclose(self) -> None:
        with _ByUs():
            await self._answer.aclose()


class _ByUs:
    """What the library does for one of our requests, and what it raises in the words of httpx."""

    __slots__ = ("_mark",)

    def __enter__(self) -> None:
        self._mark = _is_ours.set(True)

    def __exit__(self, kind: object, fault: BaseException | None, where: object) -> None:
        _is_ours.reset(self._mark)
        if isinstance(fault, _FOREIGN):
            told = getattr(httpx, type(fault).__name__, httpx.TransportError)
            raise told(str(fault)) from fault
