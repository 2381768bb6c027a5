"""Connections to a PostgreSQL database: where it is, what every one of them is set to, and its faults translated once.

A fault says which of two things is known: the server answered with an error, so nothing was committed; or the
connection is lost, and what was on its way may have been.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import asyncpg

from placet.errors import ConfigurationError, PlacetError, StoreError, StoreUnavailable

SCHEMA: Final = "placet"
MISMATCH: Final = "PL409"
LATE: Final = "PL410"
_REPEATABLE = frozenset({MISMATCH, "23505", "40001", "40P01"})
_TIMEOUTS = frozenset({"57014", "55P03", "25P03"})
_FULL = frozenset({"53100"})
_CROWDED = frozenset({"53300", "57P03"})
_READ_ONLY = frozenset({"25006"})
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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Address:
    """Where a store is.

    Attributes:
        url: with whatever lets one in; it is not shown to anybody.
        shown: host, port and database alone.
        schema: the PostgreSQL schema that holds the tables.
        patience_seconds: how long a lost connection is tried again before callers are told.
    """

    url: str
    shown: str
    schema: str = SCHEMA
    patience_seconds: float = 10.0


def address_of(where: str, *, patience_seconds: float = 10.0) -> Address:
    """Read a URL: `postgresql://user@host/database`, as libpq reads it, and `placet_schema=NAME` among its options.

    Raises:
        ConfigurationError: it is no such URL. The message does not repeat it.
    """
    try:
        parts = urlsplit(where)
        port = parts.port
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        parts, port, options = urlsplit(""), None, []
    if parts.scheme not in ("postgresql", "postgres"):
        raise ConfigurationError(
            "The store's address cannot be read as a PostgreSQL URL.",
            hint="Write it as postgresql://USER@HOST:PORT/DATABASE.",
        )
    schemas = [value for name, value in options if name == "placet_schema"] or [SCHEMA]
    hosts = [value for name, value in options if name == "host"] or [parts.hostname or "localhost"]
    rest = urlencode([(name, value) for name, value in options if name != "placet_schema"], quote_via=quote, safe="/")
    if not schemas[-1].isidentifier() or not schemas[-1].isascii() or len(schemas[-1]) > 63:
        raise ConfigurationError("placet_schema= is a name of ASCII letters, digits and underscores.")
    place = f"{hosts[-1]}:{port}" if port is not None else hosts[-1]
    return Address(
        url=f"postgresql://{parts.netloc}{parts.path}" + (f"?{rest}" if rest else ""),
        shown=f"postgresql://{place}{parts.path}",
        schema=schemas[-1],
        patience_seconds=patience_seconds,
    )


async def connect(address: Address, *, timeout_seconds: float | None = None) -> asyncpg.Connection:
    """One connection with the settings every connection to a store has. Raises what asyncpg and sockets raise."""
    settings = {**_SERVER_SETTINGS, "search_path": f'"{address.schema}", pg_temp'}
    patience = address.patience_seconds if timeout_seconds is None else timeout_seconds
    return await asyncpg.connect(address.url, server_settings=settings, timeout=max(0.1, patience), command_timeout=20)


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
    return is_lost(fault) or _code(fault) in _READ_ONLY | _CROWDED


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
    if code in _READ_ONLY:
        return StoreUnavailable(
            f"The store takes no changes, as a standby does: {address.shown}", hint="Name the primary server."
        )
    if code in _CROWDED:
        return StoreUnavailable(
            f"The store takes no more connections now: {address.shown}",
            hint="Ask again; if it goes on, raise max_connections or open fewer gates.",
        )
    if code in _TIMEOUTS:
        return StoreUnavailable(f"The store did not serve in time: {address.shown}")
    if code[:2] == "28" or code == "3D000":
        return StoreUnavailable(
            f"The store lets this user not in, or has no such database: {address.shown}",
            hint="Check the user, the password and the database in the store's address.",
        )
    if code == "42501":
        return StoreUnavailable(
            f"This user lacks a right in the store: {address.shown}",
            hint="Connect as the owner of the schema, or give this user CREATE on the database.",
        )
    return StoreUnavailable(f"The store did not serve: {address.shown}")


def translated(fault: BaseException, address: Address) -> PlacetError:
    """As `fault_of`; what is ours already stays as it is."""
    return fault if isinstance(fault, PlacetError) else fault_of(fault, address)


def _code(fault: BaseException) -> str:
    return str(getattr(fault, "sqlstate", None) or "")


def _severity(fault: BaseException) -> str:
    return str(getattr(fault, "severity_en", None) or getattr(fault, "severity", None) or "")
