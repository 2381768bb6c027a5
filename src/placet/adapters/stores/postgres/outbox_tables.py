"""Cursors and deliveries as a transaction under locks sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from placet.adapters.stores import outbox
from placet.adapters.stores.rows import microseconds
from placet.model.identifiers import WriterId
from placet.model.ledger import Place
from placet.model.notices import Delivery, DeliveryState, KnownDestination


class PostgresOutboxTables(ABC):
    """Every verb of these decides on what it reads under its locks, and writes it in one statement each."""

    @abstractmethod
    def _known(self, name: str, *bindings: Any) -> Any: ...

    @abstractmethod
    def _state(self, name: str, *bindings: Any) -> None: ...

    def lock_outbox(self, destination: str) -> None:
        """A lock of its own: a destination that is not there yet has no row to be locked."""
        self._known("lock_outbox", destination)

    def destination(self, name: str) -> KnownDestination | None:
        found = self._known("destination", name)
        return outbox.destination_from(tuple(found[0])) if found else None

    def put_destination(self, row: KnownDestination) -> None:
        self._state("put_destination", *outbox.destination_row(row))

    def cursors(self, destination: str) -> Mapping[WriterId, int]:
        return {WriterId(row[0]): row[1] for row in self._known("cursors", destination)}

    def put_cursors(self, destination: str, cursors: Mapping[WriterId, int]) -> None:
        self._state("put_cursors", destination, list(cursors), list(cursors.values()))

    def add_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        self._state("add_deliveries", *_columns(deliveries))

    def due_deliveries(self, destination: str, now: datetime, limit: int) -> list[Delivery]:
        """Another worker's, while it takes them, are passed over."""
        return self._deliveries("due_deliveries", destination, microseconds(now), limit)

    def dead_deliveries(self, destination: str, limit: int) -> list[Delivery]:
        return self._deliveries("dead_deliveries", destination, limit)

    def delivery(self, destination: str, place: Place) -> Delivery | None:
        return next(iter(self._deliveries("delivery", destination, place.writer, place.sequence)), None)

    def change_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        self._state("change_deliveries", *_columns(deliveries))

    def drop_deliveries(self, state: DeliveryState, before: datetime, limit: int) -> int:
        return int(self._known("drop_deliveries", state.value, microseconds(before), limit)[0][0])

    def _deliveries(self, name: str, *bindings: Any) -> list[Delivery]:
        return [outbox.delivery_from(tuple(row)) for row in self._known(name, *bindings)]


def _columns(deliveries: Sequence[Delivery]) -> list[list[Any]]:
    return [list(column) for column in zip(*map(outbox.delivery_row, deliveries), strict=True)] or [
        [] for _ in range(11)
    ]
