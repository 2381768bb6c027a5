"""Pages of lists, cursors and the scopes for looking: decided from values alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.model.audit import ChainedEvent
from placet.model.identifiers import WriterId
from placet.model.listing import Mark
from placet.model.principal import Principal
from placet.rules.access import has_scope
from placet.rules.cursors import Cursor, read_cursor, write_cursor
from placet.rules.listing import mark_of_event, page

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MARKS = st.builds(
    Mark,
    at=st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC)),
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    number=st.integers(0, 2**63 - 1),
)


@given(st.lists(MARKS, max_size=12, unique_by=lambda mark: mark.place), st.integers(1, 4))
def test_page_after_page_every_row_comes_once_the_newest_first(rows: list[Mark], limit: int) -> None:
    found: list[Mark] = []
    after: Mark | None = None
    while some := page(rows, lambda row: row, after, limit):
        assert len(some) <= limit
        found += some
        after = some[-1]

    assert found == sorted(rows, key=lambda mark: mark.place, reverse=True)


def an_event(body: bytes) -> ChainedEvent:
    return ChainedEvent(writer=WriterId("w"), sequence=3, body=body, link="", key_id="k")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"at":7}', b'{"at":"soon"}', b'{"at":"2026-01-01T00:00:00"}'])
def test_an_event_that_tells_no_instant_stands_last(body: bytes) -> None:
    sound = mark_of_event(an_event(b'{"at":"2026-01-01T00:00:00.000000+00:00"}'))

    assert sound == Mark(at=NOW, name="w", number=3)
    assert mark_of_event(an_event(body)).place < sound.place


@given(MARKS, st.integers(0, 10**6))
def test_a_cursor_is_read_as_it_was_written(mark: Mark, seconds: int) -> None:
    cursor = Cursor(mark=mark, expires_at=NOW + timedelta(seconds=seconds))

    assert read_cursor(write_cursor(cursor)) == cursor
    assert write_cursor(cursor).isascii()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"[1,2,3,4]",
        b'["2026-01-01T00:00:00+00:00","a",0]',
        b'["2026-01-01T00:00:00+00:00","a",0,"2026-01-01T00:00:00+00:00",1]',
        b'["2026-01-01T00:00:00+00:00",7,0,"2026-01-01T00:00:00+00:00"]',
        b'["2026-01-01T00:00:00+00:00","a",true,"2026-01-01T00:00:00+00:00"]',
        b'["2026-01-01T00:00:00+00:00","a",0.0,"2026-01-01T00:00:00+00:00"]',
        b'["2026-01-01T00:00:00","a",0,"2026-01-01T00:00:00+00:00"]',
        b'["2026-01-01T00:00:00+00:00","a",0,"2026-01-01T00:00:00"]',
        b'["2026-01-01T00:00:00+00:00","a",0,"soon"]',
        b'["2026-01-01T00:00:00+00:00", "a",0,"2026-01-01T00:00:00+00:00"]',
        b"[" * 100_000,
    ],
)
def test_what_was_not_written_so_is_no_cursor(body: bytes) -> None:
    assert read_cursor(body) is None


def test_a_scope_is_had_only_if_everybody_in_the_delegation_has_it() -> None:
    giver = Principal.agent("alice", tenant="acme", scopes=("audit.read",))
    agent = Principal.agent("agent", tenant="acme", scopes=("audit.read",), on_behalf_of=giver)

    assert has_scope(giver, "audit.read") and has_scope(agent, "audit.read")
    assert not has_scope(giver, "metrics.read")
    assert not has_scope(replace(agent, scopes=frozenset()), "audit.read")
    assert not has_scope(replace(agent, on_behalf_of=replace(giver, scopes=frozenset())), "audit.read")
