"""A bounded sequence of calls of one principal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from placet.model.identifiers import PolicyVersion, RunId
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
