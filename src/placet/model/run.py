"""A bounded sequence of calls of one principal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from placet.model.effect import EffectState
from placet.model.identifiers import ApprovalId, PolicyVersion, RunId
from placet.model.making import quick


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Opened by its first proposal and owned by whoever made it; to others it does not exist.

    Attributes:
        steps: proposals counted so far, each call id once; refused ones count too.
        policy_version: what was in force when the run began, only to notice change.
        stepped_at: when it last counted a step; None for one that no process of today has counted.
    """

    tenant: str
    run_id: RunId
    subject: str
    policy_version: PolicyVersion
    max_steps: int
    steps: int
    opened_at: datetime
    stepped_at: datetime | None = None


class LeftOpen(StrEnum):
    """What keeps a run from being over. A run of which nothing is left open may still go on, until its budget is spent.

    UNKNOWN: nobody can tell what became of an effect of it. IN_PROGRESS: one is being done. WAITING: a person is asked.
    """

    UNKNOWN = "unknown"
    IN_PROGRESS = "in_progress"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStanding:
    """What ledger and desk hold of a run, at one look.

    Attributes:
        effects: how many there are of each state; a state without one is not named.
        waiting: questions that wait for a person, the oldest first; as rows say, unverified.
        denials: how often each tool was refused in it, by the tool's name.
    """

    run_id: RunId
    effects: dict[EffectState, int]
    waiting: tuple[ApprovalId, ...]
    denials: dict[str, int]
