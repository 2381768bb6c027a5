"""What is announced, in a PostgreSQL store: workers of any number of hosts share it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from placet.adapters.stores import outbox, rows
from placet.adapters.stores.postgres.orders import How
from placet.adapters.stores.postgres.overlay import PredictedTables
from placet.model.audit import AuditEvent, ChainedEvent
from placet.model.identifiers import Token, WriterId
from placet.model.ledger import Place
from placet.model.notices import Announcing, Delivery, DeliveryState, Ended, KnownDestination, OutboxCount, UnreadChain


class PostgresOutbox(ABC):
    """The verbs of `ports.store.Outbox`."""

    async def known_destinations(self) -> tuple[KnownDestination, ...]:
        return tuple(map(outbox.destination_from, await self._read("destinations")))

    async def begin_destination(self, command: Announcing) -> bool:
        return bool(await self._write(lambda tables: outbox.begin_destination(tables, command, tables.now), How.LOCKED))

    async def unread_chains(self, destination: str, *, limit: int) -> tuple[UnreadChain, ...]:
        return tuple(map(outbox.unread_from, await self._read("unread_chains", destination, limit)))

    async def events_of_chain(self, writer: WriterId, *, after: int, limit: int) -> tuple[ChainedEvent, ...]:
        return tuple(map(rows.event_from, await self._read("events_of_chain", writer, after, limit)))

    async def announce(self, command: Announcing) -> bool:
        return bool(await self._write(lambda tables: outbox.announce(tables, command, tables.now), How.LOCKED))

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
        if not await self._read("is_anything_due", destination):
            return ()  # nearly always; a look waits for no transaction
        taken: tuple[Delivery, ...] = await self._write(
            lambda tables: outbox.take_deliveries(
                tables,
                destination,
                token,
                tables.now,
                lease_seconds=lease_seconds,
                most_attempts=most_attempts,
                limit=limit,
                lost=lost,
            ),
            How.LOCKED,
        )
        return taken

    async def end_delivery(self, delivery: Delivery, ended: Ended, *, events: tuple[AuditEvent, ...] = ()) -> bool:
        return bool(
            await self._write(
                lambda tables: outbox.end_delivery(tables, delivery, ended, tables.now, events), How.LOCKED
            )
        )

    async def close_destination(self, name: str, *, events: tuple[AuditEvent, ...] = ()) -> bool:
        return bool(
            await self._write(lambda tables: outbox.close_destination(tables, name, tables.now, events), How.LOCKED)
        )

    async def deliveries(
        self, *, destination: str | None, states: Sequence[DeliveryState], limit: int
    ) -> tuple[Delivery, ...]:
        found = await self._read("deliveries", [state.value for state in states], destination, limit)
        return tuple(map(outbox.delivery_from, found))

    async def retry_deliveries(
        self, destination: str, place: Place | None, *, limit: int, opened: tuple[AuditEvent, ...] = ()
    ) -> int:
        return int(
            await self._write(
                lambda tables: outbox.retry_deliveries(
                    tables, destination, place, tables.now, limit=limit, opened=opened
                ),
                How.LOCKED,
            )
        )

    async def outbox_counts(self) -> tuple[OutboxCount, ...]:
        return tuple(map(outbox.count_from, await self._read("outbox_counts")))

    async def forget_deliveries(self, state: DeliveryState, *, before: datetime, limit: int) -> int:
        if not await self._read("old_deliveries", state.value, rows.microseconds(before)):
            return 0
        return int(await self._write(lambda tables: tables.drop_deliveries(state, before, limit), How.LOCKED))

    @abstractmethod
    async def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    async def _write(self, verb: Callable[[PredictedTables], Any], how: How = How.TOGETHER) -> Any: ...
