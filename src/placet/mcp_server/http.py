"""MCP over streamable HTTP: who stands there and what was sent is settled here, before the SDK sees a request.

    path ─► host and origin ─► method ─► who ─► how often ─► how large, which kind, one meaning ─► session ─► the SDK

Answers come from the SDK, which serves both eras at one address and holds the mirrored headers of 2026-07-28 against
the body. Whoever signed in for one request of a session is the only one who may send another.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.jsonrpc import jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from placet.errors import InvalidArguments, PlacetError, SignInRefused
from placet.mcp_server.carried import IN_SCOPE, Carried, decode_message
from placet.mcp_server.naming import owner_of
from placet.mcp_server.refusing import challenge, refusal
from placet.mcp_server.resource import METADATA_PATHS, PATH, Resource
from placet.mcp_server.server import McpServer, carrying
from placet.mcp_server.sessions import Sessions
from placet.mcp_server.tracing import trace_of
from placet.model import rates
from placet.model.json import JsonObject
from placet.model.principal import Principal, Standing, is_principal
from placet.ports.rate_limits import RateLimiter
from placet.ports.sign_in import SignIn

IN_FRONT: Final = "placet_host"
"""Where in a request's scope stands the name that a trusted proxy was asked for; `Host` is the proxy's own then."""
_METHODS: Final = ("POST", "GET", "DELETE")
_CREDENTIAL: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,8192}")
_SESSION: Final = b"mcp-session-id"
_LATER_SECONDS: Final = 1
_MOST_PROBLEMS: Final = 16


class Turned(Exception):
    """The request goes no further; `answer` says why."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


