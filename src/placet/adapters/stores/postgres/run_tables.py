"""Runs, their steps, budgets and resting places, as a batch sees them before it is written.

A run that is not known is presumed to be the caller's, open, without limits, and to have room: the database compares
all of it. Where a run rests, and what it was begun with, is changed under locks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

from placet.adapters.stores import rows
from placet.adapters.stores.postgres.memory import Memory
from placet.adapters.stores.postgres.reading_wishes import NotTogether, Reading, Unread
from placet.errors import StoreError
from placet.model.identifiers import PolicyVersion, RunId
from placet.model.ledger import Step
from placet.model.run import Run, RunCheckpoint, RunNote


class PostgresRunTables(ABC):
    _memory: Memory
    _undo: list[Callable[[], object]]
    is_locked: bool
    known: dict[Reading, Any]
    presumed: list[Reading]

    def __init__(self) -> None:
        super().__init__()
        # what is compared
        self.terms_seen: dict[tuple[str, str], int] = {}
        self.denials_seen: dict[tuple[str, str, str], int] = {}
        self.tallies_seen: dict[tuple[str, str, str], int] = {}
        # what is written
        self.steps: dict[tuple[str, str, str, str], Step] = {}
        self.runs: dict[tuple[str, str], tuple[Step, datetime]] = {}
        self.run_steps: dict[tuple[str, str], int] = {}
        self.denials_added: dict[tuple[str, str, str], int] = {}
        self.tallies_added: dict[tuple[str, str, str], int] = {}

    @abstractmethod
    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None: ...

    @abstractmethod
    def _see(self, table: dict[Any, Any], key: Any, value: Any) -> None: ...

    @abstractmethod
    def _known(self, name: str, *bindings: Any) -> Any: ...

    @abstractmethod
    def _perhaps(self, name: str, *bindings: Any) -> tuple[bool, Any]: ...

    @abstractmethod
    def _state(self, name: str, *bindings: Any) -> None: ...

    # ------------------------------------------------------------ runs

    def run(self, tenant: str, run_id: RunId) -> Run | None:
        key = (tenant, run_id)
        is_known, base = self._perhaps("run", tenant, run_id)
        if not is_known:
            self.presumed.append(Reading("run", key))
            base = self._memory.runs.get(key)
        if isinstance(base, StoreError):
            raise base
        self._see(self.terms_seen, key, 0 if base is None else base.terms)
        taken = self.run_steps.get(key, 0)
        if base is not None:
            grown: Run = replace(base, steps=base.steps + taken)
            return grown
        if not taken:
            return None
        first, opened_at = self.runs[key]
        return Run(
            tenant=tenant,
            run_id=run_id,
            subject=first.subject,
            policy_version=first.policy_version,
            max_steps=first.max_steps,
            steps=taken,
            opened_at=opened_at,
        )

    def sure_run(self, tenant: str, run_id: RunId) -> Run | None:
        """Read, where it is not remembered: what is decided on it is no refusal that would be looked at twice."""
        reading = Reading("run", (tenant, run_id))
        if reading not in self.known and self._memory.runs.get((tenant, run_id)) is None:
            raise Unread(reading)
        return self.run(tenant, run_id)

    def add_run(self, run: Run) -> None:
        self._state("add_run", *rows.run_row(run))

    def change_run(self, run: Run, *, was: Run) -> None:
        self._state("change_run", *rows.run_change(run, was=was))
        self._memory.runs.drop((run.tenant, run.run_id))

    # ------------------------------------------------------------ steps and budgets

    def has_step(self, step: Step) -> bool:
        name = (step.tenant, step.run_id, step.call_id, step.fingerprint)
        if name in self.steps:
            return True
        is_known, found = self._perhaps("has_step", *name)
        if not is_known:
            self.presumed.append(Reading("has_step", name))
        return bool(found)

    def add_step(self, step: Step, *, opened_at: datetime, is_first: bool) -> None:
        key = (step.tenant, step.run_id)
        self._put(self.steps, (step.tenant, step.run_id, step.call_id, step.fingerprint), step)
        self._put(self.run_steps, key, self.run_steps.get(key, 0) + 1)
        if key not in self.runs:
            self._put(self.runs, key, (step, opened_at))

    def denials(self, tenant: str, run_id: RunId, tool: str) -> int:
        key = (tenant, run_id, tool)
        is_known, found = self._perhaps("denials", *key)
        if not is_known:
            self.presumed.append(Reading("denials", key))
            found = self._memory.denials.get(key) or 0
        self._see(self.denials_seen, key, found)
        return int(found) + self.denials_added.get(key, 0)

    def add_denial(self, tenant: str, run_id: RunId, tool: str) -> None:
        key = (tenant, run_id, tool)
        if key not in self.denials_seen:
            self.denials(tenant, run_id, tool)
        self._put(self.denials_added, key, self.denials_added.get(key, 0) + 1)

    def tally(self, tenant: str, run_id: RunId, name: str) -> int:
        key = (tenant, run_id, name)
        is_known, found = self._perhaps("tally", *key)
        if not is_known:
            self.presumed.append(Reading("tally", key))
            found = self._memory.tallies.get(key) or 0
        self._see(self.tallies_seen, key, found)
        return max(0, int(found) + self.tallies_added.get(key, 0))

    def add_tally(self, tenant: str, run_id: RunId, name: str, count: int) -> None:
        key = (tenant, run_id, name)
        if key not in self.tallies_seen:
            self.tally(tenant, run_id, name)
        self._put(self.tallies_added, key, self.tallies_added.get(key, 0) + count)

    # ------------------------------------------------------------ where runs rest

    def note_run(self, tenant: str, run_id: RunId, note: RunNote) -> None:
        self._state("note_run", note.changed_by, note.sealed_reason, tenant, run_id)

    def checkpoint(self, tenant: str, run_id: RunId) -> RunCheckpoint | None:
        if not self.is_locked:
            raise NotTogether
        found = self._known("checkpoint_locked", tenant, run_id)
        return rows.checkpoint_from(tuple(found[0])) if found else None

    def add_checkpoint(self, row: RunCheckpoint) -> None:
        self._state("add_checkpoint", *rows.checkpoint_row(row))

    def change_checkpoint(self, row: RunCheckpoint, *, was: RunCheckpoint) -> None:
        self._state("change_checkpoint", *rows.checkpoint_change(row, was=was))

    def wake_runs(self, policy_version: PolicyVersion, of: Collection[tuple[str, str]]) -> int:
        if not self.is_locked:
            raise NotTogether
        return len(self._known("wake_runs", policy_version, rows.served_text(of)))

    def drop_run(self, tenant: str, run_id: RunId) -> None:
        for name in ("drop_steps", "drop_denials", "drop_tallies", "drop_checkpoint", "drop_run"):
            self._state(name, tenant, run_id)
