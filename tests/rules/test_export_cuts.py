"""An export of chains that were cut says so, line by line, and holds; a cut that nobody vouches for is a fault."""

from __future__ import annotations

import json

import pytest

from placet.adapters.keys import KeyRing
from placet.model.audit import ChainTombstone
from placet.rules.export_check import ExportReport, Fault
from tests.rules.audit_samples import tombstone
from tests.rules.export_samples import AT, KEYS, audit, check, cut_audit, exported_cut, faults, resealed, spelled

CUT, OF_A = exported_cut(), exported_cut("a")
EVENTS, _, (FIRST, SECOND) = cut_audit()


def signed_with(*tombstones: bytes, manifest: bytes = CUT[0]) -> list[bytes]:
    """The export with these lines for its tombstones, and an end that the key's holder signed for them."""
    return resealed([manifest, *CUT[1:4], *tombstones, *CUT[6:-1]], KEYS)


def line_of(signed: ChainTombstone) -> bytes:
    members = {name: getattr(signed, name) for name in ("writer", "first_kept", "link", "removed", "key_id", "mac")}
    return spelled(CUT[4], **members)


def test_an_export_of_cut_chains_is_of_the_second_form_and_holds() -> None:
    assert check(CUT) == ExportReport(
        tenant=None, lines=31, heads=3, events=24, others=0, unpaired=0, unseen_anchors=0, faults=(), more=0,
        cuts=(FIRST, SECOND),
    )  # fmt: skip
    assert json.loads(CUT[0]) == {
        "record": "manifest",
        "schema": "audit-export/2",
        "tenant": None,
        "heads": 3,
        "events": 24,
        "tombstones": 2,
    }
    assert json.loads(CUT[4]) == {
        "record": "tombstone",
        "writer": "w-0",
        "first_kept": 5,
        "link": FIRST.link,
        "removed": 4,
        "cut_by": "kim",
        "cut_at": "2026-03-01T12:00:00.000000+00:00",
        "key_id": "k-1",
        "mac": FIRST.mac,
    }
    assert [json.loads(line)["record"] for line in CUT[:7]] == ["manifest", *["head"] * 3, *["tombstone"] * 2, "event"]
    assert exported_cut() == CUT


def test_a_tenants_export_of_cut_chains_holds_and_tells_of_the_cuts() -> None:
    report = check(OF_A)

    assert (report.holds, report.tenant, report.events, report.others) == (True, "a", 12, 12)
    assert report.cuts == (FIRST, SECOND)


def test_writers_whose_names_sort_before_any_letter_stand_in_their_order_too() -> None:
    lines = exported_cut(writers=" ")

    assert [json.loads(line)["writer"] for line in lines[1:7]] == [" 0", " 1", " 2", " 0", " 2", " 0"]
    assert check(lines).holds


def test_an_anchor_within_what_was_cut_cannot_be_checked_and_is_counted() -> None:
    cut = audit()[0]
    unseen, last = {"w-0": (3, cut[2].link)}, {"w-0": (4, cut[3].link)}

    assert (check(CUT, anchors=unseen).holds, check(CUT, anchors=unseen).unseen_anchors) == (True, 1)
    assert (check(CUT, anchors=last).holds, check(CUT, anchors=last).unseen_anchors) == (True, 0)
    assert [problem for _, problem in faults(CUT, anchors={"w-0": (4, "0" * 64)})] == ["history_missing"]


# ---------------------------------------------------------------- tombstones that do not hold


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("first_kept", 7),
        ("link", "0" * 64),
        ("removed", 1),
        ("cut_by", "eve"),
        ("cut_at", "2026-03-01T12:00:00.000001+00:00"),
        ("mac", "0" * 64),
    ],
)
def test_a_tombstone_that_was_altered_shows_in_its_line_and_is_not_believed(name: str, value: object) -> None:
    report = check(signed_with(spelled(CUT[4], **{name: value}), CUT[5]))

    assert report.faults == (
        Fault(line=5, problem="tombstone_altered", writer="w-0", sequence=7 if name == "first_kept" else 5),
        Fault(line=7, problem="events_missing", writer="w-0", sequence=5),
    )
    assert report.cuts == (SECOND,)


