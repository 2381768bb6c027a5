"""A chain may begin later than at its beginning: where a tombstone says so that holds, and nowhere else."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from placet.adapters.keys import KeyRing
from placet.model.audit import ChainedEvent, ChainHead, ChainTombstone, ElidedEvents
from placet.model.identifiers import WriterId
from placet.ports.keys import KeyPurpose
from placet.rules.chain_check import Break, ChainCheck, ChainReport, verify_chains
from placet.rules.chains import GENESIS, chain_message, head_message, is_sound_tombstone, tombstone_message
from tests.rules.audit_samples import AT, KEYS, LINKER, chained, tombstone, written

EVENTS, HEAD = chained(6)
CUT = tombstone(EVENTS, 3)
"""Of six events the first three were removed."""

OTHERS: dict[str, Any] = {
    "writer": WriterId("w2"),
    "first_kept": 5,
    "link": "0" * 64,
    "removed": 2,
    "cut_by": "eve",
    "cut_at": AT + timedelta(microseconds=1),
    "key_id": "k-9",
    "mac": "0" * 64,
}
"""Another value for every field of the tombstone."""


def verified(
    events: list[ChainedEvent], *tombstones: ChainTombstone, head: ChainHead = HEAD, **more: Any
) -> ChainReport:
    return verify_chains(events, [head], LINKER, tombstones=tombstones, **more)


# ---------------------------------------------------------------- what its MAC covers


def test_what_the_mac_of_a_tombstone_covers_is_this_so_that_old_cuts_stay_good() -> None:
    on_the_second = replace(CUT, link="f" * 64, cut_at=AT.replace(microsecond=0))

    assert tombstone_message(on_the_second) == (
        b'placet/tombstone/1\x00{"cut_at":"2026-01-01T12:00:00.000000+00:00","cut_by":"kim","first_kept":4,'
        b'"link":"' + b"f" * 64 + b'","removed":3,"writer":"w1"}'
    )


def test_another_value_in_any_field_makes_a_tombstone_worthless() -> None:
    assert set(OTHERS) == {field.name for field in fields(ChainTombstone)}
    assert is_sound_tombstone(CUT, LINKER)
    assert [name for name, other in OTHERS.items() if is_sound_tombstone(replace(CUT, **{name: other}), LINKER)] == []


def test_what_begins_at_its_beginning_was_not_cut_whoever_signed_it() -> None:
    assert is_sound_tombstone(tombstone(EVENTS, 1), LINKER)
    for first_kept in (1, 0, -1):
        assert not is_sound_tombstone(tombstone(EVENTS, 1, first_kept=first_kept, link=GENESIS), LINKER)


def test_no_mac_of_a_link_or_a_head_stands_for_one_of_a_tombstone() -> None:
    for message in (chain_message("w1", 3, EVENTS[1].link, EVENTS[2].body), head_message(HEAD)):
        mac = KEYS.mac(KeyPurpose.AUDIT_CHAIN, message)
        assert not is_sound_tombstone(replace(CUT, key_id=mac.key_id, mac=mac.value), LINKER)


# ---------------------------------------------------------------- where a chain begins


@pytest.mark.parametrize("removed", range(1, 7))
def test_a_chain_holds_from_where_it_was_cut_to_its_head(removed: int) -> None:
    cut = tombstone(EVENTS, removed)
    report = verified(EVENTS[removed:], cut)

    assert (report.holds, report.cuts, report.events, report.writers) == (True, (cut,), 6 - removed, 1)
    assert (report.passed_over, report.breaks) == (0, ())


def test_a_cut_without_a_tombstone_shows() -> None:
    report = verified(EVENTS[3:])

    assert report.breaks == (Break(writer="w1", sequence=4, problem="events_missing"),)
    assert report.cuts == ()


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in ("writer", "key_id")])
def test_a_tombstone_that_was_altered_is_told_and_not_believed(name: str) -> None:
    altered = replace(CUT, **{name: OTHERS[name]})
    report = verified(EVENTS[3:], altered)

    assert report.breaks == (
        Break(writer="w1", sequence=altered.first_kept, problem="tombstone_altered"),
        Break(writer="w1", sequence=4, problem="events_missing"),
    )
    assert report.cuts == ()
    assert [found.problem for found in verified(EVENTS, altered).breaks] == ["tombstone_altered"]


def test_a_tombstone_under_a_key_that_is_not_there_was_perhaps_altered_and_perhaps_not() -> None:
    foreign = tombstone(EVENTS, 3, keys=KeyRing({"k-9": b"9" * 32}, current="k-9"))

    assert verified(EVENTS[3:], foreign).breaks[0] == Break(writer="w1", sequence=4, problem="key_unknown")


@pytest.mark.parametrize(
    ("kept", "sequence", "problem"), [(2, 3, "order_changed"), (0, 1, "order_changed"), (4, 5, "events_missing")]
)
def test_what_is_left_begins_exactly_at_the_first_that_was_kept(kept: int, sequence: int, problem: str) -> None:
    assert verified(EVENTS[kept:], CUT).breaks == (Break(writer="w1", sequence=sequence, problem=problem),)


def test_the_first_kept_event_is_linked_to_the_last_that_was_removed() -> None:
    of_another = tombstone(EVENTS, 3, link=EVENTS[1].link)

    assert verified(EVENTS[3:], of_another).breaks == (Break(writer="w1", sequence=4, problem="event_altered"),)


def test_a_tombstone_stands_for_no_tail_and_no_head() -> None:
    everything = tombstone(EVENTS, 6)
    short = chained(4)[1]
    cut_of_another = tombstone(chained(4, writer="w2")[0], 2)

    assert verified([], CUT).breaks == (Break(writer="w1", sequence=6, problem="tail_missing"),)
    assert verified([], everything).holds
    assert verified([], everything, head=short).breaks == (Break(writer="w1", sequence=4, problem="tail_missing"),)
    assert verified(EVENTS, cut_of_another).breaks == (Break(writer="w2", sequence=2, problem="head_missing"),)


def test_attempts_that_were_begun_before_a_cut_are_no_open_ones() -> None:
    assert verified(EVENTS[3:], CUT).unpaired == 0
    assert verified(EVENTS[2:5], tombstone(EVENTS, 2), head=chained(5)[1]).unpaired == 1


# ---------------------------------------------------------------- places that are remembered


@pytest.mark.parametrize(
    ("sequence", "link", "passed_over", "problems"),
    [
        (1, "0" * 64, 1, []),  # within what was removed: nothing can be held against it
        (2, EVENTS[1].link, 1, []),
        (3, EVENTS[2].link, 0, []),  # the last removed one, whose link the tombstone tells
        (3, "0" * 64, 0, ["history_missing"]),
        (4, EVENTS[3].link, 0, []),
        (4, "0" * 64, 0, ["history_missing"]),
    ],
    ids=["first", "within", "last", "not the last", "kept", "not the kept"],
)
def test_an_anchor_is_held_against_all_that_is_left_of_a_chain(
    sequence: int, link: str, passed_over: int, problems: list[str]
) -> None:
    report = verified(EVENTS[3:], CUT, anchors={"w1": (sequence, link)})

    assert (report.passed_over, [found.problem for found in report.breaks]) == (passed_over, problems)


def test_places_within_several_cuts_and_elided_events_are_counted_together() -> None:
    first, first_head = chained(4, writer="w1")
    second, second_head = chained(6, writer="w2")
    memory = b'{"w1":[1,"%s"],"w2":[2,"%s"]}' % (first[0].link.encode(), second[1].link.encode())
    later, later_head = written("w3", b"{}", opened_after=memory)
    cuts = (tombstone(first, 2), tombstone(second, 3))

    check = ChainCheck([first_head, second_head, later_head], LINKER, anchors={"w2": (4, "0" * 64)}, tombstones=cuts)
    for event in first[2:]:
        check.see(event)
    check.pass_over(ElidedEvents(writer=WriterId("w2"), first=4, last=5, link=second[4].link))
    for event in (second[5], *later):
        check.see(event)

    assert check.passed_over == 3
    assert (check.report().holds, check.report().cuts, check.report().passed_over) == (True, cuts, 3)


def test_what_has_shown_so_far_is_told_before_the_end() -> None:
    altered = replace(CUT, cut_by="eve")
    check = ChainCheck([HEAD], LINKER, tombstones=[altered])
    told = check.problems

    assert told == (Break(writer="w1", sequence=4, problem="tombstone_altered"),)
    check.see(EVENTS[1])
    assert check.problems == (*told, Break(writer="w1", sequence=2, problem="events_missing"))
    assert told == (Break(writer="w1", sequence=4, problem="tombstone_altered"),)
