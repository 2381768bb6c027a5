"""Where a list goes on that somebody reads a page at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The last row somebody has read of a list that gives the newest first; what stands after it is older.

    Attributes:
        at: when the row was asked for, changed or written.
        name: what it is found by, which orders rows of one instant: an approval's id, an effect's key, a writer.
        number: an audit event's place in its writer's chain; 0 for everything else.
    """

    at: datetime
    name: str
    number: int = 0

    @property
    def place(self) -> tuple[datetime, str, int]:
        """What marks of one list are compared by; the later one comes first in it."""
        return self.at, self.name, self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Row]):
    """Some rows of a list, in its order.

    Attributes:
        after: what to go on after; None where nothing more was there when this page was read.
    """

    rows: tuple[Row, ...]
    after: Mark | None
