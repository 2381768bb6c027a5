"""Whether an owner of dispatched effects can still be alive."""

from __future__ import annotations

from typing import Protocol

from placet.model.identifiers import OwnerId


class Liveness(Protocol):
    def is_dead(self, owner: OwnerId) -> bool:
        """True only with proof, such as the process being gone from this very host; otherwise False."""
        ...
