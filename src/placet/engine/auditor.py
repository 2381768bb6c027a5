"""The audit as those read it who may: their tenant's events, an export of them, and whether the whole of it holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from placet.engine.auditing import unhurried, verify_store
from placet.engine.pages import MOST_IN_A_PAGE, read_page
from placet.errors import AuditBusy, DecisionRefused, MisuseError
from placet.model.audit import ChainedEvent, EventKind
from placet.model.exact import MOST_LISTED, is_limit, members_of
from placet.model.listing import Mark, Page
from placet.model.principal import Principal, is_principal
from placet.model.wanted_events import WantedEvents
from placet.ports.keys import KeyPurpose, Keys
from placet.ports.store import Store
from placet.ports.waiting import one_turn, paying
from placet.rules.access import READ_AUDIT_SCOPE, has_scope
from placet.rules.chain_check import ChainReport
from placet.rules.chains import Linker
from placet.rules.exports import ExportLines
from placet.rules.listing import readable_mark_of_event
from placet.rules.wanted_events import chooser


class Auditor:
    """Reads the audit of one store. Everything here needs the scope `audit.read`."""

    def __init__(self, *, store: Store, keys: Keys, linker: Linker) -> None:
        self._store = store
        self._keys = keys
        self._linker = linker
        self._is_verifying = False

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
            await one_turn()  # a store that waits for nothing would be asked twenty times at a stretch
            return await self._store.events_after(by.tenant, mark, limit=count)

        narrowed = None if set(wanted) == set(EventKind) else frozenset(wanted)  # all: also what tells no kind of ours
        is_wanted = chooser(WantedEvents(kinds=narrowed, run_id=run_id, tool=tool))
        return await read_page(
            fetch,
            mark_of=readable_mark_of_event,
            shown=lambda event: event if is_wanted(event) else None,
            after=after,
            limit=limit,
        )

    async def newest(self, *, by: Principal, wanted: WantedEvents, most_read: int) -> AsyncIterator[ChainedEvent]:
        """Those that are wanted among so many newest events of the principal's tenant, the newest first.

        They are read and picked while they are taken, some hundred at a time, and others have their turn in between.

        Raises:
            DecisionRefused: without the scope.
            MisuseError: `most_read` is no whole number from 1 to 10,000.
        """
        if not is_limit(most_read):
            raise MisuseError(f"most_read= is a whole number from 1 to {MOST_LISTED}.")
        _require_leave(by)
        is_wanted = chooser(wanted)
        async for event in unhurried(self._newest(by.tenant, most_read)):
            if is_wanted(event):
                yield event

    async def _newest(self, tenant: str, most: int) -> AsyncIterator[ChainedEvent]:
        mark: Mark | None = None
        for left in range(most, 0, -MOST_IN_A_PAGE):
            count = min(left, MOST_IN_A_PAGE)
            found = await self._store.events_after(tenant, mark, limit=count)
            placed = [(event, place) for event in found if (place := readable_mark_of_event(event)) is not None]
            is_last = len(found) < count or not placed
            for event in found if is_last else [event for event, _ in placed]:  # what tells no instant comes again
                yield event
            if is_last:
                return
            mark = placed[-1][1]

    @asynccontextmanager
    async def export(self, *, by: Principal) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an export of the principal's tenant; see `rules.exports`.

        Raises:
            DecisionRefused: without the scope.
            AuditBroken: while the lines are read: the audit does not hold, and no end is written.
        """
        _require_leave(by)
        async with audit_export(self._store, self._keys, self._linker, tenant=by.tenant) as lines:
            yield lines

    @paying
    async def verify(self, *, by: Principal) -> ChainReport:
        """Hold the whole audit of the store against its chains and heads; takes as long as reading all of it.

        Raises:
            DecisionRefused: without the scope.
            AuditBusy: it is being done already, for whomever; it is done once at a time here.
        """
        _require_leave(by)
        if self._is_verifying:
            raise AuditBusy
        self._is_verifying = True
        try:
            return await verify_store(self._store, self._linker)
        finally:
            self._is_verifying = False


@asynccontextmanager
async def audit_export(
    store: Store, keys: Keys, linker: Linker, *, tenant: str | None
) -> AsyncIterator[AsyncIterator[bytes]]:
    """The lines of an export of the whole audit, or of one tenant's part, from one moment; see `rules.exports`."""
    async with store.snapshot(tenant=tenant) as audit:
        lines = ExportLines(
            audit.heads,
            count=audit.count,
            tenant=tenant,
            linker=linker,
            sign=lambda message: keys.mac(KeyPurpose.AUDIT_CHAIN, message),
            tombstones=audit.tombstones,
        )
        yield _written(lines, audit.events)


async def _written(lines: ExportLines, events: AsyncIterator[ChainedEvent]) -> AsyncIterator[bytes]:
    for line in lines.begin():
        yield line
    async for event in unhurried(events):
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
