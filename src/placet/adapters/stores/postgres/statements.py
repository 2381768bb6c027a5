"""The SQL of this store by name; the text lives in `queries.sql` and `migrations/`."""

from __future__ import annotations

from placet.adapters.stores.statements import migrations_of, queries_of

SQL = queries_of(__package__)


def migrations() -> list[tuple[int, str]]:
    """Numbered steps from an empty schema to today's, in order."""
    return migrations_of(__package__)
