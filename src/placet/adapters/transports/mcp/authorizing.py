"""An upstream that wants tokens of an authorization server: shown, refreshed, and got by an operator's sign-in.

    request ─► with the token ─► answered
                     └─ 401, 403: nothing of it was taken up; without an operator there is nobody to ask
    sign-in (`placet mcp login`): metadata ─► client ─► the operator's browser ─► code, state and issuer held ─► token

The rules of the protocol (resource, issuer, PKCE, which client is whose) are the SDK's; every address is reached
through the upstream's own transport, so within its network. Tokens are this deployment's own: a caller's never go out,
and what an upstream is shown it is shown for everybody of the tenant.

Source: MCP 2026-07-28, authorization; RFC 8707, 9207, 9728.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final

import httpx
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata
from pydantic import AnyUrl, ValidationError

from placet.adapters.transports.mcp.faults import TurnedAway
from placet.adapters.transports.mcp.token_file import TokenFile

OpenPage = Callable[[str], Awaitable[None]]
ComeBack = Callable[[], Awaitable[AuthorizationCodeResult]]

_MOST_BYTES: Final = 1_048_576
"""Of an answer of an authorization server."""
_NOT_LET_IN: Final = frozenset((401, 403))
_CHALLENGE: Final = "www-authenticate"
_CLIENT_NAME: Final = "placet"
_FETCH_SECONDS: Final = 10.0
"""How long an authorization server may take to answer; others wait for it meanwhile."""


def _is_ours(record: logging.LogRecord) -> bool:
    return False


for _name in ("mcp.client.auth.oauth2", "mcp.client.auth.utils"):  # they log what others answered, with its text
    logging.getLogger(_name).addFilter(_is_ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who this deployment is for an authorization server.

    Attributes:
        redirect_url: where the operator's browser comes back to.
        known_as: id and, if it has one, secret of a client that was registered by hand; None: it registers itself.
        described_at: where a description of this client is published, for servers that read such.
    """

    redirect_url: str
    known_as: tuple[str, str | None] | None = field(default=None, repr=False)
    described_at: str | None = None


class Authorized(httpx.AsyncBaseTransport):
    """The way to one upstream, with what lets us in."""

    def __init__(self, url: str, inner: httpx.AsyncBaseTransport, tokens: TokenFile) -> None:
        self._inner = inner
        self._tokens = tokens
        self._known: str | None = None
        self._provider = _provider(url, Client(redirect_url="http://127.0.0.1/callback"), tokens, None, None)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """
        Raises:
            TurnedAway: we are not let in. Nothing was taken up.
            httpx.HTTPError, OSError: what lets us in could not be had in time; nothing was sent. Or the request's own.
        """
        await self._fresh(None)
        shown, sends = self._shown(), 1
        try:
            return await _let_in(self._provider, self._inner, request)
        except _NotSignedIn as answered:
            missing = answered.missing
        if missing is None and await self._has_another(shown):
            sends = 2
            try:
                return await _let_in(self._provider, self._inner, request)
            except _NotSignedIn as answered:
                missing = answered.missing
        if missing is not None:
            with suppress(OSError):  # what could not be noted is missing the next time too
                async with self._tokens.turn():
                    self._tokens.note_missing(missing)
        raise TurnedAway("not_let_in", sends=sends)

    async def _has_another(self, refused: str | None) -> bool:
        """Whether there is, or can be had, a token besides this one, which the upstream did not let in. What goes wrong
        in that changes nothing of what the upstream has said."""
        if not self._provider.context.can_refresh_token():
            return False
        with suppress(_NotSignedIn, httpx.HTTPError, OSError):
            await self._fresh(refused)
            return self._shown() not in (None, refused)
        return False

    async def _fresh(self, refused: str | None) -> None:
        """Have the tokens that count now: those in the file, which an operator or another session may have replaced.

        Args:
            refused: a token that the upstream did not let in.
        """
        context = self._provider.context
        await self._read()
        if refused is None and context.is_token_valid():
            return
        async with self._tokens.turn():
            await self._read()
            is_stale = self._shown() == refused or not context.is_token_valid()
            if not is_stale or not context.can_refresh_token():
                return
            try:
                asked = await self._provider._refresh_token()
                await self._provider._handle_refresh_response(await _fetched(self._inner, asked))
            except (OAuthFlowError, ValidationError, ValueError):
                context.clear_tokens()
            self._known = self._shown()

    async def _read(self) -> None:
        context = self._provider.context
        await self._provider._initialize()
        if context.oauth_metadata is None:
            context.oauth_metadata = self._tokens.server()
        if self._shown() != self._known:  # somebody else's, whose end is not known here
            self._known, context.token_expiry_time = self._shown(), None

    def _shown(self) -> str | None:
        tokens = self._provider.context.current_tokens
        return None if tokens is None else tokens.access_token

    async def aclose(self) -> None:
        await self._inner.aclose()


class SignInFailed(Exception):
    """The upstream, its authorization server or the answer that came back does not hold; nothing was kept."""


