"""Who may pause, resume and cancel a run that it may see."""

from __future__ import annotations

from placet.model.principal import Principal, Standing
from placet.model.run import Run, RunStatus
from placet.rules.stopping import STOP_ALL_SCOPE, STOP_SCOPE


def refusal_of_change(by: Principal, run: Run, status: RunStatus) -> str | None:
    """Why it may not: a fixed code; None if it may."""
    return refusal_of(by, run.subject, status)


def refusal_of(by: Principal, opener: str, status: RunStatus) -> str | None:
    """Why it may not change to this status a run of that opener: a fixed code; None if it may.

    A run is its opener's to cancel, an agent's too. Pausing and resuming is for people: what a person has paused, no
    agent sets going. Of others' runs, for people with leave to stop.
    """
    if opener == by.identity and status is RunStatus.CANCELLED:
        return None
    if by.standing is not Standing.PERSON:
        return "not_a_person"
    if opener == by.identity or not by.scopes.isdisjoint((STOP_SCOPE, STOP_ALL_SCOPE)):
        return None
    return "scope_missing"
