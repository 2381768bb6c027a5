"""A look at a store that changes nothing of it, not even its log: for saying whether it is safe to be opened.

Everything is as of one moment. Whatever cannot be read raises a `StoreError` of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from placet.model.approval import Approval, Mac
from placet.model.audit import ChainedEvent, ChainHead, ChainTombstone
from placet.model.effect import BrokenEffect, Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the store is laid out, beside how this placet would lay it out.

    Attributes:
        is_ours: it says of itself that it is a placet store.
        version, latest: its schema's number, and the newest one known here.
        differences: names of tables, indexes and triggers that are not as its version makes them, sorted.
    """

    is_ours: bool
    version: int
    latest: int
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainEnd:
    """The newest events of one chain. `before` is the link of the event before the first; None if there is none."""

    head: ChainHead
    before: str | None
    events: tuple[ChainedEvent, ...]


class Examination(Protocol):
    """What can be asked of a store at rest or in use, without touching it."""

    def layout(self) -> Layout: ...

    def damage(self) -> tuple[str, ...]:
        """What is wrong with the database's own structure, in our words; empty if it is sound."""
        ...

    def damage_in_depth(self) -> tuple[str, ...]:
        """The same, its indexes held against its rows as well, which takes longer."""
        ...

    def key_check(self) -> Mac:
        """The check value by which the store knows its key."""
        ...

    def heads(self) -> tuple[ChainHead, ...]: ...

    def tombstones(self) -> tuple[ChainTombstone, ...]:
        """Where chains begin that were cut; none in a store of before there were cuts."""
        ...

    def chained(self) -> Iterator[ChainedEvent]:
        """Every event, by writer and sequence."""
        ...

    def chain_ends(self, *, writers: int, events: int) -> tuple[ChainEnd, ...]:
        """Of the chains that were written to last, their newest events."""
        ...

    def newest_instant(self) -> datetime | None:
        """The latest instant that an event names; None in an empty store."""
        ...

    def stops(self) -> tuple[str, ...]: ...

    def effects(self, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        """Of all tenants, those made last first."""
        ...

    def approvals_in_force(self, *, limit: int) -> tuple[Approval, ...]:
        """Pending and approved ones of all tenants, newest first."""
        ...

    def unknown_since(self) -> tuple[datetime, ...]:
        """For every unknown effect, since when it is."""
        ...

    def stranded(self, *, now: datetime) -> int:
        """How many effects are dispatched and their lease is over."""
        ...
