"""How a schema is laid out, in the server's own words, against how the migrations of a version lay it out.

What the migrations make is kept as a digest of each part in `layouts.json`: a look at a store runs no migration to
compare with. A test holds the file against fresh schemas on every server; `scripts/postgres_layouts.py` writes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from importlib import resources
from typing import Any

Parts = dict[str, str]
"""Digests by name, such as `trigger effects_move_legally`."""


@cache
def made_by(version: int) -> Parts:
    """What the migrations up to a version make; empty for a version that is not known."""
    text = (resources.files(__package__) / "layouts.json").read_text("utf-8")
    found: dict[str, Parts] = json.loads(text)
    return found.get(str(version), {})


def parts_of(rows: list[tuple[Any, ...]], *, schema: str) -> dict[str, tuple[str, str]]:
    """Of what the statement `layout` finds: each part's digest, and what it stands on."""
    return {name: (_digest(_named(name, text or "", schema)), place) for name, text, place in rows}


def differences(rows: list[tuple[Any, ...]], *, schema: str, version: int) -> tuple[str, ...]:
    """Names of parts that are not as the version makes them, sorted.

    Tables and functions beside ours are of handlers that co-commit, and not ours to judge.
    """
    expected, found = made_by(version), parts_of(rows, schema=schema)
    if not expected:
        return tuple(sorted(found))  # of a version that nobody here knows nothing is as it should be
    places = {
        name.removeprefix("table ").split("(")[0] for name in expected if name.startswith(("table ", "function "))
    }
    ours = {name: digest for name, (digest, place) in found.items() if place in places or name in expected}
    return tuple(sorted({name for name, _ in ours.items() ^ expected.items()}))


def _named(part: str, text: str, schema: str) -> str:
    """The same under any name of the schema: without it where the server puts it before what a part stands on.

    Bodies of functions name no schema, and aliases in them, or `new` and `old`, may have the very name of one.
    """
    if part.startswith("function "):
        return re.sub(rf'search_path="?{re.escape(schema)}"?', "search_path=ours", text.replace('\\"', ""))
    return re.sub(rf"""\b(ON|FUNCTION) "?{re.escape(schema)}"?\.""", r"\1 ", text)


def _digest(text: str) -> str:
    """The same under servers that word a list of columns in other white space."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]
