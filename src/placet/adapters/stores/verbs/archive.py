"""Forgetting what is old, and what is held against that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from placet.adapters.stores.verbs.tables import Tables
from placet.errors import StoreCorrupt
from placet.model.approval import ApprovalState
from placet.model.audit import AuditEvent
from placet.model.credentials import StoredCredential
from placet.model.effect import Effect
from placet.model.retention import ALL_SCOPE, ChainCut, Grave, Hold, OldApproval, OldRun, Purge
from placet.model.run import RunStatus
from placet.rules import retention

Found = TypeVar("Found")


def purge(tables: Tables, command: Purge, now: datetime) -> bool:
    """All of it, or nothing if any of it is not as it was seen, or a hold was set or lifted since."""
    if tables.holds() != command.holds or ALL_SCOPE in command.holds:
        return False
    rests = [_rest(tables, grave, command.holds) for grave in command.graves]
    if None in rests or not all(_may_go(tables, command, now)):
        return False
    for pair in rests:
        if pair is not None:
            tables.change_effect(pair[1], was=pair[0])
    for run in command.runs:
        tables.drop_run(run.tenant, run.run_id)
    for approval in command.approvals:
        tables.drop_approval(approval.tenant, approval.approval_id)
    for token in command.tokens:
        tables.drop_void(token)
    for row in command.credentials:
        tables.drop_credential(row.kind, row.name)
    if command.cut is not None:
        tables.cut(command.cut.tombstone)
    tables.append(command.events)
    return True


def _may_go(tables: Tables, command: Purge, now: datetime) -> Iterator[bool]:
    for run in command.runs:
        yield _is_idle(tables, run, command)
    for approval in command.approvals:
        yield _is_forgettable(tables, approval, command.holds, now)
    for row in command.credentials:
        yield _is_over(tables, row, command)
    if command.cut is not None:
        yield _fits(tables, command.cut)


def _rest(tables: Tables, grave: Grave, holds: frozenset[str]) -> tuple[Effect, Effect] | None:
    effect = _readable(lambda: tables.effect(grave.tenant, grave.operation_key))
    rest = retention.buried(effect, grave) if effect is not None else None
    return None if effect is None or rest is None or retention.is_held(grave.tenant, holds) else (effect, rest)


def _readable(row: Callable[[], Found | None]) -> Found | None:
    """A row; None for one that is gone, or that cannot be read: somebody changed it, it is evidence, and stays."""
    with suppress(StoreCorrupt):
        return row()
    return None


def _is_there(row: Callable[[], object | None]) -> bool:
    """Whether there is such a row, readable or not."""
    with suppress(StoreCorrupt):
        return row() is not None
    return True


def _is_idle(tables: Tables, seen: OldRun, command: Purge) -> bool:
    run = _readable(lambda: tables.run(seen.tenant, seen.run_id))
    if run is None or run.steps != seen.steps or run.status is RunStatus.PAUSED or _is_waiting(tables, seen):
        return False
    if retention.is_held(seen.tenant, command.holds):
        return False
    return (run.stepped_at or run.opened_at) < command.idle_before


def _is_waiting(tables: Tables, seen: OldRun) -> bool:
    """Whether a workflow goes on in it, however long it has been resting."""
    rests = _readable(lambda: tables.checkpoint(seen.tenant, seen.run_id))
    return rests is not None and rests.due_at is not None


def _is_forgettable(tables: Tables, seen: OldApproval, holds: frozenset[str], now: datetime) -> bool:
    approval = tables.approval(seen.tenant, seen.approval_id)
    if approval is None or retention.is_held(seen.tenant, holds):
        return False
    stands = approval.state is ApprovalState.DENIED and _is_there(
        lambda: tables.run(seen.tenant, approval.question.run_id)
    )
    return not stands and retention.may_be_forgotten(approval, now=now)


def _is_over(tables: Tables, seen: StoredCredential, command: Purge) -> bool:
    row = tables.credential(seen.kind, seen.name)
    if row is None or row.mac != seen.mac or retention.is_held(row.tenant, command.holds):
        return False
    return row.ends_at < command.idle_before


def _fits(tables: Tables, cut: ChainCut) -> bool:
    """Whether the chain begins where it was seen to, and keeps what somebody still needs, and its last event."""
    tombstone = cut.tombstone
    last = tombstone.first_kept - 1
    return (
        tables.chain_start(tombstone.writer) == cut.first_kept
        and cut.first_kept <= last < tables.kept_until(tombstone.writer)
        and tables.link_at(tombstone.writer, last) == tombstone.link
    )


def hold(tables: Tables, command: Hold, events: tuple[AuditEvent, ...]) -> bool:
    if command.scope in tables.holds():
        return False
    tables.add_hold(command)
    tables.append(events)
    return True


def lift(tables: Tables, scope: str, events: tuple[AuditEvent, ...]) -> bool:
    if scope not in tables.holds():
        return False
    tables.drop_hold(scope)
    tables.append(events)
    return True
