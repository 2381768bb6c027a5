"""What an audit event may hold, its bytes, and the chain that shows what was done to it."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker, ChainWriter
from placet.model.audit import AuditEvent, AuditOutcome, ChainedEvent, EventKind, Summary
from placet.rules.audit import EventRefused, check_event, event_body, verify_chains

AT = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)
FULL: dict[str, Any] = {
    "kind": EventKind.COMPLETED,
    "at": AT,
    "tenant": "acme",
    "subject": "agent",
    "key_id": "k-1",
    "roles": ("operator",),
    "on_behalf_of": "uma",
    "environment": "production",
    "request_id": "req-1",
    "run_id": "run 1",
    "call_id": "c1",
    "tool": "write",
    "tool_version": "1",
    "rejected_name": None,
    "permission": "ops.write",
    "risk": "medium",
    "effect_class": "write",
    "attempt": 1,
    "fence": 1,
    "outcome": AuditOutcome.SUCCESS,
    "error_type": "ValueError",
    "detail": "returned",
    "reasons": ("matrix_operator_medium",),
    "decision": "allow",
    "policy_version": "v1",
    "approval_id": "apr-1",
    "decided_by": "paula",
    "decided_at": AT,
    "expires_at": AT,
    "purpose": "write",
    "operation": "a" * 64,
    "effect_state": "committed",
    "arguments": Summary(field_count=1),
    "arguments_fingerprint": "b" * 64,
    "result": Summary(),
    "result_fingerprint": "c" * 64,
    "duration_ms": 1.234,
    "model_suggested": True,
}


def event(**changes: Any) -> AuditEvent:
    return AuditEvent(**(FULL | changes))


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
}


@pytest.mark.req("B159", "B160", "B161", "B168", "B135")
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_value_of_another_form_is_refused_and_not_repeated(name: str, value: object) -> None:
    wrong = event()
    object.__setattr__(wrong, name, value)

    with pytest.raises(EventRefused) as caught:
        check_event(wrong)

    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
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
    ["kind", "at", "tenant", "subject", "key_id", "tool", "fence", "duration_ms", "model_suggested", "roles"],
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


# ---------------------------------------------------------------- chain


KEYS = KeyRing.ephemeral()
LINKER = ChainLinker(KEYS)


def chained(count: int = 4, *, writer: str = "w1") -> tuple[list[ChainedEvent], Any]:
    chain = ChainWriter(KEYS, writer, opened_after=b"{}")  # type: ignore[arg-type]
    events = []
    for number in range(count):
        word = {"kind": EventKind.STARTED, "outcome": None, "result": None, "result_fingerprint": None}
        more = word if number % 2 == 0 else {}
        events.append(chain.link(event(call_id=f"c{number // 2}", **more)))
    return events, chain.head()


def problems(events: list[ChainedEvent], heads: Any, **more: Any) -> list[str]:
    return [found.problem for found in verify_chains(events, heads, LINKER, **more).breaks]


def test_an_untouched_chain_holds_and_its_pairs_are_counted() -> None:
    events, head = chained()
    report = verify_chains(events, [head], LINKER)

    assert (report.holds, report.events, report.writers, report.unpaired) == (True, 4, 1, 0)
    open_events, open_head = chained(3)
    assert verify_chains(open_events, [open_head], LINKER).unpaired == 1


@pytest.mark.req("B136", "B137")
@pytest.mark.parametrize("index", range(4))
def test_a_changed_removed_or_moved_event_shows(index: int) -> None:
    events, head = chained()
    changed = list(events)
    changed[index] = dataclasses.replace(events[index], body=events[index].body.replace(b"acme", b"evil"))
    removed = events[:index] + events[index + 1 :]
    moved = events[:index][::-1] + events[index:] if index > 1 else events[::-1]

    assert problems(changed, [head]) != []
    assert problems(removed, [head]) != []
    assert problems(moved, [head]) != []
    assert problems(events, [head]) == []


def test_a_missing_tail_a_missing_head_and_a_forged_head_show() -> None:
    events, head = chained()

    assert problems(events[:-1], [head]) == ["tail_missing"]
    assert problems([], [head]) == ["tail_missing"]
    assert problems(events, []) == ["head_missing"]
    assert "head_altered" in problems(events[:2], [dataclasses.replace(head, sequence=2, link=events[1].link)])


def test_an_event_of_another_chain_or_key_shows() -> None:
    events, head = chained()
    others, _ = chained(writer="w2")
    foreign = KeyRing.ephemeral()

    moved = [dataclasses.replace(others[0], writer=events[0].writer), *events[1:]]
    assert problems(moved, [head]) == ["event_altered"]
    assert verify_chains(events, [head], ChainLinker(foreign)).holds is False


def test_an_anchor_kept_outside_shows_a_history_that_was_rolled_back() -> None:
    events, head = chained()
    anchor = {"w1": (4, events[-1].link)}
    shorter, shorter_head = chained(2)

    assert problems(events, [head], anchors=anchor) == []
    assert "history_missing" in problems(shorter, [shorter_head], anchors=anchor)
