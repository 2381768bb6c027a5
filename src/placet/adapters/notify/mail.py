"""Mail through a server that relays for us: plain text, encrypted on the way unless the server is this very host.

Nothing is said to a server that does not encrypt, and nobody signs in there before it does. Everything happens in one
thread within one time limit: when that is over, the connection is cut, whatever the server does.
"""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP as MAIL_FORM
from email.utils import format_datetime
from typing import Final

from placet.adapters.referenced_secrets import SecretMissing, secret_of
from placet.model.destinations import EmailWay, MailSecurity
from placet.model.issuers import Network
from placet.model.notices import Notice
from placet.ports.clock import Clock
from placet.ports.notifier import Delivered, NotDelivered, Sent
from placet.rules.announcements import facts_of, says, title_of
from placet.rules.issuers import may_be_reached

MAIL_SECONDS: Final = 30.0
_FAULTS: Final = (OSError, smtplib.SMTPException, ValueError)  # SSL faults are OSErrors


class MailNotifier:
    def __init__(self, way: EmailWay, *, clock: Clock, seconds: float = MAIL_SECONDS) -> None:
        self._way = way
        self._clock = clock
        self._seconds = seconds

    async def send(self, notice: Notice) -> Sent:
        message = mail_of(notice, self._way, at=self._clock.now())
        try:
            password = secret_of(self._way.password) if self._way.password is not None else None
        except SecretMissing as missing:
            return NotDelivered(code=missing.code)
        talk = _Talk(self._way, password, message, seconds=self._seconds)
        said = asyncio.get_running_loop().create_future()
        threading.Thread(target=_run, args=(talk, said), name="placet-mail", daemon=True).start()
        try:
            async with asyncio.timeout(self._seconds):
                sent: Sent = await said
                return sent
        except TimeoutError:
            pass
        finally:
            talk.cut()
        return NotDelivered(code="too_slow")


def _run(talk: _Talk, said: asyncio.Future[Sent]) -> None:
    """In a thread of its own, which ends with its connection."""
    sent = talk.sent()
    with suppress(RuntimeError):  # the loop has ended, and nobody waits
        said.get_loop().call_soon_threadsafe(lambda: None if said.done() else said.set_result(sent))


class _Talk:
    """One conversation with a mail server."""

    def __init__(self, way: EmailWay, password: str | None, message: EmailMessage, *, seconds: float) -> None:
        self._way = way
        self._password = password
        self._message = message
        self._seconds = seconds
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False

    def cut(self) -> None:
        """End it, if it goes on."""
        with self._lock:
            self._is_cut = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def sent(self) -> Sent:
        try:
            server = _Server(self._opened, self._way, self._seconds)
            try:
                return self._said(server)
            finally:
                server.close()
        except Exception as fault:  # the one place where the library's become ours
            code = _code_of(fault)
        return NotDelivered(code=code)

    def _opened(self) -> socket.socket:
        opened = socket.create_connection((self._way.host, self._way.port), timeout=self._seconds)
        with self._lock:
            self._socket = opened
            is_cut = self._is_cut
        is_here = may_be_reached(str(opened.getpeername()[0]), Network.LOOPBACK)
        if is_cut or (self._way.security is MailSecurity.NONE and not is_here):
            opened.close()
            raise _NotHere
        return opened

    def _said(self, server: _Server) -> Sent:
        if self._way.security is MailSecurity.STARTTLS:
            server.starttls(context=_trusted(self._way))
        if self._way.user is not None and self._password is not None:
            server.login(self._way.user, self._password)
        refused = server.sendmail(self._way.sender, list(self._way.recipients), self._message.as_bytes())
        with suppress(*_FAULTS):
            server.quit()  # it has the message already
        return Delivered(code="some_recipients_refused" if refused else "accepted")


class _NotHere(OSError):
    """It was to be this very host, or is wanted no more."""


class _Server(smtplib.SMTP):
    """Over a socket that can be cut. The name it says is its sender's, and not this machine's."""

    def __init__(self, opened: Callable[[], socket.socket], way: EmailWay, seconds: float) -> None:
        self._opened = opened
        self._way = way
        super().__init__(way.host, way.port, local_hostname=_domain(way.sender), timeout=seconds)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        opened = self._opened()
        if self._way.security is not MailSecurity.IMPLICIT:
            return opened
        try:
            return _trusted(self._way).wrap_socket(opened, server_hostname=host)
        except BaseException:
            opened.close()
            raise


def _trusted(way: EmailWay) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(way.ca_file) if way.ca_file else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _code_of(fault: BaseException) -> str:
    match fault:
        case _NotHere():
            return "address_refused"
        case smtplib.SMTPRecipientsRefused():
            return "recipients_refused"
        case smtplib.SMTPAuthenticationError():
            return "sign_in_refused"
        case smtplib.SMTPNotSupportedError():
            return "not_offered"
        case smtplib.SMTPResponseException() if type(fault.smtp_code) is int and 200 <= fault.smtp_code <= 599:
            return f"smtp_{fault.smtp_code}"
        case ssl.SSLError():
            return "tls_failed"
        case TimeoutError():
            return "too_slow"
        case smtplib.SMTPException():
            return "broke_off"
        case ConnectionRefusedError() | socket.gaierror():
            return "unreachable"
        case _:
            return "broke_off"


def mail_of(notice: Notice, way: EmailWay, *, at: datetime) -> EmailMessage:
    """Plain text. Everything in it that others wrote is in one line each, so no header and no line is theirs."""
    message = EmailMessage(policy=MAIL_FORM)
    message["From"] = way.sender
    message["To"] = ", ".join(way.recipients)
    message["Subject"] = f"[placet] {title_of(notice)}"
    message["Date"] = format_datetime(at)
    message["Message-ID"] = f"<{notice.message_id}@{_domain(way.sender)}>"
    message["Auto-Submitted"] = "auto-generated"
    facts = "".join(f"{name}: {value}\n" for name, value in facts_of(notice))
    link = "" if notice.url is None else f"\nOpen it in the console:\n{notice.url}\n"
    message.set_content(
        f"{title_of(notice)}\n\n{says(notice)}\n\n{facts}{link}\nNothing is decided by answering this.\n"
    )
    return message


def _domain(address: str) -> str:
    return address.rpartition("@")[2]
