"""What an audit event may hold, its bytes, and the chain that shows what was done to it."""

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

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker, ChainWriter
from placet.model.audit import AuditEvent, AuditOutcome, ChainedEvent, ChainHead, EventKind, Summary
from placet.model.identifiers import WriterId
from placet.ports.keys import KeyPurpose
from placet.rules.audit import (
    GENESIS,
    Break,
    EventRefused,
    chain_message,
    check_event,
    event_body,
    event_of,
    head_message,
    heads_form,
    operation_of,
    place_in_time,
    unchained_message,
    verify_chains,
)

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
    "repaired": True,
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
    "repaired": [1, "true", 0],
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
    assert verify_chains(iter(events), iter([head]), LINKER) == report
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
    unknown = verify_chains(events, [head], ChainLinker(KeyRing({"k-9": b"9" * 32}, current="k-9"))).breaks
    assert [(found.sequence, found.problem) for found in unknown] == [(4, "key_unknown"), (1, "key_unknown")]


def test_an_anchor_kept_outside_shows_a_history_that_was_rolled_back() -> None:
    events, head = chained()
    anchor = {"w1": (4, events[-1].link)}
    shorter, shorter_head = chained(2)

    assert problems(events, [head], anchors=anchor) == []
    assert "history_missing" in problems(shorter, [shorter_head], anchors=anchor)


# ---------------------------------------------------------------- what is MACed, and what is believed


def written(writer: str, *bodies: bytes, opened_after: bytes = b"{}") -> tuple[list[ChainedEvent], ChainHead]:
    """A chain of these very bodies, with authentic links and head: what a holder of the key could have written."""
    events: list[ChainedEvent] = []
    previous = GENESIS
    for sequence, body in enumerate(bodies, start=1):
        mac = KEYS.mac(KeyPurpose.AUDIT_CHAIN, chain_message(writer, sequence, previous, body))
        events.append(
            ChainedEvent(writer=WriterId(writer), sequence=sequence, body=body, link=mac.value, key_id=mac.key_id)
        )
        previous = mac.value
    bare = ChainHead(
        writer=WriterId(writer), sequence=len(bodies), link=previous, opened_after=opened_after, key_id="", mac=""
    )
    mac = KEYS.mac(KeyPurpose.AUDIT_CHAIN, head_message(bare))
    return events, dataclasses.replace(bare, key_id=mac.key_id, mac=mac.value)


def test_what_links_heads_and_memories_cover_is_this_so_that_old_chains_stay_good() -> None:
    head = ChainHead(
        writer=WriterId("w1"), sequence=3, link="f" * 64, opened_after=b'{"w0":[1,"x"]}', key_id="", mac=""
    )
    other = dataclasses.replace(head, writer=WriterId("a2"), sequence=9, link="0" * 64)

    assert chain_message("w1", 7, "a" * 64, b"{}") == b"placet/link/1\x00w1\x007\x00" + b"a" * 64 + b"\x00{}"
    assert head_message(head) == b"placet/head/1\x00w1\x003\x00" + b"f" * 64 + b'\x00{"w0":[1,"x"]}'
    assert heads_form([head, other]) == b'{"a2":[9,"' + b"0" * 64 + b'"],"w1":[3,"' + b"f" * 64 + b'"]}'
    assert heads_form([]) == b"{}"
    assert GENESIS == "0" * 64


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
    }

    assert event_body(AuditEvent(**values)) == json.dumps(expected, sort_keys=True, separators=(",", ":")).encode()


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


def test_a_broken_chain_says_where_and_how_and_only_once() -> None:
    events, head = chained(6)
    altered = [dataclasses.replace(item, body=item.body + b" ") if item.sequence in (3, 5) else item for item in events]

    def breaks(given: list[ChainedEvent]) -> tuple[Break, ...]:
        return verify_chains(given, [head], LINKER).breaks

    assert breaks(altered) == (Break(writer="w1", sequence=3, problem="event_altered"),)
    assert breaks(events[:2] + events[3:]) == (Break(writer="w1", sequence=4, problem="events_missing"),)
    assert breaks(events[:3] + events[2:]) == (Break(writer="w1", sequence=3, problem="order_changed"),)
    assert breaks(events[:3]) == (Break(writer="w1", sequence=6, problem="tail_missing"),)
    assert breaks(events[1:]) == (Break(writer="w1", sequence=2, problem="events_missing"),)


def test_chains_are_told_apart_and_counted_with_those_that_only_have_a_head() -> None:
    first, first_head = chained(2)
    second, second_head = chained(4, writer="w2")
    _, third_head = chained(2, writer="w3")

    report = verify_chains(first + second, [first_head, second_head], LINKER)
    assert (report.holds, report.writers, report.events) == (True, 2, 6)
    lost = verify_chains(first + second, [first_head, second_head, third_head], LINKER)
    assert (lost.writers, lost.breaks) == (3, (Break(writer="w3", sequence=2, problem="tail_missing"),))


def test_a_chain_remembers_the_ends_of_those_before_it() -> None:
    first, first_head = chained(3)
    second, second_head = written("w2", b"{}", opened_after=heads_form([first_head]))
    _, empty_head = written("w0")
    _, after_empty = written("w2", b"{}", opened_after=heads_form([empty_head]))

    def found(events: list[ChainedEvent], *heads: ChainHead) -> tuple[Break, ...]:
        return verify_chains(events, heads, LINKER).breaks

    missing = Break(writer="w1", sequence=3, problem="history_missing")
    rewritten, rewritten_head = written("w1", b"1", b"2", b"3")
    assert found([*first, *second], first_head, second_head) == ()
    assert found(second, second_head) == (missing,)
    assert found([*rewritten, *second], rewritten_head, second_head) == (missing,)
    assert found(second, after_empty) == ()  # there was nothing to remember of a chain without events


