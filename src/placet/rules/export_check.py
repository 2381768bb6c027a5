"""Checks an export by itself, line by line, whoever made it and wherever it was kept.

Reading goes on after a line that is wrong: every fault is told at the line where it shows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from placet.model.audit import ChainedEvent, ChainHead, ChainTombstone, ElidedEvents
from placet.rules.audit import tenant_of
from placet.rules.chain_check import ChainCheck, ChainReport
from placet.rules.chains import Linker, fault_of_mac, is_sound_head, is_sound_tombstone, sound_anchors
from placet.rules.export_records import (
    SCHEMA,
    SCHEMA_WITH_TOMBSTONES,
    end_line,
    end_message,
    event_line,
    head_line,
    is_counted,
    manifest_line,
    others_line,
    read_end,
    read_event,
    read_head,
    read_line,
    read_others,
    read_tombstone,
    tombstone_line,
)

_RECORD = re.compile(rb'"record" ?: ?"(?:manifest|head|tombstone|event|others|end)"')
MAX_LINE_BYTES = 4 * 1024 * 1024
MAX_HEADS = 250_000
MAX_FAULTS = 100
"""How many faults are listed; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a line. Lines count from 1; one that is absent has the number it would have had."""

    line: int
    problem: str
    writer: str | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What checking an export found.

    Attributes:
        tenant: whose events these are; None for the whole store's.
        others: how many events of other tenants stand in the chains, unseen.
        unseen_anchors: anchors at places of other tenants' events or of removed ones, which nothing can be held
            against.
        cuts: chains whose oldest events were removed on purpose before the export was made.
        faults: the first ones, by line. `more` are not listed.
    """

    tenant: str | None
    lines: int
    heads: int
    events: int
    others: int
    unpaired: int
    unseen_anchors: int
    faults: tuple[Fault, ...]
    more: int
    cuts: tuple[ChainTombstone, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.faults


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file with their ends; one that is too long is cut, and is the last."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        yield line
        if len(line) > MAX_LINE_BYTES:
            return


def is_like_ours(line: bytes) -> bool:
    """Whether a line could once have been a line of an export, however damaged it is. It proves nothing."""
    return _RECORD.search(line) is not None


def verify_export(
    lines: Iterable[bytes], linker: Linker, *, anchors: dict[str, tuple[int, str]] | None = None
) -> ExportReport:
    """Check an export by itself, line by line, in memory bounded by its authentic heads.

    Args:
        lines: as `lines_of` gives them, from whoever wanted us to have them.
        anchors: heads that were kept outside the store.
    """
    reading = _Reading(linker, anchors)
    for line in lines:
        reading.take(line)
        if reading.is_over:
            break
    return reading.report()


class _Reading:
    """Where reading stands: the manifest, then heads, then events, then the end, then nothing."""

    def __init__(self, linker: Linker, anchors: dict[str, tuple[int, str]] | None) -> None:
        self._linker = linker
        self._anchors = sound_anchors(anchors)
        self._take: Callable[[dict[str, Any], bytes], None] = self._manifest
        self._digest = hashlib.sha256()
        self._said = {"heads": 0, "events": 0, "tombstones": 0}
        self._tenant: str | None = None
        self._heads: dict[str, ChainHead] = {}
        self._tombstones: dict[str, ChainTombstone] = {}
        self._places: dict[str, int] = {}  # where something of the chain should have come next
        self._check = ChainCheck((), linker)
        self._writer = ""
        self._line = 0
        self._seen = {"head": 0, "tombstone": 0, "event": 0, "others": 0}
        self._faults: list[Fault] = []
        self._more = 0
        self.is_over = False

    def take(self, line: bytes) -> None:
        self._line += 1
        if len(line) > MAX_LINE_BYTES:
            self._fault("line_too_long")
            self.is_over = True
            return
        data = read_line(line)
        if data is None:
            self._fault("line_unreadable")
            self.is_over = self._line == 1  # whatever that is, it is no export
        else:
            self._take(data, line)
        self._digest.update(line)

    def report(self) -> ExportReport:
        if self._take != self._nothing and not self.is_over:
            self._line += 1
            self._fault("end_missing")
        chain = self._finish_chains()
        seen = self._seen
        if self._said != {"heads": seen["head"], "events": seen["event"], "tombstones": seen["tombstone"]}:
            self._fault("counts_differ", line=1)
        return ExportReport(
            tenant=self._tenant,
            lines=self._line,
            heads=self._seen["head"],
            events=self._seen["event"],
            others=self._seen["others"],
            unpaired=chain.unpaired,
            unseen_anchors=self._check.passed_over,
            cuts=chain.cuts,
            faults=tuple(sorted(self._faults, key=lambda fault: fault.line)),
            more=self._more,
        )

    # ------------------------------------------------------------ one kind of line each

    def _manifest(self, data: dict[str, Any], line: bytes) -> None:
        tenant = data.get("tenant")
        has_tombstones = data.get("schema") == SCHEMA_WITH_TOMBSTONES
        is_manifest = data.get("record") == "manifest" and (has_tombstones or data.get("schema") == SCHEMA)
        counts = ("heads", "events", "tombstones") if has_tombstones else ("heads", "events")
        if not is_manifest or not is_counted(data, *counts) or not isinstance(tenant, str | None):
            self._fault("not_an_export")
            self.is_over = True
            return
        self._tenant = tenant
        self._said = {"tombstones": 0, **{name: data[name] for name in counts}}
        self._as_written(line, manifest_line(tenant, **self._said))
        self._take = self._head

    def _head(self, data: dict[str, Any], line: bytes) -> None:
        if data.get("record") != "head":
            self._take, self._writer = self._tombstone, ""
            self._tombstone(data, line)
            return
        head = read_head(data)
        if head is None or len(self._heads) >= MAX_HEADS:
            self._fault("line_unreadable" if head is None else "too_many_heads")
            return
        self._as_written(line, head_line(head))
        self._seen["head"] += 1
        if head.writer <= self._writer:
            self._fault("order_changed", head.writer, head.sequence)
        elif not is_sound_head(head, self._linker):
            self._fault(fault_of_mac("head_altered", head.key_id, self._linker), head.writer, head.sequence)
        else:  # only what is authentic is kept, or whoever made the file would decide how much we keep
            self._heads[head.writer] = head
            self._places[head.writer] = self._line
        self._writer = max(self._writer, head.writer)

    def _tombstone(self, data: dict[str, Any], line: bytes) -> None:
        if data.get("record") != "tombstone":
            self._check = ChainCheck(
                self._heads.values(), self._linker, anchors=self._anchors, tombstones=self._tombstones.values()
            )
            self._take, self._writer = self._event, ""
            self._event(data, line)
            return
        tombstone = read_tombstone(data)
        if tombstone is None:
            self._fault("line_unreadable")
            return
        self._as_written(line, tombstone_line(tombstone))
        self._seen["tombstone"] += 1
        if tombstone.writer <= self._writer:
            self._fault("order_changed", tombstone.writer, tombstone.first_kept)
        elif tombstone.writer not in self._heads:
            self._fault("head_missing", tombstone.writer, tombstone.first_kept)
        elif not is_sound_tombstone(tombstone, self._linker):
            problem = fault_of_mac("tombstone_altered", tombstone.key_id, self._linker)
            self._fault(problem, tombstone.writer, tombstone.first_kept)
        else:
            self._tombstones[tombstone.writer] = tombstone
        self._writer = max(self._writer, tombstone.writer)

    def _event(self, data: dict[str, Any], line: bytes) -> None:
        match data.get("record"):
            case "event" if (event := read_event(data)) is not None:
                self._as_written(line, event_line(event))
                self._seen["event"] += 1
                if self._tenant is not None and tenant_of(event) != self._tenant:
                    self._fault("other_tenant", event.writer, event.sequence)
                self._chained(event)
            case "others" if self._tenant is not None and (others := read_others(data)) is not None:
                self._as_written(line, others_line(others))
                self._seen["others"] += max(0, others.last - others.first + 1)
                self._chained(others)
            case "end" if (mac := read_end(data)) is not None:
                lines, digest = self._line - 1, self._digest.hexdigest()
                self._as_written(line, end_line(data["lines"], data["digest"], mac))
                is_signed = self._linker.is_authentic(end_message(lines, digest), mac)
                if not is_signed or (data["lines"], data["digest"]) != (lines, digest):
                    self._fault(fault_of_mac("signature_broken", mac.key_id, self._linker))
                self._take = self._nothing
            case _:
                self._fault("line_unreadable")

    def _chained(self, item: ChainedEvent | ElidedEvents) -> None:
        last = item.sequence if isinstance(item, ChainedEvent) else item.last
        if item.writer not in self._heads:
            self._fault("head_missing", item.writer, last)
            return
        problem = self._check.see(item) if isinstance(item, ChainedEvent) else self._check.pass_over(item)
        if problem is None and item.writer < self._writer:
            problem = "order_changed"
        self._writer = max(self._writer, item.writer)
        self._places[item.writer] = self._line + 1
        if problem is not None:
            self._fault(problem, item.writer, last)

    def _nothing(self, data: dict[str, Any], line: bytes) -> None:
        self._fault("after_the_end")
        self.is_over = True

    # ------------------------------------------------------------ within

    def _finish_chains(self) -> ChainReport:
        """What shows only at the end: a tail that is missing, a chain that nobody has."""
        report = self._check.report()
        for each in report.breaks:
            if each.problem in ("tail_missing", "history_missing"):
                self._fault(each.problem, each.writer, each.sequence, line=self._places.get(each.writer))
        return report

    def _as_written(self, line: bytes, again: bytes) -> None:
        if line != again:
            self._fault("not_as_exported")

    def _fault(
        self, problem: str, writer: str | None = None, sequence: int | None = None, *, line: int | None = None
    ) -> None:
        if len(self._faults) >= MAX_FAULTS:
            self._more += 1
            return
        self._faults.append(Fault(line=line or self._line, problem=problem, writer=writer, sequence=sequence))
