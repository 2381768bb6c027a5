"""Mail goes out encrypted, in plain text, with headers that are nobody's but ours."""

from __future__ import annotations

import email
import email.policy
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from placet.adapters.notify.mail import MailNotifier, mail_of
from placet.model.destinations import EmailWay, MailSecurity, SecretPlace, SecretRef
from placet.ports.notifier import Delivered, NotDelivered, Sent
from placet.testing import FakeClock
from tests.adapters.notify.conftest import AT, a_notice

WAY = EmailWay(
    host="localhost",
    port=25,
    sender="placet@example.com",
    recipients=("oncall@example.com", "risk@example.com"),
)
PASSWORD = SecretRef(place=SecretPlace.ENVIRONMENT, name="MAIL_PASSWORD")


class Mailbox:
    """Takes mail, unless a recipient is one it does not know."""

    def __init__(self) -> None:
        self.came: list[tuple[Envelope, bool]] = []
        self.unknown: set[str] = set()
        self.answer = "250 OK"

    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Any) -> str:
        if address in self.unknown:
            return "550 No such mailbox: hunter2"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.came.append((envelope, session.ssl is not None))
        return self.answer


class OnPort(Controller):
    """The library's own controller, on a port of the kernel's choosing."""

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        self.hostname = "127.0.0.1"
        super()._trigger_server()  # type: ignore[no-untyped-call]


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


Started = Callable[..., int]


@pytest.fixture
def start(mailbox: Mailbox) -> Iterator[Started]:
    running: list[Controller] = []

    def started(**more: Any) -> int:
        controller = OnPort(mailbox, hostname="127.0.0.1", port=0, **more)
        controller.start()
        running.append(controller)
        return controller.port

    yield started
    for each in running:
        each.stop()


