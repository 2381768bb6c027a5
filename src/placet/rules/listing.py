"""Lists that are read a page at a time: which row stands where, and what is left after one.

A row that changes goes to the front of its list, so a reader that goes on after a mark misses nothing that stayed as it
was, and is given nothing of it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

from placet.model.approval import Approval
from placet.model.audit import ChainedEvent
from placet.model.effect import Effect
from placet.model.grant import StoredGrant
from placet.model.listing import Mark
from placet.model.run import Run
from placet.rules.audit import place_in_time

Row = TypeVar("Row")
_UNDATED = datetime.min.replace(tzinfo=UTC)


def mark_of_approval(approval: Approval) -> Mark:
    """Approvals are listed by when they were asked for."""
    return Mark(at=approval.question.asked_at, name=approval.question.approval_id)


def mark_of_effect(effect: Effect) -> Mark:
    """Effects are listed by their last change."""
    return Mark(at=effect.updated_at, name=effect.operation_key)


def mark_of_grant(stored: StoredGrant) -> Mark:
    """Standing grants are listed by when they were given."""
    return Mark(at=stored.grant.given_at, name=stored.grant.grant_id)


def mark_of_run(run: Run) -> Mark:
    """Runs are listed by when they were opened."""
    return Mark(at=run.opened_at, name=run.run_id)


def mark_of_event(event: ChainedEvent) -> Mark:
    """Events are listed by their writers' clocks; one that tells no instant, because it was altered, stands last."""
    at, writer, sequence = place_in_time(event)
    return Mark(at=_instant(at), name=writer, number=sequence)


def readable_mark_of_event(event: ChainedEvent) -> Mark | None:
    """Where a reader of pages stands after this event; None after one that tells no instant.

    Stores order what they hold, whatever it says; a mark made of nothing would stand after everything else.
    """
    mark = mark_of_event(event)
    return None if mark.at == _UNDATED else mark


def page(rows: Iterable[Row], mark_of: Callable[[Row], Mark], after: Mark | None, limit: int) -> tuple[Row, ...]:
    """So many of these rows, those that stand after the mark, in the order of such a list."""
    older = [row for row in rows if after is None or mark_of(row).place < after.place]
    return tuple(sorted(older, key=lambda row: mark_of(row).place, reverse=True)[:limit])


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return _UNDATED
    return instant if instant.tzinfo is not None else _UNDATED
