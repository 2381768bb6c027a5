"""What an audit event may hold, and its byte form."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from placet.model.audit import AuditEvent, AuditOutcome, EventKind, Summary
from placet.rules.audit import EventRefused, check_event, event_body, operation_of, place_in_time
from tests.rules.audit_samples import AT, FULL, event, written


class Text(str):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("s3cr3t")

    __hash__ = None  # type: ignore[assignment]


HASHES = ("rejected_name", "operation", "arguments_fingerprint", "result_fingerprint")

IDENTITIES = ("tenant", "subject", "on_behalf_of", "environment", "request_id", "run_id", "decided_by")

CODES = ("key_id", "risk", "effect_class", "error_type", "detail", "decision", "effect_state")

SHORT = ("tool_version", "permission", "policy_version", "approval_id", "purpose")

INSTANTS = ("at", "decided_at", "expires_at")

BAD: dict[str, list[Any]] = {
    "kind": ["started", None, 1],
    "outcome": ["success", 1, Text("success")],
    **{name: ["A" * 64, "a" * 63, "a" * 65, "g" * 64, b"a" * 64, 1, "a" * 64 + "\n"] for name in HASHES},
    **{name: ["", "x" * 129, 7, b"x", ["x"]] for name in IDENTITIES},
    **{name: ["has space", "", "x" * 129, "1x", "a\n", "naïve", 7, b"x"] for name in CODES},
    **{name: ["", "x" * 201, 7] for name in SHORT},
    **{name: [datetime(2026, 1, 1), "2026-01-01", 7] for name in INSTANTS},
    "call_id": ["a/b", "", "x" * 129, "a\n", 7],
    "tool": ["two words", "x" * 65, "", 7, "a\n"],
    "attempt": [0, -1, 201, True, 1.0, "1"],
    "fence": [-1, True, 1.5, "1"],
    "duration_ms": [-0.001, float("nan"), float("inf"), 1, "1", True],
    "roles": [["operator"], ("two words",), "operator"],
    "reasons": [["x"], ("two words",), ("x" * 129,), "x", (7,)],
    "arguments": [{}, {"field_count": 1}, Summary(field_count=-1), Summary(field_count=True), 7],
    "result": [Summary(scalar_count=1.5), []],  # type: ignore[arg-type]
    "model_suggested": [1, "true", 0],
    "repaired": [1, "true", 0],
    "shadow": [
        {},
        "deny",
        *(
            replace(FULL["shadow"], **{name: value})
            for name, value in (
                ("enforced", "error"),
                ("enforced", "Allow"),
                ("enforced", None),
                ("would_be", "maybe"),
                ("would_be", Text("deny")),
                ("changes", 1),
                ("reasons", ["x"]),
                ("reasons", ("two words",)),
                ("policy_version", ""),
                ("policy_version", "x" * 201),
                ("policy_version", 7),
            )
        ),
    ],
}


@pytest.mark.req("B159", "B160", "B161", "B168", "B135")
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_value_of_another_form_is_refused_and_not_repeated(name: str, value: object) -> None:
    wrong = event()
    object.__setattr__(wrong, name, value)

    with pytest.raises(EventRefused) as caught:
        check_event(wrong)

    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert caught.value.code == "audit_event_refused"
    if value is not None:
        assert name in str(caught.value)


@pytest.mark.req("B159", "B058")
@pytest.mark.parametrize("name", [name for name, value in FULL.items() if type(value) is str])
def test_a_text_subclass_is_refused_in_every_field_and_none_of_its_methods_runs(name: str) -> None:
    wrong = event()
    object.__setattr__(wrong, name, Text(FULL[name]))

    with pytest.raises(EventRefused):
        check_event(wrong)


@pytest.mark.req("B159")
@pytest.mark.parametrize(
    "name",
    [
        "kind",
        "at",
        "tenant",
        "subject",
        "key_id",
        "tool",
        "fence",
        "duration_ms",
        "model_suggested",
        "roles",
        "repaired",
    ],
)
def test_an_event_without_a_field_that_every_event_has_is_refused(name: str) -> None:
    wrong = event()
    object.__setattr__(wrong, name, None)

    with pytest.raises(EventRefused):
        check_event(wrong)


def test_a_full_and_a_bare_event_pass_again_and_again() -> None:
    for _ in range(2):
        check_event(event())
        check_event(AuditEvent(kind=EventKind.STARTED, at=AT, tenant="t", subject="s", key_id="k"))


def test_a_value_that_passed_once_is_no_leave_for_a_mutable_one_later() -> None:
    summary = Summary()
    check_event(event(arguments=summary))
    object.__setattr__(summary, "field_count", -1)

    with pytest.raises(EventRefused):
        check_event(event(arguments=summary))


@pytest.mark.req("B160", "B119")
@pytest.mark.parametrize(
    "wrong",
    [
        {"outcome": None},
        {"kind": EventKind.STARTED},
        {"kind": EventKind.STARTED, "outcome": None},
        {"outcome": AuditOutcome.ERROR},
        {"outcome": AuditOutcome.DENIED},
        {"outcome": AuditOutcome.TIMEOUT},
        {"outcome": AuditOutcome.UNKNOWN},
        {"outcome": AuditOutcome.VALIDATION},
    ],
)
def test_words_that_do_not_go_together_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(EventRefused):
        check_event(event(**wrong))


@pytest.mark.parametrize("wrong", [None, {}, object(), type("Child", (AuditEvent,), {})(**FULL)])
def test_only_events_are_events(wrong: object) -> None:
    with pytest.raises(EventRefused):
        check_event(wrong)  # type: ignore[arg-type]


@pytest.mark.req("B115", "B116", "C050", "C052")
def test_the_byte_form_is_fixed_and_has_no_place_for_values() -> None:
    body = json.loads(event_body(event()))

    assert set(body) == {field.name for field in dataclasses.fields(AuditEvent)} - {"rejected_name"} | {"schema"}
    assert body["schema"] == 1
    assert (body["at"], body["outcome"], body["duration_ms"]) == ("2026-01-01T12:00:00.000005+00:00", "success", 1.234)
    assert sorted(body["arguments"]) == [
        "collection_count",
        "content_field_count",
        "field_count",
        "identifier_field_count",
        "redacted_field_count",
        "scalar_count",
    ]


@pytest.mark.req("B115")
def test_the_fields_of_an_event_are_pinned() -> None:
    assert list(FULL) == [field.name for field in dataclasses.fields(AuditEvent)]


def test_absent_members_are_left_out_and_the_order_is_sorted() -> None:
    bare = event_body(AuditEvent(kind=EventKind.STARTED, at=AT, tenant="t", subject="s", key_id="k"))

    assert bare == (
        b'{"at":"2026-01-01T12:00:00.000005+00:00","duration_ms":0.0,"fence":0,"key_id":"k","kind":"started",'
        b'"model_suggested":true,"schema":1,"subject":"s","tenant":"t","tool":"unknown"}'
    )


LONGEST: dict[str, list[Any]] = {
    **{name: ["0123456789abcdef" * 4] for name in HASHES},
    **{name: ["x", "x" * 128] for name in IDENTITIES},
    **{name: ["x", "Z" + "a0_.:-" * 21 + "b"] for name in CODES},
    **{name: ["x", "x" * 200] for name in SHORT},
    "call_id": ["0", "A" + "zZ9._:-" * 18 + "c"],
    "tool": ["0", "aZ09_.-x" * 8],
    "attempt": [1, 200],
    "fence": [0, 2**70],
    "duration_ms": [0.0, 1e300],
    "roles": [(), ("a", "b" * 128)],
    "reasons": [(), ("a", "b" * 128)],
    "arguments": [Summary(), Summary(identifier_field_count=2**70)],
    "model_suggested": [True, False],
    "shadow": [None, replace(FULL["shadow"], would_be="error", reasons=(), policy_version=None)],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in LONGEST.items() for value in values])
def test_values_at_the_bounds_are_accepted(name: str, value: object) -> None:
    check_event(event(**{name: value}))


@pytest.mark.parametrize("outcome", [AuditOutcome.SUCCESS, AuditOutcome.REPLAYED])
def test_a_success_may_have_a_result_and_a_decision_may_too(outcome: AuditOutcome) -> None:
    check_event(event(outcome=outcome))
    check_event(event(kind=EventKind.EFFECT_RECONCILED, outcome=None))


@pytest.mark.parametrize("outcome", list(AuditOutcome))
def test_a_started_event_has_no_outcome(outcome: AuditOutcome) -> None:
    bare = {"kind": EventKind.STARTED, "result": None, "result_fingerprint": None}

    check_event(event(**bare, outcome=None))
    with pytest.raises(EventRefused):
        check_event(event(**bare, outcome=outcome))


@pytest.mark.parametrize("outcome", list(AuditOutcome))
def test_without_a_result_every_outcome_goes(outcome: AuditOutcome) -> None:
    check_event(event(outcome=outcome, result=None, result_fingerprint=None))


@pytest.mark.parametrize(
    ("body", "operation", "at"),
    [
        (b'{"operation":"a","at":"2026"}', "a", "2026"),
        (b'{"operation":7,"at":7}', None, ""),
        (b"{}", None, ""),
        (b"[]", None, ""),
        (b"{", None, ""),
        (b"\xff", None, ""),
    ],
)
def test_what_an_event_is_about_and_its_place_in_time_are_read_from_any_body(
    body: bytes, operation: str | None, at: str
) -> None:
    events, _ = written("w7", b"{}", body)

    assert operation_of(events[1]) == operation
    assert place_in_time(events[1]) == (at, "w7", 2)
