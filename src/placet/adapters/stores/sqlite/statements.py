"""The SQL of this store by name; the text lives in `queries.sql` and `migrations/`."""

from __future__ import annotations

import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.M)


def queries() -> dict[str, str]:
    """Every named statement of `queries.sql`."""
    return statements((resources.files(__package__) / "queries.sql").read_text("utf-8"))


def statements(text: str) -> dict[str, str]:
    """The named statements of a text."""
    parts = _NAME.split(text)[1:]
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def migrations() -> list[tuple[int, str]]:
    """Numbered steps from an empty file to today's schema, in order."""
    folder = resources.files(__package__) / "migrations"
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [(int(name.split("_")[0]), (folder / name).read_text("utf-8")) for name in files]
