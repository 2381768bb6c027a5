"""A server in the test's hands: it answers every request with the same bytes, or not at all."""

from __future__ import annotations

import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def read_request(connection: socket.socket) -> bytes:
    """One whole request; empty if there is none, or another protocol is spoken."""
    if connection.recv(1, socket.MSG_PEEK) == b"\x16":  # which is how TLS begins
        return b""
    with connection.makefile("rb") as file:
        lines = []
        while (line := file.readline()).strip():
            lines.append(line)
        head = b"".join(lines)
        length = LENGTH.search(head)
        return head + b"\r\n" + file.read(int(length[1]) if length else 0) if head else b""


class Scripted:
    """
    Attributes:
        says: the whole answer; None keeps silent for as long as the client listens.
        asked: the requests so far.
    """

    def __init__(self) -> None:
        self.says: bytes | None = b""
        self.asked: list[bytes] = []
        self.url = ""
        self.is_asked = threading.Event()

    def answers(self, status: str, body: bytes, *headers: str, length: int | None = None) -> None:
        head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}"]
        self.says = "\r\n".join([*head, "Connection: close", *headers, "", ""]).encode() + body

    def handle(self, connection: socket.socket) -> None:
        request = read_request(connection)
        self.asked.append(request)
        self.is_asked.set()
        if self.says is None:
            connection.recv(1)
        else:
            connection.sendall(self.says)


@contextmanager
def serving(scripted: Scripted) -> Iterator[Scripted]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            scripted.handle(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None: ...

    with Server(("127.0.0.1", 0), Handler) as server:
        scripted.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield scripted
        server.shutdown()
        thread.join()
