"""What is old, as rows."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from placet.adapters.stores.rows.instants import EPOCH, instant, sure
from placet.errors import StoreCorrupt
from placet.model.audit import ChainTombstone
from placet.model.retention import Hold, OldRows
from placet.rules.approvals import instant_text


def tombstone_row(tombstone: ChainTombstone) -> tuple[Any, ...]:
    """All columns of `audit_tombstones`, in order."""
    return (
        tombstone.writer,
        tombstone.first_kept,
        tombstone.link,
        tombstone.removed,
        tombstone.cut_by,
        instant_text(tombstone.cut_at),
        tombstone.key_id,
        tombstone.mac,
    )


def tombstone_from(row: tuple[Any, ...]) -> ChainTombstone:
    """Whatever a row says; one that was altered by hand has a MAC that does not hold."""
    try:
        cut_at = datetime.fromisoformat(row[5])
    except ValueError:
        cut_at = EPOCH
    return ChainTombstone(
        writer=row[0],
        first_kept=row[1],
        link=row[2],
        removed=row[3],
        cut_by=row[4],
        cut_at=cut_at if cut_at.tzinfo is not None else EPOCH,
        key_id=row[6],
        mac=row[7],
    )


def hold_from(row: tuple[Any, ...]) -> Hold:
    """A hold.

    Raises:
        StoreCorrupt: it cannot be read; somebody changed it by hand. Its scope is held all the same.
    """
    with suppress(OverflowError):
        return Hold(scope=row[0], held_by=row[1], held_at=sure(row[2]))
    raise StoreCorrupt("A hold cannot be read; somebody changed it by hand. What it holds is not forgotten.")


def old_rows_from(found: Iterable[tuple[int, int | None]]) -> OldRows:
    counts = list(found)
    oldest = min((at for _, at in counts if at is not None), default=None)
    return OldRows(count=sum(count for count, _ in counts), oldest_at=instant(oldest))
