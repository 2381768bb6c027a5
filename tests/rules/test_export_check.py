"""An export alone shows whatever was done to it, and says in which line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainWriter
from placet.model.identifiers import WriterId
from placet.ports.keys import KeyPurpose
from placet.rules.chains import heads_form
from placet.rules.exports import export_lines
from tests.rules.export_samples import (
    EXPORTS,
    KEYS,
    LINKER,
    OF_A,
    WHOLE,
    audit,
    check,
    events_of,
    exported,
    faults,
    resealed,
)


@pytest.mark.case("N03")
@pytest.mark.parametrize("lines", EXPORTS)
def test_any_line_that_is_removed_shows_at_or_after_its_place(lines: list[bytes]) -> None:
    for index in range(len(lines)):
        found = faults(lines[:index] + lines[index + 1 :])
        assert found, index
        assert min(line for line, _ in found if line > 1 or index == 0) >= index, index


@pytest.mark.parametrize("lines", EXPORTS)
def test_any_line_that_is_doubled_shows_at_its_copy(lines: list[bytes]) -> None:
    for index in range(len(lines)):
        found = faults(lines[: index + 1] + lines[index:])
        assert index + 2 in [line for line, _ in found], (index, found)


@pytest.mark.parametrize("lines", EXPORTS)
def test_any_two_lines_that_are_swapped_show(lines: list[bytes]) -> None:
    for index in range(len(lines) - 1):
        swapped = [*lines[:index], lines[index + 1], lines[index], *lines[index + 2 :]]
        assert faults(swapped), index
    for one in range(4, len(lines) - 1):
        swapped = list(lines)
        swapped[4], swapped[one] = lines[one], lines[4]
        assert one == 4 or any(line <= one + 1 for line, _ in faults(swapped)), one


@pytest.mark.parametrize("lines", EXPORTS)
def test_any_byte_that_is_changed_shows(lines: list[bytes]) -> None:
    for index, line in enumerate(lines):
        for place in {0, 1, len(line) // 3, len(line) // 2, len(line) - 3, len(line) - 2, len(line) - 1}:
            for changed in (line[place] ^ 1, line[place] ^ 0x80, 0x20):
                if changed == line[place]:
                    continue
                broken = line[:place] + bytes([changed]) + line[place + 1 :]
                assert faults([*lines[:index], broken, *lines[index + 1 :]]), (index, place, changed)


@pytest.mark.parametrize("lines", EXPORTS)
def test_any_truncation_shows(lines: list[bytes]) -> None:
    for length in range(len(lines)):
        found = faults(lines[:length])
        assert (length + 1, "end_missing") in found, length
    whole = b"".join(lines)
    for length in range(len(whole) - 400, len(whole)):
        assert faults(whole[:length].splitlines(keepends=True)), length


def test_exports_one_after_the_other_are_not_one() -> None:
    assert faults(WHOLE + WHOLE) == [(36, "after_the_end")]
    assert faults(WHOLE + OF_A) == [(36, "after_the_end")]
    assert (35, "line_unreadable") in faults(WHOLE[:-1] + WHOLE)


def _spaced(line: bytes) -> bytes:
    return line.replace(b":", b": ", 1)


def _reordered(line: bytes) -> bytes:
    data = json.loads(line)
    return json.dumps(dict(reversed(data.items())), separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _doubled_member(line: bytes) -> bytes:
    return (
        line.replace(b'{"', b'{"record":"event","', 1)
        if not line.startswith(b'{"record"')
        else line[:1] + line[1:-2] + b',"record":"x"}\n'
    )


def _escaped(line: bytes) -> bytes:
    return line.replace("é".encode(), b"\\u00e9").replace(b"record", b"r\\u0065cord", 1)


def _more(line: bytes) -> bytes:
    return line.replace(b'"record"', b'"more":1,"record"', 1)


def _crlf(line: bytes) -> bytes:
    return line[:-1] + b"\r\n"


@pytest.mark.parametrize("change", [_spaced, _reordered, _doubled_member, _escaped, _more, _crlf])
@pytest.mark.parametrize("index", [0, 1, 4, 34])
def test_a_line_in_another_spelling_shows_where_it_is(change: Callable[[bytes], bytes], index: int) -> None:
    changed = change(WHOLE[index])
    assert changed != WHOLE[index]
    assert (index + 1) in [line for line, _ in faults([*WHOLE[:index], changed, *WHOLE[index + 1 :]])]


def test_the_end_is_worth_its_signature() -> None:
    assert faults(resealed(WHOLE[:-1], KEYS)) == []
    assert faults(resealed(WHOLE[:-1])) == [(35, "signature_broken")]
    assert faults(exported(keys=KeyRing({"k-9": b"9" * 32}, current="k-9"))) == [(35, "key_unknown")]


def test_an_event_that_was_hidden_among_the_others_shows_by_the_signature() -> None:
    """Links alone would let a tenant's own event pass for another tenant's: this is the exporter's signed word."""
    index = next(number for number, line in enumerate(OF_A) if b'"record":"event"' in line)
    event = json.loads(OF_A[index])
    hidden = {"first": event["sequence"], "last": event["sequence"], "link": event["link"], "record": "others"}
    line = json.dumps({**hidden, "writer": event["writer"]}, separators=(",", ":")).encode() + b"\n"
    manifest = OF_A[0].replace(b'"events":18', b'"events":17')
    found = resealed([manifest, *OF_A[1:index], line, *OF_A[index + 1 : -1]])

    assert [problem for _, problem in faults(found)] == ["signature_broken"]


