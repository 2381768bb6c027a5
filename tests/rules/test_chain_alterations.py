"""What is altered by hand is a break and never an error, whatever it was altered to; and memory stays small."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker, ChainWriter
from placet.model.audit import AuditEvent, AuditOutcome, ChainedEvent, ChainHead, ElidedEvents, EventKind
from placet.model.identifiers import WriterId
from placet.rules.audit import operation_of, place_in_time
from placet.rules.chain_check import ChainCheck, verify_chains

KEYS = KeyRing({"k-1": b"1" * 32}, current="k-1")

LINKER = ChainLinker(KEYS)

COMMON = {"at": datetime(2026, 3, 1, tzinfo=UTC), "tenant": "acme", "subject": "agent", "key_id": "k-1", "attempt": 1}


def chain(pairs: int = 2) -> tuple[list[ChainedEvent], ChainHead]:
    writer = ChainWriter(KEYS, WriterId("w-1"), opened_after=b"{}")
    events = []
    for number in range(pairs):
        facts = {**COMMON, "run_id": f"r{number}", "call_id": "c1"}
        events.append(writer.link(AuditEvent(kind=EventKind.STARTED, **facts)))
        events.append(writer.link(AuditEvent(kind=EventKind.COMPLETED, outcome=AuditOutcome.SUCCESS, **facts)))
    return events, writer.head()


@pytest.mark.case("N03")
@pytest.mark.parametrize("name", ["kind", "tenant", "run_id", "call_id", "attempt", "fence"])
@pytest.mark.parametrize("value", [["a"], {"a": 1}, None, 1.5, ""])
def test_an_event_altered_to_any_type_is_a_break(name: str, value: object) -> None:
    events, head = chain()
    body = {**json.loads(events[2].body), name: value}
    altered = [*events[:2], replace(events[2], body=json.dumps(body).encode()), events[3]]
    report = verify_chains(altered, [head], LINKER)
    assert [(each.sequence, each.problem) for each in report.breaks] == [(3, "event_altered")]
    assert report.unpaired == 0, "what is altered starts no attempt"


@pytest.mark.parametrize(
    "memory", [b'{"w-2":["x","y"]}', b'{"w-2":[[1],2]}', b'{"w-2":{}}', b"[]", b"\xff", b'{"w-2":[9,"0"]}']
)
def test_a_head_altered_to_remember_anything_is_a_break_and_remembers_nothing(memory: bytes) -> None:
    events, head = chain()
    report = verify_chains(events, [replace(head, opened_after=memory)], LINKER)
    assert [each.problem for each in report.breaks] == ["head_altered"]


class Counted(str):
    """Counts how often it is compared."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)


def test_many_altered_heads_are_told_with_work_that_grows_with_their_number() -> None:
    _, head = chain()
    number = 300
    heads = [replace(head, writer=Counted(f"w-{each:04}"), mac="0" * 64) for each in range(number)]

    Counted.comparisons = 0
    check = ChainCheck(heads, LINKER)

    assert Counted.comparisons < 10 * number
    assert len(check.report().breaks) >= number


def test_attempts_that_are_closed_take_no_memory() -> None:
    events, head = chain(50)
    check = ChainCheck([head], LINKER)
    for event in events[:-1]:
        check.see(event)
    assert len(check._open_attempts) == 1
    check.see(events[-1])
    assert check._open_attempts == {}
    assert check.report().unpaired == 0


def test_a_completed_event_that_is_read_before_its_started_one_is_a_pair_all_the_same() -> None:
    first, second = (ChainWriter(KEYS, WriterId(name), opened_after=b"{}") for name in ("w-1", "w-2"))
    completed = first.link(AuditEvent(kind=EventKind.COMPLETED, outcome=AuditOutcome.ERROR, **COMMON))
    started = second.link(AuditEvent(kind=EventKind.STARTED, **COMMON))
    assert verify_chains([completed, started], [first.head(), second.head()], LINKER).unpaired == 0
    assert verify_chains([started], [second.head()], LINKER).unpaired == 1


