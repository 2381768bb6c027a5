"""What is old in a SQLite store, and forgetting it in small transactions of its writer."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.sqlite.connection import read_only, translated
from placet.adapters.stores.sqlite.tables import SQL
from placet.adapters.stores.sqlite.writer import Writer
from placet.model.approval import Approval
from placet.model.audit import AuditEvent, ChainedEvent, ChainTombstone
from placet.model.credentials import CredentialKind
from placet.model.effect import BrokenEffect, Effect
from placet.model.identifiers import Token, WriterId
from placet.model.retention import BrokenRun, FinishedKind, Hold, Kept, OldRows, OldRun, Purge
from placet.ports.clock import Clock
from placet.rules.approvals import instant_text
from placet.rules.retention import CLOSED, is_held

_CLOSED = tuple(sorted(state.value for state in CLOSED))


class SqliteArchive(ABC):
    """The verbs of `ports.store.Archive`. Each tenant's rows are found by its own part of an index."""

    _path: Path
    _clock: Clock
    _writer: Writer

    async def finished_kinds(self) -> tuple[FinishedKind, ...]:
        holds, found, last = self._held(), [], ("", "")
        while row := self._one("next_finished_kind", *last):
            last = row
            found.append(FinishedKind(tenant=row[0], tool=row[1]))
        return tuple(kind for kind in found if not is_held(kind.tenant, holds))

    async def finished(
        self, kind: FinishedKind, *, before: datetime, limit: int, skip: int = 0
    ) -> tuple[Effect | BrokenEffect, ...]:
        if is_held(kind.tenant, self._held()):
            return ()
        return self._effects("finished", kind.tenant, kind.tool, rows.microseconds(before), limit, skip)

    async def old_runs(self, *, before: datetime, limit: int, skip: int = 0) -> tuple[OldRun | BrokenRun, ...]:
        found: list[OldRun | BrokenRun] = []
        for tenant in self._tenants("next_tenant_of_runs"):
            if len(found) >= skip + limit:
                break
            several = self._read("old_runs", tenant, rows.microseconds(before), skip + limit - len(found))
            found += map(rows.old_run_or_broken, several)
        return tuple(found[skip:])

    async def old_approvals(self, *, before: datetime, limit: int, skip: int = 0) -> tuple[Approval, ...]:
        found: list[tuple[Any, ...]] = []
        for tenant in self._tenants("next_tenant_of_approvals"):
            for state in _CLOSED:
                if len(found) < skip + limit:
                    rest = skip + limit - len(found)
                    found += self._read("old_approvals", tenant, state, rows.microseconds(before), rest)
        return tuple(rows.approval_from(row) for row in found[skip:])

    async def old_tokens(self, *, before: datetime, limit: int) -> tuple[Token, ...]:
        if is_held("", self._held()):
            return ()
        return tuple(Token(row[0]) for row in self._read("old_tokens", rows.microseconds(before), limit))

    async def old_rows(self, kept: Kept, *, before: datetime, kind: FinishedKind | None = None) -> OldRows:
        """Counted over a connection and a thread of their own: it may take long, and calls go on meanwhile."""
        return await asyncio.to_thread(self._counted, kept, before, kind)

    async def oldest_events(self, writer: WriterId, *, limit: int) -> tuple[ChainedEvent, ...]:
        until = self._one("kept_until", writer)
        if until is None or until[0] is None:
            return ()
        return tuple(rows.event_from(row) for row in self._read("oldest_events", writer, until[0], limit))

    async def tombstones(self) -> tuple[ChainTombstone, ...]:
        return tuple(rows.tombstone_from(row) for row in self._read("tombstones"))

    async def purge(self, purge: Purge) -> bool:
        return await self._writer.transact(lambda tables: verbs.purge(tables, purge, self._clock.now()))

    async def hold(self, hold: Hold, *, events: tuple[AuditEvent, ...]) -> bool:
        return await self._writer.transact(lambda tables: verbs.hold(tables, hold, events))

    async def lift(self, scope: str, *, events: tuple[AuditEvent, ...]) -> bool:
        return await self._writer.transact(lambda tables: verbs.lift(tables, scope, events))

    async def holds(self) -> tuple[Hold, ...]:
        return tuple(rows.hold_from(row) for row in self._read("holds"))

    # ------------------------------------------------------------ within

    def _held(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._read("holds"))

    def _tenants(self, statement: str) -> Iterator[str]:
        """Tenants that are not held, from one to the next in their index."""
        holds, last = self._held(), ""
        while row := self._one(statement, last):
            last = row[0]
            if not is_held(last, holds):
                yield last

    def _counted(self, kept: Kept, before: datetime, kind: FinishedKind | None) -> OldRows:
        at = rows.microseconds(before)
        with translated(self._path):
            connection = read_only(self._path)
            try:
                connection.execute("BEGIN")
                held = frozenset(row[0] for row in connection.execute(SQL["holds"]))
                match kept:
                    case Kept.OPERATIONS if kind is not None and not is_held(kind.tenant, held):
                        found = list(connection.execute(SQL["count_finished"], (kind.tenant, kind.tool, at)))
                    case Kept.OPERATIONS:
                        found = []
                    case Kept.TOKENS:
                        found = [] if is_held("", held) else list(connection.execute(SQL["count_old_tokens"], (at,)))
                    case Kept.RUNS:
                        found = _by_tenant(connection, held, "next_tenant_of_runs", "count_old_runs", [(at,)])
                    case Kept.APPROVALS:
                        each = [(state, at) for state in _CLOSED]
                        found = _by_tenant(connection, held, "next_tenant_of_approvals", "count_old_approvals", each)
                    case Kept.API_KEYS:
                        bound = (CredentialKind.API_KEY.value, at)
                        ended = connection.execute(SQL["count_ended_credentials"], bound)
                        found = [row[1:] for row in ended if not is_held(str(row[0]), held)]
                    case Kept.EVENTS:
                        each_event = [(instant_text(before),)]
                        counted = _by_tenant(connection, held, "next_tenant_of_events", "count_old_events", each_event)
                        found = [(count, _microseconds_of(at)) for count, at in counted]
                return rows.old_rows_from(found)
            finally:
                connection.close(True)

    def _one(self, name: str, *bindings: Any) -> tuple[Any, ...] | None:
        return next(iter(self._read(name, *bindings)), None)

    @abstractmethod
    def _effects(self, name: str, *bindings: Any) -> tuple[Effect | BrokenEffect, ...]: ...

    @abstractmethod
    def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...


def _by_tenant(
    connection: apsw.Connection, held: frozenset[str], following: str, count: str, bindings: list[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    tenant = ""
    while row := connection.execute(SQL[following], (tenant,)).fetchone():
        tenant = row[0]
        if not is_held(tenant, held):
            for each in bindings:
                found += connection.execute(SQL[count], (tenant, *each))
    return found


def _microseconds_of(text: str | None) -> int | None:
    """An event's instant as it says it; None for what was altered until it says none."""
    try:
        at = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
    return rows.microseconds(at) if at is not None and at.tzinfo is not None else None
