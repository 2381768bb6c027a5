"""Keys are fetched within limits, not too often, kept while the issuer is down, and gone when it takes them back."""

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from placet.adapters import name_lookups
from placet.adapters.identity.fetching import Fetcher, NotFetched
from placet.adapters.identity.issuers import IssuerKeys
from placet.errors import BoundaryUnavailable
from placet.model.issuers import Algorithm, Issuer, Network
from placet.testing.fakes import FakeClock
from tests.adapters.identity.issuer import LocalIssuer, a_key, dripping, reply
from tests.adapters.notify.receiver import Receiver, silent
from tests.certificates import write_certificate

ES256, RS256 = Algorithm.ES256, Algorithm.RS256


@pytest.fixture
def local() -> Iterator[LocalIssuer]:
    issuer = LocalIssuer()
    yield issuer
    issuer.close()


class Ring:
    """An issuer's keys over real HTTP, with time in the test's hands."""

    def __init__(self, local: LocalIssuer, **more: Any) -> None:
        self.clock = FakeClock()
        self.issuer = Issuer(
            issuer=local.url,
            audience="placet",
            network=Network.LOOPBACK,
            tenant="acme",
            **{"jwks_url": f"{local.url}/jwks", **more},
        )
        self.keys = IssuerKeys(self.issuer, Fetcher(Network.LOOPBACK, seconds=60), clock=self.clock)

    async def knows(self, kid: str, algorithm: Algorithm = ES256) -> bool:
        return await self.keys.key(kid, algorithm) is not None


def failing(request: BaseHTTPRequestHandler) -> None:
    reply(request, b"{}", status=503)


# ---------------------------------------------------------------- when they are fetched


async def test_keys_are_fetched_once_and_used_for_an_hour(local: LocalIssuer) -> None:
    local.add("k1")
    ring = Ring(local)

    for _ in range(20):
        assert await ring.knows("k1")
        ring.clock.advance(180)
    assert local.asked["/jwks"] == 1

    ring.clock.advance(1)
    assert await ring.knows("k1")
    assert local.asked["/jwks"] == 2


async def test_many_who_come_at_once_have_the_keys_fetched_once(local: LocalIssuer) -> None:
    local.add("k1")
    ring = Ring(local)

    assert all(await asyncio.gather(*(ring.knows("k1") for _ in range(30))))

    assert local.asked["/jwks"] == 1


async def test_a_new_key_is_found_when_its_first_token_comes(local: LocalIssuer) -> None:
    local.add("k1")
    ring = Ring(local)
    assert await ring.knows("k1")
    local.add("k2")
    ring.clock.advance(30)

    assert await ring.knows("k2")
    assert await ring.knows("k1")
    assert local.asked["/jwks"] == 2


async def test_made_up_key_ids_have_nothing_fetched_more_often_than_every_thirty_seconds(local: LocalIssuer) -> None:
    local.add("k1")
    ring = Ring(local)
    for second in range(61):
        found = await asyncio.gather(*(ring.knows(f"no-{second}-{n}") for n in range(5)), ring.knows("k1"))
        assert found == [False] * 5 + [True]
        ring.clock.advance(1)

    assert local.asked["/jwks"] == 3


async def test_a_key_that_is_taken_back_is_gone_at_the_next_fetch(local: LocalIssuer) -> None:
    local.add("k1")
    local.add("k2")
    ring = Ring(local)
    assert await ring.knows("k1")
    del local.keys["k1"]
    ring.clock.advance(3_601)

    assert not await ring.knows("k1")
    assert await ring.knows("k2")


async def test_a_key_of_the_same_name_is_replaced_and_not_remembered(local: LocalIssuer) -> None:
    local.add("k1")
    ring = Ring(local)
    first = await ring.keys.key("k1", ES256)
    local.add("k1")
    ring.clock.advance(3_601)

    second = await ring.keys.key("k1", ES256)

    assert first is not None and second is not None
    assert first.as_dict() != second.as_dict()


async def test_while_the_issuer_is_down_its_keys_are_used_for_a_day_and_then_nobody_is_let_in(
    local: LocalIssuer,
) -> None:
    local.add("k1")
    ring = Ring(local)
    assert await ring.knows("k1")
    local.answer = failing
    for _ in range(24):
        ring.clock.advance(3_600)
        assert await ring.knows("k1")
    ring.clock.advance(0.5)

    for _ in range(3):
        with pytest.raises(BoundaryUnavailable) as refused:
            await ring.knows("k1")
        assert refused.value.code == "sign_in_unavailable" and refused.value.__context__ is None
    asked = local.asked["/jwks"]
    local.answer = None
    with pytest.raises(BoundaryUnavailable):
        await ring.knows("k1")
    assert local.asked["/jwks"] == asked, "not sooner than its floor"
    ring.clock.advance(30)
    assert await ring.knows("k1")


