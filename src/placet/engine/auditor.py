"""The audit as those read it who may: their tenant's events, an export of them, and whether the whole of it holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from placet.engine.auditing import verify_store
from placet.engine.pages import MOST_IN_A_PAGE, read_page
from placet.errors import DecisionRefused, MisuseError
from placet.model.audit import ChainedEvent, EventKind
from placet.model.exact import is_limit, members_of
from placet.model.listing import Mark, Page
from placet.model.principal import Principal, is_principal
from placet.ports.keys import KeyPurpose, Keys
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules.access import READ_AUDIT_SCOPE, has_scope
from placet.rules.audit import is_about
from placet.rules.chain_check import ChainReport
from placet.rules.chains import Linker
from placet.rules.exports import ExportLines
from placet.rules.listing import mark_of_event


class Auditor:
    """Reads the audit of one store. Everything here needs the scope `audit.read`."""

    def __init__(self, *, store: Store, keys: Keys, linker: Linker) -> None:
        self._store = store
        self._keys = keys
        self._linker = linker

    @paying
    async def page(
        self,
        *,
        by: Principal,
        kinds: tuple[EventKind, ...] = tuple(EventKind),
        run_id: str | None = None,
        tool: str | None = None,
        limit: int = 100,
        after: Mark | None = None,
    ) -> Page[ChainedEvent]:
        """Events of the principal's tenant, the newest first, a page of at most 1,000 at a time.

        Where few events are asked for among many, a page may hold fewer than `limit`, or none, and go on all the same.

        Raises:
            DecisionRefused: without the scope.
            MisuseError: an argument is not of its kind.
        """
        wanted = members_of(EventKind, kinds)
        if wanted is None or not is_limit(limit) or limit > MOST_IN_A_PAGE:
            raise MisuseError(f"kinds= is a tuple of EventKind, limit= a whole number from 1 to {MOST_IN_A_PAGE}.")
        _require_leave(by)

        async def fetch(mark: Mark | None, count: int) -> tuple[ChainedEvent, ...]:
            return await self._store.events_after(by.tenant, mark, limit=count)

        return await read_page(
            fetch,
            mark_of=mark_of_event,
            shown=lambda event: event if is_about(event, kinds=wanted, run_id=run_id, tool=tool) else None,
            after=after,
            limit=limit,
        )

    @asynccontextmanager
    async def export(self, *, by: Principal) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an export of the principal's tenant; see `rules.exports`.

        Raises:
            DecisionRefused: without the scope.
            AuditBroken: while the lines are read: the audit does not hold, and no end is written.
        """
        _require_leave(by)
        async with self._store.snapshot(tenant=by.tenant) as audit:
            lines = ExportLines(
                audit.heads,
                count=audit.count,
                tenant=by.tenant,
                linker=self._linker,
                sign=lambda message: self._keys.mac(KeyPurpose.AUDIT_CHAIN, message),
                tombstones=audit.tombstones,
            )
            yield _written(lines, audit.events)

    @paying
    async def verify(self, *, by: Principal) -> ChainReport:
        """Hold the whole audit of the store against its chains and heads; takes as long as reading all of it.

        Raises:
            DecisionRefused: without the scope.
        """
        _require_leave(by)
        return await verify_store(self._store, self._linker)


async def _written(lines: ExportLines, events: AsyncIterator[ChainedEvent]) -> AsyncIterator[bytes]:
    for line in lines.begin():
        yield line
    async for event in events:
        for line in lines.take(event):
            yield line
    for line in lines.end():
        yield line


def _require_leave(by: Principal) -> None:
    if not is_principal(by):
        raise MisuseError("by= is the signed-in Principal.")
    if not has_scope(by, READ_AUDIT_SCOPE):
        raise DecisionRefused(
            f"Reading the audit needs the scope {READ_AUDIT_SCOPE}.",
            code="scope_missing",
            hint="An administrator gives the scope to whoever audits.",
        )
