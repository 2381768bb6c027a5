"""An audit as lines that can be checked away from its store.

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
from collections.abc import Callable, Iterable, Iterator

from placet.errors import AuditBroken
from placet.model.approval import Mac
from placet.model.audit import ChainedEvent, ChainHead, ChainTombstone, ElidedEvents
from placet.rules.audit import tenant_of
from placet.rules.chain_check import ChainCheck
from placet.rules.chains import Linker
from placet.rules.export_records import (
    end_line,
    end_message,
    event_line,
    head_line,
    manifest_line,
    others_line,
    tombstone_line,
)

Sign = Callable[[bytes], Mac]


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
        yield self._written(manifest_line(self._tenant, heads=len(self._heads), events=self._count, tombstones=cuts))
        for head in self._heads:
            yield self._written(head_line(head))
        for tombstone in self._tombstones:
            yield self._written(tombstone_line(tombstone))

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
        mac = self._sign(end_message(self._lines, self._digest.hexdigest()))
        yield end_line(self._lines, self._digest.hexdigest(), mac)

    def _close_others(self) -> Iterator[bytes]:
        if self._others is not None:
            yield self._written(others_line(self._others))
            self._others = None

    def _written(self, line: bytes) -> bytes:
        self._digest.update(line)
        self._lines += 1
        return line
