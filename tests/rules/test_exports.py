"""An export alone shows whatever was done to it, and says in which line."""

from __future__ import annotations

import hashlib
import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker, ChainWriter
from placet.errors import AuditBroken
from placet.model.approval import Mac
from placet.model.audit import AuditEvent, AuditOutcome, ChainedEvent, ChainHead, EventKind, Summary
from placet.model.identifiers import WriterId
from placet.ports.keys import KeyPurpose
from placet.rules import exports
from placet.rules.audit import heads_form
from placet.rules.exports import (
    MAX_FAULTS,
    MAX_LINE_BYTES,
    ExportReport,
    Fault,
    event_line,
    export_lines,
    lines_of,
    tenant_of,
    verify_export,
)

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEYS = KeyRing({"k-1": b"1" * 32, "k-2": b"2" * 32}, current="k-1")
FOREIGN = KeyRing({"k-1": b"9" * 32}, current="k-1")
LINKER = ChainLinker(KEYS)


def events_of(number: int, tenant: str) -> list[AuditEvent]:
    common = {"tenant": tenant, "subject": "agent", "key_id": "k-1", "run_id": f"r{number}", "call_id": "c1"}
    common |= {"attempt": 1, "arguments": Summary(field_count=2), "reasons": ("a", "b"), "purpose": "Zahlung für é"}
    at = AT + timedelta(seconds=number)
    return [
        AuditEvent(kind=EventKind.STARTED, at=at, **common),
        AuditEvent(kind=EventKind.COMPLETED, at=at, outcome=AuditOutcome.SUCCESS, duration_ms=0.1 * number, **common),
    ]


def audit(tenants: str = "aabba", *, chains: int = 3) -> tuple[list[ChainedEvent], list[ChainHead]]:
    """Chains that name each other; in each, one pair per letter, of the tenant of that name."""
    events: list[ChainedEvent] = []
    heads: list[ChainHead] = []
    for chain in range(chains):
        writer = ChainWriter(KEYS, WriterId(f"w-{chain}"), opened_after=heads_form(heads[-1:]))
        for number, tenant in enumerate(tenants):
            events += [writer.link(event) for event in events_of(10 * chain + number, tenant)]
        heads.append(writer.head())
    return events, heads


def exported(tenant: str | None = None, *, keys: KeyRing = KEYS, tenants: str = "aabba") -> list[bytes]:
    events, heads = audit(tenants)
    count = sum(1 for event in events if tenant in (None, tenant_of(event)))
    return list(
        export_lines(
            events,
            heads,
            count=count,
            tenant=tenant,
            linker=LINKER,
            sign=lambda message: keys.mac(KeyPurpose.AUDIT_CHAIN, message),
        )
    )


def check(lines: list[bytes], **more: object) -> ExportReport:
    return verify_export(lines, LINKER, **more)  # type: ignore[arg-type]


def faults(lines: list[bytes], **more: object) -> list[tuple[int, str]]:
    return [(fault.line, fault.problem) for fault in check(lines, **more).faults]


WHOLE, OF_A = exported(), exported("a")
EXPORTS = [pytest.param(WHOLE, id="whole"), pytest.param(OF_A, id="tenant")]


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


# ---------------------------------------------------------------- every line, in every way


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


# ---------------------------------------------------------------- whoever can sign nothing


def resealed(lines: list[bytes], keys: KeyRing = FOREIGN) -> list[bytes]:
    """The lines with an end that fits them, as far as one can be made without the key."""
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    message = b"placet/export/1\x00%d\x00%s" % (len(lines), digest.encode())
    mac = keys.mac(KeyPurpose.AUDIT_CHAIN, message)
    end = {"digest": digest, "key_id": mac.key_id, "lines": len(lines), "mac": mac.value, "record": "end"}
    return [*lines, json.dumps(end, separators=(",", ":")).encode() + b"\n"]


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


# ---------------------------------------------------------------- anchors


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


def test_a_place_among_the_others_that_a_later_chain_names_is_told_with_its_link() -> None:
    events, heads = audit(chains=1)
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


# ---------------------------------------------------------------- the store's own faults


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


def test_a_body_that_is_not_as_it_was_written_is_told_as_text() -> None:
    event = ChainedEvent(writer=WriterId("w"), sequence=1, body=b'{ "tenant": "a" }', link="0", key_id="k")
    assert json.loads(event_line(event))["body"] == '{ "tenant": "a" }'


# ---------------------------------------------------------------- size


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


