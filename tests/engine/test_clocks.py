"""What a clock may say: an instant that knows its zone, by a zone of the standard library; nothing else is one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from placet.adapters.keys import KeyRing
from placet.engine.chronicle import Chronicle
from placet.errors import BoundaryUnavailable
from placet.model.audit import EventKind
from placet.testing import FakeClock

INSTANT = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Says(FakeClock):
    def __init__(self, instant: Any) -> None:
        super().__init__()
        self._instant = instant

    def now(self) -> Any:
        return self._instant


class Dressed:
    """No datetime, and looks like one as far as its zone goes."""

    tzinfo = UTC


class Child(datetime):
    """Whose methods are somebody else's."""


class Zone(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(0)


def chronicle(instant: Any) -> Chronicle:
    return Chronicle(keys=KeyRing.ephemeral(), clock=Says(instant))


@pytest.mark.req("B054")
@pytest.mark.parametrize(
    "instant",
    [
        datetime(2026, 1, 1, 12),
        INSTANT.replace(tzinfo=Zone()),
        Child(2026, 1, 1, 12, tzinfo=UTC),
        Dressed(),
        1_767_225_600.0,
        None,
    ],
    ids=["no zone", "a foreign zone", "a subclass", "no datetime", "a number", "none"],
)
def test_what_is_no_instant_is_no_time(instant: Any) -> None:
    with pytest.raises(BoundaryUnavailable) as refused:
        chronicle(instant).now()
    assert refused.value.code == "clock_failed"


@pytest.mark.parametrize("hours", [-12, 0, 14])
def test_an_instant_of_any_fixed_offset_is_told_in_utc(hours: int) -> None:
    told = chronicle(INSTANT.astimezone(timezone(timedelta(hours=hours)))).now()

    assert (told, told.tzinfo) == (INSTANT, UTC)


def test_an_event_is_on_record_also_where_no_clock_tells_when() -> None:
    """With an instant that nobody takes for one of today's, and a word that says why."""
    event = chronicle(None).event(EventKind.RECORDS_PURGED, {"tenant": "acme", "subject": "kim", "key_id": "k"})

    assert (event.at, event.detail) == (datetime(1970, 1, 1, tzinfo=UTC), "clock_failed")
