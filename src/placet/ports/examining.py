"""A look at a store that changes nothing of it, not even its log: for saying whether it is safe to be opened.

Everything is as of one moment. Whatever cannot be read raises a `StoreError` of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRole:
    """Who looks, and with what a gate would connect.

    Attributes:
        is_exempt: row-level security does not bind it.
        may_write: it is the owner of every table of the store, or in the owner's role.
    """

    name: str
    is_superuser: bool
    is_exempt: bool
    may_write: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The server that keeps a store, and what it grants whoever looks.

    Attributes:
        version: as the server numbers it: 150018 is 15.18.
        is_read_only: what a connection that says nothing of its own begins as.
        free_connections: how many more there may be, by the tightest limit of server, database and role.
        transaction_age: transactions since the database's oldest rows were frozen; at two thousand million it stops.
        is_open_to_all: whether every role of the server may connect to the database.
        settings: what a connection that says nothing of its own has, by name.
    """

    version: int
    encoding: str
    is_standby: bool
    is_read_only: bool
    max_connections: int
    free_connections: int
    transaction_age: int
    database_bytes: int
    is_open_to_all: bool
    settings: Mapping[str, str]
    role: ServerRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Who else than their owner has a right on the store's tables, by name.

    Attributes:
        unguarded: tables whose rows are not kept apart by tenant.
        readers: roles that may read, and no more.
        exempt: roles, of both, that are not bound by row-level security.
        writing: roles that may change rows.
        is_public: everybody has a right.
    """

    unguarded: tuple[str, ...]
    readers: tuple[str, ...]
    exempt: tuple[str, ...]
    writing: tuple[str, ...]
    is_public: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSessions:
    """How long transactions have stood open and done nothing, in seconds, the longest first; how many are hidden."""

    seconds: tuple[float, ...]
    hidden: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEvents:
    """Events of co-commits that no chain holds yet. `oldest_at` is None where none waits, or it says no instant."""

    waiting: int
    refused: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredLeases:
    """What was left by owners that are gone: how much, and for how long the oldest lease is over."""

    effects: int
    reads: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSizes:
    """Bytes of each table with its indexes, the largest first; tables that nobody cleans up."""

    tables: tuple[tuple[str, int], ...]
    uncleaned: tuple[str, ...]


class Examination(Protocol):
    """What can be asked of a store at rest or in use, without touching it."""

    def now(self, host: datetime) -> datetime:
        """The instant by the store's own clock. A file has none: it is the host's, which is given."""
        ...

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


class ServerExamination(Examination, Protocol):
    """What can be asked of a store that a server keeps. All but `server` and `clock` needs one that is made."""

    def is_made(self) -> bool: ...

    def server(self) -> ServerState: ...

    def clock(self) -> datetime:
        """What the server's clock says at this very moment."""
        ...

    def grants(self) -> Grants: ...

    def idle_sessions(self) -> IdleSessions: ...

    def waiting_events(self) -> WaitingEvents: ...

    def expired_leases(self) -> ExpiredLeases: ...

    def sizes(self) -> TableSizes: ...
