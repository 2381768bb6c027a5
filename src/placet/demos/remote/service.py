"""Somebody else's system that keeps records under keys: a small HTTP service with a SQLite file of its own.

    POST /THINGS               header Idempotency-Key; 201 created, 200 known already, 409 the key names another one
    GET  /THINGS?key=KEY       the records under that key, none or one
    GET  /THINGS               all records and their count
    GET  /THINGS/PREFIX-1001   one record
    GET  /arrivals             the Idempotency-Key of every creation that arrived, whatever became of it
    GET  /openapi.json         what of this is for callers, as an OpenAPI document, where there is one
    GET  /health               {"status": "ok"}
    POST /faults               makes it misbehave, for demos and tests; see `Faults`

A record is durable before it is acknowledged. Nothing of placet is imported here: this is the remote, and placet has to
work with remotes it did not write.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import parse_qs, urlsplit

MAX_BODY_BYTES = 32_768
_MAX_KEY = 600
_MAX_LISTED = 1_000
_MAX_DELAY_SECONDS = 60.0
_MAX_PORT = 65_535
_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    idempotency_key TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS arrivals (
    number INTEGER PRIMARY KEY,
    idempotency_key TEXT NOT NULL
) STRICT
"""


class Refused(Exception):
    """The request is answered with this status and fixed text; nothing was changed."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class CannotBegin(Exception):
    """The service does not serve; its text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a service keeps.

    Attributes:
        one, many: as a member and as a path name it.
        name: what people call the service.
        prefix: of the ids.
        program: what it is started as, and `about`: what it says of itself.
        checked: what was posted in one canonical text, so that two equal ones compare equal; raises `Refused`.
        document: the OpenAPI document of it, if there is one.
    """

    one: str
    many: str
    name: str
    prefix: str
    program: str
    about: str
    checked: Callable[[Mapping[str, Any]], str]
    document: Path | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record as the service keeps it."""

    number: int
    key: str
    body: str

    def as_json(self, kind: Kind, base_url: str) -> dict[str, Any]:
        """The record as it is shown to callers."""
        record_id = f"{kind.prefix}-{self.number}"
        return {
            "id": record_id,
            "url": f"{base_url}/{kind.many}/{record_id}",
            "key": self.key,
            kind.one: json.loads(self.body),
        }


