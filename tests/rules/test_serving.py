"""What this place is called, and whose word on a request is believed."""

import pytest

from placet.errors import ConfigurationError
from placet.model.serving import Listening
from placet.rules.serving import (
    Forwarded,
    forwarded,
    host_of,
    is_forwarding,
    is_public_url,
    is_this_machine,
    is_trusted,
    networks_of,
    require_sound,
)


@pytest.mark.parametrize(
    "url",
    [
        "https://desk.example", "https://desk.example:8443", "https://10.0.0.7", "https://[fd00::1]:8443",
        "https://a-b.c.example",
    ],
)  # fmt: skip
def test_the_address_of_a_site_is_one(url: str) -> None:
    assert is_public_url(url)
    assert host_of(url) == url.partition("://")[2]


@pytest.mark.parametrize(
    "url",
    [
        "", "desk.example", "//desk.example", "https://", "https://desk.example/", "https://desk.example/console",
        "https://desk.example?a", "https://desk.example#a", "https://me@desk.example", "https://me:pw@desk.example",
        "https://desk.example:443", "http://localhost:80",
        "http://localhost:8420", "http://127.0.0.1", "https://desk.example:", "https://desk.example:99999",
        "https://desk.example:a", "http://desk.example", "http://10.0.0.7", "ftp://desk.example",
        "https://Desk.example", "HTTPS://desk.example", "https://desk.example\n", "https://désk.example",
        "https://desk.example\\@evil.example", "https://-desk.example", "https://desk.example:x",
        "https://" + "a" * 300,
        "https://[fd00::1", "javascript:alert(1)", "https:desk.example", " https://desk.example",
    ],
)  # fmt: skip
def test_anything_else_is_none(url: str) -> None:
    assert not is_public_url(url)
    with pytest.raises(ConfigurationError):
        require_sound(Listening(public_url=url))


@pytest.mark.parametrize(
    ("peer", "is_one"),
    [
        ("10.1.2.3", True), ("10.2.0.1", False), ("fd00:1::9", True), ("fd00:2::9", False), ("::ffff:10.1.2.3", True),
        ("fd00:1::9%eth0", True), ("", False), ("proxy", False), ("192.0.2.7", True), ("192.0.2.8", False),
    ],
)  # fmt: skip
def test_a_proxy_is_one_by_its_address(peer: str, is_one: bool) -> None:
    assert is_trusted(peer, networks_of(("10.1.0.0/16", "fd00:1::/64", "192.0.2.7"))) is is_one


@pytest.mark.parametrize("proxy", ["0.0.0.0/0", "::/0", "proxy.example", "10.1.0.1/16", "", "10.1.0.0/33", "*"])
def test_everybody_and_nobody_are_no_proxy(proxy: str) -> None:
    with pytest.raises(ConfigurationError):
        require_sound(Listening(trusted_proxies=(proxy,)))


def test_there_are_only_so_many_proxies() -> None:
    require_sound(Listening(trusted_proxies=("10.0.0.1",) * 100))
    with pytest.raises(ConfigurationError):
        require_sound(Listening(trusted_proxies=("10.0.0.1",) * 101))


HOST, PROTO = b"x-forwarded-host", b"x-forwarded-proto"


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([(HOST, b"Desk.example"), (PROTO, b"HTTPS")], Forwarded(host="desk.example", scheme="https")),
        ([(HOST, b" desk.example:8443 ")], Forwarded(host="desk.example:8443")),
        ([(PROTO, b"http")], Forwarded(scheme="http")),
        ([(HOST, b"a.example, b.example")], Forwarded()),
        ([(HOST, b"a.example"), (HOST, b"a.example")], Forwarded()),
        ([(HOST, b"a.example/x")], Forwarded()),
        ([(HOST, b"a@b")], Forwarded()),
        ([(HOST, b"\xff")], Forwarded()),
        ([(PROTO, b"wss")], Forwarded()),
        ([(PROTO, b"https"), (PROTO, b"http")], Forwarded()),
        ([(b"forwarded", b"host=a.example;proto=https")], Forwarded()),
        ([], Forwarded()),
    ],
)
def test_a_proxys_word_is_one_plain_value_or_none(headers: list[tuple[bytes, bytes]], said: Forwarded) -> None:
    assert forwarded(headers) == said


def test_what_is_a_proxys_word_is_known_by_its_name() -> None:
    assert all(map(is_forwarding, (HOST, PROTO, b"x-forwarded-for", b"forwarded", b"x-forwarded-anything")))
    assert not any(map(is_forwarding, (b"host", b"x-forward", b"forwarded-for", b"x-request-id")))


def test_this_machine_is_this_machine() -> None:
    assert [is_this_machine(each) for each in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "10.0.0.1", "")] == (
        [True] * 3 + [False] * 3
    )
