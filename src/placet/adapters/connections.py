"""Connections to other machines, as `httpcore` wants them, on the event loop itself.

What the library has for this goes through a second layer that turns reading off and on around every piece and lets the
loop turn once more for each. Here a request leaves in one piece, when its answer is waited for, and what has come is
kept, within a bound, until it is read.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, cast

import httpcore

_MOST_HELD_BYTES: Final = 65_536
"""Of a request, that wait for the rest of it; what is larger leaves in pieces."""
_MOST_UNREAD_BYTES: Final = 65_536
"""From so many on nothing more is taken from the other side; as much again as one look brings may be there by then."""


class Connections(httpcore.AsyncNetworkBackend):
    """Opens connections over TCP. Used from one event loop."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        local = None if local_address is None else (local_address, 0)
        try:
            async with asyncio.timeout(timeout):
                transport, wire = await loop.create_connection(_Wire, host, port, local_addr=local)
        except TimeoutError as fault:
            raise httpcore.ConnectTimeout(str(fault)) from fault
        except OSError as fault:
            raise httpcore.ConnectError(str(fault)) from fault
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return Connection(transport, wire)

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError  # the library tries again only where it is told to, and it is not


class Connection(httpcore.AsyncNetworkStream):
    """One connection. One reader at a time."""

    def __init__(self, transport: asyncio.Transport, wire: _Wire) -> None:
        self._transport = transport
        self._wire = wire
        self._held = bytearray()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What came, at least one byte of it; nothing once the other side has ended. What was written leaves first."""
        self._send()
        wire = self._wire
        if not wire.has_news:
            try:
                async with asyncio.timeout(timeout):
                    await wire.news()
            except TimeoutError as fault:
                raise httpcore.ReadTimeout(str(fault)) from fault
        if wire.unread_bytes:
            return wire.take(max_bytes)
        if not wire.has_ended:
            raise httpcore.ReadError(str(wire.fault or "")) from wire.fault
        return b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._wire.is_lost or self._transport.is_closing():
            raise httpcore.WriteError(str(self._wire.fault or "")) from self._wire.fault
        self._held += buffer
        if len(self._held) < _MOST_HELD_BYTES:
            return
        self._send()
        try:
            async with asyncio.timeout(timeout):
                await self._wire.drained()
        except TimeoutError as fault:
            raise httpcore.WriteTimeout(str(fault)) from fault

    async def aclose(self) -> None:
        self._transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                secured = await loop.start_tls(
                    self._transport, self._wire, ssl_context, server_hostname=server_hostname
                )
        except TimeoutError as fault:
            self._transport.abort()
            raise httpcore.ConnectTimeout(str(fault)) from fault
        except OSError as fault:  # what TLS itself refuses is one too
            self._transport.abort()
            raise httpcore.ConnectError(str(fault)) from fault
        except BaseException:
            self._transport.abort()
            raise
        if secured is None:  # typed so by the library: the connection was lost meanwhile
            raise httpcore.ConnectError("the connection ended while TLS began")
        self._wire.connection_made(secured)
        return Connection(secured, self._wire)

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "is_readable":
                return self._is_readable()
            case "server_addr":
                return self._transport.get_extra_info("peername")
            case "client_addr":
                return self._transport.get_extra_info("sockname")
            case "ssl_object" | "socket":
                return self._transport.get_extra_info(info)
            case _:
                return None

    def _send(self) -> None:
        if self._held:
            held, self._held = self._held, bytearray()
            self._transport.write(held)

    def _is_readable(self) -> bool:
        """Whether something came, the end included, that the loop may not have taken notice of yet."""
        if self._wire.has_news or self._transport.is_closing():
            return True
        found = self._transport.get_extra_info("socket")
        number = -1 if found is None else found.fileno()
        if number < 0:
            return True
        looking = select.poll()
        looking.register(number, select.POLLIN)
        return bool(looking.poll(0))


class _Wire(asyncio.Protocol):
    """What the loop says of a connection."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._transport: asyncio.Transport | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        self._is_full = False
        self._is_paused = False
        self.unread_bytes = 0
        self.has_ended = False
        self.fault: Exception | None = None
        self.is_lost = False

    @property
    def has_news(self) -> bool:
        return self.unread_bytes > 0 or self.has_ended or self.is_lost

    async def news(self) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    async def drained(self) -> None:
        if self._is_full:
            writer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._writers.append(writer)
            await writer

    def take(self, most_bytes: int) -> bytes:
        piece = self._pieces.popleft()
        if len(piece) > most_bytes:
            self._pieces.appendleft(piece[most_bytes:])
            piece = piece[:most_bytes]
        self.unread_bytes -= len(piece)
        if self._is_paused and self.unread_bytes < _MOST_UNREAD_BYTES and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return piece

    # ------------------------------------------------------------ the loop's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self.unread_bytes += len(data)
        if self.unread_bytes >= _MOST_UNREAD_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._tell_reader()

    def eof_received(self) -> bool:
        self.has_ended = True
        self._tell_reader()
        return True  # an answer may end so while the request is still being written

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost, self.fault = True, exc
        self._tell_reader()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        writers, self._writers = self._writers, []
        for writer in writers:
            if not writer.done():
                writer.set_result(None)

    def _tell_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
