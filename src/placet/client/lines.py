"""The connections of the synchronous client, each used by one call at a time, so that a call can be cut at its end.

A socket's own limit is of one read, and whoever sends a byte now and then keeps every one of them. The library tells of
each connection that it makes; a watch beside the call shuts it down when the time is over.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

_MADE = ("connect_tcp.complete", "start_tls.complete")


class Line:
    """A client of the library for one call at a time, and with it the connection it uses.

    Attributes:
        client: it.
        is_cut: whether the time of the call ran out.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.client = httpx.Client(**options)
        self.is_cut = False
        self._socket: socket.socket | None = None

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Cut what happens in here off when this time is over; never, where it is None."""
        self.is_cut = False
        if seconds is None:
            yield
            return
        watch = threading.Timer(seconds, self._cut)
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()
            watch.join()  # so that the next call on this line is not what it cuts

    def trace(self, name: str, told: dict[str, Any]) -> None:
        """What the library tells of a call as it goes."""
        if name.endswith(_MADE):
            self._socket = told["return_value"].get_extra_info("socket")
            if self.is_cut:
                self._shut()

    def _cut(self) -> None:
        self.is_cut = True
        self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # closed already
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # below TLS, which may wait for the other end


class Lines:
    """As many lines as there are calls at once."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._idle = deque([Line(options)])

    @contextmanager
    def line(self) -> Iterator[Line]:
        try:
            found = self._idle.pop()
        except IndexError:
            found = Line(self._options)
        try:
            yield found
        finally:
            self._idle.append(found)

    def close(self) -> None:
        for line in tuple(self._idle):
            line.client.close()
