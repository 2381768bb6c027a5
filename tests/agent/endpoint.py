"""An endpoint that speaks Chat Completions, in a process's own thread: it says what its script says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Endpoint:
    """Attributes:
    script: status and body of each answer, in their order.
    asked: what came, as it was decoded; with the header that carried the credential.
    headers: sent with every answer.
    """

    script: list[tuple[int, bytes]]
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@contextmanager
def endpoint(script: Sequence[object]) -> Iterator[Endpoint]:
    """Each line is an answer's JSON value, its raw bytes, or a status with either."""
    there = Endpoint(script=[_line(line) for line in script])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            there.asked.append((self.headers.get("authorization", ""), json.loads(body)))
            status, answer = there.script.pop(0) if there.script else (500, b"{}")
            self.send_response(status)
            self.send_header("content-type", "application/json")
            for name, value in there.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    there.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _line(line: object) -> tuple[int, bytes]:
    status, answer = line if isinstance(line, tuple) else (200, line)
    return status, answer if isinstance(answer, bytes) else json.dumps(answer).encode()
