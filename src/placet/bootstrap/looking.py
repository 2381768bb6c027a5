"""Looks at a store that change nothing of it: nothing is made, locked or written."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from placet.adapters.keys import load_key_file
from placet.bootstrap.stores import key_path, require_asyncpg
from placet.engine.verifying import verify
from placet.errors import KeyMaterialError
from placet.model.approval import Question
from placet.ports.examining import Examination, ServerExamination


def peek_at_pending(store: str | Path, *, key: Path | None, tenant: str, limit: int) -> tuple[Question, ...]:
    """What waits, without touching the store, as far as signatures hold. For suggestions; nothing is made or raised."""
    from placet.adapters.stores.sqlite.peek import peek_pending

    if not isinstance(store, Path):
        return ()  # a suggestion does not connect to a server
    try:
        keys = load_key_file(key or key_path(store))
    except KeyMaterialError:
        return ()
    found = peek_pending(store, tenant, limit=limit)
    return tuple(each.question for each in found if verify(each, keys) is None)


def examine_store(store: Path) -> AbstractContextManager[Examination]:
    """A look at a SQLite store that changes nothing of it; entering raises what keeps it from being read.

    Raises:
        StoreError: on entering; see `ports.examining`.
    """
    from placet.adapters.stores.sqlite.examining import examine

    return examine(store)


def examine_database(url: str) -> AbstractContextManager[ServerExamination]:
    """A look at a store in a database, and at its server, that changes nothing; it may not be made yet.

    Raises:
        ConfigurationError, StoreError: on entering; the database cannot be reached.
    """
    require_asyncpg()
    from placet.adapters.stores.postgres import address_of
    from placet.adapters.stores.postgres.examining import examine

    return examine(address_of(url))


def sqlite_library_version() -> tuple[int, ...]:
    """The SQLite that stores are opened with here."""
    from placet.adapters.stores.sqlite.examining import library_version

    return library_version()


def sqlite_settings() -> dict[str, str]:
    """What every connection to a SQLite store has set here, read back from the library."""
    from placet.adapters.stores.sqlite.examining import connection_settings

    return connection_settings()
