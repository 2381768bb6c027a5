"""One HTTP service: a request of ours goes to the address that is configured, once, and what came back is read.

    room, name, address, TLS ── guard ── first byte ── answer's head ── its body, if it is read
    └ a failure up to here: NotSent          └ a failure from here on: the answer is lost, and it may have acted

Each request has a connection of its own: one that is used again may just have been closed by the other side, which
leaves it open whether a request arrived, and what a broken service sent too much would be the next request's answer.
Redirects are answers like others, nothing compressed is asked for or unpacked, and no cookie is kept.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx

from placet.adapters.reaching import AddressRefused, ReachingTransport
from placet.adapters.transports.reports import TooLate
from placet.adapters.transports.traces import named_trace
from placet.errors import NotSent
from placet.model.destinations import SecretRef
from placet.model.issuers import Network
from placet.model.openapi import HttpAnswer, HttpRequest
from placet.model.upstreams import Credential, CredentialForm
from placet.rules.openapi.answers import AnswerLost

_log = logging.getLogger("placet.upstreams")

SHARE_TO_CONNECT: Final = 0.8
"""Of the time that is left, what a connection may take: an attempt that could not even begin can still say so."""
_FIRST_BYTE: Final = "http11.send_request_headers.started"
_LONGEST_RETRY_AFTER: Final = 64

Secrets = Callable[[SecretRef], str]


class HttpService:
    """Where operations are carried to. Used from one event loop.

    Args:
        name: its server id.
        url: its address, without query; what stands in its path comes before that of an operation.
        credentials: by tenant, and under None for all others; a tenant that has none shows none.
        secrets: looks a secret up, each time anew; raises anything where there is none.
        most_connections: at once; further requests wait for room.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        network: Network,
        ca_file: Path | None = None,
        credentials: Mapping[str | None, Credential] | None = None,
        secrets: Secrets,
        most_connections: int,
    ) -> None:
        self._name = name
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self.base_path = parts.path.rstrip("/")
        self._credentials = dict(credentials or {})
        self._secrets = secrets
        self._transport = ReachingTransport(network, ca_file=ca_file, max_connections=most_connections)

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def send(
        self,
        request: HttpRequest,
        *,
        tenant: str,
        guard: Callable[[], None],
        seconds: float,
        reads_body: Callable[[int], bool],
        max_bytes: int,
    ) -> HttpAnswer:
        """Send it once.

        Args:
            guard: called right before the first byte leaves; raises what keeps it back.
            seconds: that are left until the attempt's deadline, which the caller keeps.
            reads_body: whether an answer of this status has a body that is wanted.
            max_bytes: how much of a body is read.

        Raises:
            NotSent: nothing left.
            AnswerLost: it may have acted.
        """
        begun = _Begun(guard)
        wanted = self._wanted(request, tenant, begun)
        kept_back: NotSent | None = None
        reason = "unreachable"
        try:
            async with asyncio.timeout(max(seconds, 0.0) * SHARE_TO_CONNECT) as begun.limit:
                return await self._answer(wanted, reads_body, max_bytes)
        except NotSent as known:
            kept_back = known
        except AddressRefused:
            reason = "address_refused"
        except TimeoutError:
            reason = "too_slow"
        except Exception:  # whatever it was: what matters is whether anything had left
            reason = "unreachable"
        if kept_back is not None:
            raise kept_back
        if not begun.has_left:
            raise self._not_sent(reason)
        _log.warning(
            "the answer of the upstream %s leaves in doubt what it did", self._name, extra={"server": self._name}
        )
        raise AnswerLost("The answer of the service was lost.")

    def _not_sent(self, reason: str) -> NotSent:
        _log.warning(
            "the upstream %s took nothing up: %s", self._name, reason, extra={"server": self._name, "code": reason}
        )
        kind = TooLate if reason == "too_slow" else NotSent
        return kind("The service cannot be reached now; nothing was sent.", code="upstream_unavailable")

    def _wanted(self, request: HttpRequest, tenant: str, begun: _Begun) -> httpx.Request:
        headers, target = {**named_trace(), **dict(request.headers)}, request.target  # an argument of that name is one
        headers |= {"accept-encoding": "identity", "connection": "close", "user-agent": "placet"}
        credential = self._credentials.get(tenant, self._credentials.get(None))
        if credential is not None:
            name, value = self._shown(credential)
            if credential.form is CredentialForm.QUERY:
                target += f"{'&' if '?' in target else '?'}{quote(name, safe='')}={quote(value, safe='')}"
            else:
                headers[name.lower()] = value
        return httpx.Request(
            request.method,
            self._origin + target,
            headers=headers,
            content=request.body,
            extensions={"trace": begun.trace, "target": target.encode("ascii"), "timeout": {}},
        )

    def _shown(self, credential: Credential) -> tuple[str, str]:
        try:
            secret = self._secrets(credential.secret)
        except Exception:
            secret = None
        if secret is None:
            raise self._not_sent("secret_missing")
        match credential.form:
            case CredentialForm.BEARER:
                return "authorization", f"Bearer {secret}"
            case CredentialForm.BASIC:
                pair = f"{credential.user or ''}:{secret}".encode()
                return "authorization", f"Basic {base64.b64encode(pair).decode('ascii')}"
            case CredentialForm.HEADER | CredentialForm.QUERY:
                return credential.name or "", secret
            case CredentialForm.OAUTH:
                raise self._not_sent("credential_unfit")  # refused where it is declared

    async def _answer(self, wanted: httpx.Request, reads_body: Callable[[int], bool], max_bytes: int) -> HttpAnswer:
        response = await self._transport.handle_async_request(wanted)
        try:
            body: bytes | None = b""
            if reads_body(response.status_code):
                body = await _read(response, max_bytes)
            return HttpAnswer(
                status=response.status_code,
                media_type=response.headers.get("content-type", "").partition(";")[0].strip().lower(),
                encoding=response.headers.get("content-encoding", "identity").strip().lower() or "identity",
                retry_after=_retry_after(response),
                body=body,
            )
        finally:
            await response.aclose()


class _Begun:
    """Whether the first byte has left. Until then the connection has a limit of its own."""

    def __init__(self, guard: Callable[[], None]) -> None:
        self._guard = guard
        self.has_left = False
        self.limit: asyncio.Timeout | None = None

    async def trace(self, event: str, facts: Mapping[str, Any]) -> None:
        if event != _FIRST_BYTE:
            return
        self._guard()
        if self.limit is not None:
            self.limit.reschedule(None)
        self.has_left = True


async def _read(response: httpx.Response, max_bytes: int) -> bytes | None:
    """The body as it came; None as soon as it is longer than it may be."""
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > max_bytes:
            return None
    return bytes(body)


def _retry_after(response: httpx.Response) -> str | None:
    said = response.headers.get("retry-after")
    return said if said is not None and len(said) <= _LONGEST_RETRY_AFTER else None
