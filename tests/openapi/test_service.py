"""Services that are slow, endless, lying, elsewhere or gone: what left is known, and what comes back is bounded."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, use_span

from placet.adapters.telemetry.logs import JsonFormatter
from placet.adapters.transports.http.service import SHARE_TO_CONNECT, HttpService, _Begun
from placet.errors import NotSent
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuers import Network
from placet.model.openapi import HttpAnswer, HttpRequest
from placet.model.upstreams import Credential, CredentialForm
from placet.rules.openapi.answers import AnswerLost
from tests.adapters.notify.conftest import Names
from tests.certificates import write_certificate
from tests.openapi.conftest import Service, reply

pytestmark = pytest.mark.req("B035")
Serving = Callable[..., Service]
REQUEST = HttpRequest(
    method="POST", target="/things?a=b%2Fc", headers=(("accept", "application/json"),), body=b'{"a":1}'
)
REF = SecretRef(place=SecretPlace.ENVIRONMENT, name="X")
LONG = 60.0


def no_secret(ref: SecretRef) -> str:
    raise AssertionError(ref)


def a_service(url: str, **said: Any) -> HttpService:
    given: dict[str, Any] = {"network": Network.LOOPBACK, "secrets": no_secret, "most_connections": 4, **said}
    return HttpService("desk", url, **given)


async def sent(service: HttpService, request: HttpRequest = REQUEST, **said: Any) -> HttpAnswer:
    given: dict[str, Any] = {
        "tenant": "acme",
        "guard": lambda: None,
        "seconds": LONG,
        "reads_body": lambda status: True,
        "max_bytes": 1_000,
        **said,
    }
    try:
        return await service.send(request, **given)
    finally:
        await service.aclose()


# ---------------------------------------------------------------- what is sent


async def test_the_request_is_sent_as_it_is_and_once(serving: Serving) -> None:
    here = serving(reply(201, b'{"b": 2}', Retry_After="7"))
    answer = await sent(a_service(here.url + "/api"))
    assert answer == HttpAnswer(
        status=201, media_type="application/json", encoding="identity", retry_after="7", body=b'{"b": 2}'
    )
    (came,) = here.came
    head, _, body = came.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert (first, body) == ("POST /things?a=b%2Fc HTTP/1.1", b'{"a":1}')
    assert sorted(line.lower() for line in lines) == sorted(
        [
            f"host: {here.url.removeprefix('http://')}",
            "accept: application/json",
            "accept-encoding: identity",
            "connection: close",
            "user-agent: placet",
            "content-length: 7",
        ]
    )


@pytest.mark.parametrize("target", ["/a/%2e%2e/b", "//x", "/a//b", "/%C3%BC?q=%26", "/a'b", "/a/../b", "/a|b"])
async def test_nothing_on_the_way_writes_the_target_anew(serving: Serving, target: str) -> None:
    here = serving(reply())
    await sent(a_service(here.url), HttpRequest(method="GET", target=target, headers=(), body=None))
    assert here.came[0].startswith(f"GET {target} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize(
    ("credential", "line"),
    [
        (Credential(form=CredentialForm.BEARER, secret=REF), b"authorization: Bearer s3cr3t"),
        (
            Credential(form=CredentialForm.BASIC, secret=REF, user="u"),
            b"authorization: Basic " + base64.b64encode(b"u:s3cr3t"),
        ),
        (Credential(form=CredentialForm.HEADER, secret=REF, name="X-Api-Key"), b"x-api-key: s3cr3t"),
        (Credential(form=CredentialForm.QUERY, secret=REF, name="api key"), b"&api%20key=s3cr3t HTTP/1.1"),
    ],
    ids=["bearer", "basic", "header", "query"],
)
async def test_a_credential_is_shown_in_its_form(serving: Serving, credential: Credential, line: bytes) -> None:
    here = serving(reply())
    await sent(a_service(here.url, credentials={None: credential}, secrets=lambda ref: "s3cr3t"))
    assert line in here.came[0]


@pytest.mark.req("B037")
async def test_each_tenant_has_its_own_credential_and_nobody_elses(serving: Serving) -> None:
    here = serving(reply())
    mine = {"acme": Credential(form=CredentialForm.BEARER, secret=REF)}
    await sent(a_service(here.url, credentials=mine, secrets=lambda ref: "acmes"), tenant="acme")
    await sent(a_service(here.url, credentials=mine, secrets=lambda ref: "acmes"), tenant="other")
    assert [b"acmes" in came for came in here.came] == [True, False]


async def test_without_its_secret_nothing_is_sent_and_nothing_repeated(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(ref: SecretRef) -> str:
        raise ValueError("the secret is s3cr3t")

    here = serving(reply())
    with pytest.raises(NotSent) as kept:
        await sent(
            a_service(here.url, credentials={None: Credential(form=CredentialForm.BEARER, secret=REF)}, secrets=missing)
        )
    assert (kept.value.code, kept.value.__context__) == ("upstream_unavailable", None)
    assert reasons(caplog) == ["secret_missing"]
    assert here.connected == 0


# ---------------------------------------------------------------- what had left


async def test_the_guard_is_asked_after_the_connection_and_before_the_first_byte(serving: Serving) -> None:
    here = serving(reply())
    at: list[int] = []

    def too_late() -> None:
        at.append(here.connected)
        raise NotSent("too late", code="too_late")

    with pytest.raises(NotSent, match="too late"):
        await sent(a_service(here.url), guard=too_late)
    assert len(at) == 1
    await until(lambda: here.came != [])
    assert here.came == [b""]  # connected, and not a byte of the request


async def test_once_the_first_byte_may_leave_only_the_caller_ends_the_wait() -> None:
    """Else an answer that takes its time would be given up early."""
    async with asyncio.timeout(60) as limit:
        begun = _Begun(lambda: None)
        begun.limit = limit
        await begun.trace("connection.connect_tcp.complete", {})
        assert (begun.has_left, limit.when() is None) == (False, False)
        await begun.trace("http11.send_request_headers.started", {})
        assert (begun.has_left, limit.when()) == (True, None)


async def test_nobody_listens_so_nothing_left() -> None:
    with socket.socket() as held:  # nobody else gets its port meanwhile
        held.bind(("127.0.0.1", 0))
        with pytest.raises(NotSent) as kept:
            await sent(a_service(f"http://127.0.0.1:{held.getsockname()[1]}"))
    assert (kept.value.code, kept.value.__context__) == ("upstream_unavailable", None)


async def test_an_address_that_says_nothing_leaves_time_to_say_so() -> None:
    """The caller's own deadline would leave it open whether the request arrived."""
    assert 0 < SHARE_TO_CONNECT < 1
    from tests.adapters.notify.receiver import silent

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with silent("127.0.0.1", port), pytest.raises(NotSent) as kept:
        await sent(a_service(f"http://127.0.0.1:{port}"), seconds=0.2)
    assert kept.value.code == "upstream_unavailable"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nx: a\x00b\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
    ids=["closed", "cut", "chunk cut", "chunk", "two lengths", "negative", "null", "status", "garbage", "huge", "tls"],
)
async def test_what_is_no_whole_answer_leaves_it_open_whether_it_acted(serving: Serving, answer: bytes) -> None:
    here = serving(answer)
    with pytest.raises(AnswerLost) as lost:
        await sent(a_service(here.url))
    assert lost.value.__context__ is None
    assert len(here.came) == 1  # and it is not sent again


