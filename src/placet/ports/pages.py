"""Lists that somebody reads a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from placet.model.approval import Approval, ApprovalState
from placet.model.audit import ChainedEvent
from placet.model.effect import BrokenEffect, Effect, EffectState
from placet.model.listing import Mark
from placet.model.watching import WaitingMark


class Pages(Protocol):
    """Lists of one tenant that somebody reads a page at a time: newest first, then by name, and after a mark only what
    is older. A row that changes meanwhile goes to the front of its list; every other one is given once.
    """

    async def approvals_after(
        self, tenant: str, mark: Mark | None, *, states: Sequence[ApprovalState], limit: int
    ) -> tuple[Approval, ...]:
        """By the instant at which they were asked for; as rows say, unverified."""
        ...

    async def waiting_marks(self, tenant: str, *, limit: int) -> tuple[WaitingMark, ...]:
        """The pending ones, in the same order, and no more of each than shows that it changed: for frequent looks."""
        ...

    async def effects_after(
        self, tenant: str, mark: Mark | None, *, states: Sequence[EffectState], limit: int, subject: str | None
    ) -> tuple[Effect | BrokenEffect, ...]:
        """By the instant of their last change; with a subject, as `effects` picks them."""
        ...

    async def events_after(self, tenant: str, mark: Mark | None, *, limit: int) -> tuple[ChainedEvent, ...]:
        """By their writers' clocks."""
        ...
