"""Instants as rows have them: microseconds since 1970; and the places of a page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from placet.model.listing import Mark

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(instant: datetime | None) -> int | None:
    return None if instant is None else passed_microseconds(instant)


def passed_microseconds(instant: datetime) -> int:
    passed = instant - EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def instant(value: int | None) -> datetime | None:
    return None if value is None else EPOCH + timedelta(microseconds=value)


def sure(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


_NEWER_THAN_ALL = (2**63 - 1, "")

_NEWER_THAN_EVERY_EVENT = ("~", "", 0)


def place_of(mark: Mark | None) -> tuple[int, str]:
    """What rows of a page are compared with, an instant and a name; before the first page, newer than any row."""
    return _NEWER_THAN_ALL if mark is None else (passed_microseconds(mark.at), mark.name)


def place_of_event(mark: Mark | None) -> tuple[str, str, int]:
    """The same for events, whose instant is compared as it stands in their bodies."""
    if mark is None:
        return _NEWER_THAN_EVERY_EVENT
    return mark.at.astimezone(UTC).isoformat(timespec="microseconds"), mark.name, mark.number
