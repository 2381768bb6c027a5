"""Doctor looks whether what happens can be announced, and sends nothing."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import placet
from placet.errors import ConfigurationError
from placet.model.destinations import (
    Announcements,
    Destination,
    EmailWay,
    SecretPlace,
    SecretRef,
    SlackWay,
    WebhookWay,
)
from placet.model.issuers import Network
from placet.model.notices import NoticeKind
from placet.proof.doctor import StoreKind, checks_of
from placet.proof.doctor.announcements import announcements
from placet.proof.doctor.checks import Deployment, Depth, Level, Patient, Saying
from placet.testing import FakeClock

REF = SecretRef(place=SecretPlace.ENVIRONMENT, name="DOCTOR_SECRET")
WEBHOOK = WebhookWay(url="https://hook.example.com/", secrets=(REF,))
SLACK = SlackWay(url=REF)
MAIL = EmailWay(host="mail.test", port=587, sender="a@b.test", recipients=("c@d.test",), user="u", password=REF)


def said(*ways: Any, console_url: str | None = "https://ops.example.com/console") -> Saying:
    kinds = frozenset({NoticeKind.APPROVAL_ASKED})
    destinations = tuple(
        Destination(name=f"d{number}", kinds=kinds, tenants=frozenset({"*"}), way=way)
        for number, way in enumerate(ways)
    )
    deployment = Deployment(
        store="memory:",
        key=None,
        tools=(),
        policy=placet.Matrix(),
        announcements=Announcements(destinations=destinations, console_url=console_url),
    )
    error = ConfigurationError("No.")
    return announcements(
        Patient(
            deployment=deployment, depth=Depth.NEWEST, clock=FakeClock(), key=__file__, keys=error,  # type: ignore[arg-type]
            store=error, server=None, wall_drift_seconds=lambda: 0.0,
        )
    )  # fmt: skip


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCTOR_SECRET", f"whsec_{base64.b64encode(b'k' * 32).decode()}")


def test_every_kind_of_deployment_is_looked_at() -> None:
    assert all("announcements" in [each.id for each in checks_of(kind)] for kind in StoreKind)


def test_nothing_to_announce_and_all_that_is_there_is_fine() -> None:
    assert said(console_url=None).level is Level.OK
    found = said(WEBHOOK, SLACK, MAIL)
    assert (found.level, found.told) == (Level.OK, "what happens is announced to 3 destinations")


@pytest.mark.parametrize("way", [WEBHOOK, SLACK, MAIL], ids=["webhook", "slack", "mail"])
def test_a_secret_that_is_not_there_is_a_fault_and_named_by_its_place(
    way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCTOR_SECRET")
    found = said(way)
    assert (found.level, found.told) == (
        Level.FAIL,
        "the destination 'd0' has nothing it can use in the environment variable DOCTOR_SECRET",
    )


def test_a_webhooks_secret_in_another_form_is_a_fault_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCTOR_SECRET", "hunter2")
    assert said(SLACK).level is Level.OK, "any text is an address or a password"
    found = said(WEBHOOK)
    assert found.level is Level.FAIL and "hunter2" not in f"{found}"


def test_what_is_for_development_and_messages_that_link_nowhere_are_warned_of() -> None:
    local = WebhookWay(url="http://127.0.0.1/", secrets=(REF,), network=Network.LOOPBACK)
    assert (said(local).level, "without TLS" in said(local).told) == (Level.WARN, True)
    assert (said(MAIL, console_url=None).level, "link nowhere" in said(MAIL, console_url=None).told) == (
        Level.WARN,
        True,
    )
