"""One call, through every way in: what was enforced and what a policy in shadow would have said is recorded alike.

Source: CASES D08.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents import Agent, Runner
from agents.testing import ScriptedModel, assistant_message, function_call
from prometheus_client import CollectorRegistry

import placet
from placet import (
    Allow,
    Deny,
    End,
    Fail,
    Failure,
    InlineDriver,
    Move,
    Next,
    Principal,
    State,
    StepContext,
    Succeeded,
    Workflow,
    Workflows,
)
from placet.bootstrap.surroundings import system_clock
from placet.http_api import create_app
from placet.integrations.openai_agents import Boundary
from placet.model.decision import Decision, Entitled
from placet.model.identifiers import PolicyVersion
from placet.testing import FixedSignIn
from tests.http_api.conftest import FAST
from tests.mcp_server.conftest import in_process

AGENT = Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("w",))
PROPOSAL = {"call_id": "c1", "tool": "note", "arguments": {"word": "x"}}


class Says:
    """A policy that answers everything alike."""

    timeout_seconds = None

    def __init__(self, kind: type[Allow] | type[Deny], version: str) -> None:
        self.version = PolicyVersion(version)
        self._kind = kind

    async def decide(self, call: Any) -> Decision:
        return self._kind(reasons=(f"said_by_{self.version}",), policy_version=self.version)

    def is_listed(self, contract: Any, principal: Any) -> bool:
        return True

    async def may_decide(self, question: Any, person: Any) -> Entitled:
        return Entitled()


class Noted(list[str]):
    """What really ran."""

    @property
    def tool(self) -> placet.Tool:
        @placet.tool(effect="write", risk="medium", permission="w", name="note", text="free")
        async def note(word: str) -> str:
            """Write it down."""
            self.append(word)
            return word

        return note


Options = dict[str, Any]


async def _events(gate: placet.Gate) -> list[dict[str, Any]]:
    return [json.loads(event.body) async for event in gate.store.chained()]


async def by_library(options: Options, folder: Path) -> list[dict[str, Any]]:
    async with placet.open(store=placet.MEMORY, **options) as gate:
        await gate.submit(PROPOSAL, principal=AGENT, run="r1")
        return await _events(gate)


async def by_batch(options: Options, folder: Path) -> list[dict[str, Any]]:
    async with placet.open(store=placet.MEMORY, **options) as gate:
        await gate.submit_all([PROPOSAL], principal=AGENT, run="r1")
        return await _events(gate)


async def by_http(options: Options, folder: Path) -> list[dict[str, Any]]:
    metrics = CollectorRegistry()
    async with placet.open(store=placet.MEMORY, **options) as gate:
        app = create_app(
            gate=gate, sign_in=FixedSignIn({"t": AGENT}), settings=FAST, clock=system_clock(), metrics=metrics
        )
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://placet.test") as client:
            await client.post("/v1/proposals", json={"run": "r1", **PROPOSAL}, headers={"Authorization": "Bearer t"})
        return await _events(gate)


async def by_mcp(options: Options, folder: Path) -> list[dict[str, Any]]:
    async with in_process(folder, store=placet.MEMORY, sign_in=FixedSignIn({"t": AGENT}), **options) as door:
        await door.call("note", {"word": "x"}, as_="t")
        return await door.events()


async def by_framework(options: Options, folder: Path) -> list[dict[str, Any]]:
    async with placet.open(store=placet.MEMORY, **options) as gate:
        boundary: Boundary = Boundary(gate, principal=lambda _: AGENT, run=lambda _: "r1")
        wish = function_call("note", json.dumps({"word": "x"}), call_id="c1")
        model = ScriptedModel([[wish], [assistant_message("done")]])
        agent = Agent(name="a", model=model, tools=list(boundary.tools()))
        await Runner.run(agent, "go", context={}, run_config=boundary.run_config())
        return await _events(gate)


@dataclass(frozen=True)
class Inputs:
    word: str


async def noting(inputs: Inputs, context: StepContext) -> Move:
    outcome = await context.call("note", {"word": inputs.word})
    return Next("DONE", inputs) if outcome.is_success else Fail("not_noted")


NOTING = Workflow(
    name="noting",
    version="1",
    start="NOTE",
    states=(
        State(name="NOTE", inputs=Inputs, step=noting, next=("DONE",), tools=("note",), on_failure="FAILED"),
        End(name="DONE", inputs=Inputs),
        End(name="FAILED", inputs=Failure, is_failure=True),
    ),
)


async def by_workflow(options: Options, folder: Path) -> list[dict[str, Any]]:
    async with placet.open(store=placet.MEMORY, **options) as gate:
        workflows = Workflows(gate, (NOTING,))
        await workflows.start("noting", run="r1", inputs=Inputs(word="x"), principal=AGENT)
        await InlineDriver(workflows).drive("acme", "r1")
        return await _events(gate)


Surface = Callable[[Options, Path], Awaitable[list[dict[str, Any]]]]
SURFACES: list[Surface] = [by_library, by_batch, by_http, by_mcp, by_framework, by_workflow]


def told_of_the_call(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the audit says of the decision, and how the call ended."""
    names = ("kind", "tool", "outcome", "decision", "reasons", "policy_version", "shadow")
    return [{name: event.get(name) for name in names} for event in events if event["kind"] in ("started", "completed")]


@pytest.mark.case("D08")
@pytest.mark.parametrize("surface", SURFACES)
async def test_a_binding_deny_refuses_and_both_answers_are_on_record(surface: Surface, tmp_path: Path) -> None:
    noted = Noted()
    options: Options = {"tools": [noted.tool], "policy": Says(Deny, "binding"), "shadow": Says(Allow, "shadow")}

    events = await surface(options, tmp_path)

    assert noted == []
    assert told_of_the_call(events) == both("deny", "allow", end="denied")


@pytest.mark.case("D08")
@pytest.mark.parametrize("surface", SURFACES)
async def test_what_would_be_denied_runs_and_both_answers_are_on_record(surface: Surface, tmp_path: Path) -> None:
    noted = Noted()
    options: Options = {"tools": [noted.tool], "policy": Says(Allow, "binding"), "shadow": Says(Deny, "shadow")}

    events = await surface(options, tmp_path)

    assert noted == ["x"]
    assert told_of_the_call(events) == both("allow", "deny", end="success")


def both(enforced: str, would_be: str, *, end: str) -> list[dict[str, Any]]:
    said = {
        "tool": "note",
        "decision": enforced,
        "reasons": ["said_by_binding"],
        "policy_version": "binding",
        "shadow": {
            "enforced": enforced,
            "would_be": would_be,
            "changes": True,
            "reasons": ["said_by_shadow"],
            "policy_version": "shadow",
        },
    }
    return [{"kind": "started", "outcome": None, **said}, {"kind": "completed", "outcome": end, **said}]


@pytest.mark.case("D08")
def test_the_facade_for_plain_programs_records_the_same() -> None:
    noted = Noted()
    with placet.open(
        tools=[noted.tool], store=placet.MEMORY, policy=Says(Allow, "binding"), shadow=Says(Deny, "shadow")
    ) as gate:
        outcome = gate.submit(PROPOSAL, principal=AGENT, run="r1")
        explained = gate.explain(PROPOSAL, principal=AGENT, run="r1")

    assert (type(outcome), noted) == (Succeeded, ["x"])
    assert isinstance(explained, Allow)
    assert explained.shadow is not None
    assert (explained.shadow.enforced, explained.shadow.would_be) == ("allow", "deny")
