"""The SQL of a store by name; the text lives in `.sql` files of the store's package."""

from __future__ import annotations

import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.M)


def queries_of(package: str, file: str = "queries.sql") -> dict[str, str]:
    """Every named statement of a package's file."""
    return statements((resources.files(package) / file).read_text("utf-8"))


def statements(text: str) -> dict[str, str]:
    """The named statements of a text."""
    parts = _NAME.split(text)[1:]
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def migrations_of(package: str) -> list[tuple[int, str]]:
    """Numbered steps from an empty database to today's schema, in order."""
    folder = resources.files(package) / "migrations"
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [(int(name.split("_")[0]), (folder / name).read_text("utf-8")) for name in files]
