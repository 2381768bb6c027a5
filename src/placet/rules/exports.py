"""An audit as lines that can be checked away from its store, and the check.

    manifest   what this is, and how many lines of each kind follow
    head       one per chain, by writer
    tombstone  one per chain whose oldest events were removed on purpose, by writer; only then, as audit-export/2
    event      by writer and sequence; in a tenant's export the tenant's own
    others     a tenant's export: consecutive events of other tenants, of which only the last link is told
    end        the digest of all lines before it, signed with the audit's key

A line is read only if writing it again gives the very same bytes, so there is one spelling for everything and no room
for anything else. Source: DESIGN section 14; ADR-0026.

What it shows: the chains hold every event that is there, and the signature says that whoever held the key exported
exactly these lines. In a tenant's export the places of other tenants' events are closed by links alone; that none of
the tenant's own events is among them is the exporter's word, who has read them all, and no more than that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, Final

import orjson

from placet.errors import AuditBroken
from placet.model.approval import Mac
from placet.model.audit import ChainedEvent, ChainHead, ChainTombstone, ElidedEvents
from placet.rules.audit import ChainCheck, ChainReport, Linker, head_message, is_sound_tombstone, sound_anchors

SCHEMA: Final = "audit-export/1"
SCHEMA_WITH_TOMBSTONES: Final = "audit-export/2"
_RECORD = re.compile(rb'"record" ?: ?"(?:manifest|head|tombstone|event|others|end)"')
MAX_LINE_BYTES = 4 * 1024 * 1024
MAX_HEADS = 250_000
MAX_FAULTS = 100
"""How many faults are listed; the others are counted."""

Sign = Callable[[bytes], Mac]


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


# ---------------------------------------------------------------- writing


def export_lines(
    events: Iterable[ChainedEvent],
    heads: Iterable[ChainHead],
    *,
    count: int,
    tenant: str | None,
    linker: Linker,
    sign: Sign,
    tombstones: Iterable[ChainTombstone] = (),
) -> Iterator[bytes]:
    """The lines of an export, each with its end of line. The same audit gives the same lines.

    Args:
        events: of the whole store, by writer and sequence, from one moment; also for a tenant's export.
        heads: from the same moment, by writer; `tombstones` too.
        count: how many of the events will be told.

    Raises:
        AuditBroken: for a tenant's export only, before its end is written: the audit it is a part of does not hold.
    """
    lines = ExportLines(heads, count=count, tenant=tenant, linker=linker, sign=sign, tombstones=tombstones)
    yield from lines.begin()
    for event in events:
        yield from lines.take(event)
    yield from lines.end()


class ExportLines:
    """The lines of one export, while its events come by: `begin`, `take` each event in order, `end`."""

    def __init__(
        self,
        heads: Iterable[ChainHead],
        *,
        count: int,
        tenant: str | None,
        linker: Linker,
        sign: Sign,
        tombstones: Iterable[ChainTombstone] = (),
    ) -> None:
        """As `export_lines` says."""
        self._heads = tuple(heads)
        self._tombstones = tuple(tombstones)
        self._count = count
        self._tenant = tenant
        self._sign = sign
        self._check = None if tenant is None else ChainCheck(self._heads, linker, tombstones=self._tombstones)
        self._others: ElidedEvents | None = None
        self._told = 0
        self._digest = hashlib.sha256()
        self._lines = 0

    def begin(self) -> Iterator[bytes]:
        cuts = len(self._tombstones)
        yield self._written(_manifest_line(self._tenant, heads=len(self._heads), events=self._count, tombstones=cuts))
        for head in self._heads:
            yield self._written(_head_line(head))
        for tombstone in self._tombstones:
            yield self._written(_tombstone_line(tombstone))

    def take(self, event: ChainedEvent) -> Iterator[bytes]:
        """In a tenant's export: its own, and between them the places of the others, each verified as it goes by."""
        if self._check is None:
            yield self._written(event_line(event))
            return
        self._check.see(event)
        others = self._others
        if others is not None and (others.writer != event.writer or self._check.is_noted(others.writer, others.last)):
            yield from self._close_others()
        if tenant_of(event) == self._tenant:
            yield from self._close_others()
            self._told += 1
            yield self._written(event_line(event))
        else:
            first = self._others.first if self._others is not None else event.sequence
            self._others = ElidedEvents(writer=event.writer, first=first, last=event.sequence, link=event.link)

    def end(self) -> Iterator[bytes]:
        """Raises:
        AuditBroken: the audit that a tenant's export is a part of does not hold.
        """
        yield from self._close_others()
        if self._check is not None and (self._told != self._count or not self._check.report().holds):
            raise AuditBroken("The audit of the store does not hold, so a part of it would show nothing.")
        mac = self._sign(_end_message(self._lines, self._digest.hexdigest()))
        yield _end_line(self._lines, self._digest.hexdigest(), mac)

    def _close_others(self) -> Iterator[bytes]:
        if self._others is not None:
            yield self._written(_others_line(self._others))
            self._others = None

    def _written(self, line: bytes) -> bytes:
        self._digest.update(line)
        self._lines += 1
        return line


