"""An event with every field, and chains as whoever holds the key could have written them."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker, ChainWriter
from placet.model.audit import AuditEvent, AuditOutcome, ChainedEvent, ChainHead, ChainTombstone, EventKind, Summary
from placet.model.decision import ShadowAnswer
from placet.model.identifiers import PolicyVersion, WriterId
from placet.ports.keys import KeyPurpose
from placet.rules.chains import GENESIS, chain_message, head_message, tombstone_message

AT = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)

FULL: dict[str, Any] = {
    "kind": EventKind.COMPLETED,
    "at": AT,
    "tenant": "acme",
    "subject": "agent",
    "key_id": "k-1",
    "roles": ("operator",),
    "on_behalf_of": "uma",
    "environment": "production",
    "request_id": "req-1",
    "run_id": "run 1",
    "call_id": "c1",
    "tool": "write",
    "tool_version": "1",
    "rejected_name": None,
    "permission": "ops.write",
    "risk": "medium",
    "effect_class": "write",
    "attempt": 1,
    "fence": 1,
    "outcome": AuditOutcome.SUCCESS,
    "error_type": "ValueError",
    "detail": "returned",
    "reasons": ("matrix_operator_medium",),
    "decision": "allow",
    "policy_version": "v1",
    "approval_id": "apr-1",
    "decided_by": "paula",
    "decided_at": AT,
    "expires_at": AT,
    "purpose": "write",
    "operation": "a" * 64,
    "effect_state": "committed",
    "arguments": Summary(field_count=1),
    "arguments_fingerprint": "b" * 64,
    "result": Summary(),
    "result_fingerprint": "c" * 64,
    "duration_ms": 1.234,
    "model_suggested": True,
    "repaired": True,
    "shadow": ShadowAnswer(
        enforced="allow",
        would_be="deny",
        changes=True,
        reasons=("scope_missing",),
        policy_version=PolicyVersion("v2"),
    ),
}


def event(**changes: Any) -> AuditEvent:
    return AuditEvent(**(FULL | changes))


KEYS = KeyRing({"k-1": b"1" * 32}, current="k-1")

LINKER = ChainLinker(KEYS)


def chained(count: int = 4, *, writer: str = "w1") -> tuple[list[ChainedEvent], Any]:
    chain = ChainWriter(KEYS, writer, opened_after=b"{}")  # type: ignore[arg-type]
    events = []
    for number in range(count):
        word = {"kind": EventKind.STARTED, "outcome": None, "result": None, "result_fingerprint": None}
        more = word if number % 2 == 0 else {}
        events.append(chain.link(event(call_id=f"c{number // 2}", **more)))
    return events, chain.head()


def written(writer: str, *bodies: bytes, opened_after: bytes = b"{}") -> tuple[list[ChainedEvent], ChainHead]:
    """A chain of these very bodies, with authentic links and head: what a holder of the key could have written."""
    events: list[ChainedEvent] = []
    previous = GENESIS
    for sequence, body in enumerate(bodies, start=1):
        mac = KEYS.mac(KeyPurpose.AUDIT_CHAIN, chain_message(writer, sequence, previous, body))
        events.append(
            ChainedEvent(writer=WriterId(writer), sequence=sequence, body=body, link=mac.value, key_id=mac.key_id)
        )
        previous = mac.value
    bare = ChainHead(
        writer=WriterId(writer), sequence=len(bodies), link=previous, opened_after=opened_after, key_id="", mac=""
    )
    mac = KEYS.mac(KeyPurpose.AUDIT_CHAIN, head_message(bare))
    return events, dataclasses.replace(bare, key_id=mac.key_id, mac=mac.value)


def tombstone(
    events: list[ChainedEvent], removed: int, *, keys: KeyRing | None = None, **stated: Any
) -> ChainTombstone:
    """Authentic word that the first `removed` of these events were cut; `stated` is said of it instead."""
    last = events[removed - 1]
    facts = {"first_kept": removed + 1, "link": last.link, "removed": removed, "cut_by": "kim", "cut_at": AT}
    bare = ChainTombstone(**({"writer": last.writer, "key_id": "", "mac": ""} | facts | stated))
    mac = (keys or KEYS).mac(KeyPurpose.AUDIT_CHAIN, tombstone_message(bare))
    return dataclasses.replace(bare, key_id=mac.key_id, mac=mac.value)
