"""The brain behind streamable HTTP: answers as events, or as one JSON document where the manner is `plain`."""

from __future__ import annotations

import json
import queue
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[3])]

from tests.upstreams.servers.brain import Brain  # noqa: E402

BRAIN: Brain


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        BRAIN.wrote("headers", headers={name.lower(): value for name, value in self.headers.items()})
        message = json.loads(body)
        if self._misbehaves(message):
            return
        if "id" not in message or "method" not in message:
            BRAIN.hear(message, lambda _: None)
            self._plain(202, b"")
            return
        outgoing: queue.Queue[dict[str, Any]] = queue.Queue()
        BRAIN.hear(message, outgoing.put)
        first = outgoing.get()
        is_answer = first.get("id") == message["id"] and "method" not in first and "raw" not in first
        if BRAIN.manner == "plain" and is_answer:
            self._plain(200, json.dumps(first).encode(), kind="application/json")
            return
        self._events(message, first, outgoing)

    def do_GET(self) -> None:
        if BRAIN.era == "stateless" or BRAIN.manner == "no_stream":
            self._plain(405, b"")
            return
        outgoing: queue.Queue[dict[str, Any]] = queue.Queue()
        BRAIN.to_all = outgoing.put
        BRAIN.wrote("listens")
        self._events({"id": None}, {"raw": ""}, outgoing)

    def do_DELETE(self) -> None:
        BRAIN.wrote("deleted")
        self._plain(200, b"")

    def _misbehaves(self, message: dict[str, Any]) -> bool:
        if BRAIN.manner == "redirect":
            self.send_response(307)
            self.send_header("location", "http://127.0.0.1:9/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()
            return True
        if BRAIN.manner.startswith("status ") and message.get("method") == "tools/call":
            BRAIN.wrote("called", tool="", text="", meta={})
            self._plain(int(BRAIN.manner[7:]), b"canary-upstream-words", kind="text/plain")
            return True
        if BRAIN.manner == "half" and message.get("method") == "tools/call":
            BRAIN.hear(message, lambda _: None)
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b'{"jsonrpc":"2.0",')
            self.close_connection = True
            return True
        if BRAIN.manner == "compressed" and message.get("method") == "tools/call":
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-encoding", "gzip")
            self.send_header("content-length", "3")
            self.end_headers()
            self.wfile.write(b"abc")
            return True
        if BRAIN.manner == "forgets each call" and message.get("method") == "tools/call":
            BRAIN.hear(message, lambda _: None)
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()
            return True
        given = self.headers.get("mcp-session-id")
        needs_session = BRAIN.era == "handshake" and message.get("method") not in ("initialize", "server/discover")
        if needs_session and given != f"session-{BRAIN.session}":
            self._plain(404, b"canary-upstream-words")
            return True
        return False

    def _plain(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        if body:
            self.send_header("content-type", kind)
        if BRAIN.era == "handshake" or BRAIN.manner == "forgets each call":
            self.send_header("mcp-session-id", f"session-{BRAIN.session}")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _events(self, message: dict[str, Any], first: dict[str, Any], outgoing: queue.Queue[dict[str, Any]]) -> None:
        self._begin_events()
        said = first
        try:
            while "hang up" not in said:
                data = said["raw"] if "raw" in said else json.dumps(said)
                self.wfile.write(f"event: message\ndata: {data}\n\n".encode())
                self.wfile.flush()
                if message["id"] is not None and said.get("id") == message["id"] and "method" not in said:
                    return
                said = outgoing.get()
        except OSError:
            BRAIN.wrote("stream closed", id=message["id"])

    def _begin_events(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        if BRAIN.era == "handshake" or BRAIN.manner == "forgets each call":
            self.send_header("mcp-session-id", f"session-{BRAIN.session}")
        self.end_headers()
        self.close_connection = True


def main() -> None:
    global BRAIN  # noqa: PLW0603  # one process is one server, and its handlers are made by the library
    BRAIN = Brain(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "handshake")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    server.daemon_threads = True
    BRAIN.wrote("started", port=server.server_address[1])
    server.serve_forever()


if __name__ == "__main__":
    main()
