"""What of the audit is announced, under which name, in which words, and when again."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker, ChainWriter
from placet.model.audit import AuditEvent, AuditOutcome, EventKind
from placet.model.destinations import Destination, SecretPlace, SecretRef, SlackWay
from placet.model.identifiers import WriterId
from placet.model.notices import Notice, NoticeKind
from placet.rules.announcements import (
    CONFIGURED_KINDS,
    GROUPS,
    MOST_ATTEMPTS,
    OLDEST_ANNOUNCED,
    delay_seconds,
    facts_of,
    is_linked,
    is_too_old,
    kind_of,
    kinds_of_word,
    says,
    title_of,
    url_of,
    wanted_kind,
)
from placet.rules.chains import GENESIS

AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
CONSOLE = "https://ops.example.com/console/"


def an_event(kind: EventKind = EventKind.APPROVAL_ASKED, **facts: Any) -> AuditEvent:
    told: dict[str, Any] = {"tenant": "acme", "subject": "agent-1", "tool": "refund"}
    return AuditEvent(kind=kind, at=AT, key_id="k-1", **(told | facts))


def a_notice(kind: NoticeKind = NoticeKind.APPROVAL_ASKED, **facts: Any) -> Notice:
    return Notice(message_id="msg_1", kind=kind, at=AT, event=an_event(**facts), url=None)


# ---------------------------------------------------------------- what, and to whom


def test_these_kinds_of_events_are_announced_and_no_others() -> None:
    found = {kind.value: word.value for kind in EventKind if (word := kind_of(an_event(kind))) is not None}

    assert found == {
        "approval_asked": "approval.asked",
        "approval_reminded": "approval.reminded",
        "approval_escalated": "approval.escalated",
        "approval_approved": "approval.approved",
        "approval_denied": "approval.denied",
        "approval_expired": "approval.expired",
        "approval_withdrawn": "approval.withdrawn",
        "approval_spent": "approval.spent",
        "effect_reconciled": "effect.reconciled",
        "stopped": "stop.begun",
        "resumed": "stop.lifted",
        "approval_suspect": "alarm.approval_suspect",
        "record_altered": "alarm.record_altered",
        "credential_suspect": "alarm.credential_suspect",
        "grant_suspect": "alarm.grant_suspect",
        "tool_accepted": "tool.accepted",
        "tool_quarantined": "tool.quarantined",
        "pin_suspect": "alarm.pin_suspect",
    }
    assert set(found.values()) | {"effect.unknown"} == {kind.value for kind in CONFIGURED_KINDS}


def test_an_effect_is_announced_as_it_becomes_unknown_and_not_when_it_is_asked_for_again() -> None:
    def of(**facts: Any) -> NoticeKind | None:
        return kind_of(an_event(EventKind.COMPLETED, **facts))

    assert of(outcome=AuditOutcome.ERROR, effect_state="unknown") is NoticeKind.EFFECT_UNKNOWN
    assert of(outcome=AuditOutcome.UNKNOWN, effect_state="unknown") is NoticeKind.EFFECT_UNKNOWN
    assert of(outcome=AuditOutcome.UNKNOWN, detail="effect_unknown") is None
    for state in (None, "committed", "failed", "reconciled_absent"):
        assert of(outcome=AuditOutcome.SUCCESS, effect_state=state) is None
    assert kind_of(an_event(EventKind.STARTED)) is None


@pytest.mark.parametrize(
    ("tenants", "kinds", "is_wanted"),
    [
        ({"acme"}, {NoticeKind.APPROVAL_ASKED}, True),
        ({"globex", "acme"}, {NoticeKind.APPROVAL_ASKED}, True),
        ({"*"}, {NoticeKind.APPROVAL_ASKED}, True),
        ({"globex"}, {NoticeKind.APPROVAL_ASKED}, False),
        (set(), {NoticeKind.APPROVAL_ASKED}, False),
        ({"acme"}, {NoticeKind.APPROVAL_DENIED}, False),
        ({"ACME"}, {NoticeKind.APPROVAL_ASKED}, False),
    ],
)
def test_a_destination_hears_of_its_tenants_and_kinds(
    tenants: set[str], kinds: set[NoticeKind], is_wanted: bool
) -> None:
    way = SlackWay(url=SecretRef(place=SecretPlace.ENVIRONMENT, name="X"))
    destination = Destination(name="a", kinds=frozenset(kinds), tenants=frozenset(tenants), way=way)

    assert wanted_kind(destination, an_event()) is (NoticeKind.APPROVAL_ASKED if is_wanted else None)
    assert wanted_kind(destination, an_event(EventKind.STARTED)) is None


def test_a_word_of_the_configuration_is_a_kind_or_a_group() -> None:
    assert GROUPS == ("approval", "effect", "stop", "tool", "alarm")
    assert kinds_of_word("effect") == {NoticeKind.EFFECT_UNKNOWN, NoticeKind.EFFECT_RECONCILED}
    assert kinds_of_word("effect.unknown") == {NoticeKind.EFFECT_UNKNOWN}
    assert frozenset().union(*map(kinds_of_word, GROUPS)) == frozenset(CONFIGURED_KINDS)
    for word in ("", "test", "approval.", "asked", "*", "Effect", "effect.unknown.x"):
        assert kinds_of_word(word) == frozenset(), word


def test_what_is_older_than_a_week_is_too_old() -> None:
    assert timedelta(days=7) == OLDEST_ANNOUNCED
    assert not is_too_old(an_event(), now=AT + timedelta(days=7))
    assert is_too_old(an_event(), now=AT + timedelta(days=7, microseconds=1))
    assert not is_too_old(an_event(), now=AT - timedelta(days=1))


def test_an_event_is_held_against_its_link_its_place_and_what_was_before() -> None:
    keys = KeyRing.ephemeral()
    writer = ChainWriter(keys, WriterId("w-1"), opened_after=b"{}")
    first, second = writer.link(an_event()), writer.link(an_event(EventKind.APPROVAL_DENIED))
    linker = ChainLinker(keys)

    assert is_linked(first, GENESIS, linker) and is_linked(second, first.link, linker)
    for wrong in (
        replace(second, body=second.body.replace(b"refund", b"refuse")),
        replace(second, sequence=3),
        replace(second, writer=WriterId("w-2")),
        replace(second, link=first.link),
        replace(second, key_id="k-other"),
    ):
        assert not is_linked(wrong, first.link, linker)
    assert not is_linked(second, GENESIS, linker)
    assert not is_linked(second, first.link, ChainLinker(KeyRing.ephemeral()))


# ---------------------------------------------------------------- when again


def test_pauses_double_up_to_four_hours_and_half_of_each_is_chance() -> None:
    def pause(attempts: int, fraction: float) -> float:
        return delay_seconds(attempts, fraction=fraction, retry_after_seconds=None)

    assert [pause(n, 1.0) for n in (1, 2, 3, 12, 13, 99, 10_000)] == [5, 10, 20, 10_240, 14_400, 14_400, 14_400]
    assert [pause(n, 0.0) for n in (1, 2, 13)] == [2.5, 5, 7_200]
    total = [sum(pause(n, fraction) for n in range(1, MOST_ATTEMPTS)) / 3_600 for fraction in (0.0, 1.0)]
    assert 8 < total[0] < 10 and 16 < total[1] < 20, "hours"


def test_what_the_other_side_asks_for_is_waited_for_up_to_four_hours() -> None:
    def pause(wish: float | None) -> float:
        return delay_seconds(1, fraction=1.0, retry_after_seconds=wish)

    assert [pause(wish) for wish in (None, 0.0, 4.0, 5.5, 600.0, 1e9)] == [5, 5, 5, 5.5, 600, 14_400]


# ---------------------------------------------------------------- in which words


def test_every_kind_has_a_title_and_says_what_it_means() -> None:
    titles = {kind.value: title_of(a_notice(kind)) for kind in NoticeKind}
    assert titles == {
        "approval.asked": "Approval asked: refund",
        "approval.reminded": "Still waiting: refund",
        "approval.escalated": "Escalated: refund",
        "approval.approved": "Approved: refund",
        "approval.denied": "Denied: refund",
        "approval.expired": "Approval expired: refund",
        "approval.withdrawn": "Approval withdrawn: refund",
        "approval.spent": "Approval used: refund",
        "effect.unknown": "Outcome unknown: refund",
        "effect.reconciled": "Reconciled: refund",
        "stop.begun": "Stopped: everything",
        "stop.lifted": "Resumed: everything",
        "alarm.approval_suspect": "ALARM: an approval was altered",
        "alarm.record_altered": "ALARM: a record was altered",
        "alarm.credential_suspect": "ALARM: a credential was altered",
        "alarm.grant_suspect": "ALARM: a standing grant was altered",
        "alarm.pin_suspect": "ALARM: an accepted description was altered",
        "tool.quarantined": "Quarantined: refund",
        "tool.accepted": "Accepted: refund",
        "test": "Test message",
    }
    assert len({says(a_notice(kind)) for kind in NoticeKind}) == len(NoticeKind)


def test_a_test_message_is_about_nothing_that_happened() -> None:
    notice = Notice(message_id="msg_t", kind=NoticeKind.TEST, at=AT, event=None, url=None)
    assert (title_of(notice), facts_of(notice)) == ("Test message", (("at", "2026-03-01T12:30:00Z"),))


@pytest.mark.parametrize(
    ("facts", "title"),
    [
        ({"detail": "all"}, "Stopped: everything"),
        ({"detail": "tenant"}, "Stopped: tenant acme"),
        ({"detail": "tool"}, "Stopped: refund"),
        ({"detail": "run", "run_id": "r\n1"}, "Stopped: run r\\n1"),
        ({"detail": "upstream", "reasons": ("leave:tenant", "upstream:desk")}, "Stopped: upstream desk"),
    ],
)
def test_a_stop_says_what_it_halts(facts: dict[str, Any], title: str) -> None:
    assert title_of(a_notice(NoticeKind.STOP_BEGUN, **facts)) == title


def test_whoever_stopped_is_no_asker_and_an_unknown_tool_is_not_named() -> None:
    told = dict(facts_of(a_notice(NoticeKind.STOP_BEGUN, tool="unknown")))
    assert "by" in told and "asked by" not in told and "tool" not in told
    accepted = dict(facts_of(a_notice(NoticeKind.TOOL_ACCEPTED)))
    assert "by" in accepted and "asked by" not in accepted


def test_a_deadline_is_named_by_what_it_is() -> None:
    until = AT + timedelta(hours=1)
    assert dict(facts_of(a_notice(expires_at=until)))["decide by"] == "2026-03-01T13:30:00Z"
    assert dict(facts_of(a_notice(NoticeKind.APPROVAL_APPROVED, expires_at=until)))["expires"] == "2026-03-01T13:30:00Z"


def test_every_fact_is_one_line_in_which_nothing_is_hidden() -> None:
    hostile = "a\r\nb\u202ec\x1b[2K"
    facts = facts_of(a_notice(subject=hostile, run_id=hostile, environment=hostile, on_behalf_of=hostile, tool=hostile))

    assert sum(r"a\r\nb\u{202e}c\u{1b}[2K" in value for _, value in facts) == 5
    assert all(value.isprintable() for _, value in facts)
    assert title_of(a_notice(tool=hostile)).isprintable()


def test_no_fingerprint_no_count_and_no_name_of_an_operation_is_told() -> None:
    """Of an event's fields these are told; a new field is told only if somebody decides so here."""
    told = {
        "at", "tenant", "environment", "subject", "on_behalf_of", "tool", "tool_version", "risk", "effect_class",
        "run_id", "reasons", "detail", "effect_state", "decided_by", "expires_at", "approval_id",
    }  # fmt: skip
    silent = {field.name for field in fields(AuditEvent)} - told
    marked = {name: f"zq{name}" for name in silent if name not in ("kind", "key_id")}
    marked["reasons"] = ()  # type: ignore[assignment]

    facts = facts_of(a_notice(**{name: value for name, value in marked.items() if name != "reasons"}))

    assert not any("zq" in value for _, value in facts)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (NoticeKind.APPROVAL_ASKED, "approvals/apr%2F1%3Fx"),
        (NoticeKind.EFFECT_UNKNOWN, "effects"),
        (NoticeKind.STOP_BEGUN, "stops"),
        (NoticeKind.ALARM_RECORD, "audit"),
        (NoticeKind.TOOL_QUARANTINED, "tools"),
        (NoticeKind.TEST, ""),
    ],
)
def test_links_lead_to_the_page_and_hold_nothing_that_lets_anybody_in(kind: NoticeKind, path: str) -> None:
    event = an_event(approval_id="apr/1?x", operation="f" * 64, subject="a@b")
    assert url_of(kind, event, CONSOLE) == f"https://ops.example.com/console/{path}"
    assert url_of(kind, event, None) is None
    assert url_of(kind, None, CONSOLE) in (f"{CONSOLE}{path}", CONSOLE)
