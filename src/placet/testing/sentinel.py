"""A remote system in a process of its own, that counts what really happened and misbehaves as told.

    with Sentinel(folder, {"payments": SentinelRules(weights={Manner.ACT: 9, Manner.DROP_REPLY: 1})}) as sentinel:
        client = sentinel.client("payments")
        await client.act("order-7", {"cents": 4200})
        sentinel.effects("payments")         # Counter({"order-7": 1})

It is deaf to everything placet believes, so it shows what a handler, a contract and a crash really did. Handlers may
use `SentinelClient`, which raises what a placet handler raises, or any HTTP client: see `sentinel_server`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from placet.errors import NotSent, PlacetError, RemoteStatus, ToolRejected
from placet.model.json import JsonValue
from placet.testing.sentinel_manners import Manner, SentinelRules

_STATUSES_OF_REFUSAL = (409, 422)
_PAUSE_SECONDS = 0.02


class SentinelFailed(PlacetError):
    """The sentinel does not answer as a sentinel does; what it was asked may have been done."""

    code = "sentinel_failed"
    hint = "See its standard error; a sentinel lives only within its `with` block."
    may_have_acted = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelClient:
    """One service of a sentinel, for handlers and probes of any process. Keeps no connection."""

    port: int
    service: str

    async def act(
        self,
        key: str,
        value: JsonValue,
        *,
        deadline_at: datetime | None = None,
        manner: Manner | None = None,
        delay_seconds: float | None = None,
        guard: Callable[[], None] | None = None,
    ) -> JsonValue:
        """Ask for one effect; the value of the first effect under the key if keys are honoured, else this one.

        Args:
            deadline_at: sent along, for a service that refuses late requests; `call.deadline_at` in a handler.
            manner, delay_seconds: what this request shall meet, instead of what chance says.
            guard: asked right before the first byte leaves; `call.guard` in a handler.

        Raises:
            NotSent: it could not be reached, or the guard said no; nothing happened.
            ToolRejected: it refused (409, 422) and did nothing.
            RemoteStatus: another status; 429 did nothing, any other may have acted.
            ConnectionError: it hung up; it may have acted, or may still act.
        """
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer = None
        if writer is None:
            raise NotSent("The sentinel could not be reached.")
        try:
            if guard is not None:
                guard()
            writer.write(self._post(key, value, deadline_at, manner, delay_seconds))
            await writer.drain()
            return _answer_of(await reader.read())
        finally:
            writer.close()

    def act_blocking(
        self,
        key: str,
        value: JsonValue,
        *,
        deadline_at: datetime | None = None,
        manner: Manner | None = None,
        delay_seconds: float | None = None,
        guard: Callable[[], None] | None = None,
        timeout_seconds: float | None = None,
    ) -> JsonValue:
        """The same for a handler that runs in a thread or a process of its own.

        Raises:
            TimeoutError: there was no answer in time; it may have acted, or may still act.
        """
        try:
            connection = socket.create_connection(("127.0.0.1", self.port), timeout=timeout_seconds)
        except OSError:
            connection = None
        if connection is None:
            raise NotSent("The sentinel could not be reached.")
        with connection:
            if guard is not None:
                guard()
            connection.sendall(self._post(key, value, deadline_at, manner, delay_seconds))
            return _answer_of(b"".join(iter(lambda: connection.recv(65_536), b"")))

    async def found(self, key: str) -> JsonValue:
        """The value of the first effect under the key; None if it has not acted (yet). For probes.

        Raises:
            SentinelFailed: it did not answer; nothing was done.
        """
        status, _, body = _parsed(await _get(self.port, f"/{quote(self.service)}?key={quote(key, safe='')}"))
        match status:
            case 200:
                value: JsonValue = body["value"]
                return value
            case 404:
                return None
            case _:
                raise SentinelFailed("The sentinel did not say whether a key has acted.")

    def _post(
        self,
        key: str,
        value: JsonValue,
        deadline_at: datetime | None,
        manner: Manner | None,
        delay_seconds: float | None,
    ) -> bytes:
        body = json.dumps(value).encode()
        headers = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Idempotency-Key": quote(key, safe=""),
            "Request-Deadline": None if deadline_at is None else repr(deadline_at.timestamp()),
            "Sentinel-Manner": manner,
            "Sentinel-Delay": None if delay_seconds is None else repr(float(delay_seconds)),
        }
        lines = [f"{name}: {given}" for name, given in headers.items() if given is not None]
        return "\r\n".join([f"POST /{quote(self.service)} HTTP/1.1", *lines, "", ""]).encode("ascii") + body


class Sentinel:
    """The sentinel's process, as long as the block lasts. Its file stays, and is read again by the next one."""

    def __init__(self, folder: Path, services: Mapping[str, SentinelRules], *, file: str = "sentinel.jsonl") -> None:
        self.file = folder / file
        self._services = dict(services)
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        rules = json.dumps({service: each.as_data() for service, each in self._services.items()})
        command = [sys.executable, "-m", "placet.testing.sentinel_server", "--file", str(self.file), "--rules", rules]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not said.strip().isdigit():
            self.__exit__(None, None, None)
            raise SentinelFailed("The sentinel did not start.")
        self.port = int(said)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def client(self, service: str) -> SentinelClient:
        return SentinelClient(port=self.port, service=service)

    def effects(self, service: str) -> Counter[str]:
        """How often each key has acted, from the file."""
        return Counter(key for each, key in sentinel_effects(self.file) if each == service)

    async def drained(self, *, within_seconds: float) -> None:
        """Wait until no request is kept back any more.

        Raises:
            SentinelFailed: some still are.
        """
        until = time.monotonic() + within_seconds
        while True:
            _, _, body = _parsed(await _get(self.port, "/"))
            if not body["waiting"]:
                return
            if time.monotonic() >= until:
                raise SentinelFailed("The sentinel still keeps requests back.")
            await asyncio.sleep(_PAUSE_SECONDS)


def sentinel_effects(file: Path) -> list[tuple[str, str]]:
    """Service and key of every effect in a sentinel's file, in the order they happened."""
    if not file.exists():
        return []
    lines = (json.loads(line) for line in file.read_text("utf-8").splitlines())
    return [(line["service"], line["key"]) for line in lines]


def _answer_of(raw: bytes) -> JsonValue:
    status, headers, body = _parsed(raw)
    if status == 200:
        value: JsonValue = body["value"]
        return value
    if status in _STATUSES_OF_REFUSAL:
        raise ToolRejected("The remote system refused.")
    raise RemoteStatus(status, retry_after=headers.get("retry-after"))


def _parsed(raw: bytes) -> tuple[int, dict[str, str], dict[str, Any]]:
    head, _, text = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if not first or len(text) != int(headers.get("content-length", "-1")):
        raise ConnectionResetError("The sentinel hung up.")
    return int(first.split(" ")[1]), headers, json.loads(text)


async def _get(port: int, target: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode("ascii"))
        await writer.drain()
        return await reader.read()
    finally:
        writer.close()
