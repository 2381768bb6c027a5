"""How each tool of an upstream stands, by what was accepted, what has terms, and what its server says now."""

from __future__ import annotations

from typing import Any

import pytest

from placet.model.contract import EffectClass, Risk
from placet.model.pins import Definition, PinFault, Pins, PinState, SpoiltPin
from placet.model.stopping import StopScope
from placet.model.upstreams import Manifest
from placet.rules.standings import ToolStanding, standings
from tests.rules.definitions import a_definition, a_pin, some_terms


def stood(
    *accepted: Definition,
    live: tuple[Definition, ...] | None = (),
    terms: tuple[str, ...] = ("create",),
    quarantined: tuple[str, ...] = (),
    spoilt: tuple[SpoiltPin, ...] = (),
) -> tuple[ToolStanding, ...]:
    return standings(
        "desk",
        pins=Pins(pins={(each.server, each.tool): a_pin(each) for each in accepted}, spoilt=spoilt),
        manifest=Manifest(server="desk", terms={tool: some_terms(tool) for tool in terms}),
        live=live,
        quarantined=quarantined,
    )


PINNED, OTHER = a_definition(), a_definition(description="Another.")
ODD = a_definition(description="10\u2009km")
QUARANTINED = StopScope.quarantine("desk.create", a_pin().digest).key


@pytest.mark.case("B06")
@pytest.mark.case("L01")
@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({"accepted": (PINNED,), "live": (PINNED,)}, PinState.ACCEPTED),
        ({"accepted": (PINNED,), "live": None}, PinState.ACCEPTED),
        ({"accepted": (PINNED,), "live": (PINNED,), "terms": ()}, PinState.NO_TERMS),
        ({"accepted": (PINNED,), "live": (OTHER,)}, PinState.CHANGED),
        ({"accepted": (PINNED,), "live": (OTHER,), "quarantined": (QUARANTINED,)}, PinState.CHANGED),
        ({"accepted": (PINNED,), "live": (PINNED,), "quarantined": (QUARANTINED,)}, PinState.QUARANTINED),
        ({"accepted": (PINNED,), "live": None, "quarantined": (QUARANTINED,)}, PinState.QUARANTINED),
        # of another pin than the one that is accepted now
        ({"accepted": (OTHER,), "live": (OTHER,), "quarantined": (QUARANTINED,)}, PinState.ACCEPTED),
        ({"accepted": (PINNED,), "live": ()}, PinState.GONE),
        ({"accepted": (), "live": (PINNED,)}, PinState.NEW),
        ({"accepted": (), "live": (PINNED,), "terms": ()}, PinState.NEW),
        ({"accepted": (), "live": ()}, PinState.GONE),  # there are terms for what is not there
        ({"accepted": (), "live": None}, PinState.NEW),
        ({"accepted": (PINNED,), "live": (PINNED, PINNED)}, PinState.CHANGED),
        ({"accepted": (ODD,), "live": (ODD,)}, PinState.UNFIT),
        ({"accepted": (ODD,), "live": (PINNED,)}, PinState.CHANGED),
    ],
    ids=str,
)
def test_what_somebody_has_to_do_something_about_comes_first(given: dict[str, Any], state: PinState) -> None:
    (found,) = stood(*given.pop("accepted"), **given)

    assert (found.tool, found.name, found.state) == ("create", "desk.create", state)


def test_everything_is_told_that_anybody_knows_of() -> None:
    found = stood(a_definition("b"), live=(a_definition("a"),), terms=("c",), spoilt=(_spoilt("d"),))

    assert [each.tool for each in found] == ["a", "b", "c", "d"]


def _spoilt(tool: str) -> SpoiltPin:
    return SpoiltPin(server="desk", tool=tool, fault=PinFault.ALTERED)


def test_what_is_not_believed_is_new_and_says_so_and_may_be_accepted() -> None:
    (found,) = stood(live=(PINNED,), spoilt=(_spoilt("create"),))

    assert (found.state, found.fault, found.pin, found.may_be_accepted) == (
        PinState.NEW,
        PinFault.ALTERED,
        None,
        True,
    )


def test_another_servers_pins_are_none_of_its() -> None:
    (found,) = stood(a_definition(server="files"), live=(PINNED,), spoilt=())

    assert found.state is PinState.NEW


@pytest.mark.case("L03")
def test_risk_and_effect_are_those_that_the_contract_would_have() -> None:
    (found,) = stood(PINNED, live=(a_definition(annotations={"destructiveHint": True}),))

    assert (found.effect, found.risk, found.permission) == (EffectClass.IRREVERSIBLE, Risk.HIGH, "desk.create")


@pytest.mark.parametrize(
    ("live", "told"),
    [
        (a_definition(description="a\u200bb"), "U+200B"),
        (a_definition(input_schema={"type": "array"}), "accepts no object"),
        (a_definition("two words"), "no tool can have its name"),
    ],
    ids=["hidden", "schema", "name"],
)
def test_what_cannot_be_accepted_says_why(live: Definition, told: str) -> None:
    found = next(each for each in stood(live=(live,), terms=(live.tool,)) if each.tool == live.tool)

    assert told in str(found.problem) and not found.may_be_accepted


def test_of_tools_that_are_called_alike_none_can_be_accepted() -> None:
    found = stood(live=(a_definition("repos/get"), a_definition("repos_get-4b1f2259")), terms=())

    assert [(each.name, each.may_be_accepted) for each in found] == [(None, False), (None, False)]


def test_a_tool_without_terms_may_be_accepted_before_it_has_any() -> None:
    (found,) = stood(live=(a_definition(input_schema={"type": "object"}),), terms=())

    assert found.may_be_accepted and found.effect is None
