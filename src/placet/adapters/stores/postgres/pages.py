"""Lists that somebody reads a page at a time, in a PostgreSQL store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from placet.adapters.stores import rows
from placet.model.approval import (
    Approval,
    ApprovalState,
)
from placet.model.audit import ChainedEvent
from placet.model.effect import BrokenEffect, Effect, EffectState
from placet.model.listing import Mark
from placet.model.watching import WaitingMark

_IN_FLIGHT = frozenset({EffectState.DISPATCHED, EffectState.UNKNOWN})


class PostgresPages(ABC):
    """The verbs of `ports.store.Pages`."""

    async def approvals_after(
        self, tenant: str, mark: Mark | None, *, states: Sequence[ApprovalState], limit: int
    ) -> tuple[Approval, ...]:
        names = [state.value for state in states]
        found = await self._read("approvals_of_tenant_after", tenant, names, limit, *rows.place_of(mark))
        return tuple(map(rows.approval_from, found))

    async def waiting_marks(self, tenant: str, *, limit: int) -> tuple[WaitingMark, ...]:
        return tuple(map(rows.waiting_mark_from, await self._read("waiting_marks", tenant, limit)))

    async def effects_after(
        self, tenant: str, mark: Mark | None, *, states: Sequence[EffectState], limit: int, subject: str | None
    ) -> tuple[Effect | BrokenEffect, ...]:
        name = "effects_in_flight_after" if _IN_FLIGHT.issuperset(states) else "effects_of_tenant_after"
        return await self._effects(
            name, [state.value for state in states], subject, limit, tenant, *rows.place_of(mark)
        )

    async def events_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[ChainedEvent, ...]:
        found = await self._read("events_of_tenant_after", tenant, limit, *rows.place_of_event(mark))
        return tuple(map(rows.event_from, found))

    @abstractmethod
    async def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    async def _effects(self, name: str, *bound: Any) -> tuple[Effect | BrokenEffect, ...]: ...