async def sign_in(
    url: str,
    inner: httpx.AsyncBaseTransport,
    tokens: TokenFile,
    client: Client,
    *,
    open_page: OpenPage,
    come_back: ComeBack,
) -> None:
    """Have an operator let this deployment in at one upstream; what was missing before is asked for too.

    Raises:
        SignInFailed: it did not come to that.
    """
    provider = _provider(url, client, tokens, open_page, come_back)
    if client.known_as is not None:
        await tokens.set_client_info(_registered(client))
    missing = tokens.missing()
    request = httpx.Request("POST", url, headers={"accept": "application/json, text/event-stream"}, json=_HELLO)
    try:
        answer = await _let_in(provider, inner, request, instead=None if missing is None else _wants_more(missing))
        await answer.aclose()
        if (server := provider.context.oauth_metadata) is not None:
            tokens.note_server(server)
        return
    except (_NotSignedIn, httpx.HTTPError, OSError):
        pass
    raise SignInFailed("The sign-in did not come to an end that lets this deployment in.")


_HELLO: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": _CLIENT_NAME, "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}


class _NotSignedIn(Exception):
    def __init__(self, missing: str | None = None) -> None:
        super().__init__("not signed in")
        self.missing = missing


def _provider(
    url: str, client: Client, tokens: TokenFile, open_page: OpenPage | None, come_back: ComeBack | None
) -> OAuthClientProvider:
    about = OAuthClientMetadata(
        client_name=_CLIENT_NAME,
        redirect_uris=[AnyUrl(client.redirect_url)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(url, about, tokens, open_page, come_back, client_metadata_url=client.described_at)


def _registered(client: Client) -> OAuthClientInformationFull:
    client_id, secret = client.known_as or ("", None)
    return OAuthClientInformationFull(
        client_id=client_id,
        client_secret=secret,
        redirect_uris=[AnyUrl(client.redirect_url)],
        token_endpoint_auth_method="none" if secret is None else "client_secret_basic",
    )


async def _let_in(
    provider: OAuthClientProvider,
    inner: httpx.AsyncBaseTransport,
    request: httpx.Request,
    *,
    instead: httpx2.Response | None = None,
) -> httpx.Response:
    """Send a request with what lets it in, and in between what is needed to get that.

    Args:
        instead: what the request was answered before; it is not sent a first time.

    Raises:
        _NotSignedIn: it was not let in.
    """
    stands_for = httpx2.Request(request.method, str(request.url), headers=list(request.headers.multi_items()))
    challenge: str | None = None
    async with aclosing(provider.async_auth_flow(stands_for)) as flow:
        try:
            asked = await anext(flow)
            while True:
                if asked is not stands_for:
                    asked = await flow.asend(await _fetched(inner, asked))
                    continue
                if instead is not None:
                    said, instead = instead, None
                    asked = await flow.asend(said)
                    continue
                answer = await inner.handle_async_request(_with_token(request, asked))
                if answer.status_code not in _NOT_LET_IN:
                    return answer
                await answer.aclose()
                challenge = answer.headers.get(_CHALLENGE)
                is_attended = provider.context.redirect_handler is not None
                if answer.status_code == 403 and not is_attended:
                    raise _NotSignedIn(challenge)
                if not is_attended:
                    raise _NotSignedIn
                asked = await flow.asend(httpx2.Response(answer.status_code, headers=answer.headers.multi_items()))
        except (StopAsyncIteration, OAuthFlowError, ValidationError, ValueError):
            pass
    raise _NotSignedIn(challenge)


def _wants_more(challenge: str) -> httpx2.Response:
    return httpx2.Response(403, headers={_CHALLENGE: challenge})


def _with_token(request: httpx.Request, allowed: httpx2.Request) -> httpx.Request:
    token = allowed.headers.get("authorization")
    headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() != "authorization"]
    if token is not None:
        headers.append(("authorization", token))
    return httpx.Request(
        request.method, request.url, headers=headers, stream=request.stream, extensions=request.extensions
    )


async def _fetched(inner: httpx.AsyncBaseTransport, asked: httpx2.Request) -> httpx2.Response:
    """What an authorization server answers, within bounds, over the upstream's own transport."""
    sent = httpx.Request(
        asked.method, str(asked.url), headers=list(asked.headers.multi_items()), content=await _body(asked)
    )
    body = bytearray()
    async with asyncio.timeout(_FETCH_SECONDS):
        answer = await inner.handle_async_request(sent)
        try:
            async for piece in _pieces(answer):
                body += piece
                if len(body) > _MOST_BYTES:
                    raise _NotSignedIn
        finally:
            await answer.aclose()
    headers = [(name, value) for name, value in answer.headers.multi_items() if name.lower() != "content-encoding"]
    return httpx2.Response(answer.status_code, headers=headers, content=bytes(body), request=asked)


async def _body(asked: httpx2.Request) -> bytes:
    return await asked.aread()


async def _pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    if isinstance(answer.stream, httpx.AsyncByteStream):
        async for piece in answer.stream:
            yield piece
