"""What an attempt's report proves, what is tried again, and how long to wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from placet import EffectClass, RetryPolicy
from placet.model.attempt import Answered, CallerLeft, DeadlinePassed, Raised, Rejected, Report, Returned, Unsent
from placet.rules import retry
from placet.rules.retry import Knowledge

READS = (EffectClass.READ, EffectClass.SENSITIVE_READ)
IDEMPOTENT = (EffectClass.IDEMPOTENT_WRITE,)
WRITES = (EffectClass.WRITE, EffectClass.IRREVERSIBLE)
DONE, NOTHING, UNSURE = Knowledge.PERFORMED, Knowledge.NOTHING_HAPPENED, Knowledge.CANNOT_TELL


def answered(status: int) -> Answered:
    return Answered(status=status, retry_after=None)


# report: (write knows, read again, idempotent write again, write again)
TABLE: list[tuple[Report, Knowledge, bool, bool, bool]] = [
    (Returned(value=1), DONE, False, False, False),
    (Rejected(message=""), NOTHING, False, False, False),
    (Unsent(), NOTHING, True, True, True),
    (answered(429), NOTHING, True, True, False),
    (answered(500), UNSURE, True, True, False),
    (answered(502), UNSURE, True, True, False),
    (answered(503), UNSURE, True, True, False),
    (answered(504), UNSURE, True, True, False),
    (answered(400), UNSURE, False, False, False),
    (answered(401), UNSURE, False, False, False),
    (answered(404), UNSURE, False, False, False),
    (answered(409), UNSURE, False, False, False),
    (answered(501), UNSURE, False, False, False),
    (answered(200), UNSURE, False, False, False),
    (Raised(error_type="TimeoutError"), UNSURE, True, True, False),
    (Raised(error_type="ValueError"), UNSURE, True, True, False),
    (DeadlinePassed(has_ended=True), UNSURE, True, True, False),
    (DeadlinePassed(has_ended=False), UNSURE, False, False, False),
    (DeadlinePassed(has_ended=True, late=Returned(value=1)), UNSURE, False, False, False),
    (CallerLeft(has_ended=True), UNSURE, False, False, False),
    (CallerLeft(has_ended=False), UNSURE, False, False, False),
]


@pytest.mark.req("C027", "C028", "H037", "H041")
@pytest.mark.case("I01")
@pytest.mark.parametrize(("report", "known", "read", "idempotent", "write"), TABLE)
def test_what_a_report_proves_and_who_tries_again(
    report: Report, known: Knowledge, read: bool, idempotent: bool, write: bool
) -> None:
    for effect_class in WRITES + IDEMPOTENT:
        assert retry.knowledge(effect_class, report) is known
    for effect_class in READS:
        assert retry.knowledge(effect_class, report) is (DONE if known is DONE else NOTHING)
    for effect_classes, again in ((READS, read), (IDEMPOTENT, idempotent), (WRITES, write)):
        assert all(retry.may_retry(effect_class, report) is again for effect_class in effect_classes)


@pytest.mark.req("C029", "C031")
def test_the_bound_of_the_wait_doubles_up_to_its_cap_and_the_wait_is_drawn_below_it() -> None:
    policy = RetryPolicy(max_attempts=10)
    bounds = [retry.back_off_seconds(policy, attempts_made=made, fraction=1.0) for made in range(1, 9)]

    assert bounds == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert retry.back_off_seconds(policy, attempts_made=2, fraction=0.5) == 0.25
    assert retry.back_off_seconds(policy, attempts_made=2, fraction=0.0) == 0.0
    assert retry.back_off_seconds(policy, attempts_made=10_000, fraction=1.0) == 10.0


def test_three_attempts_are_the_default() -> None:
    assert RetryPolicy() == RetryPolicy(max_attempts=3, initial_delay_seconds=0.25, max_delay_seconds=10.0)


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.req("C030")
@pytest.mark.case("I05")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60", 60.0),
        (" 60 ", 60.0),
        ("0", 0.0),
        ("86400", 86_400.0),
        ("999999999999", 86_400.0),
        (format_datetime(NOW + timedelta(seconds=30), usegmt=True), 30.0),
        (format_datetime(NOW - timedelta(seconds=30), usegmt=True), 0.0),
        (format_datetime((NOW + timedelta(seconds=30)).astimezone(timezone(timedelta(hours=8)))), 30.0),
        (format_datetime(NOW + timedelta(days=400), usegmt=True), 86_400.0),
        ("Thu, 01 Jan 2026 12:00:30 -0000", 30.0),
        ("-1", None),
        ("abc", None),
        ("", None),
        ("1.5", None),
        ("٣", None),
        ("9" * 65, None),
        ("60".rjust(64), 60.0),
        ("60".rjust(65), None),
        ("+99999999999 Jan 9999 12:00", None),
        ("", None),
        ("Thu, 99 Foo 9999 12:00:30 GMT", None),
        (None, None),
        (60, None),
    ],
)
def test_both_forms_of_retry_after_are_read_and_anything_else_is_ignored(text: object, seconds: float | None) -> None:
    assert retry.retry_after_seconds(text, now=NOW) == seconds  # type: ignore[arg-type]


def test_what_is_known_is_told_by_these_words() -> None:
    assert [str(word) for word in Knowledge] == ["performed", "nothing_happened", "cannot_tell"]
