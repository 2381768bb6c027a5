"""What is old in a PostgreSQL store, and forgetting it in small transactions of its writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.postgres.orders import How
from placet.adapters.stores.postgres.overlay import PredictedTables
from placet.adapters.stores.postgres.reading_wishes import Reading
from placet.model.approval import Approval, ApprovalState
from placet.model.audit import AuditEvent, ChainedEvent, ChainTombstone
from placet.model.credentials import CredentialKind
from placet.model.effect import BrokenEffect, Effect
from placet.model.identifiers import Token, WriterId
from placet.model.retention import BrokenRun, FinishedKind, Hold, Kept, OldRows, OldRun, Purge
from placet.rules.approvals import instant_text
from placet.rules.retention import CLOSED, is_held

_CLOSED = tuple(sorted(state.value for state in CLOSED))


class PostgresArchive(ABC):
    """The verbs of `ports.store.Archive`. Each tenant's rows are found by its own part of an index."""

    async def finished_kinds(self) -> tuple[FinishedKind, ...]:
        holds, found, last = await self._held(), list[FinishedKind](), ("", "")
        while row := await self._one("next_finished_kind", *last):
            last = (row[0], row[1])
            found.append(FinishedKind(tenant=row[0], tool=row[1]))
        return tuple(kind for kind in found if not is_held(kind.tenant, holds))

    async def finished(
        self, kind: FinishedKind, *, before: datetime, limit: int, skip: int = 0
    ) -> tuple[Effect | BrokenEffect, ...]:
        if is_held(kind.tenant, await self._held()):
            return ()
        return await self._effects("finished", kind.tenant, kind.tool, rows.microseconds(before), limit, skip)

    async def old_runs(self, *, before: datetime, limit: int, skip: int = 0) -> tuple[OldRun | BrokenRun, ...]:
        found: list[OldRun | BrokenRun] = []
        async for tenant in self._tenants("next_tenant_of_runs"):
            if len(found) >= skip + limit:
                break
            several = await self._read("old_runs", tenant, rows.microseconds(before), skip + limit - len(found))
            found += map(rows.old_run_or_broken, several)
        return tuple(found[skip:])

    async def old_approvals(self, *, before: datetime, limit: int, skip: int = 0) -> tuple[Approval, ...]:
        found: list[tuple[Any, ...]] = []
        async for tenant in self._tenants("next_tenant_of_approvals"):
            for state in _CLOSED:
                if len(found) < skip + limit:
                    rest = skip + limit - len(found)
                    found += await self._read("old_approvals", tenant, state, rows.microseconds(before), rest)
        return tuple(rows.approval_from(row) for row in found[skip:])

    async def old_tokens(self, *, before: datetime, limit: int) -> tuple[Token, ...]:
        if is_held("", await self._held()):
            return ()
        return tuple(Token(row[0]) for row in await self._read("old_tokens", rows.microseconds(before), limit))

    async def old_rows(self, kept: Kept, *, before: datetime, kind: FinishedKind | None = None) -> OldRows:
        at, held = rows.microseconds(before), await self._held()
        match kept:
            case Kept.OPERATIONS if kind is not None and not is_held(kind.tenant, held):
                found = await self._read("count_finished", kind.tenant, kind.tool, at)
            case Kept.OPERATIONS:
                found = []
            case Kept.TOKENS:
                found = [] if is_held("", held) else await self._read("count_old_tokens", at)
            case Kept.RUNS:
                found = await self._by_tenant("next_tenant_of_runs", "count_old_runs", [(at,)])
            case Kept.APPROVALS:
                each = [(state, at) for state in _CLOSED]
                found = await self._by_tenant("next_tenant_of_approvals", "count_old_approvals", each)
            case Kept.API_KEYS:
                ended = await self._read("count_ended_credentials", CredentialKind.API_KEY.value, at)
                found = [row[1:] for row in ended if not is_held(row[0], held)]
            case Kept.EVENTS:
                bound = [(instant_text(before),)]
                counted = await self._by_tenant("next_tenant_of_events", "count_old_events", bound)
                found = [(count, _microseconds_of(text)) for count, text in counted]
        return rows.old_rows_from([(row[0], row[1]) for row in found])

    async def oldest_events(self, writer: WriterId, *, limit: int) -> tuple[ChainedEvent, ...]:
        until = await self._one("kept_until", writer)
        if until is None or until[0] is None:
            return ()
        return tuple(map(rows.event_from, await self._read("oldest_events", writer, until[0], limit)))

    async def tombstones(self) -> tuple[ChainTombstone, ...]:
        return tuple(map(rows.tombstone_from, await self._read("tombstones")))

    async def purge(self, purge: Purge) -> bool:
        def verb(tables: PredictedTables) -> bool:
            _need_all(tables, purge)
            return verbs.purge(tables, purge, tables.now)

        return bool(await self._write(verb, How.LOCKED))

    async def hold(self, hold: Hold, *, events: tuple[AuditEvent, ...]) -> bool:
        """After every purge that is on its way, and before any other."""
        return bool(await self._write(lambda tables: verbs.hold(tables, hold, events), How.ALONE))

    async def lift(self, scope: str, *, events: tuple[AuditEvent, ...]) -> bool:
        return bool(await self._write(lambda tables: verbs.lift(tables, scope, events), How.ALONE))

    async def holds(self) -> tuple[Hold, ...]:
        return tuple(map(rows.hold_from, await self._read("holds")))

    # ------------------------------------------------------------ within

    async def _held(self) -> frozenset[str]:
        return frozenset(row[0] for row in await self._read("holds"))

    async def _tenants(self, statement: str) -> AsyncIterator[str]:
        """Tenants that are not held, from one to the next in their index."""
        holds, last = await self._held(), ""
        while row := await self._one(statement, last):
            last = row[0]
            if not is_held(last, holds):
                yield last

    async def _by_tenant(self, following: str, count: str, bound: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        async for tenant in self._tenants(following):
            for each in bound:
                found += await self._read(count, tenant, *each)
        return found

    async def _one(self, name: str, *bindings: Any) -> tuple[Any, ...] | None:
        return next(iter(await self._read(name, *bindings)), None)

    @abstractmethod
    async def _effects(self, name: str, *bound: Any) -> tuple[Effect | BrokenEffect, ...]: ...

    @abstractmethod
    async def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    async def _write(self, verb: Callable[[PredictedTables], Any], how: How = How.TOGETHER) -> Any: ...


def _need_all(tables: PredictedTables, purge: Purge) -> None:
    """What a purge of many rows looks at, in two rounds of reading: the second for runs that denials may stand for."""
    approvals = [(seen.tenant, seen.approval_id) for seen in purge.approvals]
    tables.need(
        (
            *(Reading("effects_at", (grave.tenant, grave.operation_key)) for grave in purge.graves),
            *(Reading("approvals_at", name) for name in approvals),
            *(Reading("run", (run.tenant, run.run_id)) for run in purge.runs),
            *(Reading("credential_locked", (row.kind.value, row.name)) for row in purge.credentials),
        )
    )
    tables.need(
        Reading("run", (name[0], approval.question.run_id))
        for name in approvals
        if (approval := tables.approval(*name)) is not None and approval.state is ApprovalState.DENIED
    )


def _microseconds_of(text: str | None) -> int | None:
    """An event's instant as it says it; None for what was altered until it says none."""
    try:
        at = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
    return rows.microseconds(at) if at is not None and at.tzinfo is not None else None