class RecordStore:
    """Records in one SQLite file; a new one is on disk when `add` returns."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(_SCHEMA)
        self._connection.execute(
            "INSERT INTO sqlite_sequence (name, seq) SELECT 'records', 1000"
            " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'records')"
        )

    def add(self, key: str, body: str) -> tuple[Record, bool]:
        """Keep a record under its key, once.

        Returns:
            The record, and whether this call made it.

        Raises:
            Refused: the key names a record with another body.
        """
        with self._lock:
            made = self._connection.execute(
                "INSERT INTO records (idempotency_key, body) VALUES (?, ?) ON CONFLICT DO NOTHING", (key, body)
            ).rowcount
        record = self.under(key)[0]
        if record.body != body:
            raise Refused(HTTPStatus.CONFLICT, "the key names another one")
        return record, made == 1

    def note_arrival(self, key: str) -> None:
        """Remember that a creation arrived, before anything becomes of it."""
        with self._lock:
            self._connection.execute("INSERT INTO arrivals (idempotency_key) VALUES (?)", (key,))

    def arrivals(self) -> list[str]:
        """The keys of the first thousand creations that arrived, in order."""
        statement = "SELECT idempotency_key FROM arrivals ORDER BY number LIMIT ?"
        with self._lock:
            return [row[0] for row in self._connection.execute(statement, (_MAX_LISTED,))]

    def under(self, key: str) -> list[Record]:
        """The records under a key: none or one."""
        return self._select("SELECT number, idempotency_key, body FROM records WHERE idempotency_key = ?", key)

    def numbered(self, number: int) -> list[Record]:
        """The record of that number: none or one."""
        return self._select("SELECT number, idempotency_key, body FROM records WHERE number = ?", number)

    def all(self) -> list[Record]:
        """The first thousand records, oldest first."""
        return self._select("SELECT number, idempotency_key, body FROM records ORDER BY number LIMIT ?", _MAX_LISTED)

    def count(self) -> int:
        """How many records there are."""
        with self._lock:
            row = self._connection.execute("SELECT count(*) FROM records").fetchone()
        return int(row[0])

    def close(self) -> None:
        """Close the file; calls under way end first."""
        with self._lock:
            self._connection.close()

    def _select(self, statement: str, value: str | int) -> list[Record]:
        with self._lock:
            return [Record(*row) for row in self._connection.execute(statement, (value,))]


@dataclass(slots=True)
class Faults:
    """What goes wrong next; each part of `POST /faults` sets one of these.

    Attributes:
        drop_replies: so many following creations act and are then cut off without a reply.
        delay_seconds: every creation acts and then waits so long before it replies; nought ends it.
        answers: so many following creations do not act and get `status`, with `retry_after` if given.
    """

    drop_replies: int = 0
    delay_seconds: float = 0.0
    answers: int = 0
    status: int = 503
    retry_after: str | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, wanted: Mapping[str, Any]) -> None:
        """Take over what was posted.

        Raises:
            Refused: a member or value makes no sense; nothing was changed.
        """
        answer = wanted.get("answer", {})
        if wanted.keys() - {"drop_replies", "delay_seconds", "answer"} or not isinstance(answer, dict):
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "no such fault")
        if answer.keys() - {"status", "retry_after", "times"} or answer.get("status", 503) not in (429, 500, 503):
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "no such answer")
        retry_after = answer.get("retry_after")
        if retry_after is not None and not isinstance(retry_after, str):
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "retry_after must be a text")
        drop = _number(wanted.get("drop_replies", self.drop_replies))
        delay = _number(wanted.get("delay_seconds", self.delay_seconds))
        times = _number(answer.get("times", 1 if answer else self.answers))
        with self._lock:
            self.drop_replies, self.delay_seconds = int(drop), min(delay, _MAX_DELAY_SECONDS)
            if answer:
                self.answers, self.status, self.retry_after = int(times), answer.get("status", 503), retry_after

    def take_answer(self) -> tuple[int, str | None] | None:
        """The status to answer with instead of acting, if one is due."""
        with self._lock:
            if self.answers == 0:
                return None
            self.answers -= 1
            return self.status, self.retry_after

    def take_drop(self) -> bool:
        """Whether this reply is lost."""
        with self._lock:
            if self.drop_replies == 0:
                return False
            self.drop_replies -= 1
            return True


class KeyedServer(ThreadingHTTPServer):
    """The listening service; one thread per request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, kind: Kind, store: RecordStore, port: int) -> None:
        self.kind = kind
        self.store = store
        self.faults = Faults()
        self.closing = threading.Event()
        super().__init__(("127.0.0.1", port), KeyedHandler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class KeyedHandler(BaseHTTPRequestHandler):
    """One request."""

    server: KeyedServer
    timeout = 10
    server_version = "records"
    sys_version = ""

    def do_GET(self) -> None:
        """Look up."""
        self._answered(self._get)

    def do_POST(self) -> None:
        """Create, or misbehave from now on."""
        self._answered(self._post)

    def log_message(self, format: str, *args: Any) -> None:
        """The service writes no log."""

    def _answered(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Refused as refusal:
            self._reply(refusal.status, {"error": refusal.reason})
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _get(self) -> None:
        target, kind = urlsplit(self.path), self.server.kind
        if target.path == "/health":
            self._reply(HTTPStatus.OK, {"status": "ok"})
        elif target.path == f"/{kind.many}":
            keys = parse_qs(target.query, keep_blank_values=True).get("key")
            store = self.server.store
            found = store.all() if keys is None else store.under(keys[0])
            count = store.count() if keys is None else len(found)
            shown = [record.as_json(kind, self.server.url) for record in found]
            self._reply(HTTPStatus.OK, {"count": count, kind.many: shown})
        elif target.path == "/openapi.json" and kind.document is not None:
            self._reply(HTTPStatus.OK, json.loads(kind.document.read_text(encoding="utf-8")))
        elif target.path == "/arrivals":
            self._reply(HTTPStatus.OK, {"keys": self.server.store.arrivals()})
        elif named := re.fullmatch(rf"/{kind.many}/{kind.prefix}-(\d{{1,9}})", target.path, re.ASCII):
            found = self.server.store.numbered(int(named[1]))
            if not found:
                raise Refused(HTTPStatus.NOT_FOUND, f"no such {kind.one}")
            self._reply(HTTPStatus.OK, found[0].as_json(kind, self.server.url))
        else:
            raise Refused(HTTPStatus.NOT_FOUND, "no such page")

    def _post(self) -> None:
        path = urlsplit(self.path).path
        if path not in (f"/{self.server.kind.many}", "/faults"):
            raise Refused(HTTPStatus.NOT_FOUND, "no such page")
        # The body is read before anything is answered, so that no answer is lost to a reset.
        posted = _strict_json(self._body())
        if path == "/faults":
            self.server.faults.set(posted)
            self._reply(HTTPStatus.OK, {"status": "ok"})
        else:
            self._create(posted)

    def _create(self, posted: Mapping[str, Any]) -> None:
        key = self.headers.get("Idempotency-Key", "")
        if not 0 < len(key) <= _MAX_KEY:
            raise Refused(HTTPStatus.BAD_REQUEST, "an Idempotency-Key is needed")
        self.server.store.note_arrival(key)
        body = self.server.kind.checked(posted)
        if (answer := self.server.faults.take_answer()) is not None:
            status, retry_after = answer
            self._reply(status, {"error": "not now"}, retry_after=retry_after)
            return
        record, created = self.server.store.add(key, body)
        if self.server.faults.delay_seconds:
            self.server.closing.wait(self.server.faults.delay_seconds)
        if self.server.faults.take_drop():
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status = HTTPStatus.CREATED if created else HTTPStatus.OK
        self._reply(status, {**record.as_json(self.server.kind, self.server.url), "created": created})

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "a Content-Length is needed")
        if int(length) > MAX_BODY_BYTES:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large")
        return self.rfile.read(int(length))

    def _reply(self, status: int, content: Mapping[str, Any], *, retry_after: str | None = None) -> None:
        payload = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(payload)


def serve(kind: Kind, store_path: Path, port: int, ready_file: Path | None, *, until: int | None = None) -> None:
    """Serve until SIGTERM or SIGINT, or until the file descriptor `until` reaches its end (then the parent is gone).

    Raises:
        CannotBegin: it cannot keep its records there, or not listen there.
    """
    store = _opened(kind, store_path)
    try:
        server = KeyedServer(kind, store, port)
    except OSError as error:
        store.close()
        raise CannotBegin(
            f"the {kind.name} cannot listen on port {port} ({error.strerror}): "
            "take another with --port, or 0 for one that is free"
        ) from None

    def stop(signal_number: int = 0, frame: FrameType | None = None) -> None:
        server.closing.set()
        # shutdown() waits for the loop, which runs in the thread that a signal interrupts.
        threading.Thread(target=server.shutdown, daemon=True).start()

    def stop_at_end_of(descriptor: int) -> None:
        with contextlib.suppress(OSError):
            while os.read(descriptor, 1024):
                pass
        stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if until is not None:
        threading.Thread(target=stop_at_end_of, args=(until,), daemon=True).start()
    if ready_file is not None:
        _write_atomically(ready_file, f"{server.server_address[1]}\n")
    document = "" if kind.document is None else f"its document is {server.url}/openapi.json; "
    print(f"the {kind.name} serves at {server.url}; {document}Ctrl-C ends it", file=sys.stderr, flush=True)
    try:
        server.serve_forever(poll_interval=0.05)
    finally:
        server.server_close()
        store.close()


def _opened(kind: Kind, path: Path) -> RecordStore:
    try:
        return RecordStore(path)
    except sqlite3.Error:
        pass
    raise CannotBegin(
        f"the {kind.name} cannot keep {kind.many} in {path}: --store is a file of its own in a folder that is there"
    )


def _write_atomically(path: Path, text: str) -> None:
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="ascii")
    beside.replace(path)


def _strict_json(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw.decode("utf-8"), object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refused(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise Refused(HTTPStatus.BAD_REQUEST, "the body is not an object")
    return found


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member occurs twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError("not a JSON number")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1_000_000:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "a number is needed")
    return value


def run(kind: Kind, arguments: list[str] | None = None) -> None:
    """Read the command line and serve. Ends with 2 where it cannot."""
    parser = argparse.ArgumentParser(prog=f"python -m {kind.program}", description=kind.about)
    parser.add_argument("--store", type=Path, required=True, help="SQLite file; made if absent")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 picks a free one")
    parser.add_argument("--ready-file", type=Path, help="the port is written here once it listens")
    parser.add_argument("--until-stdin-ends", action="store_true", help="stop when the parent closes the pipe")
    given = parser.parse_args(arguments)
    if not 0 <= given.port <= _MAX_PORT:
        parser.error(f"argument --port: it is a number from 0 to {_MAX_PORT}")
    until = sys.stdin.fileno() if given.until_stdin_ends else None
    try:
        serve(kind, given.store, given.port, given.ready_file, until=until)
    except CannotBegin as fault:
        print(fault, file=sys.stderr)
        sys.exit(2)
