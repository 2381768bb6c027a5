"""A door that shows principals their tools: what is not listed does not exist, and only the record knows better."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import Allow, Contract, Deny, Gate, Invalid, Principal, Succeeded
from placet.model.call import Call
from placet.model.identifiers import PolicyVersion
from placet.testing import FakeClock, SeededIds

AGENT = Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("w",))


class Hiding:
    """Shows nothing of `note`, and would let anybody call it."""

    version = PolicyVersion("p1")
    timeout_seconds = None

    def is_listed(self, contract: Contract, principal: Principal) -> bool:
        return contract.name != "note"

    async def decide(self, call: Call) -> Allow | Deny:
        return Allow(policy_version=self.version, reasons=("anybody",))

    async def may_decide(self, *asked: Any, **more: Any) -> Any:
        raise AssertionError("nobody decides here")


DONE: list[str] = []


@placet.tool(effect="read")
async def look(word: str) -> str:
    """Look."""
    return word


@placet.tool(effect="write", risk="medium", permission="w")
async def note(word: str) -> str:
    """Write it down."""
    DONE.append(word)
    return word


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    DONE.clear()
    opening = placet.open(
        tools=[look, note],
        store=tmp_path / "placet.db",
        policy=Hiding(),
        clock=FakeClock(),
        ids=SeededIds(7),
        recovery="manual",
    )
    async with opening as found:
        yield found


def proposal(tool: str, call_id: str = "c1", **arguments: Any) -> dict[str, Any]:
    return {"call_id": call_id, "tool": tool, "arguments": arguments or {"word": "a"}}


@pytest.mark.case("L05")
async def test_what_is_not_listed_is_not_called_though_policy_would_allow_it(gate: Gate) -> None:
    hidden = await gate.submit_listed(proposal("note"), principal=AGENT, run="r1")
    absent = await gate.submit_listed(proposal("nothing"), principal=AGENT, run="r1")
    assert isinstance(hidden, Invalid) and isinstance(absent, Invalid)
    assert (hidden.as_data(), hidden.tool) == (absent.as_data(), absent.tool)
    assert DONE == []
    assert isinstance(await gate.submit_listed(proposal("look", "c2"), principal=AGENT, run="r1"), Succeeded)
    assert isinstance(await gate.submit(proposal("note", "c3"), principal=AGENT, run="r1"), Succeeded)


@pytest.mark.case("L05")
async def test_asking_for_it_is_on_record_under_its_name(gate: Gate) -> None:
    await gate.submit_listed(proposal("note"), principal=AGENT, run="r1")
    events = [json.loads(event.body) async for event in gate.store.chained()]
    completed = [event for event in events if event["kind"] == "completed"]
    assert [(event["tool"], event["detail"], event["outcome"]) for event in completed] == [
        ("note", "not_listed", "validation")
    ]


@pytest.mark.case("L05")
async def test_asking_for_it_often_is_answered_as_ever(gate: Gate) -> None:
    found = [
        [
            (await gate.submit_listed(proposal(name, f"{name}-{count}"), principal=AGENT, run=name)).as_data()
            for count in range(15)
        ]
        for name in ("note", "nothing")
    ]
    assert found[0] == found[1]


async def test_looking_for_one_tool_sees_what_the_list_shows(gate: Gate) -> None:
    assert [each.name for each in gate.tools_for(AGENT)] == ["look"]
    found = gate.tool_for("look", AGENT)
    assert found is not None and found.name == "look"
    assert gate.tool_for("note", AGENT) is None
    assert gate.tool_for("nothing", AGENT) is None
    assert gate.lists_nothing_for(AGENT) is False
