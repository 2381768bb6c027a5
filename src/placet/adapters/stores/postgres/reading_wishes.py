"""What a verb needs that is not known yet, and how it says so: by being stopped before it wrote anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reading:
    """Something to be read from the database: a statement's name and its bindings."""

    name: str
    bindings: tuple[Any, ...] = ()


class Unread(Exception):
    """A verb needs what is not known yet. Nothing was written."""

    def __init__(self, *readings: Reading) -> None:
        super().__init__()
        self.readings = readings


class NotTogether(Exception):
    """The verb changes a row that another of its batch has changed, or needs locks: it comes by itself."""
