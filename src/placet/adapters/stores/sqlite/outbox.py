"""What is announced, in a SQLite store."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from placet.adapters.stores import outbox, rows
from placet.adapters.stores.sqlite.writer import Writer
from placet.model.audit import AuditEvent, ChainedEvent
from placet.model.identifiers import Token, WriterId
from placet.model.ledger import Place
from placet.model.notices import Announcing, Delivery, DeliveryState, Ended, KnownDestination, OutboxCount, UnreadChain
from placet.ports.clock import Clock


class SqliteOutbox(ABC):
    """The verbs of `ports.store.Outbox`."""

    _clock: Clock
    _writer: Writer

    async def known_destinations(self) -> tuple[KnownDestination, ...]:
        return tuple(map(outbox.destination_from, self._read("destinations")))

    async def begin_destination(self, command: Announcing) -> bool:
        return await self._writer.transact(lambda tables: outbox.begin_destination(tables, command, self._clock.now()))

    async def unread_chains(self, destination: str, *, limit: int) -> tuple[UnreadChain, ...]:
        return tuple(map(outbox.unread_from, self._read("unread_chains", destination, limit)))

    async def events_of_chain(self, writer: WriterId, *, after: int, limit: int) -> tuple[ChainedEvent, ...]:
        return tuple(map(rows.event_from, self._read("events_of_chain", writer, after, limit)))

    async def announce(self, command: Announcing) -> bool:
        return await self._writer.transact(lambda tables: outbox.announce(tables, command, self._clock.now()))

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
        if not self._read("due_deliveries", destination, rows.microseconds(self._clock.now()), 1):
            return ()  # nearly always; a look takes no write lock
        return await self._writer.transact(
            lambda tables: outbox.take_deliveries(
                tables,
                destination,
                token,
                self._clock.now(),
                lease_seconds=lease_seconds,
                most_attempts=most_attempts,
                limit=limit,
                lost=lost,
            )
        )

    async def end_delivery(self, delivery: Delivery, ended: Ended, *, events: tuple[AuditEvent, ...] = ()) -> bool:
        return await self._writer.transact(
            lambda tables: outbox.end_delivery(tables, delivery, ended, self._clock.now(), events)
        )

    async def close_destination(self, name: str, *, events: tuple[AuditEvent, ...] = ()) -> bool:
        return await self._writer.transact(
            lambda tables: outbox.close_destination(tables, name, self._clock.now(), events)
        )

    async def deliveries(
        self, *, destination: str | None, states: Sequence[DeliveryState], limit: int
    ) -> tuple[Delivery, ...]:
        names = json.dumps([state.value for state in states])
        return tuple(map(outbox.delivery_from, self._read("deliveries", names, destination, limit)))

    async def retry_deliveries(
        self, destination: str, place: Place | None, *, limit: int, opened: tuple[AuditEvent, ...] = ()
    ) -> int:
        return await self._writer.transact(
            lambda tables: outbox.retry_deliveries(
                tables, destination, place, self._clock.now(), limit=limit, opened=opened
            )
        )

    async def outbox_counts(self) -> tuple[OutboxCount, ...]:
        return tuple(map(outbox.count_from, self._read("outbox_counts")))

    async def forget_deliveries(self, state: DeliveryState, *, before: datetime, limit: int) -> int:
        if not self._read("old_deliveries", state.value, rows.microseconds(before)):
            return 0
        return await self._writer.transact(lambda tables: tables.drop_deliveries(state, before, limit))

    @abstractmethod
    def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...
