"""Runs as somebody looks at them, in a PostgreSQL store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from placet.adapters.stores import rows
from placet.model.approval import Approval
from placet.model.effect import BrokenEffect, Effect
from placet.model.identifiers import CallId, RunId
from placet.model.listing import Mark
from placet.model.retention import BrokenRun
from placet.model.run import LeftOpen, Run, RunStanding


class PostgresRuns(ABC):
    """The verbs of `ports.store.RunRows`."""

    async def run(self, tenant: str, run_id: RunId) -> Run | None:
        found = await self._read("run", tenant, run_id)
        return rows.run_from(found[0]) if found else None

    async def runs_after(
        self, tenant: str, mark: Mark | None, *, subject: str | None, left: LeftOpen | None, limit: int
    ) -> tuple[Run | BrokenRun, ...]:
        name = rows.RUNS_LEFT[left] if left is not None else rows.runs_of(subject)
        return tuple(map(rows.run_or_broken, await self._read(name, tenant, subject, *rows.place_of(mark), limit)))

    async def run_standings(self, tenant: str, run_ids: Sequence[RunId]) -> tuple[RunStanding, ...]:
        return rows.standings_from(
            run_ids,
            effects=await self._read("effect_counts_of_runs", tenant, run_ids),
            waiting=await self._read("waiting_of_runs", tenant, run_ids),
            denials=await self._read("denials_of_runs", tenant, run_ids),
        )

    async def effects_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        return await self._effects("effects_of_run", tenant, run_id, limit)

    async def approvals_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Approval, ...]:
        return tuple(map(rows.approval_from, await self._read("approvals_of_run", tenant, run_id, limit)))

    async def steps_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[CallId, ...]:
        return tuple(CallId(row[0]) for row in await self._read("steps_of_run", tenant, run_id, limit))

    @abstractmethod
    async def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    async def _effects(self, name: str, *bindings: Any) -> tuple[Effect | BrokenEffect, ...]: ...