def tenant_of(event: ChainedEvent) -> str | None:
    """Whose event it is; None for one whose body was altered until it says so no more."""
    try:
        tenant: object = orjson.loads(event.body)["tenant"]
    except (ValueError, TypeError, KeyError):
        return None
    return tenant if type(tenant) is str else None


def _manifest_line(tenant: str | None, *, heads: int, events: int, tombstones: int) -> bytes:
    data: dict[str, Any] = {"record": "manifest", "tenant": tenant, "heads": heads, "events": events}
    if tombstones:
        return _line({**data, "schema": SCHEMA_WITH_TOMBSTONES, "tombstones": tombstones})
    return _line({**data, "schema": SCHEMA})


def _head_line(head: ChainHead) -> bytes:
    return _line(
        {
            "record": "head",
            "writer": head.writer,
            "sequence": head.sequence,
            "link": head.link,
            "opened_after": head.opened_after.decode(),
            "key_id": head.key_id,
            "mac": head.mac,
        }
    )


def _tombstone_line(tombstone: ChainTombstone) -> bytes:
    return _line(
        {
            "record": "tombstone",
            "writer": tombstone.writer,
            "first_kept": tombstone.first_kept,
            "link": tombstone.link,
            "removed": tombstone.removed,
            "cut_by": tombstone.cut_by,
            "cut_at": tombstone.cut_at.isoformat(timespec="microseconds"),
            "key_id": tombstone.key_id,
            "mac": tombstone.mac,
        }
    )


def event_line(event: ChainedEvent) -> bytes:
    """One event. Its body is a member that can be queried, or a text where it is not as it was written."""
    data: dict[str, Any] = {
        "record": "event",
        "writer": event.writer,
        "sequence": event.sequence,
        "link": event.link,
        "key_id": event.key_id,
    }
    try:
        body: object = orjson.loads(event.body)
        is_as_written = _is_flat(body) and orjson.dumps(body, option=orjson.OPT_SORT_KEYS) == event.body
    except ValueError:
        body, is_as_written = None, False
    return _line({**data, "event": body} if is_as_written else {**data, "body": event.body.decode()})


def _others_line(others: ElidedEvents) -> bytes:
    return _line(
        {
            "record": "others",
            "writer": others.writer,
            "first": others.first,
            "last": others.last,
            "link": others.link,
        }
    )


def _end_line(lines: int, digest: str, mac: Mac) -> bytes:
    return _line({"record": "end", "lines": lines, "digest": digest, "key_id": mac.key_id, "mac": mac.value})


def _end_message(lines: int, digest: str) -> bytes:
    """What the signature of an export covers. No link and no head begins like it."""
    return b"placet/export/1\x00%d\x00%s" % (lines, digest.encode())


def _line(data: dict[str, Any]) -> bytes:
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


