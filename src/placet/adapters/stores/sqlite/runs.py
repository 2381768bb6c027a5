"""Runs as somebody looks at them, in a SQLite store."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.sqlite.long_looks import moment, read_apart
from placet.adapters.stores.sqlite.writer import Writer
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
from placet.ports.clock import Clock


class SqliteRuns(ABC):
    """The verbs of `ports.store.RunRows`."""

    _path: Path
    _clock: Clock
    _writer: Writer

    async def run(self, tenant: str, run_id: RunId) -> Run | None:
        row = next(iter(self._read("run", tenant, run_id)), None)
        return None if row is None else rows.run_from(row)

    async def runs_after(
        self, tenant: str, mark: Mark | None, *, subject: str | None, left: LeftOpen | None, limit: int
    ) -> tuple[Run | BrokenRun, ...]:
        name = rows.RUNS_LEFT[left] if left is not None else rows.runs_of(subject)
        found = await read_apart(self._path, name, tenant, subject, *rows.place_of(mark), limit)
        return tuple(map(rows.run_or_broken, found))

    async def run_standings(self, tenant: str, run_ids: Sequence[RunId]) -> tuple[RunStanding, ...]:
        """By threads: a page of runs may have done a lot."""
        named = json.dumps(run_ids)
        async with moment(self._path) as look:
            return rows.standings_from(
                run_ids,
                effects=await look.found("effect_counts_of_runs", tenant, named),
                waiting=await look.found("waiting_of_runs", tenant, named),
                denials=await look.found("denials_of_runs", tenant, named),
            )

    async def effects_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        return self._effects("effects_of_run", tenant, run_id, limit)

    async def approvals_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Approval, ...]:
        return tuple(map(rows.approval_from, self._read("approvals_of_run", tenant, run_id, limit)))

    async def open_approvals_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Approval, ...]:
        return tuple(map(rows.approval_from, self._read("open_approvals_of_run", tenant, run_id, limit)))

    async def approvals_of_tool(self, tenant: str, run_id: RunId, tool: str, *, limit: int) -> tuple[Approval, ...]:
        return tuple(map(rows.approval_from, self._read("approvals_of_tool", tenant, run_id, tool, limit)))

    async def steps_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[CallId, ...]:
        return tuple(CallId(row[0]) for row in self._read("steps_of_run", tenant, run_id, limit))

    async def run_tallies(self, tenant: str, run_id: RunId) -> dict[str, int]:
        return dict(self._read("tallies_of_run", tenant, run_id))

    async def run_note(self, tenant: str, run_id: RunId) -> RunNote:
        return rows.run_note_from(self._read("run_note", tenant, run_id))

    async def begin_run(
        self, run: Run, start: RunCheckpoint | None, *, events: tuple[AuditEvent, ...]
    ) -> tuple[Run, bool]:
        return await self._writer.transact(
            lambda tables: verbs.begin_run(tables, run, start, events, self._clock.now())
        )

    async def change_run(
        self, change: RunChange, *, events: tuple[AuditEvent, ...]
    ) -> tuple[Run, bool] | CallsUnderWay | None:
        return await self._writer.transact(lambda tables: verbs.change_run(tables, change, events, self._clock.now()))

    async def run_checkpoint(self, tenant: str, run_id: RunId) -> RunCheckpoint | None:
        row = next(iter(self._read("checkpoint", tenant, run_id)), None)
        return None if row is None else rows.checkpoint_from(row)

    async def take_run(self, take: RunTake) -> RunCheckpoint | None:
        return await self._writer.transact(lambda tables: verbs.take_run(tables, take, self._clock.now()))

    async def keep_run(self, take: RunTake, fence: int) -> bool:
        return await self._writer.transact(lambda tables: verbs.keep_run(tables, take, fence, self._clock.now()))

    async def rest_run(
        self, rest: RunRest, *, events: tuple[AuditEvent, ...], closing: tuple[Withdrawal, ...] = ()
    ) -> RunCheckpoint | None:
        return await self._writer.transact(
            lambda tables: verbs.rest_run(tables, rest, events, self._clock.now(), closing)
        )

    async def due_runs(self, *, limit: int) -> tuple[tuple[str, RunId], ...]:
        found = self._read("due_runs", rows.microseconds(self._clock.now()), limit)
        return tuple((row[0], RunId(row[1])) for row in found)

    async def next_due_run(self) -> datetime | None:
        row = next(iter(self._read("next_due_run")), None)
        return None if row is None else rows.instant(row[0])

    async def waiting_runs(self, *, after: tuple[str, RunId] | None, limit: int) -> tuple[RunCheckpoint, ...]:
        return tuple(map(rows.checkpoint_from, self._read("waiting_runs", *(after or ("", "")), limit)))

    async def wake_runs(self, policy_version: PolicyVersion, *, of: Collection[tuple[str, str]]) -> int:
        return await self._writer.transact(lambda tables: tables.wake_runs(policy_version, of))

    @abstractmethod
    def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def _effects(self, name: str, *bindings: Any) -> tuple[Effect | BrokenEffect, ...]: ...
