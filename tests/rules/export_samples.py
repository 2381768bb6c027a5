"""Audits of a few chains and tenants, exported, and ways to look at an export that was changed."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker, ChainWriter
from placet.model.audit import AuditEvent, AuditOutcome, ChainedEvent, ChainHead, ChainTombstone, EventKind, Summary
from placet.model.identifiers import WriterId
from placet.ports.keys import KeyPurpose
from placet.rules.audit import tenant_of
from placet.rules.chains import heads_form
from placet.rules.export_check import ExportReport, verify_export
from placet.rules.exports import export_lines
from tests.rules.audit_samples import tombstone

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


def audit(tenants: str = "aabba", *, writers: str = "w-") -> tuple[list[ChainedEvent], list[ChainHead]]:
    """Three chains that name each other; in each, one pair per letter, of the tenant of that name."""
    events: list[ChainedEvent] = []
    heads: list[ChainHead] = []
    for chain in range(3):
        writer = ChainWriter(KEYS, WriterId(f"{writers}{chain}"), opened_after=heads_form(heads[-1:]))
        for number, tenant in enumerate(tenants):
            events += [writer.link(event) for event in events_of(10 * chain + number, tenant)]
        heads.append(writer.head())
    return events, heads


Cut = tuple[list[ChainedEvent], list[ChainHead], list[ChainTombstone]]


def cut_audit(*, writers: str = "w-") -> Cut:
    """The same audit without the first four events of its first chain and the first two of its third."""
    events, heads = audit(writers=writers)
    first = tombstone(events[:4], 4, keys=KEYS, cut_at=AT)
    third = tombstone(events[20:22], 2, keys=KEYS, cut_at=AT)
    return [*events[4:20], *events[22:]], heads, [first, third]


def exported(tenant: str | None = None, *, keys: KeyRing = KEYS, tenants: str = "aabba") -> list[bytes]:
    return lines_of_audit(*audit(tenants), [], tenant=tenant, keys=keys)


def exported_cut(tenant: str | None = None, *, writers: str = "w-") -> list[bytes]:
    return lines_of_audit(*cut_audit(writers=writers), tenant=tenant)


def lines_of_audit(
    events: list[ChainedEvent],
    heads: list[ChainHead],
    tombstones: list[ChainTombstone],
    *,
    tenant: str | None = None,
    keys: KeyRing = KEYS,
) -> list[bytes]:
    """The export of what can be read once only, as a store gives it."""
    return list(
        export_lines(
            iter(events),
            iter(heads),
            count=sum(1 for event in events if tenant in (None, tenant_of(event))),
            tenant=tenant,
            linker=LINKER,
            sign=lambda message: keys.mac(KeyPurpose.AUDIT_CHAIN, message),
            tombstones=iter(tombstones),
        )
    )


def check(lines: list[bytes], **more: object) -> ExportReport:
    return verify_export(lines, LINKER, **more)  # type: ignore[arg-type]


def faults(lines: list[bytes], **more: object) -> list[tuple[int, str]]:
    return [(fault.line, fault.problem) for fault in check(lines, **more).faults]


WHOLE, OF_A = exported(), exported("a")

EXPORTS = [
    pytest.param(WHOLE, id="whole"),
    pytest.param(OF_A, id="tenant"),
    pytest.param(exported_cut(), id="cut"),
    pytest.param(exported_cut("a"), id="cut, tenant"),
]


def resealed(lines: list[bytes], keys: KeyRing = FOREIGN) -> list[bytes]:
    """The lines with an end that fits them, as far as one can be made without the key."""
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    message = b"placet/export/1\x00%d\x00%s" % (len(lines), digest.encode())
    mac = keys.mac(KeyPurpose.AUDIT_CHAIN, message)
    end = {"digest": digest, "key_id": mac.key_id, "lines": len(lines), "mac": mac.value, "record": "end"}
    return [*lines, json.dumps(end, separators=(",", ":")).encode() + b"\n"]


def spelled(line: bytes, **members: object) -> bytes:
    data = {**json.loads(line), **members}
    return json.dumps(data, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode() + b"\n"
