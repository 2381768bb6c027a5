"""What the log says of a fault of our own: where it was, never what it said."""

from __future__ import annotations

import pytest

from placet.engine.faults import told, told_of_round
from placet.errors import StoreUnavailable


def fails(depth: int) -> None:
    if depth:
        fails(depth - 1)
    raise LookupError("s3cr3t")


def caught(depth: int) -> BaseException:
    with pytest.raises(LookupError) as raised:
        fails(depth)
    return raised.value


def test_a_fault_is_told_by_its_name_and_the_places_it_went_through_outermost_first() -> None:
    fault = told(caught(0))

    line = fails.__code__.co_firstlineno + 3
    assert fault["error_type"] == "LookupError"
    assert fault["places"] == [f"test_faults.py:{caught.__code__.co_firstlineno + 2}", f"test_faults.py:{line}"]


def test_however_deep_a_fault_was_its_last_sixteen_places_are_told() -> None:
    assert len(told(caught(14))["places"]) == 16
    deep = told(caught(60))["places"]

    line = fails.__code__.co_firstlineno
    assert deep == [f"test_faults.py:{line + 2}"] * 15 + [f"test_faults.py:{line + 3}"]


def test_of_a_stores_fault_the_next_step_is_told_too_and_of_no_other() -> None:
    fault = StoreUnavailable("The store is away.", hint="Start it.")

    assert told_of_round(fault) == told(fault) | {"code": fault.code, "hint": "Start it."}
    assert set(told_of_round(caught(0))) == {"error_type", "places"}
    assert "s3cr3t" not in repr(told_of_round(caught(3)))


class Foreign(StoreUnavailable):
    """Of somebody else's making: its words are not ours."""


def test_of_what_only_passes_for_a_stores_fault_nothing_but_the_place_is_told() -> None:
    assert told_of_round(Foreign("s3cr3t", hint="s3cr3t")) == {"error_type": "untrusted_exception", "places": []}
