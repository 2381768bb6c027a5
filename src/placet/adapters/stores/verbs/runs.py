"""Runs begun, changed, taken for a step and laid down after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from placet.adapters.stores.verbs.approvals import close
from placet.adapters.stores.verbs.tables import Tables
from placet.model.approval import ApprovalState
from placet.model.audit import AuditEvent
from placet.model.identifiers import ApprovalId
from placet.model.ledger import Withdrawal, run_scope
from placet.model.run import CallsUnderWay, Run, RunChange, RunCheckpoint, RunRest, RunStatus, RunTake
from placet.rules.runs import is_taken_alike


def begin_run(
    tables: Tables, run: Run, start: RunCheckpoint | None, events: tuple[AuditEvent, ...], now: datetime
) -> tuple[Run, bool]:
    """The run, and whether it is this one: of one name there is one, whoever comes first."""
    known = tables.run(run.tenant, run.run_id)
    if known is not None:
        return known, False
    begun = replace(run, opened_at=now)
    tables.add_run(begun)
    if start is not None:
        tables.add_checkpoint(replace(start, due_at=now))
    tables.append(events)
    return begun, True


def change_run(
    tables: Tables, change: RunChange, events: tuple[AuditEvent, ...], now: datetime
) -> tuple[Run, bool] | CallsUnderWay | None:
    """The run as it is afterwards, and whether that is news; None if there is none."""
    run = tables.run(change.tenant, change.run_id)
    if run is None:
        return None
    if run.status not in change.follows:
        return run, False
    if change.limits is not None and not is_taken_alike(run.limits, change.limits):
        running = tables.count_dispatched(run_scope(run.tenant, run.run_id))
        if running:  # each gives back what it took, by the limits of then
            return CallsUnderWay(count=running)
    limits = run.limits if change.limits is None else change.limits
    most = limits.max_steps if limits is not None and limits.max_steps is not None else run.max_steps
    changed = replace(run, status=change.status, limits=limits, max_steps=most, terms=run.terms + 1)
    tables.change_run(changed, was=run)
    tables.note_run(run.tenant, run.run_id, change.note)
    checkpoint = tables.checkpoint(change.tenant, change.run_id)
    if checkpoint is not None:
        due_at = max(now, checkpoint.lease_until or now) if change.status is RunStatus.OPEN else None
        tables.change_checkpoint(replace(checkpoint, due_at=due_at), was=checkpoint)
    tables.append(events)
    return changed, True


def take_run(tables: Tables, take: RunTake, now: datetime) -> RunCheckpoint | None:
    """Where the run rests; it is the taker's if it names it as driver."""
    run = tables.run(take.tenant, take.run_id)
    rests = tables.checkpoint(take.tenant, take.run_id)
    if run is None or rests is None:
        return None
    is_held = rests.lease_until is not None and rests.lease_until > now
    is_other = take.expecting is not None and take.expecting != rests.state_version
    if run.status is not RunStatus.OPEN or is_held or is_other:
        return rests
    until = now + timedelta(seconds=take.lease_seconds)
    taken = replace(rests, driver=take.driver, lease_until=until, fence=rests.fence + 1, due_at=until)
    tables.change_checkpoint(taken, was=rests)
    return taken


def keep_run(tables: Tables, take: RunTake, fence: int, now: datetime) -> bool:
    """A sign of life of a driver in the middle of a step; False if the run is not its own any more.

    One that was paused or cancelled meanwhile is due for nobody, and stays so.
    """
    rests = tables.checkpoint(take.tenant, take.run_id)
    if rests is None or (rests.driver, rests.fence) != (take.driver, fence):
        return False
    until = now + timedelta(seconds=take.lease_seconds)
    due_at = None if rests.due_at is None else until
    tables.change_checkpoint(replace(rests, lease_until=until, due_at=due_at), was=rests)
    return True


def rest_run(
    tables: Tables,
    rest: RunRest,
    events: tuple[AuditEvent, ...],
    now: datetime,
    closing: tuple[Withdrawal, ...] = (),
) -> RunCheckpoint | None:
    """Where it rests now; None, with the write counted, if the run is not this driver's any more or may not go on."""
    run = tables.run(rest.tenant, rest.run_id)
    was = tables.checkpoint(rest.tenant, rest.run_id)
    if run is None or was is None:
        return None
    if (was.driver, was.fence) != (rest.driver, rest.fence):
        tables.change_checkpoint(replace(was, stale_writes=was.stale_writes + 1), was=was)
        return None
    if run.status is not RunStatus.OPEN:
        tables.change_checkpoint(replace(was, driver=None, lease_until=None, due_at=None), was=was)
        return None
    due_at = None
    if rest.due_after_seconds is not None:
        is_answered = any(_is_answered(tables, rest, name) for name in rest.waits)
        due_at = now if is_answered else now + timedelta(seconds=rest.due_after_seconds)
    rests = replace(
        was,
        version=rest.version,
        state=rest.state,
        visit=rest.visit,
        sealed=rest.sealed,
        code=rest.code,
        waits=rest.waits,
        policy_version=rest.policy_version,
        state_version=was.state_version + 1,
        driver=None,
        lease_until=None,
        due_at=due_at,
    )
    tables.change_checkpoint(rests, was=was)
    gone_on = _gone_on(run, rest)
    if gone_on != run:
        tables.change_run(replace(gone_on, terms=run.terms + 1), was=run)
    tables.append(events)
    close(tables, closing)
    return rests


def _gone_on(run: Run, rest: RunRest) -> Run:
    """Over, or with the tools of another version of its workflow."""
    limits = run.limits
    if rest.workflow_tools is not None and limits is not None:
        limits = replace(limits, workflow_tools=rest.workflow_tools)
    return replace(run, status=rest.ends or run.status, limits=limits)


def _is_answered(tables: Tables, rest: RunRest, approval_id: ApprovalId) -> bool:
    """Whether it was, between the step that asked and this transaction: then nobody else would say so."""
    approval = tables.approval(rest.tenant, approval_id)
    return approval is None or approval.state is not ApprovalState.PENDING
