"""What is announced in the tests, certificates of our own, and names that mean what a test says."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.adapters import name_lookups
from placet.model.audit import AuditEvent, EventKind
from placet.model.notices import Notice, NoticeKind
from tests.adapters.notify.receiver import Receiver
from tests.certificates import write_certificate

AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def a_notice(
    kind: NoticeKind = NoticeKind.APPROVAL_ASKED,
    *,
    url: str | None = "https://ops.example.com/console/approvals/apr-1",
    **facts: Any,
) -> Notice:
    told: dict[str, Any] = {
        "tenant": "acme",
        "subject": "agent-1",
        "tool": "refund",
        "tool_version": "1",
        "risk": "high",
        "effect_class": "write",
        "run_id": "run-7",
        "approval_id": "apr-1",
        "reasons": ("contract_always_asks",),
        "expires_at": AT + timedelta(days=1),
        "arguments_fingerprint": "a" * 64,
        "operation": "b" * 64,
        "purpose": "refunds",
    }
    event = AuditEvent(kind=EventKind.APPROVAL_ASKED, at=AT, key_id="k-1", **(told | facts))
    return Notice(message_id="msg_1", kind=kind, at=AT, event=event, url=url)


@pytest.fixture
def receiver() -> Iterator[Callable[..., Receiver]]:
    opened: list[Receiver] = []

    def start(*answers: Any, context: ssl.SSLContext | None = None) -> Receiver:
        opened.append(Receiver(*answers, context=context))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of our own making for hook.test and localhost, and its key."""
    return write_certificate(tmp_path_factory.mktemp("tls"), "hook.test", "localhost")


@pytest.fixture
def context(certified: tuple[Path, Path]) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*certified)
    return made


class Names:
    """The name service, in the test's hands: each look gives the next addresses, the last ones for ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *addresses: list[str]) -> None:
        self.asked: list[str] = []
        self._addresses = list(addresses)
        names = self

        def resolve(host: str) -> list[str]:
            names.asked.append(host)
            return names._addresses.pop(0) if len(names._addresses) > 1 else names._addresses[0]

        monkeypatch.setattr(name_lookups, "resolve", resolve)