def secured(context: ssl.SSLContext, *, signs_in: bool = False) -> dict[str, Any]:
    """A server that takes nothing before TLS."""
    more: dict[str, Any] = {"tls_context": context, "require_starttls": True}
    if signs_in:

        def authenticated(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
            return AuthResult(success=(data.login, data.password) == (b"placet", b"pa55"), handled=False)

        more |= {"auth_required": True, "authenticator": authenticated}
    return more


async def sent(way: EmailWay, *, seconds: float = 20.0, **facts: Any) -> Sent:
    return await MailNotifier(way, clock=FakeClock(), seconds=seconds).send(a_notice(**facts))


def parsed(mailbox: Mailbox) -> EmailMessage:
    ((envelope, _),) = mailbox.came
    content = envelope.content
    assert isinstance(content, bytes)
    found = email.message_from_bytes(content, policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    return found


# ---------------------------------------------------------------- on the way


async def test_mail_is_encrypted_on_the_way_to_a_server_whose_name_is_verified(
    mailbox: Mailbox, start: Started, context: ssl.SSLContext, certified: tuple[Path, Path]
) -> None:
    way = replace(WAY, port=start(**secured(context)), ca_file=certified[0])

    assert await sent(way) == Delivered(code="accepted")

    ((envelope, is_encrypted),) = mailbox.came
    assert is_encrypted
    assert (envelope.mail_from, envelope.rcpt_tos) == ("placet@example.com", ["oncall@example.com", "risk@example.com"])


async def test_nothing_is_said_to_a_server_that_does_not_encrypt(mailbox: Mailbox, start: Started) -> None:
    assert await sent(replace(WAY, port=start())) == NotDelivered(code="not_offered")
    assert mailbox.came == []


async def test_nothing_is_said_to_a_server_with_a_certificate_of_nobody_known_or_for_another_name(
    mailbox: Mailbox, start: Started, context: ssl.SSLContext, certified: tuple[Path, Path]
) -> None:
    port = start(**secured(context))

    assert await sent(replace(WAY, port=port)) == NotDelivered(code="tls_failed")
    other = replace(WAY, port=port, host="127.0.0.1", ca_file=certified[0])
    assert await sent(other) == NotDelivered(code="tls_failed")
    assert mailbox.came == []


async def test_a_server_may_encrypt_from_the_first_byte(
    mailbox: Mailbox, start: Started, context: ssl.SSLContext, certified: tuple[Path, Path]
) -> None:
    way = replace(WAY, port=start(ssl_context=context), security=MailSecurity.IMPLICIT, ca_file=certified[0])

    assert await sent(way) == Delivered(code="accepted")
    assert await sent(replace(way, host="127.0.0.1")) == NotDelivered(code="tls_failed")
    assert len(mailbox.came) == 1


async def test_without_tls_mail_goes_to_this_host_alone(
    mailbox: Mailbox, start: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = replace(WAY, port=start(), security=MailSecurity.NONE)
    assert await sent(way) == Delivered(code="accepted")
    assert len(mailbox.came) == 1

    here = socket.create_server(("127.0.0.1", 0))
    connect = socket.create_connection

    class Elsewhere(socket.socket):
        def getpeername(self) -> Any:
            return ("192.0.2.7", 25)

    def elsewhere(*args: Any, **more: Any) -> socket.socket:
        opened = connect(*args, **more)
        return Elsewhere(opened.family, opened.type, opened.proto, fileno=opened.detach())

    monkeypatch.setattr(socket, "create_connection", elsewhere)
    with here:
        refused = replace(way, port=here.getsockname()[1])
        assert await sent(refused) == NotDelivered(code="address_refused")


async def test_whoever_signs_in_does_so_after_tls(
    mailbox: Mailbox,
    start: Started,
    context: ssl.SSLContext,
    certified: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = start(**secured(context, signs_in=True))
    way = replace(WAY, port=port, ca_file=certified[0], user="placet", password=PASSWORD)
    assert await sent(way) == NotDelivered(code="secret_missing")

    monkeypatch.setenv("MAIL_PASSWORD", "wrong")
    assert await sent(way) == NotDelivered(code="sign_in_refused")
    monkeypatch.setenv("MAIL_PASSWORD", "pa55")
    assert await sent(way) == Delivered(code="accepted")
    assert len(mailbox.came) == 1


# ---------------------------------------------------------------- what the server answers


async def test_what_the_server_refuses_is_told_by_its_code_and_not_in_its_words(
    mailbox: Mailbox, start: Started
) -> None:
    way = replace(WAY, port=start(), security=MailSecurity.NONE)
    for answer, code in (("451 Later: hunter2", "smtp_451"), ("554 No: hunter2", "smtp_554")):
        mailbox.answer = answer
        assert await sent(way) == NotDelivered(code=code)
    mailbox.answer = "250 OK"
    mailbox.unknown = {"risk@example.com"}
    assert await sent(way) == Delivered(code="some_recipients_refused"), "who has it is not told again"
    mailbox.unknown = set(way.recipients)
    assert await sent(way) == NotDelivered(code="recipients_refused")


async def test_nobody_listens_or_nobody_has_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as kept:  # nobody else gets its port meanwhile
        kept.bind(("127.0.0.1", 0))
        assert await sent(replace(WAY, port=kept.getsockname()[1])) == NotDelivered(code="unreachable")

    def nobody(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "hunter2")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    assert await sent(WAY) == NotDelivered(code="unreachable")


@pytest.mark.parametrize("greeting", [b"", b"220 hello, slowly"], ids=["silent", "dripping"])
async def test_who_does_not_answer_in_time_is_left_and_its_thread_ends(greeting: bytes) -> None:
    over, connections = threading.Event(), []

    def serve(server: socket.socket) -> None:
        opened, _ = server.accept()
        connections.append(opened)
        with suppress(OSError):
            while not over.wait(0.02):
                opened.sendall(greeting[:1])

    with socket.create_server(("127.0.0.1", 0)) as server:
        serving = threading.Thread(target=serve, args=(server,), daemon=True)
        serving.start()
        assert await sent(replace(WAY, port=server.getsockname()[1]), seconds=0.3) == NotDelivered(code="too_slow")
        for thread in [each for each in threading.enumerate() if each.name == "placet-mail"]:
            thread.join(30)
            assert not thread.is_alive()
        over.set()
        serving.join(30)
        for each in connections:
            each.close()


# ---------------------------------------------------------------- what it says


async def test_mail_is_plain_text_with_a_link(mailbox: Mailbox, start: Started) -> None:
    await sent(replace(WAY, port=start(), security=MailSecurity.NONE))

    message = parsed(mailbox)
    assert message["Subject"] == "[placet] Approval asked: refund"
    assert (message["From"], message["To"]) == ("placet@example.com", "oncall@example.com, risk@example.com")
    assert (message["Message-ID"], message["Auto-Submitted"]) == ("<msg_1@example.com>", "auto-generated")
    assert message.get_content_type() == "text/plain"
    assert message.get_content().replace("\r\n", "\n") == (
        "Approval asked: refund\n\n"
        "A person has to decide. Look at the whole call first; this message is not enough.\n\n"
        "tenant: acme\n"
        "asked by: agent-1\n"
        "tool: refund 1\n"
        "risk: high\n"
        "effect class: write\n"
        "run: run-7\n"
        "reasons: contract_always_asks\n"
        "decide by: 2026-03-02T12:30:00Z\n"
        "approval: apr-1\n"
        "at: 2026-03-01T12:30:00Z\n\n"
        "Open it in the console:\n"
        "https://ops.example.com/console/approvals/apr-1\n\n"
        "Nothing is decided by answering this.\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "x\r\nBcc: evil@example.com",
        "x\nSubject: other",
        "x\r\n\r\nhello",
        ".\r\nMAIL FROM:<a@b>",
        "\x00\u202e\x85\u2028Bcc: a@b",
    ],
    ids=["bcc", "subject", "body", "commands", "odd_line_ends"],
)
@pytest.mark.parametrize("field", ["subject", "run_id", "on_behalf_of", "tool"])
async def test_nobody_writes_a_header_a_recipient_or_a_line_of_ours(
    mailbox: Mailbox, start: Started, field: str, text: str
) -> None:
    await sent(replace(WAY, port=start(), security=MailSecurity.NONE), **{field: text})

    ((envelope, _),) = mailbox.came
    message = parsed(mailbox)
    assert envelope.rcpt_tos == list(WAY.recipients)
    assert sorted(set(message.keys())) == sorted(
        ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "Content-Transfer-Encoding",
         "MIME-Version"]
    )  # fmt: skip
    lines = message.get_content().splitlines()
    plain = mail_of(a_notice(), WAY, at=AT).get_content().splitlines()
    own = [line.partition(":")[0] for line in lines]
    assert len([name for name in own if name not in {line.partition(":")[0] for line in plain} | {"on behalf of"}]) <= 1
    assert len(lines) in (len(plain), len(plain) + 1), "each fact in one line"


def test_other_scripts_arrive_as_they_are() -> None:
    message = mail_of(a_notice(subject="büro-日本"), WAY, at=AT)
    again = email.message_from_bytes(message.as_bytes(), policy=email.policy.default)
    assert isinstance(again, EmailMessage)
    assert "asked by: büro-日本" in again.get_content()
    assert message.as_bytes().isascii()
