"""Cursors and deliveries over one SQLite connection, inside whatever transaction its writer has open."""

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


class SqliteOutboxTables(ABC):
    """Whoever writes holds the lock of the whole file, so nothing here takes another."""

    @abstractmethod
    def _all(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def _write(self, name: str, *bindings: Any) -> int: ...

    def lock_outbox(self, destination: str) -> None:
        return None

    def destination(self, name: str) -> KnownDestination | None:
        found = self._all("destination", name)
        return outbox.destination_from(found[0]) if found else None

    def put_destination(self, row: KnownDestination) -> None:
        self._write("put_destination", *outbox.destination_row(row))

    def cursors(self, destination: str) -> Mapping[WriterId, int]:
        return {WriterId(row[0]): row[1] for row in self._all("cursors", destination)}

    def put_cursors(self, destination: str, cursors: Mapping[WriterId, int]) -> None:
        for writer, sequence in cursors.items():
            self._write("put_cursor", destination, writer, sequence)

    def add_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        for each in deliveries:
            self._write("add_delivery", *outbox.delivery_row(each))

    def due_deliveries(self, destination: str, now: datetime, limit: int) -> list[Delivery]:
        return [outbox.delivery_from(row) for row in self._all("due_deliveries", destination, microseconds(now), limit)]

    def dead_deliveries(self, destination: str, limit: int) -> list[Delivery]:
        return [outbox.delivery_from(row) for row in self._all("dead_deliveries", destination, limit)]

    def delivery(self, destination: str, place: Place) -> Delivery | None:
        found = self._all("delivery", destination, place.writer, place.sequence)
        return outbox.delivery_from(found[0]) if found else None

    def change_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        for each in deliveries:
            self._write("change_delivery", *outbox.delivery_row(each))

    def drop_deliveries(self, state: DeliveryState, before: datetime, limit: int) -> int:
        return self._write("drop_deliveries", state.value, microseconds(before), limit)
