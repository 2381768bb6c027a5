"""What every proposal counts against: its run, what was refused in it, and stops."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from placet.adapters.stores.verbs.tables import Tables
from placet.model.identifiers import Digest, RunId
from placet.model.ledger import NotYourRun, OutsideRun, OverBudget, Step, scopes_of
from placet.model.run import Run
from placet.rules import runs

Take = tuple[str, int, int, str]
Takes = Iterable[Take]


def step_refusal(
    tables: Tables, step: Step, run: Run | None, *, tool: str | None = None, now: datetime | None = None
) -> OverBudget | OutsideRun | NotYourRun | None:
    """Why the run takes no such step.

    Args:
        tool, now: what is to be asked for or dispatched, and when; without them, it is only counted.
    """
    if run is None:
        return None
    if run.subject != step.subject:
        return NotYourRun()
    outside = runs.closed(run) if tool is None or now is None else runs.outside(run, tool, now=now)
    if outside is not None:
        return outside
    return OverBudget() if run.steps >= run.max_steps and not tables.has_step(step) else None


def without_budget(tables: Tables, run: Run | None, takes: Takes) -> OutsideRun | None:
    """The budget of the run that has no room for this; None if all have."""
    for name, taken, most, code in takes:
        if run is not None and tables.tally(run.tenant, run.run_id, name) + taken > most:
            return OutsideRun(code=code)
    return None


def take(tables: Tables, run: Run | None, takes: Takes) -> None:
    for name, taken, _, _ in takes:
        if run is not None:
            tables.add_tally(run.tenant, run.run_id, name, taken)


def is_closed(tables: Tables, step: Step, tool: str) -> bool:
    return tables.denials(step.tenant, step.run_id, tool) >= step.max_denials


def count(tables: Tables, step: Step, run: Run | None, now: datetime) -> None:
    if not tables.has_step(step):
        tables.add_step(step, opened_at=now, is_first=run is None)


def stopped_scope(tables: Tables, tenant: str, tool: str, run_id: RunId, pin: Digest | None) -> str | None:
    scopes = tables.stops()
    if not scopes:
        return None
    mine = scopes_of(tenant, tool, run_id, pin)
    return next((scope for scope in scopes if scope in mine), None)
