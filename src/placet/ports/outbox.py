"""What of the audit is announced to whom."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from placet.model.audit import AuditEvent, ChainedEvent
from placet.model.identifiers import Token, WriterId
from placet.model.ledger import Place
from placet.model.notices import Announcing, Delivery, DeliveryState, Ended, KnownDestination, OutboxCount, UnreadChain


class Outbox(Protocol):
    """What of the audit goes to whom. The audit is the outbox: nothing here is on the path of a call.

    Each destination reads by cursors of its own, one per writer's chain, so that a worker that does not know of it
    reads nothing past it. A delivery names an event; what is sent is read from the audit.
    """

    async def known_destinations(self) -> tuple[KnownDestination, ...]:
        """By name; also those that no configuration names any more."""
        ...

    async def begin_destination(self, command: Announcing) -> bool:
        """Set a new destination's cursors; nothing before them is announced to it. False if it has begun already."""
        ...

    async def unread_chains(self, destination: str, *, limit: int) -> tuple[UnreadChain, ...]:
        """Chains that do not end where this destination has read to, by writer."""
        ...

    async def events_of_chain(self, writer: WriterId, *, after: int, limit: int) -> tuple[ChainedEvent, ...]: ...

    async def announce(self, command: Announcing) -> bool:
        """Move cursors and make the deliveries that were found on the way, each once, in one transaction.

        False, and nothing written, if a cursor is not where it was seen, or the destination is closed or not begun.
        """
        ...

    async def take_deliveries(
        self,
        destination: str,
        token: Token,
        *,
        lease_seconds: float,
        most_attempts: int,
        limit: int,
        lost: tuple[AuditEvent, ...] = (),
    ) -> tuple[Delivery, ...]:
        """Pending ones that are due, the longest due first, for this token alone; nobody else's for so long.

        Each counts one attempt more. One that has had so many is dead instead, as nobody said what came of the last:
        it is given too, behind the others and as it is then, and `lost` says so of as many as there are.
        """
        ...

    async def end_delivery(self, delivery: Delivery, ended: Ended, *, events: tuple[AuditEvent, ...] = ()) -> bool:
        """Say what came of an attempt; False, and nothing written, if it was given up and taken again meanwhile."""
        ...

    async def close_destination(self, name: str, *, events: tuple[AuditEvent, ...] = ()) -> bool:
        """Send nothing there and read nothing for it, until a retry opens it; False if it is closed, or not known."""
        ...

    async def deliveries(
        self, *, destination: str | None, states: Sequence[DeliveryState], limit: int
    ) -> tuple[Delivery, ...]:
        """The newest first, of one destination or all."""
        ...

    async def retry_deliveries(
        self, destination: str, place: Place | None, *, limit: int, opened: tuple[AuditEvent, ...] = ()
    ) -> int:
        """Dead → pending, due now: one, or with None the oldest; how many. A closed destination opens, and `opened`
        says so."""
        ...

    async def outbox_counts(self) -> tuple[OutboxCount, ...]:
        """Of destinations of which something waits or is dead, by name."""
        ...

    async def forget_deliveries(self, state: DeliveryState, *, before: datetime, limit: int) -> int:
        """Drop those that ended before, the oldest first; how many. Pending ones stay."""
        ...
