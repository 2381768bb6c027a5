"""Webhooks arrive signed, at the address that was looked at, and at no other."""

from __future__ import annotations

import base64
import json
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook, WebhookVerificationError

from placet.adapters.notify.posting import Poster, retry_after_seconds, sent_of
from placet.adapters.notify.signing import SharedKey, SigningKey, key_of, signed_headers
from placet.adapters.notify.webhook import WebhookNotifier, payload_of
from placet.adapters.referenced_secrets import SecretMissing, secret_of
from placet.bootstrap.announcing import public_keys
from placet.model.destinations import Destination, SecretPlace, SecretRef, WebhookWay
from placet.model.issuers import Network
from placet.model.notices import Notice, NoticeKind
from placet.ports.notifier import Delivered, Gone, NotDelivered, Sent
from placet.testing import FakeClock
from tests.adapters.notify.conftest import AT, Names, a_notice
from tests.adapters.notify.receiver import Receiver, silent

pytestmark = pytest.mark.case("F07")

OWN = f"whsk_{base64.b64encode(bytes([7]) * 32).decode()}"
FIRST, SECOND = (f"whsec_{base64.b64encode(bytes([n]) * 32).decode()}" for n in (1, 2))
Started = Callable[..., Receiver]


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_FIRST", FIRST)
    monkeypatch.setenv("HOOK_SECOND", SECOND)


def named(*names: str) -> tuple[SecretRef, ...]:
    return tuple(SecretRef(place=SecretPlace.ENVIRONMENT, name=name) for name in names)


def a_notifier(url: str | SecretRef, *, seconds: float = 20.0, clock: Any = None, **more: Any) -> WebhookNotifier:
    way = replace(WebhookWay(url=url, secrets=named("HOOK_FIRST"), network=Network.LOOPBACK), **more)
    poster = Poster(way.network, ca_file=way.ca_file, seconds=seconds)
    return WebhookNotifier(way, poster, clock=clock or FakeClock())


async def sent(url: str | SecretRef, notice: Notice | None = None, **more: Any) -> Sent:
    return await a_notifier(url, **more).send(notice or a_notice())


class Now:
    """The machine's own time, as receivers verify by."""

    def now(self) -> datetime:
        return datetime.now(UTC)


# ---------------------------------------------------------------- what arrives


