"""Which issuers may be configured, together and each by itself, and where an issuer may be."""

from dataclasses import replace
from typing import Any

import pytest

from placet.errors import ConfigurationError
from placet.model.issuers import Issuer, Network
from placet.model.principal import Role, Standing
from placet.rules.issuers import discovery_url, may_be_reached, require_sound, why_not_fetched

SOUND = Issuer(issuer="https://id.example.com/", audience="placet", tenant="acme")


def test_a_sound_issuer_is_taken() -> None:
    require_sound([])
    require_sound([SOUND])
    require_sound([replace(SOUND, tenant=None, tenant_claim=("org",), tenants={"o": "acme"})])
    require_sound([replace(SOUND, standing=Standing.PERSON, person_if={"amr": frozenset({"mfa"})})])
    assert discovery_url(SOUND) == "https://id.example.com/.well-known/openid-configuration"


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": ""},
        {"issuer": "id.example.com"},
        {"issuer": "http://id.example.com"},
        {"jwks_url": "http://id.example.com/jwks"},
        {"jwks_url": "http://127.0.0.1/jwks"},
        {"jwks_url": "http://id.example.com/jwks", "network": Network.LOOPBACK},
        {"jwks_url": "http://127.0.0.1/jwks", "network": Network.PRIVATE},
        {"audience": ""},
        {"algorithms": frozenset()},
        {"tenant": None},
        {"tenant": ""},
        {"tenant_claim": ("org",)},
        {"tenant_claim": ("org",), "tenants": {"o": "acme"}},
        {"tenant": None, "tenant_claim": ("org",)},
        {"tenant": None, "tenants": {"o": "acme"}},
        {"tenants": {"o": "acme"}},
        {"tenant": None, "tenant_claim": ("org",), "tenants": {"o": ""}},
        {"environment": ""},
        {"roles_claim": ("groups",)},
        {"roles_by_value": {"ops": Role.OPERATOR}},
        {"subject_prefix": "p" * 33},
        {"subject_prefix": "p\0"},
        {"standing": Standing.PERSON},
        {"standing": Standing.PERSON, "person_if": {"amr": frozenset()}},
        {"person_if": {"amr": frozenset({"mfa"})}},
        {"longest_seconds": 59},
        {"longest_seconds": 31 * 86_400},
        {"longest_seconds": float("nan")},
    ],
)
def test_an_issuer_that_says_too_little_or_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        require_sound([replace(SOUND, **changes)])


@pytest.mark.parametrize(
    ("prefixes", "is_sound"),
    [
        (("", "ci:"), True),
        (("a:", "b:"), True),
        (("", ""), False),
        (("a:", "a:"), False),
        (("a:", "a:b:"), False),
        (("a:b:", "", "a:"), False),
        (("", "a:", "b:"), True),
    ],
)
def test_no_two_issuers_can_send_the_same_person(prefixes: tuple[str, ...], is_sound: bool) -> None:
    issuers = [replace(SOUND, issuer=f"https://{n}.test", subject_prefix=each) for n, each in enumerate(prefixes)]
    if is_sound:
        require_sound(issuers)
        return
    with pytest.raises(ConfigurationError):
        require_sound(issuers)


def test_one_issuer_for_two_audiences_has_one_prefix() -> None:
    require_sound([SOUND, replace(SOUND, audience="console")])
    for other in (replace(SOUND, audience="console", subject_prefix="x:"), replace(SOUND, tenant="other")):
        with pytest.raises(ConfigurationError):
            require_sound([SOUND, other])


@pytest.mark.parametrize(
    ("url", "network"),
    [
        ("https://id.example.com/jwks?x=1", Network.PUBLIC),
        ("https://10.0.0.1:8443/jwks", Network.PRIVATE),
        ("http://127.0.0.1:8000/jwks", Network.LOOPBACK),
        ("http://[::1]:8000/jwks", Network.LOOPBACK),
        ("http://localhost/jwks", Network.LOOPBACK),
    ],
)
def test_https_may_be_fetched_and_http_of_this_host_where_development_is_said(url: str, network: Network) -> None:
    assert why_not_fetched(url, network) is None


@pytest.mark.parametrize("network", list(Network))
@pytest.mark.parametrize(
    "url",
    [
        "http://id.example.com/",
        "http://127.0.0.1.example.com/",
        "http://localhost.example.com/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "//id.example.com/",
        "https:///jwks",
        "https://user@id.example.com/",
        "https://user:word@id.example.com/",
        "https://id.example.com/#x",
        "https://id.example.com:port/",
        "https://id.example.com:99999/",
        "https://id.exa mple.com/",
        "https://id.example.com\\@evil.example/",
        "https://id.example.com/\n",
        "https://exämple.com/",
        "https://[::1/",
        "https://id.example.com/" + "a" * 1_000,
        "",
    ],
)
def test_nothing_else_is_fetched(url: str, network: Network) -> None:
    assert why_not_fetched(url, network) is not None


INNER = ["10.0.0.1", "172.16.0.1", "192.168.1.1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "fec0::1"]
LOOP = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"]
OUTER = ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822", "2002:5db8:d822::1"]
NEVER = [
    "169.254.169.254",
    "fe80::1",
    "fe80::1%eth0",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "x",
    "",
    "1.2.3",
    "1.2.3.4.5",
    "::7f00:1",  # IPv4 inside IPv6, in each of its forms: these all are 127.0.0.1 or 169.254.169.254 ...
    "::ffff:0:7f00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1",  # ... or may be anything, where the prefix is a network's own
    "2001:0:7f00:1::",
    "fd00:ec2::254",  # who this machine is, as clouds tell it outside of link-local
    "fd20:ce::254",
    "168.63.129.16",
    "192.0.0.192",
    "100.100.100.200",
]


@pytest.mark.parametrize("address", [*INNER, *LOOP, *OUTER, *NEVER, "100.64.0.1", "192.0.2.1"])
def test_a_connection_goes_where_the_issuer_may_be_and_nowhere_else(address: str) -> None:
    reached = {network for network in Network if may_be_reached(address, network)}

    expected = {
        **{each: {Network.PRIVATE} for each in INNER},
        **{each: {Network.LOOPBACK} for each in LOOP},
        **{each: {Network.PUBLIC, Network.PRIVATE} for each in OUTER},
    }
    assert reached == expected.get(address, set()) or (address == "192.0.2.1" and reached == {Network.PRIVATE})
