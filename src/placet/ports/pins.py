"""Where what was accepted of the upstreams is kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from placet.model.pins import Definition, Pin, Pins


class PinShelf(Protocol):
    """The pins of a deployment. Every change is whole or not at all, and made by one at a time."""

    def read(self) -> Pins:
        """What is believed now; of a shelf that cannot be read, nothing, with the fault."""
        ...

    def accept(self, definitions: Sequence[Definition], *, by: str, at: datetime) -> tuple[Pin, ...]:
        """Put these in the place of what was accepted of the same tools. Durable on return; the rest stays as it is.

        Raises:
            PinsNotWritable: nothing was changed.
        """
        ...
