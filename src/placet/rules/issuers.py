"""Which issuers may be configured together, and where their keys may be fetched from."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from itertools import permutations
from urllib.parse import urlsplit

from placet.errors import ConfigurationError
from placet.model.issuers import Issuer, Network
from placet.model.principal import Standing, is_identity

LONGEST_PREFIX = 32
_LONGEST_URL = 1_000
_DISCOVERY = "/.well-known/openid-configuration"
_NEVER = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "168.63.129.16/32", "fd00:ec2::254/128", "fd20:ce::254/128", "2001::/32", "64:ff9b:1::/48"),
    )
)
"""Where clouds say who a machine is, outside of link-local; and IPv6 that leads to IPv4 which nobody can tell."""
_LEADS_TO_IPV4 = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96")))
_SITE_LOCAL = ipaddress.IPv6Network("fec0::/10")


def require_sound(issuers: Sequence[Issuer]) -> None:
    """Raises:
    ConfigurationError: one of them cannot be used, or two of them could send the same person.
    """
    for issuer in issuers:
        _require_one(issuer)
    if len({(each.issuer, each.audience) for each in issuers}) != len(issuers):
        raise ConfigurationError("Two issuers have the same issuer and audience.")
    prefixes = {each.issuer: each.subject_prefix for each in issuers}
    if any(prefixes[each.issuer] != each.subject_prefix for each in issuers):
        raise ConfigurationError("One issuer has one subject_prefix, whatever the audience.")
    named = [prefix for prefix in prefixes.values() if prefix]
    if len(prefixes) - len(named) > 1 or any(other.startswith(one) for one, other in permutations(named, 2)):
        raise ConfigurationError(
            "Two issuers could send the same subject.",
            hint='Give each a subject_prefix of its own, such as "ci:"; one of them may have none.',
        )


def _require_one(issuer: Issuer) -> None:
    if not issuer.issuer or not issuer.audience:
        raise ConfigurationError("An issuer needs issuer and audience.")
    for url in (issuer.issuer, issuer.jwks_url):
        if url is not None and (why := why_not_fetched(url, issuer.network)) is not None:
            raise ConfigurationError(f"The issuer {issuer.issuer!r} cannot be used: {why}.")
    if not issuer.algorithms:
        raise ConfigurationError(f"The issuer {issuer.issuer!r} needs an algorithm.")
    if (issuer.tenant is None) == (not issuer.tenant_claim) or bool(issuer.tenant_claim) != bool(issuer.tenants):
        raise ConfigurationError(
            f"The issuer {issuer.issuer!r} needs a tenant, or a tenant_claim and the tenants its values stand for."
        )
    fixed = () if issuer.tenant is None else (issuer.tenant,)
    if not all(map(is_identity, (*issuer.tenants.values(), *fixed, issuer.environment))):
        raise ConfigurationError(f"A tenant or the environment of the issuer {issuer.issuer!r} is no identity.")
    if bool(issuer.roles_claim) != bool(issuer.roles_by_value):
        raise ConfigurationError(f"roles_claim and roles_by_value of {issuer.issuer!r} go together.")
    if len(issuer.subject_prefix) > LONGEST_PREFIX or (
        issuer.subject_prefix and not is_identity(issuer.subject_prefix)
    ):
        raise ConfigurationError(f"The subject_prefix of {issuer.issuer!r} has at most {LONGEST_PREFIX} characters.")
    if (issuer.standing is Standing.PERSON) != bool(issuer.person_if) or not all(issuer.person_if.values()):
        raise ConfigurationError(
            f'The issuer {issuer.issuer!r} has standing "person" together with person_if, or neither.',
            hint='Say by which claims a person is known, such as person_if = { amr = ["mfa", "hwk"] }.',
        )
    if not 60 <= issuer.longest_seconds <= 30 * 86_400:
        raise ConfigurationError(f"A token of {issuer.issuer!r} is good for a minute to 30 days at most.")


def discovery_url(issuer: Issuer) -> str:
    """Where an issuer says where its keys are. Source: OpenID Connect Discovery 1.0, section 4."""
    return issuer.issuer.rstrip("/") + _DISCOVERY


def why_not_fetched(url: str, network: Network) -> str | None:
    """Why nothing is fetched from there, in words; None if it may be tried."""
    if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "its address is no plain URL"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "its address is no plain URL"
    if not host or parts.username is not None or parts.password is not None or parts.fragment:
        return "its address names no host, or more than a host"
    if parts.scheme == "https":
        return None
    if parts.scheme == "http" and network is Network.LOOPBACK and (host == "localhost" or _is_loopback(host)):
        return None
    return 'its address is not https; http is for this host alone, with network = "loopback"'


def may_be_reached(address: str, network: Network) -> bool:
    """Whether a connection may go to this address. Addresses that only say who runs this machine are never reached."""
    try:
        found: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if any(found in each for each in _NEVER):
        return False
    if (translated := _translated(found)) is not None:
        return network is not Network.LOOPBACK and may_be_reached(str(translated), network)
    match network:
        case Network.LOOPBACK:
            return found.is_loopback
        case Network.PUBLIC:
            return found.is_global and not found.is_multicast and found not in _SITE_LOCAL
        case Network.PRIVATE:
            is_strange = (
                found.is_link_local
                or found.is_multicast
                or found.is_unspecified
                or found.is_loopback
                or found.is_reserved
            )
            return not is_strange and (found.is_global or found.is_private)


def _translated(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address to which a gateway takes what goes to this IPv6 one; None for one that is its own."""
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback or address.is_unspecified:
        return None
    if address.sixtofour is not None:
        return address.sixtofour
    return ipaddress.IPv4Address(int(address) % 2**32) if any(address in each for each in _LEADS_TO_IPV4) else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
