"""What every proposal counts against: its run, what was refused in it, and stops."""

from __future__ import annotations

from datetime import datetime

from placet.adapters.stores.verbs.tables import Tables
from placet.model.identifiers import RunId
from placet.model.ledger import NotYourRun, OverBudget, Step, run_scope, tool_scope
from placet.model.run import Run


def step_refusal(tables: Tables, step: Step, run: Run | None) -> OverBudget | NotYourRun | None:
    if run is None:
        return None
    if run.subject != step.subject:
        return NotYourRun()
    return OverBudget() if run.steps >= run.max_steps and not tables.has_step(step) else None


def is_closed(tables: Tables, step: Step, tool: str) -> bool:
    return tables.denials(step.tenant, step.run_id, tool) >= step.max_denials


def count(tables: Tables, step: Step, run: Run | None, now: datetime) -> None:
    if not tables.has_step(step):
        tables.add_step(step, opened_at=now, is_first=run is None)


def stopped_scope(tables: Tables, tenant: str, tool: str, run_id: RunId) -> str | None:
    scopes = tables.stops()
    if not scopes:
        return None
    mine = {"all", f"tenant:{tenant}", f"tool:{tool}", tool_scope(tenant, tool), run_scope(tenant, run_id)}
    return next((scope for scope in scopes if scope in mine), None)
