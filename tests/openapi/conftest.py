"""Documents of our own making, and a service that answers whatever bytes a test wants."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.model.issuers import Network
from placet.model.openapi import Operation, UnfitOperation
from placet.model.upstreams import OpenApiWay, Upstream
from placet.rules.openapi.documents import document_from, operations_of

JSON = "application/json"
FINE: dict[str, Any] = {"200": {"description": "", "content": {JSON: {"schema": {"type": "object"}}}}}


def a_document(paths: dict[str, Any], *, version: str = "3.1.0", **more: Any) -> str:
    return json.dumps({"openapi": version, "info": {"title": "T", "version": "1"}, "paths": paths, **more})


def an_operation(method: str = "get", path: str = "/things", *, version: str = "3.1.0", **said: Any) -> Any:
    """The one operation that says this, and answers with any object unless it says otherwise."""
    components = said.pop("components", {})
    text = a_document(
        {path: {method: {"operationId": "op", "responses": FINE, **said}}}, version=version, components=components
    )
    (found,) = operations_of(document_from(text))
    return found


def carried(*arguments: Any, **said: Any) -> Operation:
    found = an_operation(*arguments, **said)
    assert isinstance(found, Operation), found
    return found


def why_unfit(*arguments: Any, **said: Any) -> str:
    found = an_operation(*arguments, **said)
    assert isinstance(found, UnfitOperation), found
    assert found.tool == "op"
    return found.why


def in_query(name: str = "q", schema: Any = None, **said: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": "string"} if schema is None else schema, **said}


def in_path(name: str = "id", schema: Any = None, **said: Any) -> dict[str, Any]:
    return {**in_query(name, schema, **said), "in": "path", "required": True}


def in_header(name: str = "X-Mark", schema: Any = None, **said: Any) -> dict[str, Any]:
    return {**in_query(name, schema, **said), "in": "header"}


def a_body(schema: Any, *, required: bool = True, media_type: str = JSON) -> dict[str, Any]:
    return {"required": required, "content": {media_type: {"schema": schema}}}


def answers(*pairs: tuple[str, Any]) -> dict[str, Any]:
    """Responses by status; None: without a body."""
    return {
        status: {"description": "", **({} if schema is None else {"content": {JSON: {"schema": schema}}})}
        for status, schema in pairs
    }


class Service:
    """A server that answers each connection with the next of these bytes, and keeps what came.

    An answer may be a function, which is given the connection once the request is here.
    """

    def __init__(self, *answers: bytes | Callable[[socket.socket], None]) -> None:
        self.came: list[bytes] = []
        self.connected = 0
        self._answers = list(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connected += 1
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                self.came.append(_request(connection))
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if callable(answer):
                    answer(connection)
                else:
                    connection.sendall(answer)
        except OSError:
            return

    def close(self) -> None:
        """No thread stays behind that could take what comes to the next one, whose socket may have the same number."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._socket.close()


def _request(connection: socket.socket) -> bytes:
    """One request, its body too."""
    read = b""
    while b"\r\n\r\n" not in read:
        if not (more := connection.recv(65_536)):
            return read
        read += more
    head, _, body = read.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


def reply(status: int = 200, body: bytes = b"{}", **headers: str) -> bytes:
    """An answer as a sound server gives it."""
    said = {
        "content-type": JSON,
        "content-length": str(len(body)),
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + body


@pytest.fixture
def serving() -> Iterator[Callable[..., Service]]:
    opened: list[Service] = []

    def start(*answers: bytes | Callable[[socket.socket], None]) -> Service:
        opened.append(Service(*answers))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def an_upstream(folder: Path, document: str, url: str, **said: Any) -> Upstream:
    """A declared service whose document stands in a file."""
    file = folder / "service.json"
    file.write_text(document, encoding="utf-8")
    way = OpenApiWay(document=file, url=url, network=said.pop("network", Network.LOOPBACK), **said.pop("way", {}))
    return Upstream(name="desk", way=way, manifest=folder / "desk.toml", **said)
