"""Runs as somebody looks at them, in a PostgreSQL store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.postgres.orders import How
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

if TYPE_CHECKING:
    from placet.adapters.stores.postgres.overlay import PredictedTables


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

    async def open_approvals_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[Approval, ...]:
        return tuple(map(rows.approval_from, await self._read("open_approvals_of_run", tenant, run_id, limit)))

    async def approvals_of_tool(self, tenant: str, run_id: RunId, tool: str, *, limit: int) -> tuple[Approval, ...]:
        return tuple(map(rows.approval_from, await self._read("approvals_of_tool", tenant, run_id, tool, limit)))

    async def steps_of_run(self, tenant: str, run_id: RunId, *, limit: int) -> tuple[CallId, ...]:
        return tuple(CallId(row[0]) for row in await self._read("steps_of_run", tenant, run_id, limit))

    async def run_tallies(self, tenant: str, run_id: RunId) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._read("tallies_of_run", tenant, run_id)}

    async def run_note(self, tenant: str, run_id: RunId) -> RunNote:
        return rows.run_note_from(await self._read("run_note", tenant, run_id))

    async def begin_run(
        self, run: Run, start: RunCheckpoint | None, *, events: tuple[AuditEvent, ...]
    ) -> tuple[Run, bool]:
        """Alone: a proposal that opens the same run at this moment would see none of its limits."""
        answer: tuple[Run, bool] = await self._write(
            lambda tables: verbs.begin_run(tables, run, start, events, tables.now), How.ALONE
        )
        return answer

    async def change_run(
        self, change: RunChange, *, events: tuple[AuditEvent, ...]
    ) -> tuple[Run, bool] | CallsUnderWay | None:
        """Alone, as a stop: every host's claims before it are through."""
        answer: tuple[Run, bool] | CallsUnderWay | None = await self._write(
            lambda tables: verbs.change_run(tables, change, events, tables.now), How.ALONE
        )
        return answer

    async def run_checkpoint(self, tenant: str, run_id: RunId) -> RunCheckpoint | None:
        found = await self._read("checkpoint", tenant, run_id)
        return rows.checkpoint_from(found[0]) if found else None

    async def take_run(self, take: RunTake) -> RunCheckpoint | None:
        rests: RunCheckpoint | None = await self._write(
            lambda tables: verbs.take_run(tables, take, tables.now), How.LOCKED, (take.tenant, take.run_id)
        )
        return rests

    async def keep_run(self, take: RunTake, fence: int) -> bool:
        about = (take.tenant, take.run_id)
        kept = await self._write(lambda tables: verbs.keep_run(tables, take, fence, tables.now), How.LOCKED, about)
        return bool(kept)

    async def rest_run(
        self, rest: RunRest, *, events: tuple[AuditEvent, ...], closing: tuple[Withdrawal, ...] = ()
    ) -> RunCheckpoint | None:
        """Alone where it changes the tools of the run, as `change_run`. Not where it ends it: a claim beside that is
        one of before, and whoever claimed it did not wait for the step."""
        how = How.LOCKED if rest.workflow_tools is None else How.ALONE
        rests: RunCheckpoint | None = await self._write(
            lambda tables: verbs.rest_run(tables, rest, events, tables.now, closing), how, (rest.tenant, rest.run_id)
        )
        return rests

    async def due_runs(self, *, limit: int) -> tuple[tuple[str, RunId], ...]:
        return tuple((row[0], RunId(row[1])) for row in await self._read("due_runs", limit))

    async def next_due_run(self) -> datetime | None:
        found = await self._read("next_due_run")
        return rows.instant(found[0][0]) if found else None

    async def waiting_runs(self, *, after: tuple[str, RunId] | None, limit: int) -> tuple[RunCheckpoint, ...]:
        return tuple(map(rows.checkpoint_from, await self._read("waiting_runs", *(after or ("", "")), limit)))

    async def wake_runs(self, policy_version: PolicyVersion, *, of: Collection[tuple[str, str]]) -> int:
        return int(await self._write(lambda tables: tables.wake_runs(policy_version, of), How.LOCKED))

    @abstractmethod
    async def _write(
        self, verb: Callable[[PredictedTables], Any], how: How = How.TOGETHER, about: tuple[str, str] | None = None
    ) -> Any: ...

    @abstractmethod
    async def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    async def _effects(self, name: str, *bindings: Any) -> tuple[Effect | BrokenEffect, ...]: ...
