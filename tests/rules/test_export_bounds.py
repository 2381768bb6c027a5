"""How far a file is read, how many faults are kept, and where a fault is."""

from __future__ import annotations

import io

import pytest

from placet.rules import export_check
from placet.rules.export_check import Fault, is_like_ours, lines_of
from tests.rules.export_samples import KEYS, OF_A, WHOLE, check, exported_cut, faults, resealed, spelled


def test_a_reader_keeps_no_more_than_this() -> None:
    assert (export_check.MAX_LINE_BYTES, export_check.MAX_HEADS, export_check.MAX_FAULTS) == (4_194_304, 250_000, 100)


def test_a_file_is_read_by_lines_and_no_further_than_one_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_check, "MAX_LINE_BYTES", 4)

    assert list(lines_of(io.BytesIO(b"abc\nd\n\nabcd\n"))) == [b"abc\n", b"d\n", b"\n", b"abcd\n"]
    assert list(lines_of(io.BytesIO(b"abc\nabcde\nx\n"))) == [b"abc\n", b"abcde"]
    assert list(lines_of(io.BytesIO(b"abc"))) == [b"abc"]
    assert list(lines_of(io.BytesIO(b""))) == []


def test_a_line_may_be_as_long_as_the_bound_and_there_may_be_as_many_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max(map(len, WHOLE))
    first = next(number for number, line in enumerate(WHOLE, start=1) if len(line) == longest)
    monkeypatch.setattr(export_check, "MAX_LINE_BYTES", longest)
    monkeypatch.setattr(export_check, "MAX_HEADS", 3)
    assert check(WHOLE).holds

    monkeypatch.setattr(export_check, "MAX_LINE_BYTES", longest - 1)
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


def test_what_is_wrong_with_an_event_is_told_before_the_order_of_its_chain() -> None:
    altered = WHOLE[4].replace(b'"subject":"agent"', b'"subject":"other"')
    late = check(resealed([*WHOLE[:4], *WHOLE[14:24], altered, *WHOLE[5:14], *WHOLE[24:-1]], KEYS)).faults

    assert late[0] == Fault(line=15, problem="event_altered", writer="w-0", sequence=1)
    assert [(fault.line, fault.problem) for fault in late[1:]] == [(line, "order_changed") for line in range(16, 25)]


def test_what_nobody_has_is_missed_at_the_end() -> None:
    assert check(WHOLE, anchors={"w-9": (3, "0" * 64)}).faults == (
        Fault(line=35, problem="history_missing", writer="w-9", sequence=3),
    )


@pytest.mark.parametrize(("first", "last", "others"), [(5, 2**53 - 1, 2**53 - 5), (5, 5, 1), (5, 4, 0), (5, 1, 0)])
def test_places_of_others_are_counted_whatever_a_line_says_of_them(first: int, last: int, others: int) -> None:
    index = next(number for number, line in enumerate(OF_A) if b'"record":"others"' in line)
    counted = check([*OF_A[:index], spelled(OF_A[index], first=first, last=last), *OF_A[index + 1 :]]).others

    assert counted == others + 8


def test_a_line_of_an_export_is_like_one_however_damaged() -> None:
    for line in {*WHOLE, *OF_A, *exported_cut()}:
        spaced = (line.replace(b":", b": "), line.replace(b":", b" :"), line.replace(b":", b" : "))
        for damaged in (line, line[1:], b"\x00\xff" + line, line[:-1], *spaced):
            assert is_like_ours(damaged), damaged


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"\n", b"{}\n", b'{"record":"recipe"}\n', b'{"record":"heads"}\n', b'{"records":"head"}\n'),
        *(b'{"record":["head"]}\n', b'{"record"="head"}\n', b'{"record":  "head"}\n', b'{"writer":"head"}\n'),
    ],
)
def test_other_lines_are_not_like_ones_of_an_export(line: bytes) -> None:
    assert not is_like_ours(line)
