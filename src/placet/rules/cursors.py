"""What a cursor says: after which row to go on, and until when that may be asked. Its signature is the engine's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from placet.model.listing import Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A place in a list, for a while.

    Attributes:
        expires_at: the instant at which it is expired.
    """

    mark: Mark
    expires_at: datetime


def write_cursor(cursor: Cursor) -> bytes:
    """ASCII, the same for the same cursor."""
    mark = cursor.mark
    return json.dumps(
        [mark.at.isoformat(), mark.name, mark.number, cursor.expires_at.isoformat()], separators=(",", ":")
    ).encode("ascii")


def read_cursor(body: bytes) -> Cursor | None:
    """What `write_cursor` wrote; None for anything else."""
    try:
        said = json.loads(body)
        if type(said) is not list or len(said) != 4:
            return None
        at, name, number, expires_at = said
        if not (type(at) is str and type(name) is str and type(number) is int and type(expires_at) is str):
            return None
        mark = Mark(at=datetime.fromisoformat(at), name=name, number=number)
        cursor = Cursor(mark=mark, expires_at=datetime.fromisoformat(expires_at))
    except (ValueError, RecursionError):
        return None
    is_zoned = mark.at.tzinfo is not None and cursor.expires_at.tzinfo is not None
    return cursor if is_zoned and write_cursor(cursor) == body else None
