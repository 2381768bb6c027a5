"""An export is the same every time, tells of other tenants their number alone, and takes bounded memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator

import pytest

from placet.adapters.stores.chain import ChainWriter
from placet.errors import AuditBroken
from placet.model.approval import Mac
from placet.model.audit import ChainedEvent, ChainHead
from placet.model.identifiers import WriterId
from placet.ports.keys import KeyPurpose
from placet.rules.audit import tenant_of
from placet.rules.export_check import ExportReport, verify_export
from placet.rules.exports import export_lines
from tests.rules.export_samples import (
    KEYS,
    LINKER,
    OF_A,
    WHOLE,
    audit,
    check,
    events_of,
    exported,
    faults,
    lines_of_audit,
)


def test_a_whole_export_holds_and_is_the_same_every_time() -> None:
    assert check(WHOLE) == ExportReport(
        tenant=None, lines=35, heads=3, events=30, others=0, unpaired=0, unseen_anchors=0, faults=(), more=0
    )
    assert exported() == WHOLE
    assert json.loads(WHOLE[0]) == {
        "record": "manifest",
        "schema": "audit-export/1",
        "tenant": None,
        "heads": 3,
        "events": 30,
    }
    event = json.loads(WHOLE[4])
    assert set(event) == {"record", "writer", "sequence", "link", "key_id", "event"}
    assert (event["event"]["kind"], event["event"]["tenant"]) == ("started", "a")
    assert set(json.loads(WHOLE[-1])) == {"record", "lines", "digest", "key_id", "mac"}


def test_a_tenants_export_holds_and_tells_nothing_of_the_others_but_their_number() -> None:
    report = check(OF_A)
    assert (report.holds, report.tenant, report.events, report.others) == (True, "a", 18, 12)
    assert {each["event"]["tenant"] for each in map(json.loads, OF_A) if each["record"] == "event"} == {"a"}
    others = [json.loads(line) for line in OF_A if b'"record":"others"' in line]
    assert [(each["writer"], each["first"], each["last"]) for each in others] == [
        (f"w-{number}", 5, 8) for number in range(3)
    ]
    assert all(set(each) == {"record", "writer", "first", "last", "link"} for each in others)


def test_a_tenant_without_events_and_a_store_without_any_export_too() -> None:
    nobody = exported("c")
    empty = list(
        export_lines([], [], count=0, tenant=None, linker=LINKER, sign=lambda m: KEYS.mac(KeyPurpose.AUDIT_CHAIN, m))
    )
    assert (check(nobody).holds, check(nobody).events, check(nobody).others) == (True, 0, 30)
    assert (check(empty).holds, check(empty).lines, check(empty).events) == (True, 2, 0)


def test_a_place_among_the_others_that_a_later_chain_names_is_told_with_its_link() -> None:
    events, heads = audit()
    events, heads = events[:10], heads[:1]
    named = events[5]
    assert (named.sequence, tenant_of(named)) == (6, "b")
    later = ChainWriter(KEYS, WriterId("w-9"), opened_after=b'{"w-0":[6,"%s"]}' % named.link.encode())
    more = [later.link(event) for event in events_of(90, "a")]
    lines = list(
        export_lines(
            [*events, *more],
            [*heads, later.head()],
            count=8,
            tenant="a",
            linker=LINKER,
            sign=lambda message: KEYS.mac(KeyPurpose.AUDIT_CHAIN, message),
        )
    )
    others = [json.loads(line) for line in lines if b'"record":"others"' in line]
    assert [(each["first"], each["last"]) for each in others] == [(5, 6), (7, 8)]
    assert (check(lines).holds, check(lines).unseen_anchors) == (True, 0)


def test_places_of_others_end_with_their_chain_even_where_it_has_grown_beyond_its_head() -> None:
    first, second = (ChainWriter(KEYS, WriterId(name), opened_after=b"{}") for name in ("w-0", "w-1"))
    events = [first.link(event) for event in events_of(0, "a")]
    head = first.head()
    events += [first.link(event) for event in events_of(1, "b")]
    events += [second.link(event) for tenant in "ba" for event in events_of(2, tenant)]
    lines = lines_of_audit(events, [head, second.head()], [], tenant="a")

    others = [json.loads(line) for line in lines if b'"record":"others"' in line]
    assert [(each["writer"], each["first"], each["last"]) for each in others] == [("w-0", 3, 4), ("w-1", 1, 2)]
    assert check(lines).holds


def test_a_broken_store_is_exported_whole_as_evidence_and_not_in_part() -> None:
    events, heads = audit()
    body = json.loads(events[4].body)
    for altered in (
        json.dumps({**body, "subject": "other"}, separators=(",", ":"), sort_keys=True).encode(),
        b"no json \x01",
        b'{"tenant":"b","tenant":"a"}',
        b'{"tenant":["a"]}',
        b'{"a":[[1]],"tenant":"b"}',
    ):
        changed = ChainedEvent(
            writer=events[4].writer,
            sequence=events[4].sequence,
            body=altered,
            link=events[4].link,
            key_id=events[4].key_id,
        )
        broken = [*events[:4], changed, *events[5:]]

        def sign(message: bytes) -> Mac:
            return KEYS.mac(KeyPurpose.AUDIT_CHAIN, message)

        lines = list(export_lines(broken, heads, count=30, tenant=None, linker=LINKER, sign=sign))
        assert faults(lines) == [(9, "event_altered")]
        part: list[bytes] = []
        with pytest.raises(AuditBroken):
            part.extend(export_lines(broken, heads, count=18, tenant="a", linker=LINKER, sign=sign))
        with pytest.raises(AuditBroken):
            for line in export_lines(broken, heads, count=18, tenant="a", linker=LINKER, sign=sign):
                part.append(line)
        assert not any(b'"record":"end"' in line for line in part)


@pytest.mark.parametrize("count", [17, 19])
def test_a_part_that_is_not_what_was_promised_is_not_finished(count: int) -> None:
    events, heads = audit()
    lines = export_lines(
        events,
        heads,
        count=count,
        tenant="a",
        linker=LINKER,
        sign=lambda message: KEYS.mac(KeyPurpose.AUDIT_CHAIN, message),
    )

    with pytest.raises(AuditBroken):
        list(lines)


def piped(number: int) -> tuple[ExportReport, int]:
    """An export of that many events, checked while it is written; and the most memory it took."""
    heads: list[ChainHead] = []

    def growing() -> Iterator[ChainedEvent]:
        writer = ChainWriter(KEYS, WriterId("w-0"), opened_after=b"{}")
        for pair in range(number // 2):
            for event in events_of(pair, "a" if pair % 3 else "b"):
                yield writer.link(event)

    for event in growing():
        last = event
    writer = ChainWriter(KEYS, WriterId("w-0"), opened_after=b"{}")
    writer.rewind((last.sequence, last.link))
    heads.append(writer.head())
    count = sum(1 for event in growing() if tenant_of(event) == "a")
    tracemalloc.start()
    try:
        lines = export_lines(
            growing(),
            heads,
            count=count,
            tenant="a",
            linker=LINKER,
            sign=lambda message: KEYS.mac(KeyPurpose.AUDIT_CHAIN, message),
        )
        return verify_export(lines, LINKER), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_writing_and_checking_take_the_same_memory_whatever_the_length() -> None:
    (short, least), (long, most) = piped(400), piped(8000)
    assert (short.holds, long.holds, long.events + long.others) == (True, True, 8000)
    assert most < 2 * least + 100_000


def test_lines_are_written_as_events_are_read() -> None:
    events, heads = audit()
    read: list[ChainedEvent] = []
    lines = export_lines(
        (read.append(event) or event for event in events),  # type: ignore[func-returns-value]
        heads,
        count=30,
        tenant=None,
        linker=LINKER,
        sign=lambda message: KEYS.mac(KeyPurpose.AUDIT_CHAIN, message),
    )
    for _ in range(6):
        next(lines)
    assert len(read) == 2
