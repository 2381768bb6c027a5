"""Runs as somebody looks at them; they are opened and counted by the verbs that count steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from placet.model.approval import Approval
from placet.model.effect import BrokenEffect, Effect
from placet.model.identifiers import CallId, RunId
from placet.model.listing import Mark
from placet.model.retention import BrokenRun
from placet.model.run import LeftOpen, Run, RunStanding


class RunRows(Protocol):
    """Runs of one tenant, and what else of the store is theirs. What rows of approvals say is unverified."""

    async def run(self, tenant: str, run_id: RunId) -> Run | None: ...

    async def runs_after(
        self, tenant: str, mark: Mark | None, *, subject: str | None, left: LeftOpen | None, limit: int
    ) -> tuple[Run | BrokenRun, ...]:
        """By the instant at which they were opened; as `Pages` lists.

        Args:
            subject: the identity whose runs they are; everybody's with None.
            left: only those of which this is left open.
        """
        ...

    async def run_standings(self, tenant: str, run_ids: Sequence[RunId]) -> tuple[RunStanding, ...]:
        """How these runs stand, in their order."""
        ...

    async def effects_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        """The newest change first, then by key."""
        ...

    async def approvals_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Approval, ...]:
        """What was asked in the run, the newest first, then by id."""
        ...

    async def steps_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[CallId, ...]:
        """The ids under which its steps were counted, each once, in their order."""
        ...
