"""Connections to other machines, as `httpcore` wants them, on the event loop itself.

What the library has for this goes through a second layer that turns reading off and on around every piece and lets the
loop turn once more for each. Here a request leaves in one piece, when its answer is waited for, and what has come is
kept, within a bound, until it is read: a little in each turn, because what is above makes up to an event of every few
bytes. Nothing that came in clear is ever read as if it had come over TLS.
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
_MOST_HEAD_BYTES: Final = 65_536
"""Of the beginning of an answer: its head, and all that comes before it to say that it takes longer."""
_MOST_HEAD_LINES: Final = 512
"""Of the same, before its last piece; each line costs as much as a long one."""
_FEW_LINES: Final = 64
_SLICE_BYTES: Final = 1_024
"""Of what has more lines than a few, each of which may be an event, no more than this is read in one turn."""


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


class Connection(httpcore.AsyncNetworkStream):
    """One connection. One reader at a time, who is told in time that the head of an answer was there: `has_begun`."""

    def __init__(self, transport: asyncio.Transport, wire: _Wire) -> None:
        self._transport = transport
        self._wire = wire
        self._held = bytearray()
        self._head_bytes: int | None = 0
        self._head_lines = 0
        self._came_since = 0

    def has_begun(self) -> None:
        """The head of the answer was read; what comes now is its body, which somebody else counts."""
        self._head_bytes = None
        self._came_since = 0

    def came_since(self) -> int:
        """How many bytes came since the head was read."""
        return self._came_since

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What came, at least one byte of it; nothing once the other side has ended. What was written leaves first.

        Whoever reads on what is there already lets everybody else have their turn before.

        Raises:
            httpcore.ReadError: it was broken off, or the head of an answer is without end.
            httpcore.ReadTimeout: nothing came.
        """
        self._send()
        wire = self._wire
        if self._head_bytes is not None:
            max_bytes = min(max_bytes, _MOST_HEAD_BYTES - self._head_bytes)
            if max_bytes <= 0 or self._head_lines > _MOST_HEAD_LINES:
                raise httpcore.ReadError("the head of the answer is too large")
        if wire.has_news:
            await asyncio.sleep(0)  # noqa: TID251  # no time passes
        else:
            try:
                async with asyncio.timeout(timeout):
                    await wire.news()
            except TimeoutError as fault:
                raise httpcore.ReadTimeout(str(fault)) from fault
        if wire.unread_bytes:
            piece = wire.take(max_bytes)
            self._came_since += len(piece)
            if self._head_bytes is not None:
                self._head_bytes += len(piece)
                self._head_lines += piece.count(b"\n")
            return piece
        if not wire.has_ended:
            raise httpcore.ReadError(str(wire.fault or "")) from wire.fault
        return b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._wire.is_lost or self._transport.is_closing():
            raise httpcore.WriteError(str(self._wire.fault or "")) from self._wire.fault
        self._held += buffer
        self._head_bytes = self._head_lines = 0
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
        if self._wire.has_news:  # in clear, before anybody has shown who they are: whoever is on the way can say it
            self._transport.abort()
            raise httpcore.ConnectError("something came before TLS began")
        loop, wire = asyncio.get_running_loop(), _SecuredWire()
        try:
            async with asyncio.timeout(timeout):
                secured = await loop.start_tls(self._transport, wire, ssl_context, server_hostname=server_hostname)
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
        wire.connection_made(secured)
        return Connection(secured, wire)

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
        self._begin = 0  # of the first piece
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
        whole, begin = self._pieces[0], self._begin
        if whole.count(b"\n", begin, begin + most_bytes) > _FEW_LINES:
            most_bytes = min(most_bytes, _SLICE_BYTES)
        piece = whole[begin : begin + most_bytes]
        self._begin += len(piece)
        if self._begin == len(whole):
            self._pieces.popleft()
            self._begin = 0
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


class _SecuredWire(_Wire):
    """What the loop says of a connection over TLS, which ends with a word of the other side's own.

    Without it anybody on the way may have cut it off, so an answer that would be whole by its end alone is none.
    """

    def eof_received(self) -> bool:
        if self._was_said():
            self.has_ended = True
        else:
            self.is_lost = True
        self._tell_reader()
        return False  # the other side reads no more either

    def _was_said(self) -> bool:
        over_tls = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        try:
            return over_tls is not None and over_tls.read(1) == b""
        except ssl.SSLError:  # it waits for more
            return False
