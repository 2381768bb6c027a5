"""Each line of an export has one spelling; whatever else a file holds is a fault, never an error."""

from __future__ import annotations

import json

import pytest

from placet.model.audit import ChainedEvent
from placet.model.identifiers import WriterId
from placet.rules import export_check
from placet.rules.audit import tenant_of
from placet.rules.export_check import MAX_FAULTS, MAX_LINE_BYTES, Fault
from placet.rules.export_records import event_line
from tests.rules.export_samples import OF_A, WHOLE, check, faults, spelled


def test_a_body_that_is_not_as_it_was_written_is_told_as_text() -> None:
    event = ChainedEvent(writer=WriterId("w"), sequence=1, body=b'{ "tenant": "a" }', link="0", key_id="k")
    assert json.loads(event_line(event))["body"] == '{ "tenant": "a" }'


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
    monkeypatch.setattr(export_check, "MAX_HEADS", 2)
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
