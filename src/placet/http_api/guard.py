"""Around every request: its id, its path, what every answer carries, what is counted and logged, and what fails.

No exception leaves: one that nobody expected is an answer without its text, and a log line with its safe name. Source:
REQUIREMENTS B162, B181.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.errors import PlacetError
from placet.http_api.problems import HeadTooLarge, InternalFault, NoSuchAddress, problem_response
from placet.ports.clock import Clock, IdSource
from placet.ports.meter import HttpMeter
from placet.rules.foreign import safe_exception_name

REQUEST_ID = "x-request-id"
UNKNOWN = "unknown"
MAX_HEAD_BYTES = 16_384
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
CLIENT_GONE = 499
"""What is counted for a request whose client went before it was answered; nobody is sent it."""
_WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_PLAIN_PATH = re.compile(rb"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~:@!$&'*+,;=()-]+)+|/")
_ALWAYS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_log = logging.getLogger("placet.http")


class Guard:
    """ASGI middleware; wraps everything the API answers."""

    def __init__(self, app: ASGIApp, *, clock: Clock, ids: IdSource, meter: HttpMeter) -> None:
        self._app = app
        self._clock = clock
        self._ids = ids
        self._meter = meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope["placet_request_id"] = self._request_id(scope)
        started = self._clock.monotonic()
        answer = _Answer(send, request_id)
        try:
            failure = await self._served(scope, receive, answer)
            if failure is not None and not answer.is_begun:
                await problem_response(failure, request_id=request_id)(scope, receive, answer)
        finally:
            self._note(scope, answer.status, self._clock.monotonic() - started)

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> PlacetError | None:
        """What kept it from being served, with nothing of a foreign exception in it."""
        if not _PLAIN_PATH.fullmatch(scope.get("raw_path") or scope["path"].encode()):
            return NoSuchAddress()  # no address of ours needs escapes, dot segments or empty ones
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEAD_BYTES:
            return HeadTooLarge()
        try:
            await self._app(scope, receive, send)
            return None
        except ClientDisconnect:
            return None  # in the middle of its body: there is nobody to answer, and nothing that anybody has to look at
        except Exception as fault:
            name = safe_exception_name(fault)
        _log.error("request failed", extra={"error_type": name, "route": route_of(scope), **self._ids_of(scope)})
        return InternalFault()

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route, method = route_of(scope), scope["method"]
        self._meter.answered(method=method, route=route, status=status, seconds=max(0.0, seconds))
        _log.info(
            "request",
            extra={
                "method": method if method in METHODS else UNKNOWN,
                "route": route,
                "status": status,
                "ms": round(seconds * 1_000, 3),
            }
            | self._ids_of(scope),
        )

    def _request_id(self, scope: Scope) -> str:
        said = [value for name, value in scope["headers"] if name == REQUEST_ID.encode()]
        text = said[0].decode("latin-1") if len(said) == 1 else ""
        return text if _WELL_FORMED.fullmatch(text) else self._ids.new_id("req")

    def _ids_of(self, scope: Scope) -> dict[str, Any]:
        return {"request_id": scope["placet_request_id"]}


def route_of(scope: Scope) -> str:
    """The address as the API declares it, never as it was asked for."""
    path = getattr(scope.get("route"), "path", None)
    return path if type(path) is str else UNKNOWN


class _Answer:
    """The way out of one request: what every answer carries is added here, once."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id.encode()
        self.status = CLIENT_GONE
        self.is_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.is_begun = True
            self.status = message["status"]
            own = {name.lower() for name, _ in message.get("headers", ())}
            added = [(name, value) for name, value in _ALWAYS if name not in own]
            headers = [*message.get("headers", ()), *added, (REQUEST_ID.encode(), self._request_id)]
            message = {**message, "headers": headers}
        await self._send(message)