# ---------------------------------------------------------------- hostile files

DEEP = (
    b'{"record":"event","writer":"w-0","sequence":1,"link":"0","key_id":"k","event":' + b"[" * 900 + b"]" * 900 + b"}\n"
)
OF_NESTED_TENANT = (
    b'{"events":0,"heads":0,"record":"manifest","schema":"audit-export/1","tenant":' + b"[" * 300 + b"]" * 300 + b"}\n"
)
NESTED = (
    b'{"event":'
    + b'{"a":' * 300
    + b"1"
    + b"}" * 300
    + b',"key_id":"k","link":"0","record":"event","sequence":1,"writer":"w-0"}\n'
)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{\n",
        b"[]\n",
        b"null\n",
        b"\xff\xfe\n",
        b"\xef\xbb\xbf{}\n",
        b'{"record":"event"}\n',
        b'{"record":["event"]}\n',
        b'{"record":"event","writer":1,"sequence":1,"link":"0","key_id":"k","event":{}}\n',
        b'{"record":"event","writer":"w-0","sequence":1.0,"link":"0","key_id":"k","event":{}}\n',
        b'{"record":"event","writer":"w-0","sequence":true,"link":"0","key_id":"k","event":{}}\n',
        b'{"record":"event","writer":"w-0","sequence":-1,"link":"0","key_id":"k","event":{}}\n',
        b'{"record":"event","writer":"w-0","sequence":99999999999999999999,"link":"0","key_id":"k","event":{}}\n',
        b'{"record":"event","writer":"\\ud800","sequence":1,"link":"0","key_id":"k","event":{}}\n',
        b'{"record":"others","writer":"w-0","first":1,"last":9007199254740991,"link":"0"}\n',
        b'{"record":"end"}\n',
        b'{"record":"end","lines":1,"digest":"","key_id":"k-1","mac":"\xc3\xa9"}\n',
        b'{"record":"head"}\n',
        b'{"record":"manifest"}\n',
        OF_NESTED_TENANT,
        b"NaN\n",
        DEEP,
        NESTED,
    ],
)
@pytest.mark.parametrize("index", [0, 1, 4, 20, 34])
def test_a_foreign_line_anywhere_is_a_fault_and_no_error(line: bytes, index: int) -> None:
    for lines in (WHOLE, OF_A):
        found = faults([*lines[:index], line, *lines[index:]])
        assert (index + 1 in [number for number, _ in found]) or index >= len(lines), found


def test_a_line_that_is_too_long_ends_the_reading() -> None:
    long = b'{"' + b"a" * MAX_LINE_BYTES
    found = check([*WHOLE[:5], long, *WHOLE[5:]])
    assert (6, "line_too_long") in [(fault.line, fault.problem) for fault in found.faults]
    assert found.lines == 6


def test_faults_without_end_are_counted_and_not_kept() -> None:
    flood = [line.replace(b'"w-0"', b'"w-%d"' % number) for number, line in enumerate([WHOLE[4]] * 1000, start=100)]
    report = check([*WHOLE[:4], *flood, *WHOLE[4:]])
    assert len(report.faults) == MAX_FAULTS
    assert report.more > 900


def test_more_heads_than_a_reader_keeps_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MAX_HEADS", 2)
    assert (4, "too_many_heads") in faults(WHOLE)


@pytest.mark.parametrize("tenant", [b"[" * 300 + b"]" * 300, b"[]", b"{}", b"1", b"1e400", b"true"])
def test_a_manifest_of_a_tenant_that_is_no_name_is_no_export(tenant: bytes) -> None:
    said = WHOLE[0].replace(b'"tenant":null', b'"tenant":' + tenant)
    assert said != WHOLE[0]
    report = check([said, *WHOLE[1:]])
    assert (report.faults[0].line, report.lines, report.tenant) == (1, 1, None)
    assert report.faults[0].problem in ("not_an_export", "line_unreadable")


def test_what_is_no_export_is_said_so_at_its_first_line() -> None:
    for line in (b'{"schema":"audit-export/2","record":"manifest"}\n', b"root:x:0:0\n", WHOLE[4], b"{}\n"):
        report = check([line, *WHOLE[1:]])
        assert (report.faults[0].line, report.lines) == (1, 1)
    assert faults([]) == [(1, "end_missing")]


# ---------------------------------------------------------------- bounds, and where a fault is


