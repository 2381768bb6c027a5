"""The SQL of this store by name; the text lives in `queries.sql` and `migrations/`."""

from __future__ import annotations

from placet.adapters.stores.statements import migrations_of, queries_of, statements

__all__ = ["migrations", "queries", "statements"]


def queries() -> dict[str, str]:
    """Every named statement of `queries.sql`."""
    return queries_of(__package__)


def migrations() -> list[tuple[int, str]]:
    """Numbered steps from an empty file to today's schema, in order."""
    return migrations_of(__package__)
