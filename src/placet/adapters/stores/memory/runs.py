"""Runs as somebody looks at them, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from placet.adapters.stores import rows
from placet.model.approval import Approval, ApprovalState
from placet.model.effect import BrokenEffect, Effect, EffectState
from placet.model.identifiers import CallId, RunId
from placet.model.listing import Mark
from placet.model.retention import BrokenRun
from placet.model.run import LeftOpen, Run, RunStanding
from placet.rules.listing import mark_of_approval, mark_of_effect, mark_of_run, page

if TYPE_CHECKING:
    from placet.adapters.stores.memory.tables import MemoryTables


class MemoryRuns:
    """The verbs of `ports.store.RunRows`."""

    _tables: MemoryTables

    async def run(self, tenant: str, run_id: RunId) -> Run | None:
        return self._tables.run(tenant, run_id)

    async def runs_after(
        self, tenant: str, mark: Mark | None, *, subject: str | None, left: LeftOpen | None, limit: int
    ) -> tuple[Run | BrokenRun, ...]:
        found = [
            run
            for run in self._tables.runs.values()
            if run.tenant == tenant and subject in (None, run.subject) and (left is None or self._is_left(run, left))
        ]
        return page(found, mark_of_run, mark, limit)

    async def run_standings(self, tenant: str, run_ids: Sequence[RunId]) -> tuple[RunStanding, ...]:
        named = [run for run_id in run_ids if (run := self._tables.run(tenant, run_id)) is not None]
        counts = Counter((run_id, each.state) for run_id in run_ids for each in self._effects_of(tenant, run_id))
        asked = [each.question for run in named for each in self._asked_in(run) if each.state is ApprovalState.PENDING]
        return rows.standings_from(
            run_ids,
            effects=[(*key, count) for key, count in counts.items()],
            waiting=[
                (each.run_id, each.approval_id) for each in sorted(asked, key=lambda q: (q.asked_at, q.approval_id))
            ],
            denials=[
                (run_id, tool, count)
                for (of, run_id, tool), count in self._tables.denied.items()
                if of == tenant and run_id in run_ids
            ],
        )

    async def effects_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        return page(self._effects_of(tenant, run_id), mark_of_effect, None, limit)

    async def approvals_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Approval, ...]:
        run = self._tables.run(tenant, run_id)
        return () if run is None else page(self._asked_in(run), mark_of_approval, None, limit)

    async def steps_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[CallId, ...]:
        found = {CallId(step[2]) for step in self._tables.steps if step[:2] == (tenant, run_id)}
        return tuple(sorted(found)[:limit])

    def _is_left(self, run: Run, left: LeftOpen) -> bool:
        match left:
            case LeftOpen.UNKNOWN:
                return any(each.state is EffectState.UNKNOWN for each in self._effects_of(run.tenant, run.run_id))
            case LeftOpen.IN_PROGRESS:
                return any(each.state is EffectState.DISPATCHED for each in self._effects_of(run.tenant, run.run_id))
            case LeftOpen.WAITING:
                return any(each.state is ApprovalState.PENDING for each in self._asked_in(run))

    def _effects_of(self, tenant: str, run_id: RunId) -> list[Effect]:
        return [e for e in self._tables.effects.values() if (e.tenant, e.run_id) == (tenant, run_id)]

    def _asked_in(self, run: Run) -> list[Approval]:
        whose = (run.tenant, run.subject, run.run_id)
        asked = self._tables.approvals.values()
        return [a for a in asked if (a.question.tenant, a.question.subject, a.question.run_id) == whose]
