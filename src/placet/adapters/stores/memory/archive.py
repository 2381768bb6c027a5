"""What is old in memory, and forgetting it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from placet.adapters.stores import verbs
from placet.model.approval import Approval
from placet.model.audit import AuditEvent, ChainedEvent, ChainTombstone
from placet.model.credentials import CredentialKind
from placet.model.effect import Effect
from placet.model.identifiers import Token, WriterId
from placet.model.retention import FinishedKind, Hold, Kept, OldRows, OldRun, Purge
from placet.model.run import Run, RunStatus
from placet.ports.clock import Clock
from placet.rules.retention import CLOSED, FINISHED, is_held

if TYPE_CHECKING:
    from placet.adapters.stores.memory.tables import MemoryTables

Answered = TypeVar("Answered")


class MemoryArchive(ABC):
    """The verbs of `ports.store.Archive`."""

    _tables: MemoryTables
    _clock: Clock

    @abstractmethod
    def _transact(self, verb: Callable[[MemoryTables], Answered]) -> Answered: ...

    async def finished_kinds(self) -> tuple[FinishedKind, ...]:
        holds = self._tables.holds()
        kinds = {FinishedKind(tenant=e.tenant, tool=e.tool) for e in self._finished() if not is_held(e.tenant, holds)}
        return tuple(sorted(kinds))

    async def finished(self, kind: FinishedKind, *, before: datetime, limit: int, skip: int = 0) -> tuple[Effect, ...]:
        return tuple(self._of_kind(kind, before)[skip : skip + limit])

    async def old_runs(self, *, before: datetime, limit: int, skip: int = 0) -> tuple[OldRun, ...]:
        holds = self._tables.holds()
        found = [
            run
            for run in self._tables.runs.values()
            if (run.stepped_at or run.opened_at) < before
            and not is_held(run.tenant, holds)
            and run.status is not RunStatus.PAUSED
            and not self._is_resting(run)
        ]
        found.sort(key=lambda run: (run.tenant, run.opened_at))
        return tuple(OldRun(tenant=r.tenant, run_id=r.run_id, steps=r.steps) for r in found[skip : skip + limit])

    def _is_resting(self, run: Run) -> bool:
        rests = self._tables.checkpoint(run.tenant, run.run_id)
        return rests is not None and rests.due_at is not None

    async def old_approvals(self, *, before: datetime, limit: int, skip: int = 0) -> tuple[Approval, ...]:
        holds = self._tables.holds()
        found = [
            approval
            for approval in self._tables.approvals.values()
            if approval.state in CLOSED
            and approval.question.asked_at < before
            and not is_held(approval.question.tenant, holds)
        ]
        found.sort(key=lambda a: (a.question.tenant, a.state.value, a.question.asked_at))
        return tuple(found[skip : skip + limit])

    async def old_tokens(self, *, before: datetime, limit: int) -> tuple[Token, ...]:
        if is_held("", self._tables.holds()):
            return ()
        found = sorted((at, token) for token, at in self._tables.voids.items() if at < before)
        return tuple(token for _, token in found[:limit])

    async def old_rows(self, kept: Kept, *, before: datetime, kind: FinishedKind | None = None) -> OldRows:
        instants: list[datetime] = []
        match kept:
            case Kept.OPERATIONS:
                instants = [] if kind is None else [effect.updated_at for effect in self._of_kind(kind, before)]
            case Kept.RUNS:
                old = await self.old_runs(before=before, limit=len(self._tables.runs))
                instants = [self._tables.runs[run.tenant, run.run_id].opened_at for run in old]
            case Kept.APPROVALS:
                found = await self.old_approvals(before=before, limit=len(self._tables.approvals))
                instants = [approval.question.asked_at for approval in found]
            case Kept.TOKENS:
                tokens = await self.old_tokens(before=before, limit=len(self._tables.voids))
                instants = [self._tables.voids[token] for token in tokens]
            case Kept.API_KEYS:
                holds = self._tables.holds()
                ended = [row for row in self._tables.credentials.values() if row.kind is CredentialKind.API_KEY]
                instants = [row.ends_at for row in ended if row.ends_at < before and not is_held(row.tenant, holds)]
            case Kept.EVENTS:
                instants = [at for event in self._tables.events if (at := self._told_at(event)) < before]
        return OldRows(count=len(instants), oldest_at=min(instants, default=None))

    async def oldest_events(self, writer: WriterId, *, limit: int) -> tuple[ChainedEvent, ...]:
        until = self._tables.kept_until(writer)
        return tuple(e for e in self._tables.events if e.writer == writer and e.sequence < until)[:limit]

    async def tombstones(self) -> tuple[ChainTombstone, ...]:
        return tuple(self._tables.tombstones.values())

    async def purge(self, purge: Purge) -> bool:
        return self._transact(lambda tables: verbs.purge(tables, purge, self._clock.now()))

    async def hold(self, hold: Hold, *, events: tuple[AuditEvent, ...]) -> bool:
        return self._transact(lambda tables: verbs.hold(tables, hold, events))

    async def lift(self, scope: str, *, events: tuple[AuditEvent, ...]) -> bool:
        return self._transact(lambda tables: verbs.lift(tables, scope, events))

    async def holds(self) -> tuple[Hold, ...]:
        return tuple(sorted(self._tables.held.values(), key=lambda hold: (hold.held_at, hold.scope)))

    # ------------------------------------------------------------ within

    def _finished(self) -> list[Effect]:
        return [effect for effect in self._tables.effects.values() if effect.state in FINISHED and not effect.is_purged]

    def _of_kind(self, kind: FinishedKind, before: datetime) -> list[Effect]:
        if is_held(kind.tenant, self._tables.holds()):
            return []
        mine = [e for e in self._finished() if (e.tenant, e.tool) == (kind.tenant, kind.tool) and e.updated_at < before]
        return sorted(mine, key=lambda effect: effect.updated_at)

    def _told_at(self, event: ChainedEvent) -> datetime:
        body = json.loads(event.body)
        held = is_held(str(body["tenant"]), self._tables.holds())
        return datetime.max.replace(tzinfo=self._clock.now().tzinfo) if held else datetime.fromisoformat(body["at"])
