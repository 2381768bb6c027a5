"""Runs as somebody looks at them, in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from placet.adapters.stores import rows, verbs
from placet.model.approval import Approval, ApprovalState
from placet.model.audit import AuditEvent
from placet.model.effect import BrokenEffect, Effect, EffectState
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
from placet.rules.listing import mark_of_approval, mark_of_effect, mark_of_run, page

if TYPE_CHECKING:
    from placet.adapters.stores.memory.tables import MemoryTables


Answered = TypeVar("Answered")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_OPEN = (ApprovalState.PENDING, ApprovalState.APPROVED)


class MemoryRuns(ABC):
    """The verbs of `ports.store.RunRows`."""

    _tables: MemoryTables
    _clock: Clock

    @abstractmethod
    def _transact(self, verb: Callable[[MemoryTables], Answered]) -> Answered: ...

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

    async def open_approvals_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Approval, ...]:
        run = self._tables.run(tenant, run_id)
        found = [] if run is None else [each for each in self._asked_in(run) if each.state in _OPEN]
        return page(found, mark_of_approval, None, limit)

    async def approvals_of_tool(self, tenant: str, run_id: RunId, tool: str, *, limit: int) -> tuple[Approval, ...]:
        run = self._tables.run(tenant, run_id)
        found = [] if run is None else [each for each in self._asked_in(run) if each.question.tool == tool]
        return page(found, mark_of_approval, None, limit)

    async def steps_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[CallId, ...]:
        found = {CallId(step[2]) for step in self._tables.steps if step[:2] == (tenant, run_id)}
        return tuple(sorted(found)[:limit])

    async def run_tallies(self, tenant: str, run_id: RunId) -> dict[str, int]:
        return {key[2]: count for key, count in self._tables.tallies.items() if key[:2] == (tenant, run_id)}

    async def run_note(self, tenant: str, run_id: RunId) -> RunNote:
        return self._tables.notes.get((tenant, run_id)) or RunNote(changed_by=None, sealed_reason=None)

    async def begin_run(
        self, run: Run, start: RunCheckpoint | None, *, events: tuple[AuditEvent, ...]
    ) -> tuple[Run, bool]:
        return self._transact(lambda tables: verbs.begin_run(tables, run, start, events, self._clock.now()))

    async def change_run(
        self, change: RunChange, *, events: tuple[AuditEvent, ...]
    ) -> tuple[Run, bool] | CallsUnderWay | None:
        return self._transact(lambda tables: verbs.change_run(tables, change, events, self._clock.now()))

    async def run_checkpoint(self, tenant: str, run_id: RunId) -> RunCheckpoint | None:
        return self._tables.checkpoint(tenant, run_id)

    async def take_run(self, take: RunTake) -> RunCheckpoint | None:
        return self._transact(lambda tables: verbs.take_run(tables, take, self._clock.now()))

    async def keep_run(self, take: RunTake, fence: int) -> bool:
        return self._transact(lambda tables: verbs.keep_run(tables, take, fence, self._clock.now()))

    async def rest_run(
        self, rest: RunRest, *, events: tuple[AuditEvent, ...], closing: tuple[Withdrawal, ...] = ()
    ) -> RunCheckpoint | None:
        return self._transact(lambda tables: verbs.rest_run(tables, rest, events, self._clock.now(), closing))

    async def due_runs(self, *, limit: int) -> tuple[tuple[str, RunId], ...]:
        now = self._clock.now()
        due = [(row.due_at, key) for key, row in self._tables.checkpoints.items() if row.due_at and row.due_at <= now]
        return tuple(key for _, key in sorted(due)[:limit])

    async def next_due_run(self) -> datetime | None:
        return min((row.due_at for row in self._tables.checkpoints.values() if row.due_at), default=None)

    async def waiting_runs(self, *, after: tuple[str, RunId] | None, limit: int) -> tuple[RunCheckpoint, ...]:
        found = {key: row for key, row in self._resting() if after is None or key > after}
        return tuple(found[key] for key in sorted(found)[:limit])

    async def wake_runs(self, policy_version: PolicyVersion, *, of: Collection[tuple[str, str]]) -> int:
        due_later = [(key, row) for key, row in self._resting() if row.due_at != _LONG_AGO]
        resting = [(key, row) for key, row in due_later if (row.workflow, row.version) in of]
        others = [(key, row) for key, row in resting if row.code and row.policy_version != policy_version]
        for key, row in others:
            self._tables.checkpoints[key] = replace(row, due_at=_LONG_AGO)
        return len(others)

    def _resting(self) -> list[tuple[tuple[str, RunId], RunCheckpoint]]:
        found = self._tables.checkpoints.items()
        return [(key, row) for key, row in found if row.due_at is not None and row.driver is None]

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
