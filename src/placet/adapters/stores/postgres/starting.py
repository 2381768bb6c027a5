"""Whether there is a store in a database, and making one together with its key, by however many processes at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import asyncpg

from placet.adapters.stores.postgres.connection import FAULTS, Address, connect, fault_of
from placet.adapters.stores.postgres.migrating import KEY_CHECK, LONGEST_SECONDS, has_key_check, migrate
from placet.adapters.stores.postgres.orders import StoreThread
from placet.adapters.stores.postgres.statements import SQL

_CLOSING_SECONDS: Final = 2.0


def is_made(address: Address) -> bool:
    """Whether there is a store at that place, with a key that it was made with. Nothing is made.

    Raises:
        StoreUnavailable, StoreCorrupt, StoreTooNew: it cannot be looked at.
    """
    thread = StoreThread()
    try:
        return thread.run(_is_made(address))
    finally:
        thread.stop()


def make_tables(address: Address) -> None:
    """The schema at today's step, by a user who may write what a key leaves in it. There is no store before its key.

    Raises:
        StoreUnavailable, StoreCorrupt, StoreTooNew: it cannot be made, or this user lacks a right in it.
    """
    thread = StoreThread()
    try:
        thread.run(_make_tables(address))
    finally:
        thread.stop()


@contextmanager
def starting(address: Address) -> Iterator[bool]:
    """Whether there is a store; nobody else who asks so makes one, or its key, until this is over.

    Waits for an hour at most for whoever is at it. The lock is the database's, so it goes with its holder.

    Raises:
        StoreUnavailable, StoreCorrupt, StoreTooNew: it cannot be looked at, or others do not come to an end.
    """
    thread = StoreThread()
    try:
        connection, is_there = thread.run(_begin(address))
        try:
            yield is_there
        finally:
            thread.run(_end(connection))
    finally:
        thread.stop()


async def _is_made(address: Address) -> bool:
    try:
        connection = await connect(address)
        try:
            return await has_key_check(connection, address)
        finally:
            connection.terminate()
    except FAULTS as foreign:
        fault = fault_of(foreign, address)
    raise fault


async def _make_tables(address: Address) -> None:
    try:
        connection = await connect(address)
        try:
            await migrate(connection, address)
            rehearsal = connection.transaction()
            await rehearsal.start()
            await connection.execute(SQL["first_meta"], KEY_CHECK, "")
            await rehearsal.rollback()
            return
        finally:
            connection.terminate()
    except FAULTS as foreign:
        fault = fault_of(foreign, address)
    raise fault


async def _begin(address: Address) -> tuple[asyncpg.Connection, bool]:
    try:
        connection = await connect(address)
        try:
            await connection.execute(SQL["start_patiently"], f"{LONGEST_SECONDS}s")
            await connection.execute(SQL["take_starting"], address.schema, timeout=LONGEST_SECONDS)
            return connection, await has_key_check(connection, address)
        except BaseException:
            connection.terminate()
            raise
    except FAULTS as foreign:
        fault = fault_of(foreign, address)
    raise fault


async def _end(connection: asyncpg.Connection) -> None:
    with suppress(*FAULTS):
        await connection.close(timeout=_CLOSING_SECONDS)