def test_a_file_is_read_by_lines_and_no_further_than_one_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MAX_LINE_BYTES", 4)

    assert list(lines_of(io.BytesIO(b"abc\nd\n\nabcd\n"))) == [b"abc\n", b"d\n", b"\n", b"abcd\n"]
    assert list(lines_of(io.BytesIO(b"abc\nabcde\nx\n"))) == [b"abc\n", b"abcde"]
    assert list(lines_of(io.BytesIO(b"abc"))) == [b"abc"]
    assert list(lines_of(io.BytesIO(b""))) == []


def test_a_line_may_be_as_long_as_the_bound_and_there_may_be_as_many_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max(map(len, WHOLE))
    first = next(number for number, line in enumerate(WHOLE, start=1) if len(line) == longest)
    monkeypatch.setattr(exports, "MAX_LINE_BYTES", longest)
    monkeypatch.setattr(exports, "MAX_HEADS", 3)
    assert check(WHOLE).holds

    monkeypatch.setattr(exports, "MAX_LINE_BYTES", longest - 1)
    assert (first, "line_too_long") in faults(WHOLE)
    assert check(WHOLE).lines == first


def test_a_hundred_faults_are_listed_and_the_others_counted_exactly() -> None:
    flood = check([*WHOLE[:4], *[b"{}\n"] * 150, *WHOLE[4:]])
    few = check([*WHOLE[:4], *[b"{}\n"] * 99, *WHOLE[4:]])

    assert ([fault.line for fault in flood.faults], flood.more) == ([*range(5, 105)], 51)
    assert (len(few.faults), few.more, few.faults[-1].problem) == (100, 0, "signature_broken")
    assert (flood.lines, flood.heads, flood.events) == (185, 3, 30)


def test_a_fault_names_its_chain_and_its_place_there() -> None:
    def found(problem: str, lines: list[bytes]) -> Fault:
        return next(fault for fault in check(lines).faults if fault.problem == problem)

    def chained(line: int, problem: str, sequence: int) -> Fault:
        return Fault(line=line, problem=problem, writer="w-0", sequence=sequence)

    higher = WHOLE[1].replace(b'"sequence":10', b'"sequence":11')
    unknown = WHOLE[1].replace(b'"k-1"', b'"k-9"')
    altered = [*WHOLE[:6], WHOLE[6].replace(b'"subject":"agent"', b'"subject":"other"'), *WHOLE[7:]]
    without_last = [*WHOLE[:13], *WHOLE[14:-1]]
    assert found("head_altered", [WHOLE[0], higher, *WHOLE[2:]]) == chained(2, "head_altered", 11)
    assert found("key_unknown", [WHOLE[0], unknown, *WHOLE[2:]]) == chained(2, "key_unknown", 10)
    assert found("head_missing", [WHOLE[0], unknown, *WHOLE[2:]]) == chained(5, "head_missing", 1)
    assert found("order_changed", [WHOLE[0], WHOLE[2], WHOLE[1], *WHOLE[3:]]) == chained(3, "order_changed", 10)
    assert found("event_altered", altered) == chained(7, "event_altered", 3)
    assert found("signature_broken", altered) == Fault(line=35, problem="signature_broken")
    assert found("other_tenant", [*OF_A[:8], WHOLE[8], *OF_A[8:]]) == chained(9, "other_tenant", 5)
    assert found("end_missing", WHOLE[:-1]) == Fault(line=35, problem="end_missing")
    assert found("counts_differ", without_last) == Fault(line=1, problem="counts_differ")
    assert found("tail_missing", without_last) == chained(14, "tail_missing", 10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"record": "manifests"},
        {"schema": "audit-export/2"},
        {"schema": None},
        {"tenant": 7},
        {"tenant": ["a"]},
        {"heads": -1},
        {"heads": 3.0},
        {"heads": True},
        {"events": None},
        {"events": 2**53},
    ],
)
def test_a_manifest_that_is_none_ends_the_reading(wrong: dict[str, object]) -> None:
    line = json.dumps(json.loads(WHOLE[0]) | wrong, separators=(",", ":"), sort_keys=True).encode() + b"\n"
    report = check([line, *WHOLE[1:]])

    assert report.faults == (Fault(line=1, problem="not_an_export"),)
    assert (report.lines, report.tenant, report.heads, report.events) == (1, None, 0, 0)


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