def test_elided_events_close_a_chain_and_only_in_their_place() -> None:
    events, head = chain()
    for first, last, problem in [
        (2, 3, None),
        (1, 3, "order_changed"),
        (3, 3, "events_missing"),
        (2, 1, "order_changed"),
    ]:
        check = ChainCheck([head], LINKER)
        assert check.see(events[0]) is None
        elided = ElidedEvents(writer=WriterId("w-1"), first=first, last=last, link=events[2].link)
        assert check.pass_over(elided) == problem
        if problem is None:
            assert check.see(events[3]) is None
            assert check.report().holds
    check = ChainCheck([head], LINKER)
    check.see(events[0])
    check.pass_over(ElidedEvents(writer=WriterId("w-1"), first=2, last=3, link="0" * 64))
    assert check.see(events[3]) == "event_altered"


def test_elided_events_may_begin_a_chain_and_may_be_a_single_one() -> None:
    events, head = chain()
    check = ChainCheck([head], LINKER)
    assert check.pass_over(ElidedEvents(writer=WriterId("w-1"), first=1, last=1, link=events[0].link)) is None
    assert check.see(events[1]) is None
    assert check.pass_over(ElidedEvents(writer=WriterId("w-1"), first=3, last=3, link=events[2].link)) is None
    assert check.see(events[3]) is None
    assert check.report().holds


def test_a_remembered_place_within_elided_events_is_counted_and_not_missed() -> None:
    events, head = chain(3)
    memory = b'{"w-1":[5,"%s"]}' % events[4].link.encode()
    later = ChainWriter(KEYS, WriterId("w-2"), opened_after=memory).head()

    def passed_over(*anchor: object, within: tuple[tuple[int, int], ...]) -> tuple[int, list[str]]:
        check = ChainCheck([head, later], LINKER, anchors={"w-1": anchor})  # type: ignore[dict-item]
        for event in events:
            elided = [place for place in within if place[0] <= event.sequence <= place[1]]
            if not elided:
                check.see(event)
            elif event.sequence == elided[0][1]:
                first, last = elided[0]
                check.pass_over(ElidedEvents(writer=event.writer, first=first, last=last, link=event.link))
        problems = [found.problem for found in check.report().breaks if found.writer == "w-1"]
        return check.passed_over, problems

    assert passed_over(2, events[1].link, within=()) == (0, [])
    assert passed_over(2, events[1].link, within=((2, 3),)) == (1, [])
    assert passed_over(2, events[1].link, within=((2, 3), (5, 6))) == (2, [])
    assert passed_over(3, events[2].link, within=((2, 3),)) == (0, []), "the last link of elided events is told"
    assert passed_over(3, "0" * 64, within=((2, 3),)) == (0, ["history_missing"])
    assert passed_over(1, events[0].link, within=((2, 4),)) == (0, [])


def test_heads_memories_and_anchors_note_a_place_and_nothing_else_does() -> None:
    _, head = chain()
    later = ChainWriter(KEYS, WriterId("w-2"), opened_after=b'{"w-0":[7,"x"]}').head()
    check = ChainCheck([head, later], LINKER, anchors={"w-9": (3, "y")})

    assert check.heads == {"w-1": head, "w-2": later}
    places = [("w-1", 4), ("w-0", 7), ("w-9", 3), ("w-1", 3), ("w-0", 4), ("w-9", 7)]
    assert [check.is_noted(*place) for place in places] == [True, True, True, False, False, False]


def test_what_says_nothing_sound_is_about_no_operation_and_from_before_all_times() -> None:
    for body in (b"", b"[]", b'{"operation":1,"at":2}', b"null"):
        event = ChainedEvent(writer=WriterId("w"), sequence=3, body=body, link="", key_id="")
        assert (operation_of(event), place_in_time(event)) == (None, ("", "w", 3))
