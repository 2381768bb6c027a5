"""One small document from an issuer, or the answer to one small form, within limits.

No redirect is followed, no proxy of the environment used, nothing compressed taken. The host's name is resolved once,
each address is held against where the issuer may be, and the connection goes to that very address, so that a name
which says something else a moment later changes nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

import httpx

from placet.model.issuers import Network
from placet.rules.issuers import may_be_reached, why_not_fetched

MAX_BYTES = 262_144
FETCH_SECONDS = 5.0
CONNECT_SECONDS = 1.5
"""How long one address that says nothing is waited for, where there is another."""
_MOST_ADDRESSES = 4
_FAULTS = (httpx.HTTPError, httpx.InvalidURL, OSError, ssl.SSLError, UnicodeError, ValueError)


_HEADERS = {"accept": "application/json", "accept-encoding": "identity"}
_SAYS_NO = frozenset({400, 401, 403})


class NotFetched(Exception):
    """Nothing came, or nothing that is taken; `reason` is one of a few fixed words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Fetcher:
    """Fetches for one issuer."""

    def __init__(
        self,
        network: Network,
        *,
        ca_file: Path | None = None,
        seconds: float | None = None,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self._connect_seconds = connect_seconds
        self._network = network
        self._ca_file = ca_file
        self._seconds = FETCH_SECONDS if seconds is None else seconds

    async def get(self, url: str) -> bytes:
        """The body of a 200, of at most 256 KiB.

        Raises:
            NotFetched: not in time, from nowhere it may come from, or not in this form.
        """
        return await self._asked("GET", url, b"", {})

    async def post(self, url: str, form: bytes, headers: Mapping[str, str]) -> bytes:
        """The same, of the answer to a form, which is sent once.

        Raises:
            NotFetched: as `get`, or `refused`: the issuer says no. It may have taken a form whose answer did not come.
        """
        return await self._asked("POST", url, form, headers)

    async def _asked(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        if why_not_fetched(url, self._network) is not None:
            raise NotFetched("address")
        reason = "unreachable"
        try:
            async with asyncio.timeout(self._seconds):
                return await self._answer(httpx.Request(method, url, content=body, headers=_HEADERS | dict(headers)))
        except NotFetched as known:
            reason = known.reason
        except TimeoutError:
            reason = "too_slow"
        except _FAULTS:
            pass
        raise NotFetched(reason)

    async def _answer(self, wanted: httpx.Request) -> bytes:
        addresses = await self._addresses(wanted.url)
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=0)
        impatient = httpx.Timeout(self._seconds, connect=min(self._connect_seconds, self._seconds / len(addresses)))
        async with httpx.AsyncClient(
            verify=self._trusted(wanted.url), trust_env=False, follow_redirects=False, timeout=impatient, limits=limits,
        ) as client:  # fmt: skip
            for address in addresses[:-1]:
                try:
                    return await self._from(client, wanted, address)
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    continue  # nothing was sent: a host with several addresses may be reached at another of them
            client.timeout = httpx.Timeout(self._seconds)
            return await self._from(client, wanted, addresses[-1])

    async def _from(self, client: httpx.AsyncClient, wanted: httpx.Request, address: str) -> bytes:
        async with client.stream(
            wanted.method,
            wanted.url.copy_with(host=address),
            content=wanted.content or None,
            headers=wanted.headers,  # its `host` is the name that was looked up
            extensions={"sni_hostname": wanted.url.host},
        ) as response:
            if response.status_code != 200:
                raise NotFetched(_reason_of(response))
            if response.headers.get("content-encoding", "identity") != "identity":
                raise NotFetched("compressed")
            body = bytearray()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MAX_BYTES:
                    raise NotFetched("too_long")
            return bytes(body)

    async def _addresses(self, url: httpx.URL) -> list[str]:
        """Where the host is, if all of that is where the issuer may be: one that also names an inner address lies."""
        found = await asyncio.get_running_loop().getaddrinfo(
            url.host, url.port or (443 if url.scheme == "https" else 80), type=socket.SOCK_STREAM
        )
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))[:_MOST_ADDRESSES]
        if not addresses or not all(may_be_reached(address, self._network) for address in addresses):
            raise NotFetched("address")
        return [str(ipaddress.ip_address(address)) for address in addresses]

    def _trusted(self, url: httpx.URL) -> ssl.SSLContext:
        """Whose certificates are believed; of http nobody's are, and reading all of them takes a tenth of a second."""
        if url.scheme == "http":
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return ssl.create_default_context(cafile=str(self._ca_file)) if self._ca_file else httpx.create_ssl_context()


def _reason_of(response: httpx.Response) -> str:
    if response.is_redirect:
        return "redirected"
    return "refused" if response.request.method == "POST" and response.status_code in _SAYS_NO else "status"
