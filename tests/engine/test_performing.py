"""What this process is at: while there is any of it the leases are renewed, and no longer."""

from __future__ import annotations

from placet.engine.performing import Performing
from placet.model.identifiers import Token, WriterId
from placet.model.ledger import Place


def place(sequence: int) -> Place:
    return Place(writer=WriterId("w"), sequence=sequence)


def test_what_has_begun_is_in_flight_until_it_has_ended_and_each_once() -> None:
    performing = Performing()

    performing.begin(Token("t-1"))
    performing.begin_read(place(1))
    assert performing.in_flight == 2
    performing.end_read(place(1))
    assert performing.in_flight == 1
    performing.end(Token("t-1"))
    assert performing.in_flight == 0


def test_a_read_is_known_by_the_place_of_its_last_attempt() -> None:
    performing = Performing()
    performing.begin_read(place(1))

    performing.move_read(place(1), place(2))

    assert (performing.is_reading(place(1)), performing.is_reading(place(2)), performing.in_flight) == (False, True, 1)
    performing.end_read(place(2))
    assert (performing.is_reading(place(2)), performing.in_flight) == (False, 0)
