"""The byte form of an event is fixed, and is read back as it was or not at all."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.model.audit import AuditEvent, AuditOutcome, ChainedEvent, EventKind, Summary
from placet.model.decision import ShadowAnswer
from placet.model.identifiers import WriterId
from placet.rules.audit import event_body, event_of, shown_body_of
from tests.rules.audit_samples import AT, FULL, event

COUNTS = (
    "field_count",
    "scalar_count",
    "collection_count",
    "redacted_field_count",
    "content_field_count",
    "identifier_field_count",
)


def test_the_whole_byte_form_of_a_full_event_is_this_so_that_old_links_stay_good() -> None:
    values = FULL | {
        "rejected_name": "d" * 64,
        "arguments": Summary(**dict(zip(COUNTS, (1, 2, 3, 4, 5, 6), strict=True))),
    }
    plain = {
        name: value
        for name, value in values.items()
        if name not in ("kind", "at", "roles", "reasons", "outcome", "decided_at", "expires_at", "arguments", "result")
        and name != "shadow"
    }
    expected = plain | {
        "schema": 1,
        "kind": "completed",
        "at": "2026-01-01T12:00:00.000005+00:00",
        "roles": ["operator"],
        "reasons": ["matrix_operator_medium"],
        "outcome": "success",
        "decided_at": "2026-01-01T12:00:00.000005+00:00",
        "expires_at": "2026-01-01T12:00:00.000005+00:00",
        "arguments": dict(zip(COUNTS, (1, 2, 3, 4, 5, 6), strict=True)),
        "result": dict.fromkeys(COUNTS, 0),
        "shadow": {
            "enforced": "allow",
            "would_be": "deny",
            "changes": True,
            "reasons": ["scope_missing"],
            "policy_version": "v2",
        },
    }

    assert event_body(AuditEvent(**values)) == json.dumps(expected, sort_keys=True, separators=(",", ":")).encode()


def test_instants_are_spelled_with_six_digits_even_on_the_second() -> None:
    second = AT.replace(microsecond=0)
    body = json.loads(event_body(event(at=second, decided_at=second, expires_at=second)))

    assert {body[name] for name in ("at", "decided_at", "expires_at")} == {"2026-01-01T12:00:00.000000+00:00"}


@pytest.mark.parametrize("left_out", [*FULL, "nothing"])
def test_an_event_is_read_back_from_its_body_as_it_was(left_out: str) -> None:
    required = {"kind", "at", "tenant", "subject", "key_id"}
    given = {name: value for name, value in FULL.items() if name != left_out or name in required}
    if left_out in ("outcome", "kind"):
        given |= {"kind": EventKind.STARTED, "outcome": None, "result_fingerprint": None}
    said = AuditEvent(**given)

    assert event_of(event_body(said)) == said


def test_every_kind_and_every_outcome_is_read_back() -> None:
    for kind in EventKind:
        said = event(kind=kind)
        if kind is EventKind.STARTED:
            said = event(kind=kind, outcome=None, result_fingerprint=None)
        assert event_of(event_body(said)) == said
    for outcome in AuditOutcome:
        said = event(outcome=outcome, result_fingerprint=None)
        assert event_of(event_body(said)) == said


def altered_body(**changes: Any) -> bytes:
    body = {**json.loads(event_body(event())), **changes}
    kept = {name: value for name, value in body.items() if value is not ...}
    return json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()


def test_the_body_that_the_next_test_alters_is_readable_before() -> None:
    assert event_of(altered_body()) == event()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"7",
        b'"at"',
        b'"x"',
        b"{",
        b"\xff",
        altered_body(schema=2),
        altered_body(schema=...),
        altered_body(of_a_later_version=1),
        altered_body(kind="somersault"),
        altered_body(outcome="applause"),
        altered_body(at="yesterday"),
        altered_body(at=7),
        altered_body(decided_at="2026-01-01"),
        altered_body(tenant=...),
        altered_body(tenant=""),
        altered_body(roles=7),
        altered_body(roles=["no code"]),
        altered_body(arguments=[1]),
        altered_body(arguments={"of_a_later_version": 1}),
        altered_body(result={"field_count": -1}),
        altered_body(result=7),
        altered_body(duration_ms=1),
        altered_body(repaired=False),
        altered_body(reasons=[]),
        json.dumps(json.loads(event_body(event())), sort_keys=True).encode(),
    ],
)
def test_a_body_that_this_version_could_not_have_written_is_no_event(body: bytes) -> None:
    assert event_of(body) is None


def reference_body(event: AuditEvent) -> bytes:
    """The byte form as ADR and export describe it, written with the standard library alone."""
    body: dict[str, Any] = {"schema": 1}
    for field in dataclasses.fields(AuditEvent):
        value = getattr(event, field.name)
        if value is None or value == () or (field.name == "repaired" and value is False):
            continue
        if isinstance(value, datetime):
            value = value.isoformat(timespec="microseconds")
        elif isinstance(value, Summary):
            value = dataclasses.asdict(value)
        elif isinstance(value, ShadowAnswer):
            value = {name: said for name, said in dataclasses.asdict(value).items() if said not in (None, ())}
        elif isinstance(value, EventKind | AuditOutcome):
            value = value.value
        body[field.name] = value
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


IDENTITY = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)

INSTANT = (
    st.datetimes(timezones=st.just(UTC))
    | st.datetimes(
        timezones=st.sampled_from(
            [timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(0)), ZoneInfo("Asia/Tokyo")]
        )
    )
    | st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0))
)

SUMMARY = st.builds(Summary, **{name: st.integers(0, 2**53) for name in Summary.__slots__})

SHADOW = st.builds(
    ShadowAnswer,
    enforced=st.sampled_from(("allow", "ask", "deny")),
    would_be=st.sampled_from(("allow", "ask", "deny", "error")),
    changes=st.booleans(),
    reasons=st.lists(IDENTITY, max_size=3).map(tuple),
    policy_version=st.none() | IDENTITY,
)

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "kind": st.sampled_from(EventKind),
    "at": INSTANT,
    "outcome": st.none() | st.sampled_from(AuditOutcome),
    "roles": st.lists(IDENTITY, max_size=3).map(tuple),
    "reasons": st.lists(IDENTITY, max_size=3).map(tuple),
    "attempt": st.none() | st.integers(1, 200),
    "fence": st.integers(0, 2**40),
    "decided_at": st.none() | INSTANT,
    "expires_at": st.none() | INSTANT,
    "arguments": st.none() | SUMMARY,
    "result": st.none() | SUMMARY,
    "duration_ms": st.floats(0, 1e9).map(lambda number: round(number, 3)),
    "model_suggested": st.booleans(),
    "repaired": st.booleans(),
    "shadow": st.none() | SHADOW,
}

EVENTS = st.fixed_dictionaries(
    {name: FIELDS.get(name, IDENTITY if value is not None else st.none()) for name, value in FULL.items()}
    | {
        name: st.none() | IDENTITY
        for name in FULL
        if name not in FIELDS and name not in ("tenant", "subject", "key_id", "tool")
    }
)


def test_a_body_takes_no_more_memory_than_its_length() -> None:
    """Stores in memory keep them all, and the writer of JSON keeps room for ten times as much."""
    said = event()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        bodies = [event_body(said) for _ in range(100)]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert taken < 2 * sum(map(len, bodies))


@pytest.mark.req("B159")
@given(EVENTS)
def test_the_byte_form_is_the_plain_json_of_the_same_members(values: dict[str, Any]) -> None:
    made = AuditEvent(**values)

    assert event_body(made) == reference_body(made)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"y":', "}")])
def test_what_is_nested_as_no_event_of_ours_is_not_shown(opening: str, closing: str) -> None:
    def shown(deep: int) -> dict[str, Any]:
        body = f'{{"x":{opening * (deep - 1)}1{closing * (deep - 1)}}}'
        return shown_body_of(ChainedEvent(writer=WriterId("w"), sequence=3, body=body.encode(), link="", key_id=""))

    assert [bool(shown(deep)) for deep in (1, 2, 16, 17, 985, 100_000)] == [True, True, True, False, False, False]
