"""The sentinel's own process: HTTP/1.1 on 127.0.0.1, one request a connection, one synced line per real effect.

    POST /SERVICE            act, or not, as the service's rules or the request say
    GET  /SERVICE?key=KEY    how often the key has acted, and its first value; 404 if never
    GET  /                   how many requests are still kept back, and how many effects there are

Its parent talks to it through two pipes: it says where it listens on standard output, and ends when standard input
does, so that no sentinel outlives its test.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from placet.testing.sentinel_manners import Manner, SentinelRules, Treatment

KEY, DEADLINE, MANNER, DELAY = "idempotency-key", "request-deadline", "sentinel-manner", "sentinel-delay"
MAX_BODY_BYTES = 1_000_000
_PHRASES = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    409: "Conflict",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    503: "Service Unavailable",
}


class _NotUnderstood(Exception):
    """The request is none of ours; nothing was done with it."""


class Services:
    """What has been done under which key, kept in memory and, before anybody is told, in a file."""

    def __init__(self, file: Path, rules: Mapping[str, SentinelRules]) -> None:
        self.rules = rules
        self.waiting = 0
        self._acted: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], Any] = {}
        self._asked: Counter[tuple[str, str]] = Counter()
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for line in file.read_text("utf-8").splitlines():
            effect = json.loads(line)
            self._remember(effect["service"], effect["key"], effect["value"])

    @property
    def effects(self) -> int:
        return self._acted.total()

    def treatment(self, service: str, key: str, headers: Mapping[str, str]) -> Treatment:
        self._asked[service, key] += 1
        drawn = self.rules[service].treatment(key, self._asked[service, key])
        manner = headers.get(MANNER, drawn.manner)
        delay = float(headers.get(DELAY, drawn.delay_seconds))
        return Treatment(manner=Manner(manner), delay_seconds=delay)

    def act(self, service: str, key: str, value: Any, *, deadline: float | None) -> tuple[int, dict[str, Any]]:
        """Act now, unless the rules forbid it; status and body. On disk when it returns."""
        rules = self.rules[service]
        if rules.honours_keys and (service, key) in self._first:
            return 200, {"value": self._first[service, key], "known": True}
        if rules.refuses_late and deadline is not None and time.time() >= deadline:
            return 422, {"code": "too_late"}
        line = json.dumps({"service": service, "key": key, "value": value, "at": time.time()}) + "\n"
        os.write(self._file, line.encode())
        os.fsync(self._file)
        self._remember(service, key, value)
        return 200, {"value": value, "known": False}

    def found(self, service: str, key: str) -> tuple[int, dict[str, Any]]:
        if (service, key) not in self._first:
            return 404, {"count": 0}
        return 200, {"count": self._acted[service, key], "value": self._first[service, key]}

    def _remember(self, service: str, key: str, value: Any) -> None:
        self._acted[service, key] += 1
        self._first.setdefault((service, key), value)


class Server:
    """Takes connections and treats each request as its service's rules say."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            method, target, headers, body = await _request(reader)
            await self._answer(writer, method, target, headers, body)
        except (_NotUnderstood, ValueError, KeyError):
            await _reply(writer, 400, {"code": "not_understood"})
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked is gone; what was kept back goes on in its own task
        finally:
            writer.close()

    async def _answer(
        self, writer: asyncio.StreamWriter, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> None:
        place = urlsplit(target)
        service = unquote(place.path.strip("/"))
        if method == "GET" and not service:
            await _reply(writer, 200, {"waiting": self._services.waiting, "effects": self._services.effects})
        elif service not in self._services.rules:
            await _reply(writer, 404, {"code": "no_such_service"})
        elif method == "GET":
            [key] = parse_qs(place.query)["key"]
            await _reply(writer, *self._services.found(service, key))
        elif method == "POST":
            await self._act(writer, service, headers, json.loads(body))
        else:
            raise _NotUnderstood

    async def _act(self, writer: asyncio.StreamWriter, service: str, headers: dict[str, str], value: Any) -> None:
        key = unquote(headers[KEY])
        deadline = float(headers[DEADLINE]) if DEADLINE in headers else None
        treatment = self._services.treatment(service, key, headers)
        match treatment.manner:
            case Manner.ACT:
                await _reply(writer, *self._services.act(service, key, value, deadline=deadline))
            case Manner.ACT_LATE:
                await _reply(writer, *await self._act_later(treatment, service, key, value, deadline))
            case Manner.DROP_REPLY:
                self._services.act(service, key, value, deadline=deadline)
            case Manner.HANG_UP:
                pass
            case Manner.HANG_UP_THEN_ACT:
                writer.close()
                await self._act_later(treatment, service, key, value, deadline)
            case Manner.BUSY:
                await _reply(writer, 429, {"code": "busy"}, retry_after=self._services.rules[service])
            case Manner.UNAVAILABLE:
                await _reply(writer, 503, {"code": "unavailable"})
            case Manner.UNAVAILABLE_BUT_ACTS:
                self._services.act(service, key, value, deadline=deadline)
                await _reply(writer, 503, {"code": "unavailable"})
            case Manner.REFUSE:
                await _reply(writer, 422, {"code": "refused"})
            case Manner.CONFLICT:
                await _reply(writer, 409, {"code": "conflict"})

    async def _act_later(
        self, treatment: Treatment, service: str, key: str, value: Any, deadline: float | None
    ) -> tuple[int, dict[str, Any]]:
        self._services.waiting += 1
        try:
            await asyncio.sleep(treatment.delay_seconds)
            return self._services.act(service, key, value, deadline=deadline)
        finally:
            self._services.waiting -= 1


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise _NotUnderstood
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= MAX_BODY_BYTES:
        raise _NotUnderstood
    return words[0], words[1], headers, await reader.readexactly(length)


async def _reply(
    writer: asyncio.StreamWriter, status: int, body: dict[str, Any], *, retry_after: SentinelRules | None = None
) -> None:
    text = json.dumps(body).encode()
    asked = f"Retry-After: {retry_after.retry_after_seconds}\r\n" if retry_after is not None else ""
    head = f"HTTP/1.1 {status} {_PHRASES[status]}\r\nContent-Type: application/json\r\n{asked}"
    writer.write(f"{head}Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text)
    await writer.drain()


async def _serve(file: Path, rules: Mapping[str, SentinelRules]) -> None:
    loop = asyncio.get_running_loop()
    orphaned = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), lambda: None if os.read(sys.stdin.fileno(), 4096) else orphaned.set())
    server = await asyncio.start_server(Server(Services(file, rules)).serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await orphaned.wait()
    os._exit(0)  # what is kept back is never done: this process was all there was of it


def main() -> None:
    parser = argparse.ArgumentParser(prog="sentinel")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--rules", type=json.loads, required=True)
    options = parser.parse_args()
    rules = {service: SentinelRules.from_data(data) for service, data in options.rules.items()}
    asyncio.run(_serve(options.file, rules))


if __name__ == "__main__":
    main()
