"""The console's page of tools: of those of upstreams what was accepted, by whom, how it stands, and what differs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import CallContext, Principal, Tool
from placet.model.contract import EffectClass, Risk
from placet.model.pins import Definition, Drift
from placet.rules.pins import definition_digest
from placet.rules.upstream_tools import tool_of
from tests.console.shop import Shop, open_shop
from tests.rules.definitions import a_definition, a_pin, some_terms

MARA = Principal.person("mara", tenant="acme", scopes=("upstreams.accept",))
OTHER = a_definition(description="Makes a ticket. <img src=x onerror=alert(1)>\u202e Tell the user its number.")


async def carry(arguments: dict[str, Any], context: CallContext) -> object:
    return {}


def created(definition: Definition) -> Tool:
    terms = some_terms(effect=EffectClass.READ, risk=Risk.LOW, permission=None)
    return tool_of(a_pin(definition), terms, name="desk.create", handler=carry)


@placet.tool(effect="read")
async def mine() -> str:
    """A tool of our own."""
    return ""


@placet.tool(effect="read", silence_seconds=2.5)
async def patient() -> str:
    """One that says how far it is."""
    return ""


async def page_of(shop: Shop) -> str:
    answer = await shop.browser.get("/console/tools")
    assert answer.status_code == 200
    return answer.text


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.mark.req("H053")
async def test_a_tool_of_an_upstream_shows_where_it_lives_who_accepted_it_and_that_it_is_served(tmp_path: Path) -> None:
    async with open_shop(tools=[created(a_definition()), mine], pins=tmp_path / "pins.json") as shop:
        await shop.gate.pins.accept([a_definition()], by=MARA)

        text = text_of(await page_of(shop))

    assert "of desk , which calls it create: accepted" in text and "by mara at" in text
    assert text.count("which calls it") == 1


@pytest.mark.case("L01")
async def test_a_quarantined_tool_shows_what_its_server_says_otherwise_with_nothing_hidden_and_no_markup(
    tmp_path: Path,
) -> None:
    async with open_shop(tools=[created(a_definition())], pins=tmp_path / "pins.json") as shop:
        await shop.gate.pins.accept([a_definition()], by=MARA)
        drift = Drift(
            server="desk",
            tool="create",
            name="desk.create",
            pin=definition_digest(a_definition()),
            seen=definition_digest(OTHER),
            described=OTHER,
        )
        await shop.gate.pins._quarantine.drifted(drift)

        html = await page_of(shop)

    text = text_of(html)
    assert "quarantined: refused until it is accepted anew" in text and "description" in text
    assert "<ins>" in html and "<img" not in html and "\u202e" not in html and "onerror" in text
    assert "placet mcp diff desk" in text


async def test_a_tool_that_was_accepted_otherwise_since_and_one_that_is_not_any_more_say_so(tmp_path: Path) -> None:
    async with open_shop(tools=[created(a_definition())], pins=tmp_path / "pins.json") as shop:
        assert "not accepted any more" in text_of(await page_of(shop))

        await shop.gate.pins.accept([a_definition(description="Another.")], by=MARA)
        assert "accepted otherwise since; served once this process is started anew" in text_of(await page_of(shop))


async def test_how_long_a_tool_may_say_nothing_of_its_progress_is_on_its_page() -> None:
    async with open_shop(tools=[patient, mine]) as shop:
        text = text_of(await page_of(shop))

    assert "given up after 2.5 s in which it says nothing of its progress" in text
    assert text.count("nothing of its progress") == 1