def test_a_chain_may_grow_beyond_its_head_while_it_is_read_and_a_new_one_may_begin() -> None:
    events, _ = chained(4)
    _, earlier = chained(2)
    earlier = dataclasses.replace(earlier, link=events[1].link)
    mac = KEYS.mac(KeyPurpose.AUDIT_CHAIN, head_message(earlier))
    earlier = dataclasses.replace(earlier, key_id=mac.key_id, mac=mac.value)
    begun, begun_head = chained(2, writer="w2")
    short = written("w2", b"1")[1]
    forged = dataclasses.replace(begun_head, mac="0" * 64)

    def found(*later: ChainHead) -> list[Break]:
        return [*verify_chains([*events, *begun], [earlier], LINKER, later_heads=lambda: later).breaks]

    missing = [Break(writer="w2", sequence=2, problem="head_missing")]
    assert problems(events, [earlier]) == []
    assert found(begun_head) == []
    assert found() == missing
    assert found(short) == missing
    assert found(forged) == missing
    assert [*verify_chains([*events, *begun], [earlier], LINKER).breaks] == missing


def test_an_anchor_holds_for_its_place_and_no_other() -> None:
    events, head = chained()

    assert problems(events, [head], anchors={"w1": (2, events[1].link)}) == []
    assert problems(events, [head], anchors={"w1": (2, events[2].link)}) == ["history_missing"]
    assert problems(events, [head], anchors={"w1": (5, events[3].link)}) == ["history_missing"]
    assert problems(events, [head], anchors={"w9": (1, events[0].link)}) == ["history_missing"]
    assert problems(events, [head], anchors={"w9": (0, GENESIS)}) == []


@pytest.mark.parametrize(
    "memory", [b"", b"{", b"[]", b"7", b"null", b'{"w1":7}', b'{"w1":[1]}', b'{"w1":null}', b"\xff"]
)
def test_a_memory_that_is_none_hides_no_other_memory(memory: bytes) -> None:
    odd, odd_head = written("w0", b"{}", opened_after=memory)
    later, later_head = written("w2", b"{}", opened_after=b'{"w1":[3,"%s"]}' % (b"a" * 64))

    found = verify_chains([*odd, *later], [odd_head, later_head], LINKER).breaks

    assert found == (Break(writer="w1", sequence=3, problem="history_missing"),)


STARTED = {"kind": "started", "tenant": "acme", "run_id": "r1", "call_id": "c1", "attempt": 1, "fence": 1}


def open_attempts(*bodies: dict[str, Any] | bytes) -> int:
    events, head = written("w1", *(body if type(body) is bytes else json.dumps(body).encode() for body in bodies))
    report = verify_chains(events, [head], LINKER)
    assert report.holds
    return report.unpaired


@pytest.mark.parametrize("name", ["tenant", "run_id", "call_id", "attempt", "fence"])
def test_an_attempt_is_closed_by_the_completed_event_of_the_same_attempt_alone(name: str) -> None:
    completed = STARTED | {"kind": "completed"}
    other = completed | {name: 2 if type(STARTED[name]) is int else "other"}

    assert open_attempts(STARTED, completed) == 0
    assert open_attempts(completed, STARTED) == 0
    assert open_attempts(STARTED, other) == 1
    assert open_attempts(STARTED, STARTED, completed) == 1
    assert open_attempts(STARTED, STARTED, STARTED, completed) == 1
    assert open_attempts(completed) == 0


@pytest.mark.parametrize("name", ["tenant", "run_id", "call_id", "attempt", "fence"])
def test_an_attempt_named_by_a_list_is_paired_like_any_other(name: str) -> None:
    odd = STARTED | {name: ["x"]}

    assert open_attempts(odd) == 1
    assert open_attempts(odd, odd | {"kind": "completed"}) == 0


def test_attempts_without_run_call_or_number_are_paired_as_well() -> None:
    bare = {"kind": "started", "tenant": "acme", "fence": 0}
    named = bare | {"run_id": "", "call_id": ""}

    assert open_attempts(bare, bare | {"kind": "completed"}) == 0
    assert open_attempts(bare, named | {"kind": "completed"}) == 0
    assert open_attempts(bare) == 1
    for name in ("None", "False", "0", "XX"):  # what has none is not what has one of such a name
        assert open_attempts(bare, bare | {"kind": "completed", "run_id": name}) == 1
        assert open_attempts(bare, bare | {"kind": "completed", "call_id": name}) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b"[]",
        b"7",
        b"null",
        b"{}",
        STARTED | {"kind": "approval_asked"},
        STARTED | {"kind": 7},
        STARTED | {"kind": ["started"]},
        STARTED | {"kind": {}},
        {name: value for name, value in STARTED.items() if name != "tenant"},
        {name: value for name, value in STARTED.items() if name != "fence"},
    ],
)
def test_a_body_that_tells_of_no_attempt_opens_none(body: dict[str, Any] | bytes) -> None:
    assert open_attempts(body) == 0
    assert open_attempts(body, STARTED) == 1


def test_instants_are_spelled_with_six_digits_even_on_the_second() -> None:
    second = AT.replace(microsecond=0)
    body = json.loads(event_body(event(at=second, decided_at=second, expires_at=second)))

    assert {body[name] for name in INSTANTS} == {"2026-01-01T12:00:00.000000+00:00"}


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


# ---------------------------------------------------------------- an event that waits to be chained


def test_the_mac_of_an_event_that_waits_covers_its_body_and_nothing_of_a_chain_can_stand_for_it() -> None:
    body = event_body(event())

    assert unchained_message(body) == b"placet/unchained/1\x00" + body
    assert not unchained_message(body).startswith((b"placet/link/", b"placet/head/"))


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