class McpDoor:
    """The MCP front door as an ASGI application. It answers while `running` lasts."""

    def __init__(
        self, mcp: McpServer, *, sign_in: SignIn, resource: Resource, rate_limiter: RateLimiter | None = None
    ) -> None:
        """Args:
        sign_in: who stands behind a bearer credential, of those that are good for this resource.
        """
        self._mcp = mcp
        self._sign_in = sign_in
        self._resource = resource
        self._rate_limiter = rate_limiter
        self._wide = mcp.gate.wide_fields
        settings = mcp.settings
        self._sessions = Sessions(
            clock=mcp.clock, max_each=settings.max_sessions_each, idle_seconds=settings.session_idle_seconds
        )
        self._manager = StreamableHTTPSessionManager(
            app=mcp.server,
            session_idle_timeout=settings.session_idle_seconds,
            max_request_body_size=settings.max_body_bytes,
            max_sessions=settings.max_sessions,
        )
        self._in_flight = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """For as long as this lasts it answers. Leaving cuts off what is under way: see `settle`."""
        async with self._manager.run():
            yield

    async def settle(self, seconds: float) -> None:
        """Until every message that came has been answered, at most so long."""
        waiting = asyncio.ensure_future(self._quiet.wait())
        await asyncio.wait((waiting,), timeout=seconds)
        waiting.cancel()

    def is_for(self, path: str) -> bool:
        """Whether an address is this door's."""
        return path == PATH or path in METADATA_PATHS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self._served(scope, receive, send)
        except Turned as turned:
            await turned.answer(scope, receive, send)

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self._require_place(request)
        if scope["path"] in METADATA_PATHS:
            await self._metadata(request)(scope, receive, send)
            return
        if scope["path"] != PATH:
            raise Turned(refusal("not_found", 404))
        if request.method not in _METHODS:
            raise Turned(refusal("method_not_allowed", 405, headers={"Allow": ", ".join(_METHODS)}))
        principal = await self._holder(request)
        await self._require_admission(principal)
        scope["user"] = AuthenticatedUser(AccessToken(token="-", client_id=owner_of(principal), scopes=[]))  # noqa: S106
        if request.method == "POST":
            await self._post(request, principal, receive, send)
        else:
            scope[IN_SCOPE] = Carried(principal=principal, session=_session_of(request))
            await self._in_session(request, receive, send)

    # ------------------------------------------------------------ who, and from where

    def _require_place(self, request: Request) -> None:
        """Raises:
        Turned: the request was meant for somebody else, or a page of somebody else's sent it.
        """
        host = request.scope.get(IN_FRONT) or _only(request, "host")
        if not host or not self._resource.is_host(host):
            raise Turned(refusal("host_refused", 421))
        origins = request.headers.getlist("origin")
        if origins and not (len(origins) == 1 and self._resource.is_origin(origins[0])):
            raise Turned(refusal("origin_refused", 403))

    async def _holder(self, request: Request) -> Principal:
        """Raises:
        Turned: nobody, or somebody who does not propose.
        """
        principal = await self._named(request)
        if principal.standing is not Standing.AGENT:
            raise Turned(refusal("not_an_agent", 403))
        if self._mcp.has_nothing_for(principal):
            scope = challenge(self._resource.metadata_url, error="insufficient_scope")
            raise Turned(refusal("nothing_allowed", 403, headers=scope))
        return principal

    async def _named(self, request: Request) -> Principal:
        said = request.headers.getlist("authorization")
        if not said:
            raise Turned(refusal("sign_in_refused", 401, headers=challenge(self._resource.metadata_url)))
        scheme, _, credential = (said[0] if len(said) == 1 else "").partition(" ")
        try:
            if scheme.lower() == "bearer" and _CREDENTIAL.fullmatch(credential) is not None:
                principal = await self._sign_in.principal_of(credential)
                if is_principal(principal):
                    return principal
            answer = None
        except SignInRefused:
            answer = None
        except PlacetError:
            answer = refusal("sign_in_unavailable", 503, headers={"Retry-After": str(_LATER_SECONDS)})
        again = challenge(self._resource.metadata_url, error="invalid_token")
        raise Turned(answer or refusal("sign_in_refused", 401, headers=again))

    async def _require_admission(self, principal: Principal) -> None:
        """Raises:
        Turned: it comes too often; nothing else was looked at.
        """
        if self._rate_limiter is None:
            return
        match await self._rate_limiter.admit(principal):
            case rates.TooOften(retry_after_seconds=seconds):
                raise Turned(refusal("too_often", 429, headers={"Retry-After": str(max(1, math.ceil(seconds)))}))
            case rates.Admitted():
                return

    def _metadata(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return refusal("method_not_allowed", 405, headers={"Allow": "GET"})
        body = json.dumps(self._resource.metadata(), separators=(",", ":")).encode()
        return Response(body, media_type="application/json", headers={"Cache-Control": "public, max-age=300"})

    # ------------------------------------------------------------ messages

    async def _post(self, request: Request, principal: Principal, receive: Receive, send: Send) -> None:
        _require_json(request)
        body = await self._body(request)
        message = self._message(request, body)
        session = _session_of(request)
        scope = request.scope
        carried = Carried(
            principal=principal,
            message=message,
            request_id=_request_id(request, message),
            session=session,
            is_still=self._still(request, principal),
        )
        scope[IN_SCOPE] = carried
        token = carrying.set(carried)
        self._in_flight += 1
        self._quiet.clear()
        try:
            if message.get("method") == "initialize" and session is None:
                await self._open_session(request, principal, _again(body, receive), send)
            else:
                await self._in_session(request, _again(body, receive), send)
        finally:
            carrying.reset(token)
            self._in_flight -= 1
            if not self._in_flight:
                self._quiet.set()

    async def _body(self, request: Request) -> bytes:
        """Raises:
        Turned: it is too large, or does not come.
        """
        most = self._mcp.settings.max_body_bytes
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise Turned(refusal("body_too_large", 413))
        body = bytearray()
        try:
            async with asyncio.timeout(self._mcp.settings.body_seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        raise Turned(refusal("body_too_large", 413))
            return bytes(body)
        except TimeoutError:
            pass
        except ClientDisconnect:
            pass
        raise Turned(refusal("body_too_slow", 408))

    def _message(self, request: Request, body: bytes) -> JsonObject:
        """Raises:
        Turned: it has no meaning, or more than one.
        """
        problems: Any = None
        try:
            message = decode_message(body, max_bytes=self._mcp.settings.max_body_bytes, wide=self._wide)
            if _is_older(request):
                jsonrpc_message_adapter.validate_python(message, by_name=False)  # the SDK would answer with its text
            return message
        except InvalidArguments as error:
            found = error.problems[:_MOST_PROBLEMS]
            problems = [{"path": path, "problem": problem} for path, problem in found]
        except ValidationError:
            pass
        raise Turned(refusal("message_malformed", 400, problems=problems))

    def _still(self, request: Request, principal: Principal) -> Callable[[], Awaitable[bool]]:
        async def is_still() -> bool:
            try:
                return await self._named(request) == principal
            except Turned:
                return False

        return is_still

    # ------------------------------------------------------------ sessions of the older revisions

    async def _open_session(self, request: Request, principal: Principal, receive: Receive, send: Send) -> None:
        owner = owner_of(principal)

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                for name, value in message.get("headers", ()):
                    if name.lower() == _SESSION:
                        self._sessions.opened(value.decode("latin-1"), owner)
            await send(message)

        with self._sessions.opening(owner) as has_room:
            if not has_room:
                raise Turned(refusal("too_many_sessions", 429, headers={"Retry-After": str(_LATER_SECONDS)}))
            await self._manager.handle_request(request.scope, receive, noting)

    async def _in_session(self, request: Request, receive: Receive, send: Send) -> None:
        session = _session_of(request)
        if session is None:
            await self._manager.handle_request(request.scope, receive, send)
            return

        async def noting(message: Message) -> None:
            has_ended = request.method == "DELETE" and message.get("status", 500) < 300
            if message["type"] == "http.response.start" and (has_ended or message["status"] == 404):
                self._sessions.ended(session)
            await send(message)

        self._sessions.begun(session)
        try:
            await self._manager.handle_request(request.scope, receive, noting)
        finally:
            self._sessions.done(session)


def _is_older(request: Request) -> bool:
    said = request.headers.get("mcp-protocol-version")
    return said is None or said in HANDSHAKE_PROTOCOL_VERSIONS


def _session_of(request: Request) -> str | None:
    said = request.headers.getlist("mcp-session-id")
    return said[0] if len(said) == 1 and 0 < len(said[0]) <= 100 and _is_older(request) else None


def _request_id(request: Request, message: JsonObject) -> str | None:
    """The client's own name for the request, or its trace, or what this process made up for it."""
    own = request.scope.get("placet_request_id")
    if own is not None and own == request.headers.get("x-request-id"):
        return str(own)
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return (trace_of(meta) if isinstance(meta, dict) else None) or own


def _only(request: Request, name: str) -> str:
    said = request.headers.getlist(name)
    return said[0] if len(said) == 1 else ""


def _require_json(request: Request) -> None:
    kind, _, parameters = _only(request, "content-type").partition(";")
    charset = parameters.strip().lower().replace('"', "")
    is_plain = kind.strip().lower() == "application/json" and charset in ("", "charset=utf-8")
    if not is_plain or request.headers.getlist("content-encoding") not in ([], ["identity"]):
        raise Turned(refusal("media_type_unsupported", 415))


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, for whoever reads it next; then whatever comes."""
    is_given = False

    async def received() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return received
