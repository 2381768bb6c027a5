"""Somebody's server that takes messages: it keeps what came, and answers what a test wants.

In a thread of the test, or as a process of its own: `python receiver.py PORT FOLDER`, where `FOLDER/answers.json` lists
what it answers, the last one for ever, and `FOLDER/came.jsonl` is what came.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@contextmanager
def silent(host: str, port: int) -> Iterator[None]:
    """An address at which connections are neither taken nor refused: its queue is full."""
    with ExitStack() as opened:
        listening = opened.enter_context(socket.socket())
        listening.bind((host, port))
        listening.listen(0)
        for _ in range(8):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        yield


class Receiver:
    """Answers on a port of the kernel's choosing.

    Attributes:
        came: each request's path, headers by their small names, and body.
        answers: `[status, headers]` each, or `"hang"`, `"drop"`, `"drip"`; the last one for ever.
    """

    def __init__(self, *answers: Any, context: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.came: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[Any] = list(answers) or [[200, {}]]
        self._over = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver._take(self, (self.path, headers, self.rfile.read(length)))

            def do_GET(self) -> None:
                receiver._take(self, (self.path, {}, b"GET"))

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None: ...

        self._server = Server(("127.0.0.1", port), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port: int = self._server.server_address[1]
        self.url = f"{'http' if context is None else 'https'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def note(self, request: tuple[str, dict[str, str], bytes]) -> None:
        self.came.append(request)

    def _take(self, handler: BaseHTTPRequestHandler, request: tuple[str, dict[str, str], bytes]) -> None:
        self.note(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        match answer:
            case "hang":
                self._over.wait(60)
            case "drop":
                handler.close_connection = True
            case "drip":
                self._drip(handler)
            case [status, headers]:
                handler.send_response(status)
                for name, value in headers.items():
                    handler.send_header(name, value)
                handler.send_header("content-length", "0")
                handler.end_headers()

    def _drip(self, handler: BaseHTTPRequestHandler) -> None:
        """The beginning of an answer, and then a byte now and then."""
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
            while not self._over.wait(0.02):
                handler.wfile.write(b"a")
                handler.wfile.flush()
        except OSError:
            pass


class _OnRecord(Receiver):
    """One in a process of its own, which writes what came."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        super().__init__(*json.loads((folder / "answers.json").read_text()), port=port)

    def note(self, request: tuple[str, dict[str, str], bytes]) -> None:
        path, headers, body = request
        line = json.dumps({"path": path, "headers": headers, "body": body.decode()}) + "\n"
        with self._lock, (self._folder / "came.jsonl").open("a") as file:
            file.write(line)


if __name__ == "__main__":
    serving = _OnRecord(Path(sys.argv[2]), int(sys.argv[1]))
    print(serving.port, flush=True)
    threading.Event().wait()
