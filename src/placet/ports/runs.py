"""Runs: as somebody looks at them, begun and changed on purpose, and driven step by step.

A run that nobody begins is opened by its first proposal, and is counted by the verbs that count steps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from placet.model.approval import Approval
from placet.model.audit import AuditEvent
from placet.model.effect import BrokenEffect, Effect
from placet.model.identifiers import CallId, PolicyVersion, RunId
from placet.model.ledger import Withdrawal
from placet.model.listing import Mark
from placet.model.retention import BrokenRun
from placet.model.run import (
    CallsUnderWay,
    LeftOpen,
    Run,
    RunChange,
    RunCheckpoint,
    RunNote,
    RunRest,
    RunStanding,
    RunTake,
)


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

    async def open_approvals_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Approval, ...]:
        """What of it is pending, or approved and unspent; as `approvals_of_run` lists."""
        ...

    async def approvals_of_tool(self, tenant: str, run_id: RunId, tool: str, *, limit: int) -> tuple[Approval, ...]:
        """What was asked about one tool in the run; as `approvals_of_run` lists."""
        ...

    async def steps_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[CallId, ...]:
        """The ids under which its steps were counted, each once, in their order."""
        ...

    async def run_tallies(self, tenant: str, run_id: RunId) -> dict[str, int]:
        """What was taken of each declared budget of the run, by the names that `rules.runs` gives them."""
        ...

    async def run_note(self, tenant: str, run_id: RunId) -> RunNote:
        """Who changed its status last, and why; nothing of either where nobody did."""
        ...

    # ------------------------------------------------------------ begun, and changed

    async def begin_run(
        self, run: Run, start: RunCheckpoint | None, *, events: tuple[AuditEvent, ...]
    ) -> tuple[Run, bool]:
        """Open a run with what it may spend; the run of that name, and whether it is this one.

        Of all who begin a run of one name at once, one does, and nothing is written for the others. Nothing of the run
        was dispatched before this returns.
        """
        ...

    async def change_run(
        self, change: RunChange, *, events: tuple[AuditEvent, ...]
    ) -> tuple[Run, bool] | CallsUnderWay | None:
        """The run as it is afterwards, and whether that is news; None where there is none.

        Limits under which a dispatch takes something else are not given while one is under way.

        Claims that were there before are through when this returns; of a run that is not open, none comes after.
        """
        ...

    # ------------------------------------------------------------ driven

    async def run_checkpoint(self, tenant: str, run_id: RunId) -> RunCheckpoint | None: ...

    async def take_run(self, take: RunTake) -> RunCheckpoint | None:
        """Where the run rests: the taker's own if it names it as driver, and as it is otherwise; None without one."""
        ...

    async def keep_run(self, take: RunTake, fence: int) -> bool:
        """A driver's sign of life; False if somebody else has taken the run since."""
        ...

    async def rest_run(
        self, rest: RunRest, *, events: tuple[AuditEvent, ...], closing: tuple[Withdrawal, ...] = ()
    ) -> RunCheckpoint | None:
        """Lay it down after a step. None if the run is not this driver's any more, or may not go on: nothing of the
        step is written then, and a stale write is counted.

        A run whose question was answered meanwhile is due at once.

        Args:
            closing: what nobody is asked any more, closed in the same transaction.
        """
        ...

    async def due_runs(self, *, limit: int) -> tuple[tuple[str, RunId], ...]:
        """Runs, of every tenant, at which somebody has to look now, the longest due first."""
        ...

    async def next_due_run(self) -> datetime | None:
        """When the next one will be due; None if none will by itself."""
        ...

    async def waiting_runs(self, *, after: tuple[str, RunId] | None, limit: int) -> tuple[RunCheckpoint, ...]:
        """Runs, of every tenant, that are not over and rest, by tenant and name."""
        ...

    async def wake_runs(self, policy_version: PolicyVersion, *, of: Collection[tuple[str, str]]) -> int:
        """Have those looked at that rest under another policy, and were not woken so before; how many.

        Args:
            of: workflows and versions of them; no other run is woken.
        """
        ...
