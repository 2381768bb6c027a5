"""What a report, an error or silence means, and how long to wait before the next attempt.

    report              write: what we know      retried for
    returned            performed                nobody
    rejected            nothing happened         nobody
    not sent            nothing happened         everybody
    429                 nothing happened         reads, idempotent writes
    any other status    cannot tell              reads, idempotent writes: 500 502 503 504 only
    raised              cannot tell              reads, idempotent writes
    deadline passed     cannot tell              reads, idempotent writes, if the attempt has ended
    caller left         cannot tell              nobody

A read that fails is simply an error: there is nothing to be unsure of. Source: DESIGN section 11; C027 to C032, I01.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

from placet.model.attempt import Answered, CallerLeft, DeadlinePassed, Raised, Rejected, Report, Returned, Unsent
from placet.model.contract import EffectClass, RetryPolicy

TRANSIENT_STATUSES = frozenset({429, 500, 502, 503, 504})
LONGEST_RETRY_AFTER_SECONDS = 86_400.0


class Knowledge(StrEnum):
    """What an attempt's report proves about the world."""

    PERFORMED = "performed"
    NOTHING_HAPPENED = "nothing_happened"
    CANNOT_TELL = "cannot_tell"


def knowledge(effect_class: EffectClass, report: Report) -> Knowledge:
    """What the report proves. Nothing can happen through a read."""
    match report:
        case Returned():
            return Knowledge.PERFORMED
        case Rejected() | Unsent():
            return Knowledge.NOTHING_HAPPENED
        case Answered(status=429):
            return Knowledge.NOTHING_HAPPENED
        case Answered() | Raised() | DeadlinePassed() | CallerLeft():
            return Knowledge.CANNOT_TELL if effect_class.is_write else Knowledge.NOTHING_HAPPENED


def may_retry(effect_class: EffectClass, report: Report) -> bool:
    """Whether another attempt of the same dispatch is safe and may help."""
    match report:
        case Returned() | Rejected() | CallerLeft():
            return False
        case Unsent(code=code):
            return code != "schema_drift"  # asked again at once, it would be described no better
        case Answered(status=status):
            return effect_class.repeats_safely and status in TRANSIENT_STATUSES
        case Raised():
            return effect_class.repeats_safely
        case DeadlinePassed(has_ended=has_ended, late=late):
            return effect_class.repeats_safely and has_ended and late is None


def back_off_seconds(policy: RetryPolicy, *, attempts_made: int, fraction: float) -> float:
    """Full jitter: evenly from zero to min(cap, initial * 2^(n-1)). `fraction` in [0, 1)."""
    doublings = min(attempts_made - 1, 64)
    return fraction * min(policy.max_delay_seconds, policy.initial_delay_seconds * 2.0**doublings)


def retry_after_seconds(text: str | None, *, now: datetime) -> float | None:
    """A `Retry-After` header in either form, in seconds from `now`; None if absent or not understood."""
    if type(text) is not str or len(text) > 64 or not text.isascii():
        return None
    text = text.strip()
    if text.isdigit():
        return min(float(text), LONGEST_RETRY_AFTER_SECONDS)
    try:
        instant = parsedate_to_datetime(text)
    except Exception:  # a foreign parser of foreign text; what it raises differs between versions
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    wait = (instant - now).total_seconds()
    return min(max(wait, 0.0), LONGEST_RETRY_AFTER_SECONDS)
