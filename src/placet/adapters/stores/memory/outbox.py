"""What is announced, in memory: the tables and the verbs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from placet.adapters.stores import outbox
from placet.model.audit import AuditEvent, ChainedEvent, ChainTombstone
from placet.model.identifiers import Token, WriterId
from placet.model.ledger import Place
from placet.model.notices import Announcing, Delivery, DeliveryState, Ended, KnownDestination, OutboxCount, UnreadChain
from placet.ports.clock import Clock

if TYPE_CHECKING:
    from placet.adapters.stores.memory.tables import MemoryTables

Answered = TypeVar("Answered")
Key = TypeVar("Key")
Row = TypeVar("Row")


class MemoryOutboxTables(ABC):
    """Rows in dictionaries, undone as those of `MemoryTables` are."""

    events: list[ChainedEvent]
    tombstones: dict[WriterId, ChainTombstone]

    def __init__(self) -> None:
        super().__init__()
        self.destinations: dict[str, KnownDestination] = {}
        self.announced: dict[tuple[str, WriterId], int] = {}
        self.sendings: dict[tuple[str, Place], Delivery] = {}

    @abstractmethod
    def _put(self, table: dict[Key, Row], key: Key, row: Row) -> None: ...

    @abstractmethod
    def _drop(self, table: dict[Key, Row], key: Key) -> bool: ...

    def lock_outbox(self, destination: str) -> None:
        return None

    def destination(self, name: str) -> KnownDestination | None:
        return self.destinations.get(name)

    def put_destination(self, row: KnownDestination) -> None:
        self._put(self.destinations, row.name, row)

    def cursors(self, destination: str) -> Mapping[WriterId, int]:
        return {writer: sequence for (name, writer), sequence in self.announced.items() if name == destination}

    def put_cursors(self, destination: str, cursors: Mapping[WriterId, int]) -> None:
        for writer, sequence in cursors.items():
            self._put(self.announced, (destination, writer), sequence)

    def add_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        for each in deliveries:
            if (each.destination, each.place) not in self.sendings:
                self._put(self.sendings, (each.destination, each.place), each)

    def due_deliveries(self, destination: str, now: datetime, limit: int) -> list[Delivery]:
        found = [each for each in self._sendings(destination, DeliveryState.PENDING) if each.due_at <= now]
        return sorted(found, key=lambda each: (each.due_at, each.place.writer, each.place.sequence))[:limit]

    def dead_deliveries(self, destination: str, limit: int) -> list[Delivery]:
        found = self._sendings(destination, DeliveryState.DEAD)
        return sorted(found, key=lambda each: (each.made_at, each.place.writer, each.place.sequence))[:limit]

    def _sendings(self, destination: str, state: DeliveryState) -> list[Delivery]:
        return [each for each in self.sendings.values() if each.destination == destination and each.state is state]

    def delivery(self, destination: str, place: Place) -> Delivery | None:
        return self.sendings.get((destination, place))

    def change_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        for each in deliveries:
            self._put(self.sendings, (each.destination, each.place), each)

    def drop_deliveries(self, state: DeliveryState, before: datetime, limit: int) -> int:
        old = [
            (each.ended_at, key)
            for key, each in self.sendings.items()
            if each.state is state and each.ended_at is not None and each.ended_at < before
        ]
        gone = sorted(old, key=lambda pair: pair[0])[:limit]
        return sum(self._drop(self.sendings, key) for _, key in gone)


class MemoryOutbox(ABC):
    """The verbs of `ports.store.Outbox`."""

    _tables: MemoryTables
    _clock: Clock

    @abstractmethod
    def _transact(self, verb: Callable[[MemoryTables], Answered]) -> Answered: ...

    async def known_destinations(self) -> tuple[KnownDestination, ...]:
        return tuple(row for _, row in sorted(self._tables.destinations.items()))

    async def begin_destination(self, command: Announcing) -> bool:
        return self._transact(lambda tables: outbox.begin_destination(tables, command, self._clock.now()))

    async def unread_chains(self, destination: str, *, limit: int) -> tuple[UnreadChain, ...]:
        tables, ends = self._tables, {event.writer: event.sequence for event in self._tables.events}
        chains = [
            UnreadChain(
                writer=writer,
                read=tables.announced.get((destination, writer)),
                first_kept=tables.chain_start(writer),
                end=end,
            )
            for writer, end in sorted(ends.items())
        ]
        return tuple(each for each in chains if each.end != (each.read or 0))[:limit]

    async def events_of_chain(self, writer: WriterId, *, after: int, limit: int) -> tuple[ChainedEvent, ...]:
        found = (event for event in self._tables.events if event.writer == writer and event.sequence > after)
        return tuple(found)[:limit]

    async def announce(self, command: Announcing) -> bool:
        return self._transact(lambda tables: outbox.announce(tables, command, self._clock.now()))

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
        return self._transact(
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
        return self._transact(lambda tables: outbox.end_delivery(tables, delivery, ended, self._clock.now(), events))

    async def close_destination(self, name: str, *, events: tuple[AuditEvent, ...] = ()) -> bool:
        return self._transact(lambda tables: outbox.close_destination(tables, name, self._clock.now(), events))

    async def deliveries(
        self, *, destination: str | None, states: Sequence[DeliveryState], limit: int
    ) -> tuple[Delivery, ...]:
        found = [
            each
            for each in self._tables.sendings.values()
            if each.state in states and destination in (None, each.destination)
        ]
        found.sort(key=lambda each: each.place.sequence, reverse=True)
        found.sort(key=lambda each: (each.destination, each.place.writer))
        return tuple(sorted(found, key=lambda each: each.made_at, reverse=True)[:limit])

    async def retry_deliveries(
        self, destination: str, place: Place | None, *, limit: int, opened: tuple[AuditEvent, ...] = ()
    ) -> int:
        return self._transact(
            lambda tables: outbox.retry_deliveries(
                tables, destination, place, self._clock.now(), limit=limit, opened=opened
            )
        )

    async def outbox_counts(self) -> tuple[OutboxCount, ...]:
        found = [each for each in self._tables.sendings.values() if each.state is not DeliveryState.DELIVERED]
        return tuple(_count(name, found) for name in sorted({each.destination for each in found}))

    async def forget_deliveries(self, state: DeliveryState, *, before: datetime, limit: int) -> int:
        return self._transact(lambda tables: tables.drop_deliveries(state, before, limit))


def _count(destination: str, found: Sequence[Delivery]) -> OutboxCount:
    mine = [each for each in found if each.destination == destination]
    pending = [each.made_at for each in mine if each.state is DeliveryState.PENDING]
    return OutboxCount(
        destination=destination,
        pending=len(pending),
        oldest_at=min(pending, default=None),
        dead=len(mine) - len(pending),
    )
