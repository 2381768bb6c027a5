"""One small document from an issuer, or the answer to one small form, within limits, and nothing compressed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path

import httpx

from placet.adapters.reaching import AddressRefused, ReachingTransport
from placet.model.issuers import Network
from placet.rules.issuers import why_not_fetched

MAX_BYTES = 262_144
FETCH_SECONDS = 5.0
CONNECT_SECONDS = 1.5
"""How long one address that says nothing is waited for, where there is another."""
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
        if why_not_fetched(url, self._network) is not None:  # as it is written; parsing may mend it
            raise NotFetched("address")
        reason = "unreachable"
        try:
            async with asyncio.timeout(self._seconds):
                return await self._answer(httpx.Request(method, url, content=body, headers=_HEADERS | dict(headers)))
        except NotFetched as known:
            reason = known.reason
        except TimeoutError:
            reason = "too_slow"
        except AddressRefused:
            reason = "address"
        except _FAULTS:
            pass
        raise NotFetched(reason)

    async def _answer(self, wanted: httpx.Request) -> bytes:
        transport = ReachingTransport(
            self._network, ca_file=self._ca_file, connect_seconds=min(self._connect_seconds, self._seconds)
        )
        wanted.extensions["timeout"] = httpx.Timeout(self._seconds).as_dict()
        try:
            return await _body_of(wanted.method, await transport.handle_async_request(wanted))
        finally:
            await transport.aclose()


async def _body_of(method: str, response: httpx.Response) -> bytes:
    try:
        if response.status_code != 200:
            raise NotFetched(_reason_of(method, response))
        if response.headers.get("content-encoding", "identity") != "identity":
            raise NotFetched("compressed")
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > MAX_BYTES:
                raise NotFetched("too_long")
        return bytes(body)
    finally:
        await response.aclose()


def _reason_of(method: str, response: httpx.Response) -> str:
    if response.is_redirect:
        return "redirected"
    return "refused" if method == "POST" and response.status_code in _SAYS_NO else "status"