def test_a_tombstone_under_a_key_that_is_not_there_is_told_as_such() -> None:
    unknown = tombstone(audit()[0], 4, keys=KeyRing({"k-9": b"9" * 32}, current="k-9"), cut_at=AT)

    assert check(signed_with(line_of(unknown), CUT[5])).faults[0] == Fault(
        line=5, problem="key_unknown", writer="w-0", sequence=5
    )


def test_a_tombstone_of_a_chain_without_a_head_is_of_no_chain() -> None:
    nobody = tombstone(audit()[0], 4, keys=KEYS, cut_at=AT, writer="w-1x")
    found = check(signed_with(CUT[4], line_of(nobody), CUT[5], manifest=spelled(CUT[0], tombstones=3)))

    assert found.faults == (Fault(line=6, problem="head_missing", writer="w-1x", sequence=5),)
    assert found.cuts == (FIRST, SECOND)


def test_tombstones_stand_in_the_order_of_their_chains_and_each_once() -> None:
    assert check(signed_with(CUT[5], CUT[4])).faults == (
        Fault(line=6, problem="order_changed", writer="w-0", sequence=5),
        Fault(line=7, problem="events_missing", writer="w-0", sequence=5),
    )
    thrice = signed_with(CUT[5], CUT[4], CUT[5], manifest=spelled(CUT[0], tombstones=3))
    assert [fault.line for fault in check(thrice).faults if fault.problem == "order_changed"] == [6, 7]


def test_tombstones_that_are_fewer_than_was_said_show_and_so_does_what_they_would_have_told() -> None:
    assert faults(signed_with(CUT[4])) == [(1, "counts_differ"), (22, "events_missing")]
    assert faults(signed_with(CUT[4], manifest=spelled(CUT[0], tombstones=1))) == [(22, "events_missing")]
    assert (7, "line_unreadable") in faults(resealed([*CUT[:4], *CUT[5:7], CUT[4], *CUT[7:-1]], KEYS)), "after an event"


@pytest.mark.parametrize("name", ["heads", "events", "tombstones"])
@pytest.mark.parametrize("value", [None, -1, 3.0, True, 2**53])
def test_a_manifest_of_the_second_form_counts_all_three(name: str, value: object) -> None:
    assert faults([spelled(CUT[0], **{name: value}), *CUT[1:]]) == [(1, "not_an_export")]


def test_an_export_without_tombstones_is_of_the_first_form_and_of_no_other() -> None:
    plain = [spelled(CUT[0], tombstones=0), *CUT[1:4], *CUT[6:-1]]

    assert faults(resealed(plain, KEYS))[0] == (1, "not_as_exported")
    assert faults([spelled(CUT[0], schema="audit-export/1"), *CUT[1:]])[:2] == [
        (1, "not_as_exported"),
        (1, "counts_differ"),
    ]


@pytest.mark.parametrize("name", ["writer", "first_kept", "link", "removed", "cut_by", "cut_at", "key_id", "mac"])
@pytest.mark.parametrize("value", [None, 7.5, ["x"], True])
def test_a_tombstone_with_a_member_of_another_type_cannot_be_read(name: str, value: object) -> None:
    assert (5, "line_unreadable") in faults([*CUT[:4], spelled(CUT[4], **{name: value}), *CUT[5:]])


@pytest.mark.parametrize("instant", ["yesterday", "", "2026-03-01T12:00:00.000000", "2026-03-01"])
def test_a_tombstone_that_says_no_instant_cannot_be_read(instant: str) -> None:
    assert (5, "line_unreadable") in faults([*CUT[:4], spelled(CUT[4], cut_at=instant), *CUT[5:]])


@pytest.mark.parametrize("instant", ["2026-03-01T12:00:00+00:00", "2026-03-01T12:00:00.000000Z"])
def test_a_tombstone_in_another_spelling_shows(instant: str) -> None:
    assert faults(signed_with(spelled(CUT[4], cut_at=instant), CUT[5])) == [(5, "not_as_exported")]