# ---------------------------------------------------------------- checking


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
        data = _read(line)
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
        if not is_manifest or not _is_counted(data, *counts) or not isinstance(tenant, str | None):
            self._fault("not_an_export")
            self.is_over = True
            return
        self._tenant = tenant
        self._said = {"tombstones": 0, **{name: data[name] for name in counts}}
        self._as_written(line, _manifest_line(tenant, **self._said))
        self._take = self._head

    def _head(self, data: dict[str, Any], line: bytes) -> None:
        if data.get("record") != "head":
            self._take, self._writer = self._tombstone, ""
            self._tombstone(data, line)
            return
        head = _head_of(data)
        if head is None or len(self._heads) >= MAX_HEADS:
            self._fault("line_unreadable" if head is None else "too_many_heads")
            return
        self._as_written(line, _head_line(head))
        self._seen["head"] += 1
        if head.writer <= self._writer:
            self._fault("order_changed", head.writer, head.sequence)
        elif not self._linker.is_authentic(head_message(head), Mac(key_id=head.key_id, value=head.mac)):
            problem = "head_altered" if self._linker.knows(head.key_id) else "key_unknown"
            self._fault(problem, head.writer, head.sequence)
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
        tombstone = _tombstone_of(data)
        if tombstone is None:
            self._fault("line_unreadable")
            return
        self._as_written(line, _tombstone_line(tombstone))
        self._seen["tombstone"] += 1
        if tombstone.writer <= self._writer:
            self._fault("order_changed", tombstone.writer, tombstone.first_kept)
        elif tombstone.writer not in self._heads:
            self._fault("head_missing", tombstone.writer, tombstone.first_kept)
        elif not is_sound_tombstone(tombstone, self._linker):
            problem = "tombstone_altered" if self._linker.knows(tombstone.key_id) else "key_unknown"
            self._fault(problem, tombstone.writer, tombstone.first_kept)
        else:
            self._tombstones[tombstone.writer] = tombstone
        self._writer = max(self._writer, tombstone.writer)

    def _event(self, data: dict[str, Any], line: bytes) -> None:
        match data.get("record"):
            case "event" if (event := _event_of(data)) is not None:
                self._as_written(line, event_line(event))
                self._seen["event"] += 1
                if self._tenant is not None and tenant_of(event) != self._tenant:
                    self._fault("other_tenant", event.writer, event.sequence)
                self._chained(event)
            case "others" if self._tenant is not None and (others := _others_of(data)) is not None:
                self._as_written(line, _others_line(others))
                self._seen["others"] += max(0, others.last - others.first + 1)
                self._chained(others)
            case "end" if (mac := _end_of(data)) is not None:
                lines, digest = self._line - 1, self._digest.hexdigest()
                self._as_written(line, _end_line(data["lines"], data["digest"], mac))
                is_signed = self._linker.is_authentic(_end_message(lines, digest), mac)
                if not is_signed or (data["lines"], data["digest"]) != (lines, digest):
                    self._fault("signature_broken" if self._linker.knows(mac.key_id) else "key_unknown")
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
                line = self._places.get(each.writer, self._line)
                self._fault(each.problem, each.writer, each.sequence, line=line)
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


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        data: object = orjson.loads(line)
    except ValueError:
        return None
    return data if type(data) is dict else None


def _is_flat(body: object) -> bool:
    """Whether it is an object of scalars, and of lists and objects of scalars, as the bodies of events are."""
    if type(body) is not dict:
        return False
    inner = [each for each in body.values() if type(each) in (dict, list)]
    values = (value for each in inner for value in (each.values() if type(each) is dict else each))
    return not any(type(value) in (dict, list) for value in values)


def _is_counted(data: dict[str, Any], *names: str) -> bool:
    return all(type(data.get(name)) is int and 0 <= data[name] < 2**53 for name in names)


def _has_texts(data: dict[str, Any], *names: str) -> bool:
    return all(type(data.get(name)) is str for name in names)


def _head_of(data: dict[str, Any]) -> ChainHead | None:
    if not _is_counted(data, "sequence") or not _has_texts(data, "writer", "link", "opened_after", "key_id", "mac"):
        return None
    return ChainHead(
        writer=data["writer"],
        sequence=data["sequence"],
        link=data["link"],
        opened_after=data["opened_after"].encode(),
        key_id=data["key_id"],
        mac=data["mac"],
    )


def _tombstone_of(data: dict[str, Any]) -> ChainTombstone | None:
    names = ("writer", "link", "cut_by", "cut_at", "key_id", "mac")
    if not _is_counted(data, "first_kept", "removed") or not _has_texts(data, *names):
        return None
    try:
        cut_at = datetime.fromisoformat(data["cut_at"])
    except ValueError:
        return None
    if cut_at.tzinfo is None:
        return None
    return ChainTombstone(
        writer=data["writer"],
        first_kept=data["first_kept"],
        link=data["link"],
        removed=data["removed"],
        cut_by=data["cut_by"],
        cut_at=cut_at,
        key_id=data["key_id"],
        mac=data["mac"],
    )


def _event_of(data: dict[str, Any]) -> ChainedEvent | None:
    if not _is_counted(data, "sequence") or not _has_texts(data, "writer", "link", "key_id"):
        return None
    if _is_flat(data.get("event")):
        body = orjson.dumps(data["event"], option=orjson.OPT_SORT_KEYS)
    elif type(data.get("body")) is str:
        body = data["body"].encode()
    else:
        return None
    return ChainedEvent(
        writer=data["writer"], sequence=data["sequence"], body=body, link=data["link"], key_id=data["key_id"]
    )


def _others_of(data: dict[str, Any]) -> ElidedEvents | None:
    if not _is_counted(data, "first", "last") or not _has_texts(data, "writer", "link"):
        return None
    return ElidedEvents(writer=data["writer"], first=data["first"], last=data["last"], link=data["link"])


def _end_of(data: dict[str, Any]) -> Mac | None:
    if not _is_counted(data, "lines") or not _has_texts(data, "digest", "key_id", "mac"):
        return None
    return Mac(key_id=data["key_id"], value=data["mac"])
