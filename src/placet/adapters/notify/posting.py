"""One POST to an address of the configuration, within limits, and what its status means.

Of the answer nothing is read but its status and `Retry-After`.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

import httpx

from placet.adapters.reaching import CONNECT_SECONDS, AddressRefused, ReachingTransport
from placet.model.issuers import Network
from placet.ports.notifier import Delivered, Gone, NotDelivered, Sent
from placet.rules.issuers import why_not_fetched

POST_SECONDS: Final = 15.0
_FAULTS: Final = (httpx.HTTPError, httpx.InvalidURL, OSError, ssl.SSLError, UnicodeError, ValueError)


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
        if why_not_fetched(url, self._network) is not None:  # as it is written; parsing may mend it
            return NotDelivered(code="address_refused")
        code = "unreachable"
        try:
            async with asyncio.timeout(self._seconds):
                return await self._post(url, body, headers, now)
        except TimeoutError:
            code = "too_slow"
        except AddressRefused:
            code = "address_refused"
        except httpx.ConnectTimeout:
            code = "too_slow"
        except httpx.ConnectError as fault:
            code = "tls_failed" if isinstance(_root(fault), ssl.SSLError) else "unreachable"
        except _FAULTS:
            code = "broke_off"
        return NotDelivered(code=code)

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str], now: datetime) -> Sent:
        own = {"user-agent": "placet", "content-type": "application/json"}
        transport = ReachingTransport(self._network, ca_file=self._ca_file, connect_seconds=self._connect_seconds)
        request = httpx.Request("POST", url, content=body, headers={**own, **headers})
        request.extensions["timeout"] = httpx.Timeout(self._seconds).as_dict()
        try:
            response = await transport.handle_async_request(request)
            await response.aclose()
            return sent_of(response.status_code, response.headers.get("retry-after"), now=now)
        finally:
            await transport.aclose()


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