async def test_a_caller_who_leaves_leaves_no_connection(serving: Serving) -> None:
    asked, closed = threading.Event(), threading.Event()

    def hold(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nx-slow: ")
        asked.set()
        connection.settimeout(30)
        if connection.recv(1) == b"":
            closed.set()

    here = serving(hold)
    asking = asyncio.ensure_future(sent(a_service(here.url)))
    assert await asyncio.to_thread(asked.wait, 30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await asyncio.to_thread(closed.wait, 30)


# ---------------------------------------------------------------- what comes back


@pytest.mark.case("K07")
async def test_an_endless_body_is_read_so_far_and_no_further(serving: Serving) -> None:
    ended = threading.Event()

    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        try:
            while True:
                connection.sendall(b"a" * 65_536)
        except OSError:
            ended.set()

    answer = await sent(a_service(serving(endless).url))
    assert (answer.status, answer.body) == (200, None)
    assert await asyncio.to_thread(ended.wait, 30)


async def test_a_body_of_exactly_what_is_read_is_read(serving: Serving) -> None:
    answer = await sent(a_service(serving(reply(body=b"a" * 1_000)).url))
    assert answer.body == b"a" * 1_000
    assert (await sent(a_service(serving(reply(body=b"a" * 1_001)).url))).body is None


async def test_what_is_compressed_is_never_unpacked(serving: Serving) -> None:
    bomb = gzip.compress(b"0" * 900_000)
    answer = await sent(a_service(serving(reply(body=bomb, content_encoding="gzip")).url), max_bytes=2_000)
    assert (answer.encoding, answer.body) == ("gzip", bomb)


async def test_a_body_that_is_not_wanted_is_not_waited_for(serving: Serving) -> None:
    here = serving(b"HTTP/1.1 500 No\r\ncontent-type: text/plain\r\ncontent-length: 1000000\r\n\r\nsecret words")
    answer = await sent(a_service(here.url), reads_body=lambda status: status < 300)
    assert (answer.status, answer.body) == (500, b"")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(serving: Serving, status: int) -> None:
    elsewhere = serving(reply())
    here = serving(reply(status, location=f"{elsewhere.url}/latest/meta-data"))
    answer = await sent(a_service(here.url))
    assert (answer.status, elsewhere.connected) == (status, 0)


async def test_what_was_sent_too_much_is_nobodys_answer(serving: Serving) -> None:
    here = serving(reply(body=b"{}") + reply(body=b'{"stolen": 1}'), reply(body=b'{"mine": 1}'))
    service = a_service(here.url)
    assert (await service.send(REQUEST, **asking())).body == b"{}"
    assert (await sent(service)).body == b'{"mine": 1}'


async def test_no_cookie_of_one_call_is_sent_with_the_next(serving: Serving) -> None:
    here = serving(reply(set_cookie="session=of-acme; Path=/"))
    service = a_service(here.url)
    await service.send(REQUEST, **asking())
    await sent(service)
    assert not any(b"cookie" in came.lower() for came in here.came)


async def test_waiting_for_room_is_no_sending(serving: Serving) -> None:
    release = threading.Event()

    def hold(connection: socket.socket) -> None:
        release.wait(30)
        connection.sendall(reply())

    here = serving(hold)
    service = a_service(here.url, most_connections=1)
    first = asyncio.ensure_future(service.send(REQUEST, **asking()))
    await until(lambda: here.came != [])
    with pytest.raises(NotSent):
        await service.send(REQUEST, **asking(seconds=0.1))
    release.set()
    assert (await first).status == 200
    await service.aclose()
    assert len(here.came) == 1


# ---------------------------------------------------------------- where it goes


@pytest.mark.parametrize(
    ("network", "address"),
    [
        (Network.PUBLIC, "127.0.0.1"),
        (Network.PUBLIC, "10.0.0.7"),
        (Network.PUBLIC, "169.254.169.254"),
        (Network.PRIVATE, "169.254.169.254"),
        (Network.PRIVATE, "127.0.0.1"),
        (Network.PUBLIC, "::ffff:169.254.169.254"),
    ],
)
async def test_an_address_where_the_service_may_not_be_is_not_reached(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, network: Network, address: str
) -> None:
    Names(monkeypatch, [address])
    with pytest.raises(NotSent):
        await sent(a_service("https://service.test", network=network))
    assert reasons(caplog) == ["address_refused"]


async def test_in_clear_only_this_host_is_spoken_with(caplog: pytest.LogCaptureFixture) -> None:
    for url, network in (("http://service.test", Network.PRIVATE), ("http://service.test", Network.LOOPBACK)):
        with pytest.raises(NotSent):
            await sent(a_service(url, network=network))
    assert reasons(caplog) == ["address_refused"] * 2


async def test_a_name_that_means_something_else_a_moment_later_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The address that was looked at is the one that is connected to, and the certificate is that of the name."""
    certificate, key = write_certificate(tmp_path, "service.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    from tests.adapters.notify.receiver import Receiver

    here = Receiver([200, {}], context=context)
    names = Names(monkeypatch, ["127.0.0.1"], ["169.254.169.254"])
    try:
        url = here.url.replace("localhost", "service.test").replace("127.0.0.1", "service.test")
        answer = await sent(a_service(url, ca_file=certificate))
        assert answer.status == 200
        assert names.asked == ["service.test"]
        Names(monkeypatch, ["127.0.0.1"])
        with pytest.raises(NotSent):  # another name than the certificate's
            await sent(a_service(url.replace("service.test", "other.test"), ca_file=certificate))
        assert len(here.came) == 1
    finally:
        here.close()


async def test_no_proxy_of_the_environment_is_used(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    here, proxy = serving(reply()), serving(reply(500))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    assert (await sent(a_service(here.url))).status == 200
    assert proxy.connected == 0


# ---------------------------------------------------------------- helpers


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What whoever is on call is told: in the words of a line, and in the logs of a process that writes JSON."""
    lines = [each for each in caplog.records if each.name == "placet.upstreams"]
    found = [str(json.loads(JsonFormatter().format(each))["code"]) for each in lines]
    assert all(each.getMessage().endswith(f": {code}") for each, code in zip(lines, found, strict=True))
    return found


def asking(**said: Any) -> dict[str, Any]:
    return {
        "tenant": "acme",
        "guard": lambda: None,
        "seconds": LONG,
        "reads_body": lambda status: True,
        "max_bytes": 1_000,
        **said,
    }


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("own", [False, True], ids=["ours", "an argument's"])
async def test_a_request_says_which_trace_it_is_part_of(serving: Serving, own: bool) -> None:
    here = serving(reply())
    span = NonRecordingSpan(SpanContext(int("a1" * 16, 16), int("b2" * 8, 16), is_remote=False))
    request = replace(REQUEST, headers=(*REQUEST.headers, ("traceparent", "said"))) if own else REQUEST
    await sent(a_service(here.url), request)
    with use_span(span):
        await sent(a_service(here.url), request)
    said = [re.findall(rb"(?m)^traceparent: (.*?)\r$", came) for came in here.came]
    assert said == ([[b"said"], [b"said"]] if own else [[], [f"00-{'a1' * 16}-{'b2' * 8}-00".encode()]])
