"""Sends requests and brings answers, with or without an event loop, and says which of them may be sent again.

The calls of the client are written once, as coroutines over a `Wire`. The wire of the synchronous client never
suspends, so its coroutines run to their end at once.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, Protocol

import httpx

from placet.client.errors import AnswerLost, ServerUnreachable
from placet.errors import ConfigurationError, PlacetError
from placet.model.json import JsonValue

_CONNECT_SECONDS = 10.0
_MARGIN_SECONDS = 30.0
"""How much longer than it asked the server to take a client waits for an answer."""
CALL_SECONDS = 90.0
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_COME_BACK = frozenset({429, 503})


class PlainHttp(StrEnum):
    """Where a credential may be sent without TLS."""

    LOOPBACK = "loopback"
    ANYWHERE = "anywhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a request that cannot act twice is sent again.

    Attributes:
        count: at most, after the first time.
        longest_seconds: the longest pause; a server that says to come back later than that is not asked again.
    """

    count: int = 3
    longest_seconds: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request.

    Attributes:
        is_safe: whether sending it twice is as good as once.
        wait_seconds: how long the server was asked to wait.
    """

    method: str
    path: str
    body: JsonValue = None
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    is_safe: bool = True
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def document(self) -> Any:
        """The JSON of the body; None where there is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Wire(Protocol):
    """Brings an answer, or raises `ServerUnreachable` or `AnswerLost`."""

    async def send(self, ask: Ask) -> Answer: ...

    async def stream(self, ask: Ask, take: Callable[[bytes], object]) -> Answer:
        """Give each piece of a successful answer's body away as it comes; the answer then has no body."""
        ...

    async def pause(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


async def sent(wire: Wire, ask: Ask, retries: Retries) -> Answer:
    """The answer, after as many tries as the request may have.

    Raises:
        ServerUnreachable: no try was sent.
        AnswerLost: none brought an answer, and one of them was sent.
    """
    was_sent = False
    for number in range(retries.count + 1):
        is_last = number == retries.count
        try:
            answer = await wire.send(ask)
        except (ServerUnreachable, AnswerLost) as error:
            was_sent = was_sent or isinstance(error, AnswerLost)
            if is_last or (was_sent and not ask.is_safe):
                break
            seconds = min(0.1 * 2.0**number, retries.longest_seconds)
        else:
            wanted = _wanted_pause(answer)
            if is_last or wanted is None or wanted > retries.longest_seconds or not ask.is_safe:
                return answer
            seconds = wanted
        await wire.pause(seconds)
    raise AnswerLost() if was_sent else ServerUnreachable()


def _wanted_pause(answer: Answer) -> float | None:
    """When the server wants to be asked again; None if that is not what it says."""
    said = answer.headers.get("retry-after", "")
    return float(said) if answer.status in _COME_BACK and said.isdecimal() else None


class AsyncWire:
    """Over an event loop."""

    def __init__(self, url: str, token: Callable[[], str], plain: PlainHttp) -> None:
        self._client = httpx.AsyncClient(**_options(url, plain))
        self._token = token

    async def send(self, ask: Ask) -> Answer:
        try:
            response = await self._client.request(**_request(ask, self._token))
            return Answer(status=response.status_code, headers=response.headers, body=response.content)
        except httpx.HTTPError as fault:
            error = _error_of(fault)
        raise error

    async def stream(self, ask: Ask, take: Callable[[bytes], object]) -> Answer:
        try:
            async with self._client.stream(**_request(ask, self._token)) as response:
                if response.status_code != 200:
                    body = await response.aread()
                    return Answer(status=response.status_code, headers=response.headers, body=body)
                async for piece in response.aiter_bytes():
                    take(piece)
                return Answer(status=200, headers=response.headers, body=b"")
        except httpx.HTTPError as fault:
            error = _error_of(fault)
        raise error

    async def pause(self, seconds: float) -> None:
        await asyncio.wait((asyncio.get_running_loop().create_future(),), timeout=seconds)

    async def close(self) -> None:
        await self._client.aclose()


class SyncWire:
    """Without one; nothing in here suspends."""

    def __init__(self, url: str, token: Callable[[], str], plain: PlainHttp) -> None:
        self._client = httpx.Client(**_options(url, plain))
        self._token = token

    async def send(self, ask: Ask) -> Answer:
        try:
            response = self._client.request(**_request(ask, self._token))
            return Answer(status=response.status_code, headers=response.headers, body=response.content)
        except httpx.HTTPError as fault:
            error = _error_of(fault)
        raise error

    async def stream(self, ask: Ask, take: Callable[[bytes], object]) -> Answer:
        try:
            with self._client.stream(**_request(ask, self._token)) as response:
                if response.status_code != 200:
                    body = response.read()
                    return Answer(status=response.status_code, headers=response.headers, body=body)
                for piece in response.iter_bytes():
                    take(piece)
                return Answer(status=200, headers=response.headers, body=b"")
        except httpx.HTTPError as fault:
            error = _error_of(fault)
        raise error

    async def pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    async def close(self) -> None:
        self._client.close()


def _request(ask: Ask, token: Callable[[], str]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token()}", **ask.headers}
    request: dict[str, Any] = {
        "method": ask.method,
        "url": ask.path,
        "params": ask.query,
        "headers": headers,
        "timeout": httpx.Timeout(CALL_SECONDS + _MARGIN_SECONDS + ask.wait_seconds, connect=_CONNECT_SECONDS),
    }
    if ask.body is not None:
        request["content"] = json.dumps(ask.body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        headers["Content-Type"] = "application/json"
    return request


def _error_of(fault: httpx.HTTPError) -> PlacetError:
    """Ours for theirs, without their words: they may hold the address, and with it whatever stands in it."""
    return ServerUnreachable() if isinstance(fault, _NOT_SENT) else AnswerLost()


def _options(url: str, plain: PlainHttp) -> dict[str, Any]:
    """What both kinds of clients are made with.

    Raises:
        ConfigurationError: it is no address of a server, or one that a credential is not sent to.
    """
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        address = httpx.URL("")
    is_plain = address.scheme == "http"
    if address.scheme not in ("http", "https") or not address.host or address.userinfo or address.query:
        raise ConfigurationError(
            "The server is named by its address, such as https://placet.example.", code="server_address_invalid"
        )
    is_near = _is_loopback(address.host)
    if is_plain and not is_near and plain is not PlainHttp.ANYWHERE:
        raise ConfigurationError(
            "A credential is not sent over plain HTTP to another machine.",
            code="server_insecure",
            hint="Use https://, or say PlainHttp.ANYWHERE where the network itself is guarded.",
        )
    return {
        "base_url": address,
        "follow_redirects": False,
        "trust_env": not is_near,
        "headers": {"User-Agent": "placet-client", "Accept": "application/json"},
    }


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