def test_what_the_keys_holder_signs_is_still_held_against_the_chains() -> None:
    index = 6
    for lines in (WHOLE, OF_A):
        without = resealed([*lines[:index], *lines[index + 1 : -1]], KEYS)
        assert (index + 1, "events_missing") in faults(without)
    altered = resealed([line.replace(b'"subject":"agent"', b'"subject":"other"') for line in WHOLE[:-1]], KEYS)
    assert faults(altered) == [(5, "event_altered"), (15, "event_altered"), (25, "event_altered")]
    of_another = resealed([line.replace(b'"tenant":"a"', b'"tenant":"b"', 1) for line in OF_A[:1]] + OF_A[1:-1], KEYS)
    assert "other_tenant" in [problem for _, problem in faults(of_another)]
    unsorted = resealed([*WHOLE[:4], *WHOLE[14:24], *WHOLE[4:14], *WHOLE[24:-1]], KEYS)
    assert (15, "order_changed") in faults(unsorted)


def test_counts_that_do_not_fit_show_though_the_keys_holder_signed_them() -> None:
    for said, instead in ((b'"events":30', b'"events":31'), (b'"heads":3', b'"heads":2')):
        manifest = WHOLE[0].replace(said, instead)
        assert faults(resealed([manifest, *WHOLE[1:-1]], KEYS)) == [(1, "counts_differ")]


def test_a_chain_without_its_head_or_its_tail_shows_though_the_keys_holder_signed_it() -> None:
    headless = [WHOLE[0].replace(b'"heads":3', b'"heads":2'), *WHOLE[1:3], *WHOLE[4:-1]]
    assert faults(resealed(headless, KEYS))[:2] == [(24, "head_missing"), (25, "head_missing")]
    shorter = [WHOLE[0].replace(b'"events":30', b'"events":29'), *WHOLE[1:13], *WHOLE[14:-1]]
    assert faults(resealed(shorter, KEYS)) == [(14, "tail_missing"), (14, "history_missing")]


def test_the_whole_stores_export_elides_nothing() -> None:
    elided = next(line for line in OF_A if b'"record":"others"' in line)
    lines = [WHOLE[0].replace(b'"events":30', b'"events":26'), *WHOLE[1:8], elided, *WHOLE[12:-1]]
    assert (9, "line_unreadable") in faults(resealed(lines, KEYS))


def test_a_chain_that_is_missing_with_its_head_shows_in_its_successor() -> None:
    without = [line for line in WHOLE[:-1] if b'"writer":"w-1"' not in line]
    without[0] = without[0].replace(b'"heads":3', b'"heads":2').replace(b'"events":30', b'"events":20')
    found = faults(resealed(without, KEYS))
    assert [problem for _, problem in found] == ["history_missing"]


def test_a_head_that_was_altered_or_is_under_no_known_key_shows() -> None:
    altered = [line.replace(b'"sequence":10', b'"sequence":11') for line in WHOLE[1:2]]
    assert (2, "head_altered") in faults([WHOLE[0], *altered, *WHOLE[2:]])
    unknown = [line.replace(b'"k-1"', b'"k-9"') for line in WHOLE[1:2]]
    assert (2, "key_unknown") in faults([WHOLE[0], *unknown, *WHOLE[2:]])


def test_anchors_kept_outside_show_a_store_that_was_rolled_back_before_it_was_exported() -> None:
    events, heads = audit()
    good = {head.writer: (head.sequence, head.link) for head in heads}
    earlier = {events[3].writer: (events[3].sequence, events[3].link)}
    assert check(WHOLE, anchors={**good}).holds
    assert check(WHOLE, anchors=earlier).holds
    assert [problem for _, problem in faults(WHOLE, anchors={"w-9": (3, "0" * 64)})] == ["history_missing"]
    assert [problem for _, problem in faults(WHOLE, anchors={"w-1": (3, "0" * 64)})] == ["history_missing"]
    assert [problem for _, problem in faults(OF_A, anchors={"w-1": (3, "0" * 64)})] == ["history_missing"]


def test_an_anchor_at_another_tenants_event_cannot_be_checked_and_is_counted() -> None:
    events, _ = audit()
    within, last = events[5], events[7]
    assert (within.sequence, last.sequence) == (6, 8)
    report = check(OF_A, anchors={"w-0": (6, within.link)})
    assert (report.holds, report.unseen_anchors) == (True, 1)
    report = check(OF_A, anchors={"w-0": (8, last.link)})
    assert (report.holds, report.unseen_anchors) == (True, 0)
    assert not check(OF_A, anchors={"w-0": (8, "0" * 64)}).holds


def test_a_tail_that_is_missing_is_told_where_the_chain_should_have_begun() -> None:
    manifest = WHOLE[0].replace(b'"events":30', b'"events":20')
    found = check(resealed([manifest, *WHOLE[1:24], *WHOLE[34:-1]], KEYS)).faults

    assert [(fault.line, fault.problem, fault.writer) for fault in found] == [(4, "tail_missing", "w-2")]


def test_attempts_that_are_open_at_the_end_are_counted() -> None:
    writer = ChainWriter(KEYS, WriterId("w-0"), opened_after=heads_form([]))
    begun = [writer.link(event) for event in events_of(0, "a")[:1]]
    lines = list(
        export_lines(
            begun,
            [writer.head()],
            count=1,
            tenant=None,
            linker=LINKER,
            sign=lambda message: KEYS.mac(KeyPurpose.AUDIT_CHAIN, message),
        )
    )

    assert (check(lines).holds, check(lines).unpaired) == (True, 1)
