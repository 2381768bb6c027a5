"""Scratch stores in a database that holds a real one: schemas of their own, dropped again, also after a crash.

Each has a name that says what it is for and since when, and a comment without which nothing is dropped. Every statement
runs with that schema alone on its path. Their clock can be moved, and their lock is not the one that the writers of
other stores share: nothing that happens in them holds anybody up.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from placet.bootstrap.stores import make_store, require_asyncpg
from placet.errors import ConfigurationError, StoreError
from placet.ports.waiting import in_a_thread

if TYPE_CHECKING:
    import asyncpg

Value = TypeVar("Value")

NAMES: Final = "placet_verify_"
"""What the name of every scratch schema begins with."""
_MARK: Final = "placet verify: scratch, may be dropped"
_SCRATCH: Final = re.compile(r"placet_verify_[0-9]{10}_[0-9a-f]{8}(_[a-z0-9]+)?")
_OLD_SECONDS: Final = 3_600
_LEFT: Final = (
    "SELECT nspname, substr(nspname, 15, 10)::bigint < extract(epoch FROM clock_timestamp()) - $2 FROM pg_namespace n "
    "WHERE nspname ~ '^placet_verify_[0-9]{10}_[0-9a-f]{8}(_[a-z0-9]+)?$' "
    "AND obj_description(n.oid, 'pg_namespace') = $1 AND nspowner = current_user::regrole ORDER BY 1"
)
"""Of this user's own alone: a superuser is everybody's, and anybody may give a schema such a name and comment."""
_OWN_TIME: Final = (
    "CREATE TABLE verify_clock (ahead bigint)",
    "INSERT INTO verify_clock VALUES (0)",
    "CREATE OR REPLACE FUNCTION clock_now() RETURNS bigint LANGUAGE sql VOLATILE AS "
    "'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + (SELECT ahead FROM verify_clock)'",
    "CREATE OR REPLACE FUNCTION writing_lock() RETURNS bigint LANGUAGE sql IMMUTABLE AS "
    "'SELECT hashtextextended(''{schema}'', 1)'",
)


class ScratchDatabase:
    """Scratch stores of one purpose, in one database.

    Attributes:
        made: the schemas that stand, in the order in which they were made.
    """

    def __init__(self, url: str, *, label: str) -> None:
        """
        Args:
            label: eight hexadecimal digits that no other run has.
        """
        require_asyncpg()
        self._url = url
        self._label = label
        self.made: dict[str, str] = {}

    def url_of(self, name: str) -> str:
        """The address of a scratch store that was made."""
        return f"{self._url}{'&' if '?' in self._url else '?'}placet_schema={self.made[name]}"

    async def make(self, name: str, key: Path) -> str:
        """A new store, and its key; its address.

        Raises:
            ConfigurationError: this user may make no schema there.
            StoreError: the database cannot be reached.
        """
        since = await self._fetch(None, "SELECT extract(epoch FROM clock_timestamp())::bigint")
        schema = f"{NAMES}{since[0][0]}_{self._label}_{name}"
        await self._execute(None, f"CREATE SCHEMA {_checked(schema)}", f"COMMENT ON SCHEMA {schema} IS '{_MARK}'")
        self.made[name] = schema
        await in_a_thread(partial(_made, self.url_of(name), key))
        await self._execute(schema, *(each.format(schema=schema) for each in _OWN_TIME))
        return self.url_of(name)

    async def change(self, name: str, *statements: str) -> None:
        """As somebody who may write every table, past every trigger that stands in the way of history."""
        tables = ("audit_events", "audit_heads")
        await self._execute(
            self.made[name],
            *(f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in tables),
            *statements,
            *(f"ALTER TABLE {table} ENABLE TRIGGER USER" for table in tables),
        )

    async def texts(self, name: str) -> bytes:
        """Every value of every table, as it lies there."""
        schema = self.made[name]
        tables = await self._fetch(schema, "SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
        return b"".join([await self._copied(schema, row[0]) for row in tables])

    async def later(self, seconds: float) -> None:
        """Move the clock of every store that stands."""
        for schema in self.made.values():
            await self._fetch(schema, "UPDATE verify_clock SET ahead = ahead + $1", int(seconds * 1_000_000))

    async def drop(self) -> None:
        """All that was made here. What cannot be dropped now, the next run's `sweep` drops."""
        for name, schema in list(self.made.items()):
            await self._execute(None, f"DROP SCHEMA IF EXISTS {_checked(schema)} CASCADE")
            del self.made[name]

    async def sweep(self) -> tuple[str, ...]:
        """Drop what this user's runs left that died more than an hour ago; the names of what was dropped."""
        found = await self._fetch(None, _LEFT, _MARK, _OLD_SECONDS)
        old = [name for name, is_old in found if is_old]
        for name in old:
            await self._execute(None, f"DROP SCHEMA IF EXISTS {_checked(name)} CASCADE")
        return tuple(old)

    # ------------------------------------------------------------ within

    async def _execute(self, schema: str | None, *statements: str) -> None:
        async def work(connection: asyncpg.Connection) -> None:
            for statement in statements:
                await connection.execute(statement)

        await self._with(schema, work)

    async def _fetch(self, schema: str | None, statement: str, *bindings: object) -> list[tuple[Any, ...]]:
        async def work(connection: asyncpg.Connection) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in await connection.fetch(statement, *bindings)]

        return await self._with(schema, work)

    async def _copied(self, schema: str, table: str) -> bytes:
        async def work(connection: asyncpg.Connection) -> bytes:
            written = bytearray()

            async def take(data: bytes) -> None:
                written.extend(data)

            await connection.copy_from_table(table, schema_name=schema, output=take, format="binary")
            return bytes(written)

        return await self._with(schema, work)

    async def _with(self, schema: str | None, work: Callable[[asyncpg.Connection], Awaitable[Value]]) -> Value:
        """In a transaction of its own, that sees the one schema and no other."""
        import asyncpg

        from placet.adapters.stores.postgres.connection import FAULTS, address_of, connect, fault_of

        address = replace(address_of(self._url), schema=NAMES if schema is None else _checked(schema))
        try:
            connection = await connect(address)
            try:
                async with connection.transaction():
                    return await work(connection)
            finally:
                connection.terminate()
        except asyncpg.InsufficientPrivilegeError:
            fault: ConfigurationError | StoreError = ConfigurationError(
                f"This user may make no scratch schema in {address.shown}",
                hint="GRANT CREATE ON DATABASE to it, or verify against a database where it may: --store.",
            )
        except FAULTS as foreign:
            fault = fault_of(foreign, address)
        raise fault


def _made(url: str, key: Path) -> None:
    _, store = make_store(url, key=key)
    asyncio.run(store.close())


def _checked(schema: str) -> str:
    """The name of a scratch schema, and of no other.

    Raises:
        ConfigurationError: it is another's; nothing happened.
    """
    if _SCRATCH.fullmatch(schema) is None:
        raise ConfigurationError("This is no scratch schema of placet verify, and is left alone.")
    return schema
