"""Connections to a PostgreSQL database: where it is, what every one of them is set to, and its faults translated once.

A fault says which of two things is known: the server answered with an error, so nothing was committed; or the
connection is lost, and what was on its way may have been.
"""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from placet.adapters.stores.postgres.missing import refusal_of, silence_of, unread_file_of
from placet.errors import PlacetError, StoreError, StoreUnavailable
from placet.rules.addresses import SCHEMA, Host, database_address

MISMATCH: Final = "PL409"
LATE: Final = "PL410"
_REPEATABLE = frozenset({MISMATCH, "23505", "40001", "40P01"})
_TIMEOUTS = frozenset({"57014", "55P03", "25P03"})
_FULL = frozenset({"53100"})
_CROWDED = frozenset({"53300", "57P03"})
_READ_ONLY = frozenset({"25006"})
_UNTOLD = "08P01"
_LOST_SEVERITIES = frozenset({"FATAL", "PANIC"})
_SERVER_SETTINGS: Final = {
    "application_name": "placet",
    "statement_timeout": "15s",
    "lock_timeout": "10s",
    # A process that is suspended between two words of a transaction must not keep a stop waiting.
    "idle_in_transaction_session_timeout": "10s",
    # Every statement finds its rows by an index, however small the tables are when it is planned.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
    "jit": "off",
}
_COMMAND_SECONDS: Final = 20.0
_WHO: Final = "SELECT pg_backend_pid()"
_SET: Final = "SELECT set_config(s.name, s.value, false) FROM unnest($1::text[], $2::text[]) AS s (name, value)"
_OTHERS: Final = 3
_NOT_THAT_SESSION: Final = frozenset({"26000", "42P05", "08P01"})
"""A statement that was prepared in this session is not there, or another's is, or no transaction is taken."""
_LOOK_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Address:
    """Where a store is.

    Attributes:
        url: with whatever lets one in; it is not shown to anybody.
        shown: host, port and database alone.
        hosts: those that the URL names; none for the driver's own.
        schema: the PostgreSQL schema that holds the tables.
        patience_seconds: how long a lost connection is tried again before callers are told.
    """

    url: str
    shown: str
    hosts: tuple[Host, ...] = ()
    schema: str = SCHEMA
    patience_seconds: float = 10.0


def address_of(where: str, *, patience_seconds: float = 10.0) -> Address:
    """Read a URL, as `rules.addresses` says.

    Raises:
        ConfigurationError: it is no such URL. The message does not repeat it.
    """
    read = database_address(where, other_host=os.environ.get("PGHOST", ""))
    return Address(
        url=read.url, shown=read.shown, hosts=read.hosts, schema=read.schema, patience_seconds=patience_seconds
    )


async def connect(address: Address, *, timeout_seconds: float | None = None) -> asyncpg.Connection:
    """One connection with the settings every connection to a store has. Of several hosts, to one that takes changes.

    All hosts are asked at once, so that one that is gone without a word costs the others nothing.

    Raises:
        StoreUnavailable: a pooler is between, and gives each transaction another session.
        What asyncpg and sockets raise: `FAULTS`.
    """
    patience = max(0.1, address.patience_seconds if timeout_seconds is None else timeout_seconds)
    async with asyncio.timeout(patience):
        if len(address.hosts) < 2:
            return await _settled(address, await _dial(address, is_told=True))
        return await _settled(address, await _first_that_writes(address))


async def _dial(address: Address, *, is_told: bool, **where: Any) -> asyncpg.Connection:
    """A session. Its settings are told with the first words, where whoever listens takes them."""
    fault = None
    try:
        return await asyncpg.connect(
            address.url,
            server_settings=settings_of(address) if is_told else {"application_name": "placet"},
            command_timeout=_COMMAND_SECONDS,
            **where,
        )
    except UnicodeError:
        fault = socket.gaierror(socket.EAI_NONAME, "no host has such a name")
    except asyncpg.PostgresError as refused:
        if not is_told or _code(refused) != _UNTOLD:
            raise
    if fault is not None:
        raise fault
    return await _dial(address, is_told=False, **where)


async def _first_that_writes(address: Address) -> asyncpg.Connection:
    """Whichever host first says that it takes changes; if none does, why the best of them does not."""
    tries = {
        asyncio.ensure_future(
            _dial(address, is_told=True, host=host.name, port=host.port, target_session_attrs="read-write")
        )
        for host in address.hosts
    }
    faults: list[BaseException] = []
    left = set(tries)
    try:
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                fault = each.exception()
                if fault is None:
                    tries.discard(each)
                    return each.result()
                faults.append(fault)
    finally:
        for each in tries:
            each.cancel()
        for found in await asyncio.gather(*tries, return_exceptions=True):
            if isinstance(found, asyncpg.Connection):
                found.terminate()
    raise min(faults, key=is_lost)  # a word of a server says more than silence


async def _settled(address: Address, connection: asyncpg.Connection) -> asyncpg.Connection:
    """The same connection, once it is known to be a session of its own with the settings it needs."""
    is_pooled = False
    try:
        process = await connection.fetchval(_WHO)
        if process != connection.get_server_pid():
            await _require_own_session(address, connection, process)
            settings = settings_of(address)
            await connection.fetch(_SET, list(settings), list(settings.values()))
    except BaseException as fault:
        connection.terminate()
        is_pooled = _code(fault) in _NOT_THAT_SESSION
        if not is_pooled:
            raise
    if is_pooled:
        raise _pooled(address)
    return connection


