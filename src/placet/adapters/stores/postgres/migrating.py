"""The schema of a store: made, brought up to date, or refused, by however many processes start at once."""

from __future__ import annotations

import asyncpg

from placet.adapters.stores import rows
from placet.adapters.stores.postgres.connection import Address
from placet.adapters.stores.postgres.statements import SQL, migrations
from placet.errors import KeyMaterialError, StoreCorrupt, StoreTooNew
from placet.ports.keys import STORE_CHECK, KeyPurpose, Keys

KEY_CHECK = "key_check"
_VERSION = "schema_version"
_MIGRATION_LOCK = 0x706C616365740002
LONGEST_SECONDS = 3_600


async def migrate(connection: asyncpg.Connection, address: Address) -> None:
    """Bring the schema to today's step. Whoever else starts meanwhile waits under the lock, for an hour at most.

    Raises:
        StoreTooNew: a newer placet made it; nothing was changed.
        StoreCorrupt: a schema of this name is there and is not placet's; nothing was changed.
    """
    steps = migrations()
    latest = steps[-1][0]
    if await _version(connection, address) == latest:
        return
    async with connection.transaction():
        await connection.execute(SQL["migrate_patiently"], f"{LONGEST_SECONDS}s")
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK, timeout=LONGEST_SECONDS)
        await connection.execute(SQL["lock_briefly"])
        version = await _version(connection, address)  # again, under the lock: somebody may have been faster
        if not await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = $1", address.schema):
            await connection.execute(f'CREATE SCHEMA "{address.schema}"')
        for number, text in steps:
            if number > version:
                await connection.execute(text, timeout=LONGEST_SECONDS)
        await connection.execute(SQL["put_meta"], _VERSION, str(latest))


async def _version(connection: asyncpg.Connection, address: Address) -> int:
    """The step the schema is at; 0 for one that is empty or not there."""
    tables: int = await connection.fetchval(
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1",
        address.schema,
    )
    if not tables:
        return 0
    has_meta = await connection.fetchval("SELECT to_regclass($1)", f'"{address.schema}".placet_meta')
    found = await connection.fetchval(SQL["meta"], _VERSION) if has_meta is not None else None
    if found is None or not str(found).isdecimal():
        raise StoreCorrupt(
            f"The schema {address.schema!r} of {address.shown} is not a placet store.",
            hint="Name another schema with placet_schema= in the store's address, or restore from a backup.",
        )
    version = int(found)
    if version > migrations()[-1][0]:
        raise StoreTooNew(f"The store {address.shown} was made by a newer placet (schema {version}).")
    return version


async def check_key(connection: asyncpg.Connection, keys: Keys) -> str:
    """The first opening writes a check value; every later one must know the key that made it. What the store says.

    Raises:
        KeyMaterialError: the key is not the one this store was made with.
    """
    found = await connection.fetchval(SQL["meta"], KEY_CHECK)
    if found is None:
        mac = keys.mac(KeyPurpose.STORE, STORE_CHECK)
        await connection.execute(SQL["first_meta"], KEY_CHECK, rows.mac_text(mac))
        found = await connection.fetchval(SQL["meta"], KEY_CHECK)  # whoever was first
    if not keys.is_authentic(KeyPurpose.STORE, STORE_CHECK, rows.mac_from(found or "")):
        raise KeyMaterialError(
            "This key does not belong to this store, or is a copy from before its last rotation.", code="key_mismatch"
        )
    return str(found)


async def has_key_check(connection: asyncpg.Connection, address: Address) -> bool:
    """Whether the schema is there and its store was opened with a key before."""
    if not await _version(connection, address):
        return False
    return await connection.fetchval(SQL["meta"], KEY_CHECK) is not None
