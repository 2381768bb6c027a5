"""Sends requests and brings answers, with or without an event loop, and says which of them may be sent again.

The calls of the client are written once, as coroutines over a `Wire`. The wire of the synchronous client never
suspends, so its coroutines run to their end at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, Protocol

import httpx

from placet.client.bodies import json_in
from placet.client.errors import AnswerLost, AnswerTooLarge, ServerNotTrusted, ServerUnreachable
from placet.client.lines import Lines
from placet.errors import ConfigurationError, MisuseError, PlacetError
from placet.model.json import JsonValue
from placet.rules.documents import NotADocument, value_of

_CONNECT_SECONDS = 10.0
_MARGIN_SECONDS = 30.0
"""How much longer than it asked the server to take a client waits for an answer."""
CALL_SECONDS = 90.0
MOST_BYTES = 64 * 1_024 * 1_024
"""Of one answer; an export is given away as it comes, and may be of any size."""
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_COME_BACK = frozenset({429, 503})
_CREDENTIAL = re.compile(r"[\x21-\x7e]+")


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
        only_looks: whether it changes nothing, which a `GET` never does.
        wait_seconds: how long the server was asked to wait.
    """

    method: str
    path: str
    body: JsonValue = None
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    is_safe: bool = True
    only_looks: bool = False
    wait_seconds: float = 0.0


