"""Standing grants: given, used by a claim, revoked."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from placet.adapters.stores.verbs.tables import Tables
from placet.model.approval import ApprovalState, Mac
from placet.model.audit import AuditEvent
from placet.model.grant import Grant, StoredGrant
from placet.model.ledger import Claim, GrantUse


def add_grant(tables: Tables, grant: Grant, mac: Mac, events: tuple[AuditEvent, ...]) -> StoredGrant:
    stored = StoredGrant(grant=grant, mac=mac)
    tables.add_grant(stored)
    tables.append(events)
    return stored


def revoke_grant(
    tables: Tables, seen: StoredGrant, revoked: Grant, mac: Mac, events: tuple[AuditEvent, ...]
) -> StoredGrant | None:
    """Compared by its MAC alone: uses that were counted meanwhile are no other grant."""
    found = tables.grant(seen.grant.tenant, seen.grant.grant_id)
    if found is None or found.mac != seen.mac or found.grant.revoked_at is not None:
        return found
    tables.revoke_grant(found, revoked, mac)
    tables.append(events)
    return StoredGrant(grant=revoked, mac=mac, uses=found.uses, used_at=found.used_at)


def end_grant(tables: Tables, seen: StoredGrant, events: tuple[AuditEvent, ...], now: datetime) -> bool:
    if seen.grant.revoked_at is not None or tables.grant(seen.grant.tenant, seen.grant.grant_id) != seen:
        return False
    tables.end_grant(seen, now)
    tables.append(events)
    return True


def usable_grant(tables: Tables, command: Claim, now: datetime) -> StoredGrant | None:
    """The grant the claim uses, if it is still exactly the one whose MAC was verified, and has a use left.

    How often it may be used, and until when, is what was verified, whatever the row's columns say. What a person said
    about the ask meanwhile is stronger: the look and the use are one transaction.
    """
    use = command.grant
    found = tables.grant(command.tenant, use.grant_id) if use is not None else None
    if use is None or found is None or found.grant.revoked_at is not None:
        return None
    is_usable = found.mac.value == use.mac and use.expires_at > now and 0 <= found.uses < use.max_uses
    return found if is_usable and not _was_answered(tables, use) else None


def use_grant(tables: Tables, use: GrantUse, found: StoredGrant, now: datetime) -> tuple[AuditEvent, ...]:
    """Count the use, and take back the question that it answers; what is put on record with that."""
    tables.use_grant(found, now)
    events = (use.last_event,) if found.uses + 1 == use.max_uses else ()
    if use.withdrawn is None:
        return events
    waiting = use.withdrawn.approval
    tables.change_approval(replace(waiting, state=ApprovalState.WITHDRAWN), was=waiting)
    return (use.withdrawn.event, *events)


def _was_answered(tables: Tables, use: GrantUse) -> bool:
    """Whether the question that was seen waits no more, or there is one of the same ask that was not seen so."""
    waiting = None if use.withdrawn is None else use.withdrawn.approval
    standing = tables.standing_approvals(use.same)
    if waiting is not None and waiting not in standing:
        return True
    return any(each != waiting and (each.question.approval_id, each.state) not in use.passed_over for each in standing)