async def _require_own_session(address: Address, connection: asyncpg.Connection, process: int) -> None:
    """A pooler is between. While others hold transactions, this connection has to stay where it was.

    Raises:
        StoreUnavailable: each of its transactions may be in another session.
    """
    others: list[asyncpg.Connection] = []
    is_own, witnesses = True, 0
    try:
        for _ in range(_OTHERS):
            async with asyncio.timeout(_LOOK_SECONDS):
                others.append(await _dial(address, is_told=False))
                await others[-1].execute("BEGIN")
                is_own = is_own and await others[-1].fetchval(_WHO) != process
                witnesses += 1
    except (TimeoutError, asyncpg.PostgresError):
        pass  # it has no more to give, as is told below
    try:
        async with asyncio.timeout(_LOOK_SECONDS):
            is_own = is_own and await connection.fetchval(_WHO) == process
    except TimeoutError:
        is_own = False  # somebody else's transaction is in what was its session
    finally:
        for other in others:
            other.terminate()
    if not is_own:
        raise _pooled(address)
    if witnesses < _OTHERS:
        raise _untried(address)


def _untried(address: Address) -> StoreUnavailable:
    return StoreUnavailable(
        f"A pooler stands before the store and is too full for trying whether it gives sessions: {address.shown}",
        hint="Name the server itself in the store's address, or give the pooler room for more: max_client_conn and "
        "default_pool_size in PgBouncer.",
    )


def _pooled(address: Address) -> StoreUnavailable:
    return StoreUnavailable(
        f"A pooler stands before the store, and gives every transaction another session: {address.shown}",
        hint="Name the server itself in the store's address, or let the pooler give sessions "
        "(pool_mode = session in PgBouncer).",
    )


def settings_of(address: Address) -> dict[str, str]:
    """What every session of a store is set to."""
    return {**_SERVER_SETTINGS, "search_path": f'"{address.schema}", pg_temp'}


FAULTS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    EOFError,
)
"""What asyncpg and sockets raise."""


def is_lost(fault: BaseException) -> bool:
    """Whether the connection is gone, so that nothing is known of what was on its way."""
    if isinstance(
        fault, (asyncpg.PostgresConnectionError, OSError, TimeoutError, asyncio.IncompleteReadError, EOFError)
    ):
        return True
    if isinstance(fault, asyncpg.TargetServerAttributeNotMatched):  # a standby, which is there
        return False
    if isinstance(fault, asyncpg.InternalClientError):  # out of step with its server; what was sent may have landed
        return True
    if isinstance(fault, asyncpg.InterfaceError):
        return not isinstance(fault, asyncpg.DataError)
    return _severity(fault) in _LOST_SEVERITIES


def is_late(fault: BaseException) -> bool:
    """Whether this writer has asked meanwhile what became of the transaction: it will never land."""
    return _code(fault) == LATE


def may_pass(fault: BaseException) -> bool:
    """Whether connecting again soon may well succeed: a server that restarts, is crowded, or becomes the primary."""
    is_standby = isinstance(fault, asyncpg.TargetServerAttributeNotMatched)
    return is_standby or is_lost(fault) or _code(fault) in _READ_ONLY | _CROWDED


def is_repeatable(fault: BaseException) -> bool:
    """Whether another transaction was faster, so that the same batch decided again may well be written."""
    return _code(fault) in _REPEATABLE


def is_held(fault: BaseException) -> bool:
    """Whether somebody else's open transaction held a row; the others of its batch would be written without it."""
    return _code(fault) == "55P03"


def is_data(fault: BaseException) -> bool:
    """Whether it is about the values of one order, and the others of its batch would be written without it."""
    code = _code(fault)
    return isinstance(fault, (asyncpg.DataError, ValueError)) or code[:2] in ("22", "23") or code == "PL403"


def fault_of(fault: BaseException, address: Address) -> StoreError:
    """Ours, without a word of theirs. Nothing was committed."""
    code = _code(fault)
    if code in _FULL:
        return StoreUnavailable(f"The disk of the store is full: {address.shown}", hint="Free space, then ask again.")
    if code in _READ_ONLY or isinstance(fault, asyncpg.TargetServerAttributeNotMatched):
        return StoreUnavailable(
            f"The store takes no changes, as a standby does: {address.shown}", hint="Name the primary server."
        )
    if code in _CROWDED:
        return StoreUnavailable(
            f"The store takes no more connections now: {address.shown}",
            hint="Ask again; if it goes on, raise max_connections or open fewer gates.",
        )
    if code in _TIMEOUTS:
        late = StoreUnavailable(f"The store did not serve in time: {address.shown}")
        late.is_row_held = is_held(fault)
        return late
    if code == "42501":
        return StoreUnavailable(
            f"This user lacks a right in the store: {address.shown}",
            hint="Connect as the owner of the schema, or give this user CREATE on the database.",
        )
    if (miss := refusal_of(code) or unread_file_of(fault, address.url) or silence_of(fault)) is not None:
        return StoreUnavailable(f"{miss.told}: {address.shown}", hint=miss.hint)
    return StoreUnavailable(f"The store did not serve: {address.shown}")


def translated(fault: BaseException, address: Address) -> PlacetError:
    """As `fault_of`; what is ours already stays as it is."""
    return fault if isinstance(fault, PlacetError) else fault_of(fault, address)


def _code(fault: BaseException) -> str:
    return str(getattr(fault, "sqlstate", None) or "")


def _severity(fault: BaseException) -> str:
    return str(getattr(fault, "severity_en", None) or getattr(fault, "severity", None) or "")
