"""What is old, forgetting it, and what is held against that."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from placet.model.approval import Approval
from placet.model.audit import AuditEvent, ChainedEvent, ChainTombstone
from placet.model.effect import BrokenEffect, Effect
from placet.model.identifiers import Token, WriterId
from placet.model.retention import BrokenRun, FinishedKind, Hold, Kept, OldRows, OldRun, Purge


class Archive(Protocol):
    """What is old, forgetting it, and what is held against that. Nothing here is on the path of a call.

    Lists give the oldest first and pass `skip` rows over, for whoever leaves some of them alone. Nothing of a tenant
    that is held by name is listed, and nothing at all while everything is.
    """

    async def finished_kinds(self) -> tuple[FinishedKind, ...]:
        """Whose operations of which tool are finished and not purged."""
        ...

    async def finished(
        self, kind: FinishedKind, *, before: datetime, limit: int, skip: int = 0
    ) -> tuple[Effect | BrokenEffect, ...]:
        """Operations that are finished, not purged, and have not changed since."""
        ...

    async def old_runs(self, *, before: datetime, limit: int, skip: int = 0) -> tuple[OldRun | BrokenRun, ...]:
        """Runs that have counted no step since."""
        ...

    async def old_approvals(self, *, before: datetime, limit: int, skip: int = 0) -> tuple[Approval, ...]:
        """Closed approvals that were asked for before; what rows say, unverified."""
        ...

    async def old_tokens(self, *, before: datetime, limit: int) -> tuple[Token, ...]:
        """Tokens that were voided before."""
        ...

    async def old_rows(self, kept: Kept, *, before: datetime, kind: FinishedKind | None = None) -> OldRows:
        """Counted, of a kind of operations or of anything else; takes time, and is for showing only."""
        ...

    async def oldest_events(self, writer: WriterId, *, limit: int) -> tuple[ChainedEvent, ...]:
        """The beginning of a chain, up to what has to stay: its last event, and reads that are not completed."""
        ...

    async def tombstones(self) -> tuple[ChainTombstone, ...]:
        """Where chains begin that were cut, by writer."""
        ...

    async def purge(self, purge: Purge) -> bool:
        """Forget what is named, all of it; False, and nothing written, if any of it is not as it was seen.

        Raises:
            StoreUnavailable: with `is_row_held`, somebody else's transaction holds a row of it.
        """
        ...

    async def hold(self, hold: Hold, *, events: tuple[AuditEvent, ...]) -> bool:
        """From its return on nothing of the scope is forgotten; False, and nothing written, if it was held already."""
        ...

    async def lift(self, scope: str, *, events: tuple[AuditEvent, ...]) -> bool:
        """False, and nothing written, if the scope was not held."""
        ...

    async def holds(self) -> tuple[Hold, ...]:
        """The oldest first."""
        ...
