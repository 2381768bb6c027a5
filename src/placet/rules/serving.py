"""Where front doors may listen, and whose word on a request is believed.

A request's `Host` is its sender's word. Where the deployment has said what this site is called, that counts; what a
proxy adds of a request is believed only from an address that the deployment trusts, and only one plain value of it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from placet.errors import ConfigurationError
from placet.model.serving import Listening

CONSOLE_ROOT: Final = "/console"
MCP_PATH: Final = "/mcp"
_THIS_MACHINE: Final = ("localhost", "127.0.0.1", "::1")
_HOST: Final = re.compile(
    r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?::[0-9]{1,5})?|\[[0-9a-f:.]{2,45}\](?::[0-9]{1,5})?"
)
_LONGEST_URL: Final = 300
_USUAL_PORT: Final = 443
"""Which no browser says."""
_MOST_PROXIES: Final = 100
_FORWARDED: Final = (b"x-forwarded-host", b"x-forwarded-proto")
ProxyNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """What a trusted proxy says of a request; None where it says nothing that can be believed."""

    host: str | None = None
    scheme: str | None = None


def require_sound(listening: Listening) -> None:
    """Raises:
    ConfigurationError: one of its members cannot be used.
    """
    if listening.public_url is not None and not is_public_url(listening.public_url):
        raise ConfigurationError(
            "public_url is not the address of a site.",
            hint='Write it as browsers do: "https://HOST" or "https://HOST:PORT", in small letters, and nothing more. '
            "Without TLS the console is for placet serve --dev alone.",
        )
    if len(listening.trusted_proxies) > _MOST_PROXIES:
        raise ConfigurationError(f"There are at most {_MOST_PROXIES} trusted proxies.")
    networks_of(listening.trusted_proxies)


def is_this_machine(host: str) -> bool:
    """Whether nobody beyond this machine can reach it there."""
    return host in _THIS_MACHINE


def is_public_url(text: str) -> bool:
    """Whether it is the address of a site, and nothing more: https, host, and perhaps a port, in their usual form.

    Browsers keep none of the console's cookies without TLS.
    """
    scheme, _, place = text.partition("://")
    if scheme != "https" or len(text) > _LONGEST_URL or _HOST.fullmatch(place) is None:
        return False
    try:
        port = urlsplit(text).port
    except ValueError:
        return False
    return port != _USUAL_PORT


def networks_of(proxies: Iterable[str]) -> tuple[ProxyNetwork, ...]:
    """Raises:
    ConfigurationError: one is no address and no network, or is everybody.
    """
    found = []
    for each in proxies:
        try:
            network: ProxyNetwork = ipaddress.ip_network(each)
        except ValueError:
            network = ipaddress.IPv4Network((0, 0))
        if network.prefixlen == 0:
            raise ConfigurationError(
                "A trusted proxy is an address or a network, and never everybody.",
                hint='Such as trusted_proxies = ["10.1.0.7", "fd00:1::/64"].',
            )
        found.append(network)
    return tuple(found)


def is_trusted(peer: str, networks: Iterable[ProxyNetwork]) -> bool:
    """Whether this address is one of the deployment's proxies."""
    try:
        address: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in networks)


def forwarded(headers: Iterable[tuple[bytes, bytes]]) -> Forwarded:
    """What the headers of a trusted proxy say: each one plain value, once; anything else is nothing."""
    said = list(headers)
    host, scheme = (_only(said, name) for name in _FORWARDED)
    return Forwarded(
        host=host if _HOST.fullmatch(host) else None, scheme=scheme if scheme in ("http", "https") else None
    )


def _only(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    found = [value for key, value in headers if key == name]
    return found[0].decode("latin-1").strip().lower() if len(found) == 1 else ""


def is_forwarding(name: bytes) -> bool:
    """Whether a header is a proxy's word on a request."""
    return name == b"forwarded" or name.startswith(b"x-forwarded-")


def host_of(public_url: str) -> str:
    """What `Host` says in a request to this site."""
    return public_url.partition("://")[2]