@pytest.mark.parametrize(
    ("body", "is_member"),
    [
        (b'{"a":1,"b":{"c":2},"d":[1,"x",null]}', True),
        (b"{}", True),
        (b'{"b":1,"a":1}', False),
        (b'{"a":{"b":{}}}', False),
        (b'{"a":[[]]}', False),
        (b'{"a":[{}]}', False),
        (b'{"a":{"b":[]}}', False),
        (b"[]", False),
        (b"7", False),
        (b"{", False),
    ],
)
def test_a_body_is_a_member_where_it_is_flat_and_as_it_was_written_and_else_a_text(
    body: bytes, is_member: bool
) -> None:
    event = ChainedEvent(writer=WriterId("w"), sequence=1, body=body, link="0", key_id="k")
    told = json.loads(event_line(event))

    assert ("event" in told, "body" in told) == (is_member, not is_member)
    assert told.get("event", told.get("body")) == (json.loads(body) if is_member else body.decode())


@pytest.mark.parametrize(
    ("body", "tenant"),
    [(b'{"tenant":"a"}', "a"), (b'{"tenant":7}', None), (b"{}", None), (b"[]", None), (b"7", None), (b"{", None)],
)
def test_an_event_is_of_the_tenant_that_its_body_names(body: bytes, tenant: str | None) -> None:
    event = ChainedEvent(writer=WriterId("w"), sequence=1, body=body, link="0", key_id="k")

    assert tenant_of(event) == tenant


# ---------------------------------------------------------------- members of another type


def spelled(line: bytes, **members: object) -> bytes:
    data = {**json.loads(line), **members}
    return json.dumps(data, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode() + b"\n"


@pytest.mark.parametrize("name", ["writer", "sequence", "link", "opened_after", "key_id", "mac"])
@pytest.mark.parametrize("value", [None, 7.5, ["x"], True])
def test_a_head_with_a_member_of_another_type_cannot_be_read(name: str, value: object) -> None:
    assert (2, "line_unreadable") in faults([WHOLE[0], spelled(WHOLE[1], **{name: value}), *WHOLE[2:]])


@pytest.mark.parametrize("name", ["writer", "sequence", "link", "key_id"])
@pytest.mark.parametrize("value", [None, 7.5, ["x"], True])
def test_an_event_with_a_member_of_another_type_cannot_be_read(name: str, value: object) -> None:
    assert (5, "line_unreadable") in faults([*WHOLE[:4], spelled(WHOLE[4], **{name: value}), *WHOLE[5:]])


@pytest.mark.parametrize("name", ["writer", "first", "last", "link"])
@pytest.mark.parametrize("value", [None, 7.5, ["x"], True])
def test_a_place_of_others_with_a_member_of_another_type_cannot_be_read(name: str, value: object) -> None:
    index = next(number for number, line in enumerate(OF_A) if b'"record":"others"' in line)
    changed = [*OF_A[:index], spelled(OF_A[index], **{name: value}), *OF_A[index + 1 :]]

    assert (index + 1, "line_unreadable") in faults(changed)


@pytest.mark.parametrize("name", ["lines", "digest", "key_id", "mac"])
@pytest.mark.parametrize("value", [None, 7.5, ["x"], True])
def test_an_end_with_a_member_of_another_type_cannot_be_read(name: str, value: object) -> None:
    assert faults([*WHOLE[:-1], spelled(WHOLE[-1], **{name: value})]) == [
        (35, "line_unreadable"),
        (36, "end_missing"),
    ]


@pytest.mark.parametrize("other", [{"lines": 33}, {"digest": "0" * 64}, {"lines": 35}])
def test_an_end_that_says_something_else_than_what_was_signed_is_broken(other: dict[str, object]) -> None:
    assert faults([*WHOLE[:-1], spelled(WHOLE[-1], **other)]) == [(35, "signature_broken")]


def test_members_of_a_body_in_another_order_show() -> None:
    data = json.loads(WHOLE[4])
    data["event"] = dict(reversed(data["event"].items()))
    line = json.dumps(dict(sorted(data.items())), separators=(",", ":"), ensure_ascii=False).encode() + b"\n"

    assert faults([*WHOLE[:4], line, *WHOLE[5:]]) == [(5, "not_as_exported"), (35, "signature_broken")]


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


def test_a_tail_that_is_missing_is_told_where_the_chain_should_have_begun() -> None:
    manifest = WHOLE[0].replace(b'"events":30', b'"events":20')
    found = check(resealed([manifest, *WHOLE[1:24], *WHOLE[34:-1]], KEYS)).faults

    assert [(fault.line, fault.problem, fault.writer) for fault in found] == [(4, "tail_missing", "w-2")]
