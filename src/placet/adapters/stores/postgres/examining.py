"""A look at a store in a database that changes nothing of it: one connection, one moment, read only.

Nothing is migrated, locked or announced. A store that is not made can be looked at too, as far as its server goes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import resources
from typing import Any, Final, TypeVar

import asyncpg

from placet.adapters.stores import rows
from placet.adapters.stores.postgres.connection import FAULTS, Address, connect, fault_of, is_held
from placet.adapters.stores.postgres.layout import differences
from placet.adapters.stores.postgres.migrating import KEY_CHECK
from placet.adapters.stores.postgres.orders import StoreThread
from placet.adapters.stores.postgres.statements import SQL, migrations
from placet.adapters.stores.statements import statements
from placet.errors import StoreError, StoreUnavailable
from placet.model.approval import Approval, Mac
from placet.model.audit import ChainedEvent, ChainHead, ChainTombstone
from placet.model.effect import BrokenEffect, Effect
from placet.ports.examining import (
    ChainEnd,
    ExpiredLeases,
    Grants,
    IdleSessions,
    Layout,
    ServerRole,
    ServerState,
    TableSizes,
    WaitingEvents,
)

EXAMINING: Final = statements((resources.files(__package__) / "examining.sql").read_text("utf-8"))
_OF_TENANTS: Final = (
    *("runs", "step_fingerprints", "denials", "effects", "approvals", "approval_votes", "approval_edits"),
    *("grants", "reminders", "run_checkpoints", "run_tallies", "audit_events"),
)
_SETTINGS: Final = ("fsync", "full_page_writes", "synchronous_commit", "autovacuum")
_CHUNK: Final = 500
_STRETCH_PAGES: Final = 256
_ANSWER_SECONDS: Final = 20.0
"""Longer than the server itself takes for a statement: past it, nothing is heard from there any more."""
_VERSION: Final = "schema_version"
_WHO: Final = {"application_name": "placet doctor"}

Value = TypeVar("Value")


@contextmanager
def examine(address: Address) -> Iterator[PostgresExamination]:
    """One look at the store, and at its server.

    Raises:
        StoreError: the database cannot be reached.
    """
    thread = StoreThread()
    try:
        look = PostgresExamination(address, thread)
        try:
            yield look
        finally:
            look.end()
    finally:
        thread.stop()


class PostgresExamination:
    """See `ports.examining.ServerExamination`."""

    def __init__(self, address: Address, thread: StoreThread) -> None:
        self._address = address
        self._thread = thread
        self._connection: asyncpg.Connection = self._run(self._begin())

    async def _begin(self) -> asyncpg.Connection:
        """As a gate would connect, first; then without the settings that a gate has, to see what others would have."""
        (await connect(self._address)).terminate()
        async with asyncio.timeout(max(0.1, self._address.patience_seconds)):
            connection = await _connected(self._address)
            try:
                await connection.fetch(EXAMINING["name_schema"], f'"{self._address.schema}", pg_temp')
                await connection.execute(EXAMINING["moment"])
                await connection.execute(EXAMINING["begin_look"])
            except BaseException:
                connection.terminate()
                raise
        return connection

    def end(self) -> None:
        async def terminated() -> None:
            self._connection.terminate()

        self._run(terminated())

    # ------------------------------------------------------------ the server

    def server(self) -> ServerState:
        version, encoding, is_standby, is_read_only, most, age, size, is_open = self._all("server")[0]
        name, is_superuser, is_exempt, may_write = self._all("role", self._address.schema)[0]
        return ServerState(
            version=version,
            encoding=encoding,
            is_standby=is_standby,
            is_read_only=is_read_only,
            max_connections=most,
            free_connections=self._all("connections")[0][0],
            transaction_age=age,
            database_bytes=size,
            is_open_to_all=is_open,
            settings=dict(self._all("settings", list(_SETTINGS))),
            role=ServerRole(
                name=name, is_superuser=is_superuser, is_exempt=is_superuser or is_exempt, may_write=may_write
            ),
        )

    def clock(self) -> datetime:
        return datetime.fromtimestamp(self._all("clock")[0][0], UTC)

    def idle_sessions(self) -> IdleSessions:
        found = self._all("idle_sessions")
        return IdleSessions(seconds=tuple(row[0] for row in found), hidden=self._all("hidden_sessions")[0][0])

    # ------------------------------------------------------------ the schema

    def is_made(self) -> bool:
        """As `migrating.has_key_check`: a schema in which a store was opened with a key."""
        if not self._all("has_meta", f'"{self._address.schema}".placet_meta')[0][0]:
            return False
        return bool(self._found(SQL["meta"], KEY_CHECK))

    def now(self, host: datetime) -> datetime:
        return self.clock()

    def layout(self) -> Layout:
        said = self._found(SQL["meta"], _VERSION)
        version, latest = int(said[0][0]) if said and str(said[0][0]).isdecimal() else 0, migrations()[-1][0]
        found = self._all("layout", self._address.schema)
        changed = () if version > latest else differences(found, schema=self._address.schema, version=version)
        return Layout(is_ours=version > 0, version=version, latest=latest, differences=changed)

    def grants(self) -> Grants:
        unguarded = tuple(row[0] for row in self._all("unguarded", self._address.schema, list(_OF_TENANTS)))
        found = self._all("grants", self._address.schema)
        return Grants(
            unguarded=unguarded,
            readers=tuple(sorted({name for name, is_writing, _ in found if not is_writing})),
            exempt=tuple(sorted({name for name, _, is_exempt in found if is_exempt})),
            writing=tuple(sorted({name for name, is_writing, _ in found if is_writing})),
            is_public=any(name == "PUBLIC" for name, *_ in found),
        )

    def sizes(self) -> TableSizes:
        found = self._all("sizes", self._address.schema)
        return TableSizes(
            tables=tuple((name, size) for name, size, _ in found),
            uncleaned=tuple(name for name, _, is_uncleaned in found if is_uncleaned),
        )

    def damage(self) -> tuple[str, ...]:
        """A server looks after the structure of its own files."""
        return ()

    damage_in_depth = damage

    # ------------------------------------------------------------ what stands in it

    def key_check(self) -> Mac:
        found = self._found(SQL["meta"], KEY_CHECK)
        return rows.mac_from(found[0][0] if found else "")

    def heads(self) -> tuple[ChainHead, ...]:
        return tuple(map(rows.head_from, self._found(SQL["heads"])))

    def tombstones(self) -> tuple[ChainTombstone, ...]:
        return tuple(map(rows.tombstone_from, self._found(SQL["tombstones"])))

    def chained(self) -> Iterator[ChainedEvent]:
        async def opened() -> Any:
            return await self._connection.cursor(SQL["chained"])

        cursor = self._run(opened())
        while some := self._run(cursor.fetch(_CHUNK)):
            for row in some:
                yield rows.event_from(tuple(row))

    def chain_ends(self, *, writers: int, events: int) -> tuple[ChainEnd, ...]:
        heads = {head.writer: head for head in self.heads()}
        newest = [writer for writer, _ in self._all("newest_writers", writers)]
        return tuple(self._end(heads[writer], events) for writer in newest)

    def _end(self, head: ChainHead, events: int) -> ChainEnd:
        found = [rows.event_from(row) for row in self._all("end_of_writer", head.writer, events + 1)][::-1]
        is_cut = len(found) > events
        return ChainEnd(
            head=head, before=found[0].link if is_cut else None, events=tuple(found[1:] if is_cut else found)
        )

    def newest_instant(self) -> datetime | None:
        return _instant((self._all("newest_writers", 1) or [("", "")])[0][1])

    def stops(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self._found(SQL["stops"]))

    def effects(self, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        """Fewer than the limit are all there are: it is looked for more of them as far as the first page."""
        end, found = self._all("pages_of_effects")[0][0], list[Effect | BrokenEffect]()
        while end > 0 and len(found) < limit:
            first = max(0, end - _STRETCH_PAGES)
            stretch = self._all("effects_of_pages", f"({first},0)", f"({end},0)", limit - len(found))
            found += map(rows.effect_or_broken, stretch)
            end = first
        return tuple(found)

    def approvals_in_force(self, *, limit: int) -> tuple[Approval, ...]:
        return tuple(map(rows.approval_from, self._all("approvals_in_force", limit)))

    def unknown_since(self) -> tuple[datetime, ...]:
        found = (rows.instant(row[0]) for row in self._all("unknown_since"))
        return tuple(each for each in found if each is not None)

    def stranded(self, *, now: datetime) -> int:
        return int(self._all("expired_effects", rows.microseconds(now))[0][0])

    def waiting_events(self) -> WaitingEvents:
        waiting, refused = self._all("waiting")[0]
        oldest = self._all("oldest_waiting")
        return WaitingEvents(waiting=waiting, refused=refused, oldest_at=_instant_of_body(oldest) if oldest else None)

    def expired_leases(self) -> ExpiredLeases:
        now = self.clock()
        (effects, first), (reads, second) = (
            self._all(name, rows.microseconds(now))[0] for name in ("expired_effects", "expired_reads")
        )
        ends = [rows.instant(each) for each in (first, second) if each is not None]
        oldest = max(((now - end).total_seconds() for end in ends if end is not None), default=0.0)
        return ExpiredLeases(effects=effects, reads=reads, oldest_seconds=oldest)

    # ------------------------------------------------------------ within

    def _all(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]:
        return self._found(EXAMINING[name], *bindings)

    def _found(self, statement: str, *bindings: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._run(self._connection.fetch(statement, *bindings))]

    def _run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """
        Raises:
            StoreUnavailable: it is not to be had; within `_ANSWER_SECONDS`, whatever the server does.
        """
        try:
            return self._thread.run(_answered(work))
        except FAULTS as foreign:
            fault, is_silent = self._fault_of(foreign), isinstance(foreign, TimeoutError)
        self._let_go() if is_silent else self._go_on()
        raise fault

    def _fault_of(self, foreign: BaseException) -> StoreError:
        if not is_held(foreign):
            return fault_of(foreign, self._address)
        return StoreUnavailable(
            f"A table of the store is held by somebody's open transaction: {self._address.shown}",
            hint="Find its program in pg_stat_activity; SELECT pg_terminate_backend(pid) ends it.",
        )

    def _go_on(self) -> None:
        """One look that fails, at a table that somebody took away, makes no other fail."""
        with suppress(*FAULTS, AttributeError):  # no connection, or none yet
            self._thread.run(_answered(self._connection.execute(EXAMINING["end_look"])))

    def _let_go(self) -> None:
        """Who said nothing once is not waited for again: every later look fails at once."""
        with suppress(AttributeError):  # none yet
            self.end()


async def _answered(work: Coroutine[Any, Any, Value]) -> Value:
    async with asyncio.timeout(_ANSWER_SECONDS):
        return await work


async def _connected(address: Address) -> asyncpg.Connection:
    """To the server that takes changes, if there is one."""
    with suppress(asyncpg.TargetServerAttributeNotMatched):
        return await asyncpg.connect(address.url, server_settings=_WHO, target_session_attrs="read-write")
    return await asyncpg.connect(address.url, server_settings=_WHO)


def _instant_of_body(found: list[tuple[Any, ...]]) -> datetime | None:
    try:
        body = json.loads(found[0][0])
        return _instant(body.get("at"))
    except (ValueError, AttributeError, RecursionError):
        return None  # no placet wrote it, which its chaining finds


def _instant(text: object) -> datetime | None:
    """What an event says of itself; one altered by hand may say none, of which the audit's own check tells."""
    try:
        said = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return said if said is None or said.tzinfo is not None else None