async def test_a_message_is_verified_by_an_independent_receiver(receiver: Started) -> None:
    here = receiver()

    assert await sent(here.url + "/hook?a=1", clock=Now()) == Delivered(code="status_200")

    ((path, headers, body),) = here.came
    assert path == "/hook?a=1"
    assert Webhook(FIRST).verify(body, headers) == json.loads(body)
    assert headers["webhook-id"] == "msg_1"
    assert headers["content-type"] == "application/json"
    with pytest.raises(WebhookVerificationError):
        Webhook(SECOND).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(FIRST).verify(body.replace(b"high", b"low!"), headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(FIRST).verify(body, headers | {"webhook-id": "msg_2"})


async def test_while_a_secret_is_changed_receivers_with_either_verify(receiver: Started) -> None:
    here = receiver()
    await sent(here.url, secrets=named("HOOK_SECOND", "HOOK_FIRST"), clock=Now())

    ((_, headers, body),) = here.came
    assert len(headers["webhook-signature"].split()) == 2
    for secret in (FIRST, SECOND):
        Webhook(secret).verify(body, headers)


def test_a_signature_is_that_of_the_published_example() -> None:
    """Source: the specification's own example."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        b'{"test": 2432232314}',
        at=datetime.fromtimestamp(1614265330, UTC),
        keys=[key_of(secret)],
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_body_says_what_the_audit_says_and_nothing_else() -> None:
    document = json.loads(payload_of(a_notice(subject="a\u202egent\n\x1b[31m")))

    assert document == {
        "type": "approval.asked",
        "timestamp": "2026-03-01T12:30:00Z",
        "data": {
            "title": "Approval asked: refund",
            "says": "A person has to decide. Look at the whole call first; this message is not enough.",
            "url": "https://ops.example.com/console/approvals/apr-1",
            "tenant": "acme",
            "subject": "a\u202egent\n\x1b[31m",
            "tool": "refund",
            "tool_version": "1",
            "risk": "high",
            "effect_class": "write",
            "run_id": "run-7",
            "approval_id": "apr-1",
            "reasons": ["contract_always_asks"],
            "expires_at": "2026-03-02T12:30:00Z",
        },
    }
    assert payload_of(a_notice(subject="a\u202egent\n\x1b[31m")).isascii()
    assert payload_of(a_notice(subject="a\u202egent\n\x1b[31m")).decode().isprintable()


def test_a_test_message_says_nothing_but_that() -> None:
    notice = Notice(message_id="msg_t", kind=NoticeKind.TEST, at=AT, event=None, url=None)
    assert json.loads(payload_of(notice)) == {
        "type": "test",
        "timestamp": "2026-03-01T12:30:00Z",
        "data": {
            "title": "Test message",
            "says": "Somebody tried whether messages arrive here. Nothing happened, and nothing is to be done.",
        },
    }


# ---------------------------------------------------------------- what the other side answers


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([200, {}], Delivered(code="status_200")),
        ([204, {}], Delivered(code="status_204")),
        ([299, {}], Delivered(code="status_299")),
        ([302, {"location": "/elsewhere"}], NotDelivered(code="status_302")),
        ([307, {"location": "/elsewhere"}], NotDelivered(code="status_307")),
        ([400, {}], NotDelivered(code="status_400")),
        ([410, {}], Gone(code="status_410")),
        ([429, {"retry-after": "17"}], NotDelivered(code="status_429", retry_after_seconds=17.0)),
        ([500, {}], NotDelivered(code="status_500")),
        ([503, {"retry-after": "2"}], NotDelivered(code="status_503", retry_after_seconds=2.0)),
        ("drop", NotDelivered(code="broke_off")),
    ],
    ids=str,
)
async def test_every_status_is_understood_and_no_redirect_followed(
    receiver: Started, answer: Any, expected: Sent
) -> None:
    here = receiver(answer)

    assert await sent(here.url) == expected
    assert len(here.came) == 1, "it was sent once, and nowhere else"


@pytest.mark.parametrize("answer", ["hang", "drip"])
async def test_who_does_not_answer_in_time_is_left(receiver: Started, answer: str) -> None:
    assert await sent(receiver(answer).url, seconds=0.3) == NotDelivered(code="too_slow")


async def test_nobody_listens() -> None:
    with socket.socket() as kept:  # nobody else gets its port meanwhile
        kept.bind(("127.0.0.1", 0))

        assert await sent(f"http://127.0.0.1:{kept.getsockname()[1]}/hook") == NotDelivered(code="unreachable")


def test_a_wish_to_be_left_alone_is_read_as_seconds_or_as_a_date() -> None:
    now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    assert retry_after_seconds("120", now=now) == 120.0
    assert retry_after_seconds("Sun, 01 Mar 2026 12:02:00 GMT", now=now) == 120.0
    assert retry_after_seconds("Sun, 01 Mar 2026 11:00:00 GMT", now=now) == 0.0
    for nonsense in (None, "", "soon", "-1", "1e9", "\u0661", "9" * 65, "Sun, 99 Mar 2026 12:02:00 GMT"):
        assert retry_after_seconds(nonsense, now=now) is None, nonsense
    assert sent_of(302, "5", now=now) == NotDelivered(code="status_302", retry_after_seconds=5.0)


# ---------------------------------------------------------------- where it may go


@pytest.mark.parametrize(
    ("network", "addresses"),
    [
        (Network.PUBLIC, ["127.0.0.1"]),
        (Network.PUBLIC, ["10.0.0.7"]),
        (Network.PUBLIC, ["169.254.169.254"]),
        (Network.PUBLIC, ["fd00::1"]),
        (Network.PUBLIC, ["::ffff:127.0.0.1"]),
        (Network.PUBLIC, ["93.184.215.14", "127.0.0.1"]),
        (Network.PRIVATE, ["169.254.169.254"]),
        (Network.PRIVATE, ["127.0.0.1"]),
        (Network.LOOPBACK, ["93.184.215.14"]),
        (Network.PUBLIC, []),
    ],
    ids=str,
)
async def test_an_address_where_the_destination_may_not_be_is_not_reached(
    receiver: Started, monkeypatch: pytest.MonkeyPatch, network: Network, addresses: list[str]
) -> None:
    here = receiver()
    Names(monkeypatch, addresses)

    assert await sent(f"https://hook.test:{here.port}/", network=network) == NotDelivered(code="address_refused")
    assert here.came == []


@pytest.mark.parametrize(
    "url",
    [
        "http://hook.test/",
        "ftp://hook.test/",
        "https://user:pw@hook.test/",
        "https://",
        "hook.test",
        "https://hook test/",
    ],
)
async def test_what_is_no_plain_https_address_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    names = Names(monkeypatch, ["127.0.0.1"])

    assert await sent(url, network=Network.PUBLIC) == NotDelivered(code="address_refused")
    assert names.asked == []


async def test_over_tls_the_name_is_asked_once_and_verified(
    receiver: Started, context: ssl.SSLContext, certified: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = receiver(context=context)
    names = Names(monkeypatch, ["127.0.0.1"], ["169.254.169.254"])

    assert await sent(f"https://hook.test:{here.port}/in", ca_file=certified[0]) == Delivered(code="status_200")
    assert names.asked == ["hook.test"]
    assert here.came[0][1]["host"] == f"hook.test:{here.port}"

    Names(monkeypatch, ["127.0.0.1"])
    assert await sent(f"https://other.test:{here.port}/in", ca_file=certified[0]) == NotDelivered(code="tls_failed")
    assert await sent(f"https://hook.test:{here.port}/in") == NotDelivered(code="tls_failed"), "signed by nobody known"
    assert len(here.came) == 1


async def test_of_several_addresses_another_is_tried_where_one_says_nothing(
    receiver: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a host one of whose addresses is behind a wall that drops everything."""
    here = receiver()
    with silent("127.0.0.2", here.port):
        Names(monkeypatch, ["127.0.0.2", "127.0.0.1"])
        poster = Poster(Network.LOOPBACK, seconds=30.0, connect_seconds=1.0)

        found = await poster.post(f"http://localhost:{here.port}/", b"{}", {}, now=AT)

    assert found == Delivered(code="status_200")
    assert len(here.came) == 1


async def test_of_several_addresses_another_is_tried_where_nobody_listens(
    receiver: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = receiver()
    Names(monkeypatch, ["127.0.0.2", "127.0.0.1"])

    assert await sent(f"http://localhost:{here.port}/") == Delivered(code="status_200")


async def test_no_proxy_of_the_environment_is_used(receiver: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    here, proxy = receiver(), receiver()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)

    assert await sent(here.url) == Delivered(code="status_200")
    assert proxy.came == []


# ---------------------------------------------------------------- secrets


def test_a_secret_is_read_where_it_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("of the file\r\n")
    monkeypatch.setenv("OF_ENVIRONMENT", "of the environment")

    assert secret_of(SecretRef(place=SecretPlace.FILE, name=str(file))) == "of the file"
    assert secret_of(SecretRef(place=SecretPlace.ENVIRONMENT, name="OF_ENVIRONMENT")) == "of the environment"
    monkeypatch.setenv("OF_ENVIRONMENT", "new")
    assert secret_of(SecretRef(place=SecretPlace.ENVIRONMENT, name="OF_ENVIRONMENT")) == "new"


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe", b"two\nlines", "sécret".encode()], ids=str)
def test_what_is_no_secret_is_missing(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(SecretMissing) as missing:
        secret_of(SecretRef(place=SecretPlace.FILE, name=str(file)))
    assert (missing.value.args, missing.value.__context__) == ((), None)


@pytest.mark.parametrize(
    "secret",
    [
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_",
        "whsec_!!!!",
        f"whsec_{base64.b64encode(b'x' * 23).decode()}",
        f"whsec_{base64.b64encode(b'x' * 65).decode()}",
        "whsk_",
        f"whsk_{base64.b64encode(b'x' * 31).decode()}",
        f"whsk_{base64.b64encode(b'x' * 33).decode()}",
        f"whsk_{base64.b64encode(b'x' * 64).decode()}",
        "whsec_m\u00fcller",
    ],
)
async def test_a_secret_in_another_form_signs_nothing(
    receiver: Started, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    here = receiver()
    monkeypatch.setenv("HOOK_FIRST", secret)

    assert await sent(here.url) == NotDelivered(code="secret_malformed")
    assert here.came == []


async def test_an_address_that_is_a_secret_itself_is_read_like_one(
    receiver: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = receiver()
    (ref,) = named("HOOK_URL")
    assert await sent(ref) == NotDelivered(code="secret_missing")

    monkeypatch.setenv("HOOK_URL", f"{here.url}/s3cret")
    assert await sent(ref) == Delivered(code="status_200")
    assert here.came[0][0] == "/s3cret"


def test_the_longest_and_the_shortest_secret_sign() -> None:
    for length in (24, 64):
        assert key_of(f"whsec_{base64.b64encode(b'x' * length).decode()}") == SharedKey(b"x" * length)


# ---------------------------------------------------------------- signed with a key of its own


async def test_a_receiver_with_the_public_key_verifies_and_could_sign_nothing(
    receiver: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_OWN", OWN)
    here = receiver()
    await sent(here.url, secrets=named("HOOK_OWN"), clock=Now())

    ((_, headers, body),) = here.came
    assert headers["webhook-signature"].startswith("v1a,") and " " not in headers["webhook-signature"]
    verified(public_of("HOOK_OWN"), headers, body)
    for other_headers, other_body in (
        (headers, body.replace(b"high", b"low!")),
        (headers | {"webhook-id": "msg_2"}, body),
        (headers | {"webhook-timestamp": "1"}, body),
    ):
        with pytest.raises(InvalidSignature):
            verified(public_of("HOOK_OWN"), other_headers, other_body)


async def test_while_receivers_change_over_each_finds_the_signature_that_it_knows(
    receiver: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a shared secret to a key of our own, and from that to the next: all of them sign."""
    monkeypatch.setenv("HOOK_OWN", OWN)
    monkeypatch.setenv("HOOK_NEXT", f"whsk_{base64.b64encode(bytes([8]) * 32).decode()}")
    here = receiver()
    await sent(here.url, secrets=named("HOOK_NEXT", "HOOK_OWN", "HOOK_FIRST"), clock=Now())

    ((_, headers, body),) = here.came
    assert [each.partition(",")[0] for each in headers["webhook-signature"].split()] == ["v1a", "v1a", "v1"]
    Webhook(FIRST).verify(body, headers)
    for name in ("HOOK_NEXT", "HOOK_OWN"):
        verified(public_of(name), headers, body)
    assert public_of("HOOK_NEXT") != public_of("HOOK_OWN")


def test_a_key_is_read_as_libraries_write_it() -> None:
    """The 32 bytes of the key, or with the public ones behind them: a published pair of the second kind."""
    both = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
    seed = f"whsk_{base64.b64encode(base64.b64decode(both.removeprefix('whsk_'))[:32]).decode()}"
    for secret in (both, seed):
        key = key_of(secret)
        assert isinstance(key, SigningKey)
        assert key.public == "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
        assert secret.removeprefix("whsk_") not in repr(key)


def public_of(name: str) -> str:
    way = WebhookWay(url="http://127.0.0.1/", secrets=named(name), network=Network.LOOPBACK)
    destination = Destination(name="a", kinds=frozenset(), tenants=frozenset(), way=way)
    (found,) = public_keys(destination)
    assert (found.where, found.key[:5]) == (*named(name), "whpk_")
    return found.key


def verified(public: str, headers: Mapping[str, str], body: bytes) -> None:
    """As the specification says, with nothing of ours.

    Raises:
        InvalidSignature: no signature is of this key.
    """
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("whpk_"), validate=True))
    message = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    for each in headers["webhook-signature"].split():
        version, _, signature = each.partition(",")
        if version == "v1a":
            with suppress(InvalidSignature):
                key.verify(base64.b64decode(signature, validate=True), message)
                return
    raise InvalidSignature


async def test_the_timestamp_is_when_it_is_sent_and_not_when_it_happened(receiver: Started) -> None:
    here, clock = receiver(), FakeClock()
    clock.advance(timedelta(hours=3).total_seconds())
    await sent(here.url, clock=clock)

    assert here.came[0][1]["webhook-timestamp"] == str(int(clock.now().timestamp()))
