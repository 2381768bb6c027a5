"""Which words name a store, and how they may be shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from placet.errors import ConfigurationError
from placet.rules.addresses import DatabaseAddress, database_address, is_other_url, names_database

MEMORY: Final = "memory:"
"""The store that forgets everything with its process."""


def is_address(where: str | Path) -> bool:
    """Whether a store is named by the URL of a PostgreSQL database, and not by a path."""
    return names_database(where)


def address_here(where: str | Path) -> DatabaseAddress:
    """A database's address, as the driver takes it in this environment.

    Raises:
        ConfigurationError: it cannot be read without doubt.
    """
    return database_address(str(where), other_host=os.environ.get("PGHOST", ""))


def shown_store(where: str | Path) -> str:
    """A store as it may be shown: of a database's address neither user nor password nor options."""
    if not is_address(where):
        return "a URL that is not known here" if is_other_url(where) else str(where)
    try:
        return address_here(where).shown
    except ConfigurationError:
        return "postgresql://..."


def named_store(where: str | Path) -> str:
    """As `shown_store`; a database's with the schema that is meant, which its address may leave unsaid."""
    if not is_address(where):
        return shown_store(where)
    try:
        address = address_here(where)
    except ConfigurationError:
        return shown_store(where)
    return f"{address.shown}?placet_schema={address.schema}"
