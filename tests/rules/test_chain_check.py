"""Whatever is done to a chain shows, where it is, how, and only once."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.model.audit import ChainedEvent, ChainHead
from placet.ports.keys import KeyPurpose
from placet.rules.chain_check import Break, verify_chains
from placet.rules.chains import GENESIS, head_message, heads_form
from tests.rules.audit_samples import KEYS, LINKER, chained, written


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