def look(path: str, **more: Any) -> Ask:
    """A request that only looks."""
    return Ask(method="GET", path=path, only_looks=True, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came, to what was asked."""

    ask: Ask
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def document(self) -> Any:
        """The JSON of the body; None where there is none, or one that no server of ours sends."""
        return json_in(self.body)

    @property
    def answered_at(self) -> datetime | None:
        """When it was answered, to the second, by the server's clock; None if it does not say so."""
        try:
            instant = parsedate_to_datetime(self.headers.get("date", ""))
            return value_of(datetime, instant.isoformat())
        except (ValueError, TypeError, OverflowError, NotADocument):
            return None


Take = Callable[[bytes], object]


class Wire(Protocol):
    """Brings an answer, or raises `ServerUnreachable`, `ServerNotTrusted`, `AnswerLost`, `AnswerTooLarge`, or
    `TimeoutError` where all of it took longer than it may; that it may take no longer holds of no answer given away.
    """

    async def send(self, ask: Ask, take: Take | None = None) -> Answer:
        """
        Args:
            take: is given each piece of a successful answer's body as it comes; the answer then has no body.
        """
        ...

    async def pause(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


async def sent(wire: Wire, ask: Ask, retries: Retries) -> Answer:
    """The answer, after as many tries as the request may have; one that used its time up is the last.

    Raises:
        ServerUnreachable: no try was sent.
        AnswerLost: none brought an answer, and one of them was sent.
        ServerNotTrusted, AnswerTooLarge: which another try does not mend.
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
        except TimeoutError:
            was_sent = True
            break
        else:
            wanted = _wanted_pause(answer)
            if is_last or wanted is None or wanted > retries.longest_seconds or not ask.is_safe:
                return answer
            seconds = wanted
        await wire.pause(seconds)
    raise AnswerLost(only_looked=ask.only_looks) if was_sent else ServerUnreachable()


def _wanted_pause(answer: Answer) -> float | None:
    """When the server wants to be asked again; None if that is not what it says."""
    said = answer.headers.get("retry-after", "")
    return float(said) if answer.status in _COME_BACK and said.isdecimal() else None


class _Reading:
    """One answer while its body comes."""

    def __init__(self, ask: Ask, response: httpx.Response, take: Take | None) -> None:
        self._ask = ask
        self._response = response
        self._body = bytearray()
        self._take = self._keep if take is None or response.status_code != 200 else take

    def _keep(self, piece: bytes) -> None:
        if len(self._body) + len(piece) > MOST_BYTES:
            raise AnswerTooLarge(only_looked=self._ask.only_looks)
        self._body += piece

    def piece(self, piece: bytes) -> None:
        self._take(piece)

    def answer(self) -> Answer:
        response = self._response
        return Answer(
            ask=self._ask, status=response.status_code, headers=response.headers, body=bytes(self._body)
        )  # fmt: skip


class AsyncWire:
    """Over an event loop."""

    def __init__(self, url: str, token: Callable[[], str], plain: PlainHttp) -> None:
        self._client = httpx.AsyncClient(**_options(url, plain))
        self._token = token

    async def send(self, ask: Ask, take: Take | None = None) -> Answer:
        try:
            async with (
                asyncio.timeout(longest(ask, take)),
                self._client.stream(**_request(ask, self._token)) as response,
            ):
                reading = _Reading(ask, response, take)
                async for piece in response.aiter_raw():
                    reading.piece(piece)
                return reading.answer()
        except httpx.HTTPError as fault:
            error = _error_of(fault, ask)
        raise error

    async def pause(self, seconds: float) -> None:
        await asyncio.wait((asyncio.get_running_loop().create_future(),), timeout=seconds)

    async def close(self) -> None:
        await self._client.aclose()


class SyncWire:
    """Without one; nothing in here suspends."""

    def __init__(self, url: str, token: Callable[[], str], plain: PlainHttp) -> None:
        self._lines = Lines(_options(url, plain))
        self._token = token

    async def send(self, ask: Ask, take: Take | None = None) -> Answer:
        request = _request(ask, self._token)
        with self._lines.line() as line:
            try:
                with (
                    line.within(longest(ask, take)),
                    line.client.stream(**request, extensions={"trace": line.trace}) as response,
                ):
                    reading = _Reading(ask, response, take)
                    for piece in response.iter_raw():
                        reading.piece(piece)
                    found: Answer | PlacetError = reading.answer()
            except httpx.HTTPError as fault:
                found = _error_of(fault, ask)
            if line.is_cut:
                raise TimeoutError
        if isinstance(found, PlacetError):
            raise found
        return found

    async def pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    async def close(self) -> None:
        self._lines.close()


def _request(ask: Ask, token: Callable[[], str]) -> dict[str, Any]:
    """What the library is given. Whatever it could not write is refused here, without its text.

    Raises:
        ConfigurationError: the credential is none. Nothing was sent.
        MisuseError: the body is no JSON. Nothing was sent.
    """
    headers = {"Authorization": f"Bearer {_credential(token())}", **ask.headers}
    request: dict[str, Any] = {
        "method": ask.method,
        "url": ask.path,
        "params": ask.query,
        "headers": headers,
        "timeout": httpx.Timeout(_seconds(ask), connect=_CONNECT_SECONDS),
    }
    if ask.body is not None:
        request["content"] = _json_of(ask.body)
        headers["Content-Type"] = "application/json"
    return request


def _seconds(ask: Ask) -> float:
    return CALL_SECONDS + _MARGIN_SECONDS + ask.wait_seconds


def longest(ask: Ask, take: Take | None) -> float | None:
    """What all of an answer may take. One that is given away is as long as it is; each read of it ends as any other."""
    return _seconds(ask) if take is None else None


def _credential(token: str) -> str:
    if type(token) is str and _CREDENTIAL.fullmatch(token):
        return token
    raise ConfigurationError(
        "The credential is no API key and no token: it holds what neither can.",
        code="credential_malformed",
        hint="Printable ASCII without blanks, and no line's end behind it.",
    )


def _json_of(body: JsonValue) -> bytes:
    with suppress(ValueError, TypeError, RecursionError):
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    raise MisuseError(
        "What is sent is JSON: texts of whole characters, finite numbers, lists, and objects named by texts."
    )


def _error_of(fault: httpx.HTTPError, ask: Ask) -> PlacetError:
    """Ours for theirs, without their words: they may hold the address, and with it whatever stands in it."""
    if not isinstance(fault, _NOT_SENT):
        return AnswerLost(only_looked=ask.only_looks)
    return ServerNotTrusted() if any(isinstance(each, ssl.SSLError) for each in _causes(fault)) else ServerUnreachable()


def _causes(fault: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = fault
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__  # one of its layers leaves the cause in the context


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
            "The server is named by its address, such as https://placet.example.",
            code="server_address_invalid",
            hint="Scheme and host, and a port if need be; no name, password or query: a credential is given by itself.",
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
        "trust_env": not is_near,  # no proxy stands between here and here
        "verify": _named_authorities() or True,
        "headers": {"User-Agent": "placet-client", "Accept": "application/json", "Accept-Encoding": "identity"},
    }


def _named_authorities() -> ssl.SSLContext | None:
    """Trust in the authorities that SSL_CERT_FILE or SSL_CERT_DIR names, near by too; None where neither does.

    Raises:
        ConfigurationError: what is named is not there, or holds none.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if not file and not folder:
        return None
    with suppress(OSError):  # an SSLError is one
        return ssl.create_default_context(cafile=file or None, capath=folder or None)
    raise ConfigurationError(
        "SSL_CERT_FILE or SSL_CERT_DIR names no certificates that can be read.",
        code="server_authorities_unreadable",
        hint="Name a file of certificates in PEM form, or unset the variable.",
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