async def test_an_issuer_that_was_never_reached_lets_nobody_in_and_is_not_asked_by_every_caller(
    local: LocalIssuer,
) -> None:
    local.answer = failing
    ring = Ring(local)

    for _ in range(10):
        with pytest.raises(BoundaryUnavailable):
            await ring.knows("k1")

    assert local.asked["/jwks"] == 1


async def test_nobody_waits_for_a_fetch_who_has_a_key_that_is_known(local: LocalIssuer) -> None:
    local.add("k1")
    ring = Ring(local)
    await ring.knows("k1")
    ring.clock.advance(3_601)
    held, released = threading.Event(), threading.Event()

    def slow(request: BaseHTTPRequestHandler) -> None:
        held.set()
        released.wait(30)
        local._usual(request)

    local.answer = slow
    first = asyncio.ensure_future(ring.knows("k1"))
    await asyncio.to_thread(held.wait, 30)
    try:
        assert await asyncio.wait_for(ring.knows("k1"), 30)
        assert not first.done()
    finally:
        released.set()
    assert await first


async def test_who_asks_and_leaves_again_spends_nobody_elses_try(local: LocalIssuer) -> None:
    """Else a stranger with a made-up key id, who hangs up at once, would keep everybody out."""
    local.add("k1")
    ring = Ring(local)
    held, released = threading.Event(), threading.Event()

    def slow(request: BaseHTTPRequestHandler) -> None:
        held.set()
        released.wait(30)
        local._usual(request)

    local.answer = slow
    stranger = asyncio.ensure_future(ring.knows("made-up"))
    await asyncio.to_thread(held.wait, 30)
    stranger.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stranger
    other = asyncio.ensure_future(ring.knows("k1"))
    released.set()

    assert await other
    assert local.asked["/jwks"] == 1


async def test_a_fetch_that_is_on_its_way_ends_with_the_doors(local: LocalIssuer) -> None:
    held = threading.Event()

    def dripping_slowly(request: BaseHTTPRequestHandler) -> None:
        held.set()
        dripping(request)

    local.answer = dripping_slowly
    ring = Ring(local)
    waiting = asyncio.ensure_future(ring.knows("k1"))
    await asyncio.to_thread(held.wait, 30)

    await ring.keys.close()

    with pytest.raises(BoundaryUnavailable):
        await waiting
    await ring.keys.close()


async def test_a_clock_that_fails_lets_nobody_in(local: LocalIssuer) -> None:
    local.add("k1")
    ring = Ring(local)
    assert await ring.knows("k1")
    ring.clock.monotonic = lambda: float("inf")  # type: ignore[method-assign]

    with pytest.raises(BoundaryUnavailable) as refused:
        await ring.knows("k1")

    assert refused.value.code == "clock_failed"


# ---------------------------------------------------------------- discovery


async def test_without_an_address_of_its_keys_an_issuers_own_document_says_it(local: LocalIssuer) -> None:
    local.add("k1")
    ring = Ring(local, jwks_url=None)

    assert await ring.knows("k1")

    assert local.asked == {"/.well-known/openid-configuration": 1, "/jwks": 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"jwks_uri": None},
        {"jwks_uri": "http://192.0.2.1/jwks"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": ["x"]},
        {"jwks_uri": "http://127.0.0.1:1@evil.example/jwks"},
    ],
)
async def test_a_document_of_another_issuer_or_to_another_place_is_not_followed(
    local: LocalIssuer, changes: dict[str, Any]
) -> None:
    local.add("k1")
    local.discovery |= changes
    ring = Ring(local, jwks_url=None)

    with pytest.raises(BoundaryUnavailable):
        await ring.knows("k1")

    assert local.asked["/jwks"] == 0


# ---------------------------------------------------------------- which keys


def _published(kind: str = "ES256", **changes: Any) -> dict[str, Any]:
    document = {**a_key("k1", kind).as_dict(private=False), **changes}
    return {name: value for name, value in document.items() if value is not ...}


UNFIT: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "for encryption": lambda: [_published(use="enc")],
    "for another algorithm": lambda: [_published(alg="ES384")],
    "for signing only": lambda: [_published(use=..., key_ops=["sign"])],
    "operations that are no list": lambda: [_published(use=..., key_ops="verify")],
    "with its private part": lambda: [a_key("k1").as_dict(private=True)],
    "a shared secret": lambda: [{"kty": "oct", "kid": "k1", "k": "c2VjcmV0", "alg": "ES256"}],
    "two of one name": lambda: [_published(), _published()],
    "another curve": lambda: [_published("ES384")],
    "another kind": lambda: [_published("RS256")],
    "a point that is on no curve": lambda: [_published(x="AAAA")],
    "without a name": lambda: [_published(kid=...)],
    "a name that is no text": lambda: [_published(kid=["k1"])],
    "nothing": lambda: [],
}


