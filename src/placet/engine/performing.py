"""What this very process is at work on, so that its signs of life go on and its own recovery leaves it alone."""

from __future__ import annotations

from placet.model.effect import Effect
from placet.model.identifiers import Token
from placet.model.ledger import Place


class Performing:
    """Dispatches and reads under way.

    Attributes:
        in_flight: how many; while there are any, the owner's leases are renewed.
    """

    def __init__(self) -> None:
        self._tokens: set[Token] = set()
        self._places: set[Place] = set()
        self.in_flight = 0

    def begin(self, token: Token) -> None:
        self.in_flight += 1
        self._tokens.add(token)

    def end(self, token: Token) -> None:
        self._tokens.discard(token)
        self.in_flight -= 1

    def begin_read(self, place: Place) -> None:
        self.in_flight += 1
        self._places.add(place)

    def move_read(self, was: Place, now: Place) -> None:
        """A further attempt has a started event of its own."""
        self._places.discard(was)
        self._places.add(now)

    def end_read(self, place: Place) -> None:
        self._places.discard(place)
        self.in_flight -= 1

    def is_reading(self, place: Place) -> bool:
        """Whether this process is at the read that started there."""
        return place in self._places

    def is_performing(self, effect: Effect) -> bool:
        """Whether this process holds the row by its own claim."""
        return effect.token in self._tokens
