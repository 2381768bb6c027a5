"""Runs as somebody looks at them, in a SQLite store."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from placet.adapters.stores import rows
from placet.adapters.stores.sqlite.long_looks import moment, read_apart
from placet.model.approval import Approval
from placet.model.effect import BrokenEffect, Effect
from placet.model.identifiers import CallId, RunId
from placet.model.listing import Mark
from placet.model.retention import BrokenRun
from placet.model.run import LeftOpen, Run, RunStanding


class SqliteRuns(ABC):
    """The verbs of `ports.store.RunRows`."""

    _path: Path

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

    async def steps_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[CallId, ...]:
        return tuple(CallId(row[0]) for row in self._read("steps_of_run", tenant, run_id, limit))

    @abstractmethod
    def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def _effects(self, name: str, *bindings: Any) -> tuple[Effect | BrokenEffect, ...]: ...
