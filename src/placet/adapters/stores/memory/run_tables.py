"""Runs, their steps, budgets and resting places in dictionaries. Every write knows how to be undone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from placet.errors import StoreUnavailable
from placet.model.approval import Approval, ApprovalState
from placet.model.identifiers import RunId
from placet.model.ledger import Step
from placet.model.making import changed
from placet.model.run import Run, RunCheckpoint, RunNote

Key = TypeVar("Key")
Row = TypeVar("Row")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryRunTables(ABC):
    def __init__(self) -> None:
        super().__init__()
        self.runs: dict[tuple[str, RunId], Run] = {}
        self.steps: dict[tuple[str, RunId, str, str], None] = {}
        self.denied: dict[tuple[str, RunId, str], int] = {}
        self.tallies: dict[tuple[str, RunId, str], int] = {}
        self.notes: dict[tuple[str, RunId], RunNote] = {}
        self.checkpoints: dict[tuple[str, RunId], RunCheckpoint] = {}

    @abstractmethod
    def _put(self, table: dict[Key, Row], key: Key, row: Row) -> None: ...

    @abstractmethod
    def _drop(self, table: dict[Key, Row], key: Key) -> bool: ...

    def run(self, tenant: str, run_id: RunId) -> Run | None:
        return self.runs.get((tenant, run_id))

    def sure_run(self, tenant: str, run_id: RunId) -> Run | None:
        return self.run(tenant, run_id)

    def add_run(self, run: Run) -> None:
        self._put(self.runs, (run.tenant, run.run_id), run)

    def change_run(self, run: Run, *, was: Run) -> None:
        self.add_run(run)

    def note_run(self, tenant: str, run_id: RunId, note: RunNote) -> None:
        self._put(self.notes, (tenant, run_id), note)

    def has_step(self, step: Step) -> bool:
        return (step.tenant, step.run_id, step.call_id, step.fingerprint) in self.steps

    def add_step(self, step: Step, *, opened_at: datetime, is_first: bool) -> None:
        self._put(self.steps, (step.tenant, step.run_id, step.call_id, step.fingerprint), None)
        if is_first:
            run = Run(
                tenant=step.tenant,
                run_id=step.run_id,
                subject=step.subject,
                policy_version=step.policy_version,
                max_steps=step.max_steps,
                steps=1,
                opened_at=opened_at,
                stepped_at=opened_at,
            )
        else:
            run = self.runs[step.tenant, step.run_id]
            run = changed(run, steps=run.steps + 1, stepped_at=max(opened_at, run.stepped_at or opened_at))
        self._put(self.runs, (step.tenant, step.run_id), run)

    def denials(self, tenant: str, run_id: RunId, tool: str) -> int:
        return self.denied.get((tenant, run_id, tool), 0)

    def add_denial(self, tenant: str, run_id: RunId, tool: str) -> None:
        self._put(self.denied, (tenant, run_id, tool), self.denials(tenant, run_id, tool) + 1)

    def tally(self, tenant: str, run_id: RunId, name: str) -> int:
        return self.tallies.get((tenant, run_id, name), 0)

    def add_tally(self, tenant: str, run_id: RunId, name: str, count: int) -> None:
        self._put(self.tallies, (tenant, run_id, name), max(0, self.tally(tenant, run_id, name) + count))

    def checkpoint(self, tenant: str, run_id: RunId) -> RunCheckpoint | None:
        return self.checkpoints.get((tenant, run_id))

    def add_checkpoint(self, row: RunCheckpoint) -> None:
        self._put(self.checkpoints, (row.tenant, row.run_id), row)

    def change_checkpoint(self, row: RunCheckpoint, *, was: RunCheckpoint) -> None:
        if row.state_version < was.state_version or row.fence < was.fence:
            raise StoreUnavailable("A checkpoint does not go back.")
        self.add_checkpoint(row)

    def wake(self, approval: Approval, *, was: Approval) -> None:
        """What the other stores have a trigger for: somebody answered a question of the run."""
        if was.state is not ApprovalState.PENDING or approval.state is ApprovalState.PENDING:
            return
        rests = self.checkpoint(approval.question.tenant, approval.question.run_id)
        if rests is not None and rests.due_at is not None and rests.driver is None:
            self.add_checkpoint(replace(rests, due_at=_LONG_AGO))

    def drop_run(self, tenant: str, run_id: RunId) -> None:
        self._drop(self.runs, (tenant, run_id))
        self._drop(self.checkpoints, (tenant, run_id))
        self._drop(self.notes, (tenant, run_id))
        for step in [step for step in self.steps if step[:2] == (tenant, run_id)]:
            self._drop(self.steps, step)
        for table in (self.denied, self.tallies):
            for key in [key for key in table if key[:2] == (tenant, run_id)]:
                self._drop(table, key)
