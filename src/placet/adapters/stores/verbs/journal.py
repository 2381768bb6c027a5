"""Runs, stops and audit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from placet.adapters.stores.verbs.steps import Take, count, is_closed, step_refusal, stopped_scope, take, without_budget
from placet.adapters.stores.verbs.tables import Tables
from placet.errors import READ_GIVEN_UP, StoreUnavailable
from placet.model.approval import Mac
from placet.model.audit import AuditEvent
from placet.model.ledger import LostRead, OpenRead, Place, RecordAnswer, Recorded, Step, Stopped, ToolClosed
from placet.model.stopping import StopLeave, StopNote
from placet.rules import runs


def record(
    tables: Tables,
    events: tuple[AuditEvent, ...],
    now: Callable[[], datetime],
    *,
    step: Step | None,
    starts_tool: str | None,
    denies_tool: str | None,
    opens: OpenRead | None,
    closes: Place | None,
) -> RecordAnswer:
    """Events alone need no clock: they are recorded even while it fails."""
    if step is not None:
        scope = None if starts_tool is None else stopped_scope(tables, step.tenant, starts_tool, step.run_id, step.pin)
        if scope is not None:
            return Stopped(scope=scope)
        run = tables.run(step.tenant, step.run_id)
        at = now()
        if (refusal := step_refusal(tables, step, run, tool=starts_tool, now=at)) is not None:
            return refusal
        if starts_tool is None:
            takes: tuple[Take, ...] = ()
        elif closes is None:
            takes = tuple(runs.takes(run, starts_tool))
        else:  # a further attempt of one dispatch, whose last one ends here
            takes = tuple(runs.takes_again(run))
        if (refusal := without_budget(tables, run, takes)) is not None:
            return refusal
        tool = starts_tool or denies_tool
        if tool is not None and is_closed(tables, step, tool):
            return ToolClosed()
        count(tables, step, run, at)
        take(tables, run, takes)
        if denies_tool is not None:
            tables.add_denial(step.tenant, step.run_id, denies_tool)
    if closes is not None and not tables.close_read(closes):
        raise StoreUnavailable("Recovery has given this read up and completed it.", code=READ_GIVEN_UP)
    place = tables.append(events)
    if opens is not None:
        tables.open_read(place, opens.owner, now() + timedelta(seconds=opens.lease_seconds))
    return Recorded(place=place)


def close_lost_read(tables: Tables, lost: LostRead, event: AuditEvent) -> bool:
    if not tables.close_read(lost.place):
        return False
    tables.append((event,))
    return True


def stop(
    tables: Tables, scope: str, events: tuple[AuditEvent, ...], now: datetime, *, note: StopNote | None = None
) -> int:
    is_new = scope not in tables.stops()
    if is_new:
        tables.add_stop(scope, now)
    is_stronger = note is not None and note.leave is StopLeave.DEPLOYMENT
    if note is not None and (is_new or (is_stronger and tables.stop_leave(scope) is StopLeave.TENANT)):
        tables.put_stop_note(scope, note)
    tables.append(events)
    return tables.count_dispatched(scope)


def resume(tables: Tables, scope: str, events: tuple[AuditEvent, ...], leave: StopLeave) -> bool:
    """A stop without a note is lifted with the strongest leave only: nobody knows what it was given with."""
    if scope not in tables.stops():
        return False
    if leave is StopLeave.TENANT and tables.stop_leave(scope) is not StopLeave.TENANT:
        return False
    tables.drop_stop(scope)
    tables.append(events)
    return True


def adopt_key(tables: Tables, check: Mac, events: tuple[AuditEvent, ...]) -> None:
    tables.put_key_check(check)
    tables.append(events)
