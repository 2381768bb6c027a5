"""One POST to an address of the configuration, within limits, and what its status means.

No redirect is followed, and no proxy of the environment used. The host's name is resolved once, each address is held
against where the destination may be, and the connection goes to that very address, so that a name which says something
else a moment later changes nothing. Of the answer nothing is read but its status and `Retry-After`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from typing import Final

import httpx

from placet.model.issuers import Network
from placet.ports.notifier import Delivered, Gone, NotDelivered, Sent
from placet.rules.issuers import may_be_reached, why_not_fetched

POST_SECONDS: Final = 15.0
CONNECT_SECONDS: Final = 3.0
"""How long one address that says nothing is waited for, where there is another."""
_MOST_ADDRESSES: Final = 4
_FAULTS: Final = (httpx.HTTPError, httpx.InvalidURL, OSError, ssl.SSLError, UnicodeError, ValueError)


class _Refused(Exception):
    """The address is none that may be reached."""


class Poster:
    """Posts for one destination."""

    def __init__(
        self,
        network: Network,
        *,
        ca_file: Path | None = None,
        seconds: float = POST_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self._connect_seconds = connect_seconds
        self._network = network
        self._ca_file = ca_file
        self._seconds = seconds

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], *, now: datetime) -> Sent:
        """Send it once. The other side may have it although the answer says otherwise."""
        if why_not_fetched(url, self._network) is not None:
            return NotDelivered(code="address_refused")
        code = "unreachable"
        try:
            async with asyncio.timeout(self._seconds):
                return await self._post(httpx.URL(url), body, headers, now)
        except TimeoutError:
            code = "too_slow"
        except _Refused:
            code = "address_refused"
        except httpx.ConnectTimeout:
            code = "too_slow"
        except httpx.ConnectError as fault:
            code = "tls_failed" if isinstance(_root(fault), ssl.SSLError) else "unreachable"
        except _FAULTS:
            code = "broke_off"
        return NotDelivered(code=code)

    async def _post(self, url: httpx.URL, body: bytes, headers: Mapping[str, str], now: datetime) -> Sent:
        addresses = await self._addresses(url)
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=0)
        impatient = httpx.Timeout(self._seconds, connect=min(self._connect_seconds, self._seconds / len(addresses)))
        async with httpx.AsyncClient(
            verify=self._trusted, trust_env=False, follow_redirects=False, timeout=impatient, limits=limits
        ) as client:
            for address in addresses[:-1]:
                try:
                    return await self._to(client, url, address, body, headers, now)
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    continue  # nothing was sent: a host with several addresses may be reached at another of them
            client.timeout = httpx.Timeout(self._seconds)
            return await self._to(client, url, addresses[-1], body, headers, now)

    async def _to(
        self,
        client: httpx.AsyncClient,
        url: httpx.URL,
        address: str,
        body: bytes,
        headers: Mapping[str, str],
        now: datetime,
    ) -> Sent:
        own = {"host": url.netloc.decode("ascii"), "user-agent": "placet", "content-type": "application/json"}
        async with client.stream(
            "POST",
            url.copy_with(host=address),
            content=body,
            headers={**own, **headers},
            extensions={"sni_hostname": url.host},
        ) as response:
            return sent_of(response.status_code, response.headers.get("retry-after"), now=now)

    async def _addresses(self, url: httpx.URL) -> list[str]:
        """Where the host is, if all of that is where the destination may be."""
        port = url.port or (443 if url.scheme == "https" else 80)
        found = await asyncio.get_running_loop().getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))[:_MOST_ADDRESSES]
        if not addresses or not all(may_be_reached(address, self._network) for address in addresses):
            raise _Refused
        return [str(ipaddress.ip_address(address)) for address in addresses]

    @cached_property
    def _trusted(self) -> ssl.SSLContext:
        """Whose certificates are believed; over http of this host nobody shows one."""
        if self._network is Network.LOOPBACK and self._ca_file is None:
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return ssl.create_default_context(cafile=str(self._ca_file)) if self._ca_file else httpx.create_ssl_context()


def sent_of(status: int, retry_after: str | None, *, now: datetime) -> Sent:
    """What a status says of a message."""
    if 200 <= status <= 299:
        return Delivered(code=f"status_{status}")
    if status == 410:
        return Gone(code="status_410")
    return NotDelivered(code=f"status_{status}", retry_after_seconds=retry_after_seconds(retry_after, now=now))


def retry_after_seconds(value: str | None, *, now: datetime) -> float | None:
    """Seconds from now, of a number or a date; None for anything else. Source: RFC 9110, section 10.2.3."""
    if value is None or len(value) > 64:
        return None
    if value.isascii() and value.isdigit():
        seconds = float(value)
        return seconds if math.isfinite(seconds) else None
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, IndexError, TypeError):
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())


def _root(fault: BaseException) -> BaseException:
    while (cause := fault.__cause__ or fault.__context__) is not None:
        fault = cause
    return fault