@pytest.mark.parametrize("what", UNFIT)
async def test_a_key_that_is_not_for_this_is_none(local: LocalIssuer, what: str) -> None:
    local.extra = UNFIT[what]()
    local.add("other")
    ring = Ring(local)

    assert not await ring.knows("k1")
    assert await ring.knows("other")


@pytest.mark.parametrize(
    ("bits", "exponent", "is_used"),
    [(2048, "AQAB", True), (1024, "AQAB", False), (8192, "AQAB", False), (2048, "Aw", False)],
)
async def test_an_rsa_key_is_neither_too_weak_nor_made_to_be_slow(
    local: LocalIssuer, bits: int, exponent: str, is_used: bool
) -> None:
    modulus = (1 << (bits - 1)) | (1 << (bits // 2)) | 1
    from tests.adapters.identity.issuer import encoded

    number = encoded(modulus.to_bytes(bits // 8, "big"))
    local.extra = [{"kty": "RSA", "kid": "k1", "n": number, "e": exponent}]

    assert await Ring(local).knows("k1", RS256) is is_used


async def test_keys_are_fetched_and_none_of_the_other_members_is_believed(local: LocalIssuer) -> None:
    local.extra = [_published(x5u="http://192.0.2.1/", x5c=["AAAA"], made_up=1)]

    assert await Ring(local).knows("k1")


# ---------------------------------------------------------------- within limits


def answers(
    status: int = 200, body: bytes = b'{"keys": []}', **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda request: reply(request, body, status=status, **headers)


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        for _ in range(100):
            request.wfile.write(b" " * 65_536)
    except OSError:
        pass


def no_http(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"SSH-2.0-nothing\r\n")


def broken_off(request: BaseHTTPRequestHandler) -> None:
    reply(request, b'{"ke', content_length="900")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (answers(301, location="/jwks2"), "redirected"),
        (answers(307, location="https://192.0.2.1/"), "redirected"),
        (answers(204, b""), "status"),
        (answers(404), "status"),
        (answers(500), "status"),
        (answers(content_encoding="gzip"), "compressed"),
        (answers(content_encoding="br"), "compressed"),
        (answers(body=b" " * 262_145), "too_long"),
        (endless, "too_long"),
        (no_http, "unreachable"),
        (broken_off, "unreachable"),
        (dripping, "too_slow"),
    ],
    ids=[
        "301", "307", "204", "404", "500", "gzip", "br", "long", "endless", "no-http", "broken-off", "dripping",
    ],
)  # fmt: skip
async def test_what_is_not_a_small_plain_answer_in_time_is_not_taken(
    local: LocalIssuer, answer: Callable[[BaseHTTPRequestHandler], None], reason: str
) -> None:
    local.answer = answer
    seconds = 0.3 if answer is dripping else 60.0

    with pytest.raises(NotFetched) as fault:
        await Fetcher(Network.LOOPBACK, seconds=seconds).get(f"{local.url}/jwks")

    assert fault.value.reason == reason
    assert fault.value.__cause__ is None and fault.value.__context__ is None
    assert sum(local.asked.values()) == 1


async def test_a_document_of_exactly_the_greatest_size_is_taken(local: LocalIssuer) -> None:
    local.answer = answers(body=b" " * 262_144)

    assert len(await Fetcher(Network.LOOPBACK, seconds=60).get(local.url)) == 262_144


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": [1]}', b'{"keys": [], "keys": []}', b"<html>"]
)
async def test_what_is_no_set_of_keys_replaces_none(local: LocalIssuer, body: bytes) -> None:
    local.add("k1")
    ring = Ring(local)
    assert await ring.knows("k1")
    local.answer = answers(body=body)
    ring.clock.advance(3_601)

    assert await ring.knows("k1")
    assert local.asked["/jwks"] == 2


async def test_nothing_of_the_environment_is_sent_or_used(local: LocalIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)

    await Fetcher(Network.LOOPBACK, seconds=60).get(f"{local.url}/jwks")

    assert set(local.headers[0]) <= {"host", "accept", "accept-encoding", "connection", "user-agent"}


async def test_nobody_listening_is_told_in_fixed_words() -> None:
    with socket.socket() as kept:  # nobody else gets its port meanwhile
        kept.bind(("127.0.0.1", 0))
        with pytest.raises(NotFetched) as fault:
            await Fetcher(Network.LOOPBACK, seconds=60).get(f"http://127.0.0.1:{kept.getsockname()[1]}/")
    assert fault.value.reason == "unreachable"


# ---------------------------------------------------------------- where it may be


class Names:
    """What names say, in the order they are asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

        def resolve(host: str) -> list[str]:
            self.asked.append(host)
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

        monkeypatch.setattr(name_lookups, "resolve", resolve)


@pytest.mark.parametrize("network", [Network.PUBLIC, Network.PRIVATE])
@pytest.mark.parametrize("inner", ["127.0.0.1", "169.254.169.254", "::1", "0.0.0.0", "::ffff:127.0.0.1", "fe80::1"])
async def test_a_name_that_leads_to_this_machine_is_not_followed(
    local: LocalIssuer, monkeypatch: pytest.MonkeyPatch, network: Network, inner: str
) -> None:
    Names(monkeypatch, [inner])
    with pytest.raises(NotFetched) as fault:
        await Fetcher(network).get("https://id.example.com/jwks")
    assert fault.value.reason == "address"


async def test_a_name_that_leads_inside_only_as_well_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch, ["93.184.216.34", "10.0.0.1"])
    with pytest.raises(NotFetched) as fault:
        await Fetcher(Network.PUBLIC).get("https://id.example.com/jwks")
    assert fault.value.reason == "address"


@pytest.mark.parametrize(
    "url", ["http://id.example.com/jwks", "https://user:word@id.example.com/", "ftp://id.example.com/"]
)
@pytest.mark.parametrize("network", list(Network))
async def test_an_address_that_may_not_be_fetched_is_not_even_looked_up(
    monkeypatch: pytest.MonkeyPatch, network: Network, url: str
) -> None:
    """Also where an issuer's own document names it."""
    names = Names(monkeypatch, ["93.184.216.34"])
    with pytest.raises(NotFetched) as fault:
        await Fetcher(network).get(url)
    assert (fault.value.reason, names.asked) == ("address", [])


async def test_on_loopback_a_name_that_leads_outside_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch, ["93.184.216.34"])
    with pytest.raises(NotFetched) as fault:
        await Fetcher(Network.LOOPBACK, seconds=60).get("http://localhost:80/jwks")
    assert fault.value.reason == "address"


# ---------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of our own making for id.test, and its key."""
    return write_certificate(tmp_path_factory.mktemp("tls"), "id.test")


@pytest.fixture
def secure(certified: tuple[Path, Path]) -> Iterator[LocalIssuer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certified)
    issuer = LocalIssuer(context=context)
    yield issuer
    issuer.close()


async def test_over_tls_the_connection_goes_to_the_address_that_was_looked_at_and_the_name_is_verified(
    secure: LocalIssuer, certified: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that says something else a moment later changes nothing: it is asked once."""
    secure.add("k1")
    port = secure.url.rpartition(":")[2]
    names = Names(monkeypatch, ["127.0.0.1"], ["169.254.169.254"])
    fetcher = Fetcher(Network.LOOPBACK, ca_file=certified[0], seconds=60)

    body = await fetcher.get(f"https://id.test:{port}/jwks")

    assert len(json.loads(body)["keys"]) == 1
    assert names.asked == ["id.test"]
    assert secure.headers[0]["host"] == f"id.test:{port}"


@pytest.mark.parametrize("host", ["other.test", "127.0.0.1"])
async def test_a_certificate_for_another_name_or_of_nobody_known_is_not_believed(
    secure: LocalIssuer, certified: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    port = secure.url.rpartition(":")[2]
    Names(monkeypatch, ["127.0.0.1"])
    for fetcher, name in (
        (Fetcher(Network.LOOPBACK, ca_file=certified[0], seconds=60), host),
        (Fetcher(Network.LOOPBACK, seconds=60), "id.test"),
    ):
        with pytest.raises(NotFetched) as fault:
            await fetcher.get(f"https://{name}:{port}/jwks")
        assert fault.value.reason == "unreachable"
    assert secure.asked == {}


async def test_of_several_addresses_of_an_issuer_another_is_tried_where_one_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Receiver()
    try:
        with silent("127.0.0.2", here.port):
            Names(monkeypatch, ["127.0.0.2", "127.0.0.1"])
            fetcher = Fetcher(Network.LOOPBACK, seconds=30.0, connect_seconds=1.0)

            assert await fetcher.get(f"http://localhost:{here.port}/") == b""
    finally:
        here.close()
    assert len(here.came) == 1
