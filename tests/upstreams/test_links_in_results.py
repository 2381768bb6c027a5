"""What a tool's result says of resources: under addresses that are nobody else's, in words that hide nothing."""

from __future__ import annotations

from typing import Any

import pytest

from placet.bootstrap.relaying import relay_sides
from placet.mcp_server.relay import UpstreamRelay
from placet.model.upstreams import Relayed
from tests.upstreams.scene import Server, gate_with, joined, over_stdio

LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "title": "A", "description": "Of a.", "size": 3}
THEIRS = "placet:files/file:///policy.txt"
TEXT = {"type": "text", "text": "wi\u200bth"}


async def outward(server: Server, allow: frozenset[Relayed], *blocks: dict[str, Any]) -> list[Any]:
    upstream = joined(over_stdio(server, relayed=allow))
    async with gate_with(upstream) as gate:
        relay = UpstreamRelay(gate=gate, sides=relay_sides((upstream,)))
        (contract,) = (each for each in gate.contracts if each.name == "desk.say")
        return relay.outward_content(contract, list(blocks))


@pytest.mark.parametrize("allow", [frozenset[Relayed](), frozenset({Relayed.RESOURCES})], ids=["hidden", "offered"])
async def test_no_upstream_speaks_under_anothers_address(server: Server, allow: frozenset[Relayed]) -> None:
    inner = {"type": "resource", "resource": {"uri": THEIRS, "text": "x"}}

    link, resource = await outward(server, allow, {**LINK, "uri": THEIRS}, inner)

    assert (link["uri"], resource["resource"]["uri"]) == (f"placet:desk/{THEIRS}",) * 2


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "x" * 100_000], ids=["turned round", "undrawn", "endless"])
async def test_a_links_words_hide_nothing(server: Server, hidden: str) -> None:
    said = {each: f"a{hidden}" for each in ("name", "title", "description")}

    found = await outward(server, frozenset(), {**LINK, **said}, LINK, TEXT)

    assert found == [{"type": "resource_link", "uri": "file:///a", "name": "", "size": 3}, LINK, TEXT]
