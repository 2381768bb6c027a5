"""What may be forgotten, and what is left of it.

A finished operation loses its sealed arguments, its sealed result and its external reference, and keeps its key, its
fingerprint, its fence and its digests, so that it never looks new: committed, it is never run again; failed or absent,
its next dispatch goes on counting. An approval goes only once its own signed clock has run out, so that its row is
worth nothing to whoever puts it back, whatever else was removed. Source: DESIGN sections 9, 10, 14; ADR-0031.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from placet.model.approval import Approval, ApprovalDecision, ApprovalState
from placet.model.audit import ChainedEvent
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import Digest, OwnerId, PolicyVersion
from placet.model.retention import ALL_SCOPE, Grave, held_tenants
from placet.rules.audit import place_in_time, tenant_of
from placet.rules.canonical import canonical_bytes

PURGE_SCOPE = "ops.purge"
"""Lets a person forget what is old, of every tenant of the store."""
HOLD_SCOPE = "ops.hold"
"""Lets a person set and lift legal holds, of any tenant and of everything."""

FINISHED = frozenset(
    {EffectState.COMMITTED, EffectState.FAILED, EffectState.RECONCILED_COMMITTED, EffectState.RECONCILED_ABSENT}
)
CLOSED = frozenset({ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.WITHDRAWN, ApprovalState.SPENT,
                    ApprovalState.REVOKED})  # fmt: skip


def buried(effect: Effect, grave: Grave) -> Effect | None:
    """What is left of a finished operation; None if it is not the one that was seen, or not finished.

    What a lost answer is found again by stays: token, state, fence, attempts and digests.
    """
    is_same = (
        effect.state is grave.state
        and effect.fence == grave.fence
        and effect.updated_at == grave.updated_at
        and not effect.is_purged
    )
    if not is_same or effect.state not in FINISHED:
        return None
    return replace(
        effect,
        owner=OwnerId(""),
        sealed_arguments=grave.sealed_mark,
        sealed_result=None,
        external_reference=None,
        tool_version="",
        contract_digest=Digest(""),
        policy_version=PolicyVersion(""),
        decision="",
        approval_id=None,
        lease_until=effect.updated_at,
        send_by=effect.updated_at,
        attempt_ended_at=None,
        probe_after=None,
    )


def mark_binding(effect: Effect | Grave, result_digest: str | None) -> bytes:
    """What the mark of a purged row is bound to: moved, or kept while the row is changed, it does not open."""
    return canonical_bytes([1, "purged", effect.tenant, effect.operation_key, effect.state.value, result_digest])


def may_be_forgotten(approval: Approval, *, now: datetime) -> bool:
    """Whether an approval is closed, and its signed clock has run out: from then on its row authorises nothing.

    A denial is not forgotten by this alone: it stands for the rest of its run.
    """
    if approval.state not in CLOSED or approval.question.decide_by > now:
        return False
    answer = approval.answer
    return answer is None or answer.decision is ApprovalDecision.DENY or answer.expires_at <= now


def is_held(tenant: str, holds: frozenset[str]) -> bool:
    return ALL_SCOPE in holds or tenant in held_tenants(holds)


def cut_length(events: Iterable[ChainedEvent], *, before: datetime, holds: frozenset[str]) -> int:
    """How many of a chain's oldest events may go: up to the first that is not old, cannot be read, or is held."""
    if ALL_SCOPE in holds:
        return 0
    held, count = held_tenants(holds), 0
    for event in events:
        tenant, at = tenant_of(event), _instant_of(event)
        if tenant is None or tenant in held or at is None or at >= before:
            break
        count += 1
    return count


def _instant_of(event: ChainedEvent) -> datetime | None:
    try:
        instant = datetime.fromisoformat(place_in_time(event)[0])
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else None
