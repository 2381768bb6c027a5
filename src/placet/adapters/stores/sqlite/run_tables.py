"""Runs, their steps, budgets and resting places in SQLite, inside whatever transaction the writer has open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from datetime import datetime
from typing import Any

from placet.adapters.stores import rows
from placet.errors import StoreUnavailable
from placet.model.identifiers import PolicyVersion, RunId
from placet.model.ledger import Step
from placet.model.run import Run, RunCheckpoint, RunNote


class SqliteRunTables(ABC):
    @abstractmethod
    def _one(self, name: str, *bindings: Any) -> tuple[Any, ...] | None: ...

    @abstractmethod
    def _write(self, name: str, *bindings: Any) -> int: ...

    def run(self, tenant: str, run_id: RunId) -> Run | None:
        row = self._one("run", tenant, run_id)
        return None if row is None else rows.run_from(row)

    def sure_run(self, tenant: str, run_id: RunId) -> Run | None:
        return self.run(tenant, run_id)

    def add_run(self, run: Run) -> None:
        self._write("add_run", *rows.run_row(run))

    def change_run(self, run: Run, *, was: Run) -> None:
        if self._write("change_run", *rows.run_change(run, was=was)) != 1:
            raise StoreUnavailable("The run moved under its transaction.")

    def has_step(self, step: Step) -> bool:
        return self._one("has_step", step.tenant, step.run_id, step.call_id, step.fingerprint) is not None

    def add_step(self, step: Step, *, opened_at: datetime, is_first: bool) -> None:
        self._write("add_step", step.tenant, step.run_id, step.call_id, step.fingerprint)
        self._write("tell_step", step.tenant, step.run_id, step.call_id)
        at = rows.microseconds(opened_at)
        if is_first:
            self._write("open_run", step.tenant, step.run_id, step.subject, step.policy_version, step.max_steps, at)
        else:
            self._write("count_step", step.tenant, step.run_id, at)

    def denials(self, tenant: str, run_id: RunId, tool: str) -> int:
        row = self._one("denials", tenant, run_id, tool)
        return int(row[0]) if row is not None else 0

    def add_denial(self, tenant: str, run_id: RunId, tool: str) -> None:
        self._write("add_denial", tenant, run_id, tool)

    def tally(self, tenant: str, run_id: RunId, name: str) -> int:
        row = self._one("tally", tenant, run_id, name)
        return int(row[0]) if row is not None else 0

    def add_tally(self, tenant: str, run_id: RunId, name: str, count: int) -> None:
        self._write("add_tally", tenant, run_id, name, count)

    def note_run(self, tenant: str, run_id: RunId, note: RunNote) -> None:
        self._write("note_run", note.changed_by, note.sealed_reason, tenant, run_id)

    def checkpoint(self, tenant: str, run_id: RunId) -> RunCheckpoint | None:
        row = self._one("checkpoint", tenant, run_id)
        return None if row is None else rows.checkpoint_from(row)

    def add_checkpoint(self, row: RunCheckpoint) -> None:
        self._write("add_checkpoint", *rows.checkpoint_row(row))

    def change_checkpoint(self, row: RunCheckpoint, *, was: RunCheckpoint) -> None:
        if self._write("change_checkpoint", *rows.checkpoint_change(row, was=was)) != 1:
            raise StoreUnavailable("The checkpoint moved under its transaction.")

    def wake_runs(self, policy_version: PolicyVersion, of: Collection[tuple[str, str]]) -> int:
        return self._write("wake_runs", policy_version, rows.served_text(of))

    def drop_run(self, tenant: str, run_id: RunId) -> None:
        for name in (
            "drop_steps",
            "drop_steps_of_before",
            "drop_denials",
            "drop_tallies",
            "drop_checkpoint",
            "drop_run",
        ):
            self._write(name, tenant, run_id)
