"""A Roundup tracker in a process of its own: `python tracker.py FOLDER PASSWORD`.

It is Roundup itself, with its own SQLite database, its own REST interface and the schema of its classic template, to
which one property of issues is added as Roundup's schema files are meant to be changed. Port and readiness stand in
`FOLDER/port`. While there is a file `FOLDER/hold`, answers to what changes something are made and not sent, as on a
line that was cut: `FOLDER/held` says that one is.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer


def install(home: Path, port: int, password: str) -> None:
    """As its guide says: install a template, change the schema, initialise the database."""
    settings = f"tracker_web=http://127.0.0.1:{port}/,mail_domain=example.test,mail_host=localhost"
    _admin(home, "install", "classic", "sqlite", settings)
    schema = home / "schema.py"
    text = schema.read_text(encoding="utf-8")
    was = 'issue = IssueClass(db, "issue",\n'
    assert text.count(was) == 1
    schema.write_text(text.replace(was, f"{was}                request_key=String(),\n"), encoding="utf-8")
    _admin(home, "initialise", password)


def _admin(home: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "roundup.scripts.roundup_admin", "-i", str(home), *arguments]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None: ...


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None: ...


def held(folder: Path, tracker: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """The tracker behind a line that may be cut."""

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        with (folder / "log").open("a", encoding="utf-8") as log:
            log.write(f"{method} {environ['PATH_INFO']}\n")
        said: list[Any] = []
        written: list[bytes] = []

        def begin(status: str, headers: Any, exc_info: Any = None) -> Callable[[bytes], None]:
            said[:] = [status, headers]
            return written.append

        body = b"".join(tracker(environ, begin))
        if method != "GET" and (folder / "hold").exists():
            (folder / "held").touch()
            while (folder / "hold").exists():
                time.sleep(0.02)
        start_response(*said)
        return [*written, body]

    return answer


def main(folder: Path, password: str) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    install(folder / "tracker", port, password)
    from roundup.cgi.wsgi_handler import RequestDispatcher

    server = Server(("127.0.0.1", port), Quiet, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    server.server_name, server.server_port = "127.0.0.1", port
    server.setup_environ()
    server.set_app(held(folder, RequestDispatcher(str(folder / "tracker"))))
    ready = folder / f"port.{os.getpid()}"
    ready.write_text(str(port), encoding="ascii")
    ready.replace(folder / "port")
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
