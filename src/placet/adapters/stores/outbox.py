"""The store's verbs over cursors and deliveries, as `verbs` has those over all else, and the form of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from placet.adapters.stores.rows import instant, microseconds
from placet.errors import StoreCorrupt
from placet.model.audit import AuditEvent
from placet.model.identifiers import Token, WriterId
from placet.model.ledger import Place
from placet.model.notices import (
    Announcing,
    Delivery,
    DeliveryState,
    Ended,
    KnownDestination,
    NoticeKind,
    OutboxCount,
    UnreadChain,
)


class OutboxTables(Protocol):
    """Rows, read and written inside the caller's transaction."""

    def lock_outbox(self, destination: str) -> None:
        """Until the transaction ends nobody else moves this destination's cursors, or closes or opens it."""
        ...

    def destination(self, name: str) -> KnownDestination | None: ...
    def put_destination(self, row: KnownDestination) -> None: ...
    def cursors(self, destination: str) -> Mapping[WriterId, int]: ...
    def put_cursors(self, destination: str, cursors: Mapping[WriterId, int]) -> None: ...

    def add_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Those that are not there; the others stay as they are."""
        ...

    def due_deliveries(self, destination: str, now: datetime, limit: int) -> list[Delivery]: ...
    def dead_deliveries(self, destination: str, limit: int) -> list[Delivery]: ...
    def delivery(self, destination: str, place: Place) -> Delivery | None: ...
    def change_deliveries(self, deliveries: Sequence[Delivery]) -> None: ...

    def drop_deliveries(self, state: DeliveryState, before: datetime, limit: int) -> int:
        """Those that ended before, the oldest first; how many."""
        ...

    def append(self, events: Iterable[AuditEvent]) -> Place: ...


def begin_destination(tables: OutboxTables, command: Announcing, now: datetime) -> bool:
    tables.lock_outbox(command.destination)
    if tables.destination(command.destination) is not None:
        return False
    tables.put_destination(KnownDestination(name=command.destination, begun_at=now))
    tables.put_cursors(command.destination, {move.writer: move.now for move in command.moves})
    return True


def announce(tables: OutboxTables, command: Announcing, now: datetime) -> bool:
    tables.lock_outbox(command.destination)
    known = tables.destination(command.destination)
    cursors = tables.cursors(command.destination)
    if known is None or known.closed_at is not None:
        return False
    if any(cursors.get(move.writer) != move.was for move in command.moves):
        return False
    tables.put_cursors(command.destination, {move.writer: move.now for move in command.moves})
    tables.add_deliveries(
        [
            Delivery(
                destination=command.destination,
                place=found.place,
                kind=found.kind,
                state=DeliveryState.PENDING,
                attempts=0,
                made_at=now,
                due_at=now,
            )
            for found in command.found
        ]
    )
    return True


def take_deliveries(
    tables: OutboxTables,
    destination: str,
    token: Token,
    now: datetime,
    *,
    lease_seconds: float,
    most_attempts: int,
    limit: int,
    lost: tuple[AuditEvent, ...],
) -> tuple[Delivery, ...]:
    known = tables.destination(destination)
    if known is None or known.closed_at is not None:
        return ()
    due = tables.due_deliveries(destination, now, limit)
    until = now + timedelta(seconds=lease_seconds)
    taken = [
        replace(each, attempts=each.attempts + 1, due_at=until, token=token)
        for each in due
        if each.attempts < most_attempts
    ]
    given_up = [
        replace(each, state=DeliveryState.DEAD, ended_at=now, code="sender_lost", token=None)
        for each in due
        if each.attempts >= most_attempts
    ]
    if due:
        tables.change_deliveries([*taken, *given_up])
    if given_up and lost:
        tables.append(lost * len(given_up))
    return (*taken, *given_up)


def end_delivery(
    tables: OutboxTables, seen: Delivery, ended: Ended, now: datetime, events: tuple[AuditEvent, ...]
) -> bool:
    delivery = tables.delivery(seen.destination, seen.place)
    if delivery is None or seen.token is None or delivery.token != seen.token:
        return False  # not taken, ended, or somebody else's by now: none of them has this token
    is_over = ended.state is not DeliveryState.PENDING
    changed = replace(
        delivery,
        state=ended.state,
        code=ended.code,
        token=None,
        due_at=now + timedelta(seconds=ended.due_in_seconds),
        ended_at=now if is_over else None,
    )
    tables.change_deliveries([changed])
    if events:
        tables.append(events)
    return True


def close_destination(tables: OutboxTables, name: str, now: datetime, events: tuple[AuditEvent, ...]) -> bool:
    tables.lock_outbox(name)
    known = tables.destination(name)
    if known is None or known.closed_at is not None:
        return False
    tables.put_destination(replace(known, closed_at=now))
    if events:
        tables.append(events)
    return True


def retry_deliveries(
    tables: OutboxTables,
    destination: str,
    place: Place | None,
    now: datetime,
    *,
    limit: int,
    opened: tuple[AuditEvent, ...],
) -> int:
    tables.lock_outbox(destination)
    known = tables.destination(destination)
    if known is None:
        return 0
    if known.closed_at is not None:
        tables.put_destination(replace(known, closed_at=None))
        if opened:
            tables.append(opened)
    if place is None:
        found: list[Delivery | None] = [*tables.dead_deliveries(destination, limit)]
    else:
        found = [tables.delivery(destination, place)]
    dead = [each for each in found if each is not None and each.state is DeliveryState.DEAD]
    if dead:
        again = [replace(each, state=DeliveryState.PENDING, attempts=0, due_at=now, ended_at=None) for each in dead]
        tables.change_deliveries(again)
    return len(dead)


# ---------------------------------------------------------------- rows


def destination_row(row: KnownDestination) -> tuple[Any, ...]:
    return row.name, microseconds(row.begun_at), microseconds(row.closed_at)


def destination_from(row: tuple[Any, ...]) -> KnownDestination:
    return KnownDestination(name=row[0], begun_at=_at(row[1]), closed_at=instant(row[2]))


def delivery_row(row: Delivery) -> tuple[Any, ...]:
    """All columns of `deliveries`, in order."""
    return (
        row.destination,
        row.place.writer,
        row.place.sequence,
        row.kind.value,
        row.state.value,
        row.attempts,
        microseconds(row.made_at),
        microseconds(row.due_at),
        microseconds(row.ended_at),
        row.code,
        row.token,
    )


def delivery_from(row: tuple[Any, ...]) -> Delivery:
    """
    Raises:
        StoreCorrupt: it cannot be read; somebody changed it by hand.
    """
    try:
        return Delivery(
            destination=row[0],
            place=Place(writer=WriterId(row[1]), sequence=row[2]),
            kind=NoticeKind(row[3]),
            state=DeliveryState(row[4]),
            attempts=row[5],
            made_at=_at(row[6]),
            due_at=_at(row[7]),
            ended_at=instant(row[8]),
            code=row[9],
            token=row[10],
        )
    except (ValueError, OverflowError):
        pass
    raise StoreCorrupt("A delivery cannot be read; somebody changed it by hand.")


def unread_from(row: tuple[Any, ...]) -> UnreadChain:
    return UnreadChain(writer=WriterId(row[0]), read=row[1], first_kept=row[2], end=row[3])


def count_from(row: tuple[Any, ...]) -> OutboxCount:
    return OutboxCount(destination=row[0], pending=row[1], oldest_at=instant(row[2]), dead=row[3])


def _at(value: int) -> datetime:
    found = instant(value)
    if found is None:
        raise StoreCorrupt("A row of the outbox says no instant; somebody changed it by hand.")
    return found
