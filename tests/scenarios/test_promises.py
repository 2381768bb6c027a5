"""Promised behaviours that no single module owns."""

from __future__ import annotations

import ast
import inspect
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import AwaitingApproval, Gate, Invalid, Principal

SOURCE = Path(placet.__file__).parent
OPERATOR = Principal.agent("agent-1", tenant="acme", roles=("operator",), scopes=("ops.write",))
PERSON = Principal.person("mara", tenant="acme", scopes=("approvals.decide",))


@placet.tool(effect="write", risk="medium", permission="ops.write", approval="always", redact=("token",))
async def restart(service: str, token: str) -> dict[str, str]:
    return {"service": service}


def call(**members: object) -> dict[str, object]:
    return {"call_id": "c1", "tool": "restart", "arguments": {"service": "api", "token": "t"}} | members


@pytest.mark.req("B059")
async def test_nobody_can_hand_an_approval_in() -> None:
    entrances = (Gate.submit, Gate.submit_all, Gate.submit_until_failure)
    names = {name for entrance in entrances for name in inspect.signature(entrance).parameters}
    assert not {name for name in names if "approv" in name or "ticket" in name}

    async with placet.open(tools=[restart], store=placet.MEMORY) as gate:
        asked = await gate.submit(call(), principal=OPERATOR, run="r1")
        assert isinstance(asked, AwaitingApproval)
        view = await gate.desk.show(asked.approval_id, by=PERSON)
        await gate.desk.approve(asked.approval_id, digest=view.digest, by=PERSON)
        (good,) = await gate.store.approvals(tenant="acme", states=tuple(placet.ApprovalState), limit=10)
        for handed in (good, [good], [good, {}, None], {"state": "approved"}, None):
            for member in ("approval", "approvals", "approval_id", "confirmation"):
                outcome = await gate.submit(call(call_id="c2", **{member: handed}), principal=OPERATOR, run="r2")
                assert (type(outcome), outcome.code) == (Invalid, "protocol_rejected")
        assert await gate.store.effects(tenant=None, states=tuple(placet.EffectState), limit=10) == ()


@pytest.mark.req("B199")
async def test_a_gate_without_tools_is_harmless() -> None:
    async with placet.open(tools=[], store=placet.MEMORY) as gate:
        outcome = await gate.submit(call(), principal=OPERATOR, run="r1")

        assert (type(outcome), outcome.code) == (Invalid, "unknown_tool")
        assert gate.tools_for(OPERATOR) == ()
        assert (await gate.verify_audit()).holds


DUTIES = {
    "what a tool promises": "placet.model.contract",
    "how a function becomes a promise": "placet.rules.contracts",
    "which tools exist": "placet.engine.registry",
    "attempts, their deadline and their retries": "placet.engine.attempts",
    "what can fail, and whether the tool may have acted": "placet.errors",
    "who may do what": "placet.rules.policy",
    "which operation a call is": "placet.rules.operations",
    "what the audit says": "placet.rules.audit",
    "which reads leave no row": "placet.engine.reads",
    "what a read-only tool is": "placet.demos.ops.observations",
    "the tool that creates a ticket": "placet.demos.ops.contracts",
}


@pytest.mark.req("C063")
def test_eleven_duties_are_eleven_modules_and_each_says_its_own_in_one_sentence() -> None:
    modules = [import_module(name) for name in DUTIES.values()]
    first_sentences = {(module.__doc__ or "").strip().split("\n\n")[0] for module in modules}

    assert len(set(DUTIES.values())) == 11
    assert len(first_sentences) == 11
    assert all(len(sentence) > 20 for sentence in first_sentences)


WAITS = {
    "engine/attempts.py": "between two attempts of one dispatch",
    "engine/afterwards.py": "until a store that does not serve takes a settlement",
    "engine/inline.py": "until a run is due, where nobody says that one is",
    "engine/keeper.py": "between two rounds of recovery, and two signs of life",
    "engine/progressing.py": "until an attempt has said nothing for as long as its contract lets it",
    "engine/stepping.py": "before a step that was left and asks on is told so again",
    "engine/known.py": "for the same operation that runs elsewhere",
    "engine/waiting_room.py": "for what somebody outside asked to be told of",
}


def sleeps(path: Path) -> list[str]:
    """Calls of anything that lets time pass by its name, as `file:line`."""
    tree = ast.parse(path.read_text("utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [node for node in calls if ast.unparse(node.func).split(".")[-1] in {"sleep", "pause"}]
    return [f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}" for node in named]


STORIES_WAIT = {
    "demos/mcp/project.py",
    "demos/ops/console.py",
    "demos/stage/approver.py",
    "demos/support/scene.py",
}
"""A demo's story waits for a person's decision, its console, a gateway that was told of a change, and a run that a
killed one still holds; no tool does."""


@pytest.mark.req("C064")
def test_no_tool_of_ours_waits_by_itself_and_one_place_of_the_core_waits_between_attempts() -> None:
    demos = [
        place
        for path in sorted((SOURCE / "demos").rglob("*.py"))
        for place in sleeps(path)
        if place.partition(":")[0] not in STORIES_WAIT
    ]
    core = {
        place.partition(":")[0]
        for room in ("model", "rules", "engine")
        for path in sorted((SOURCE / room).rglob("*.py"))
        for place in sleeps(path)
    }

    assert demos == []
    assert core == WAITS.keys()


@pytest.mark.req("H039")
async def test_a_finished_effect_has_one_event_with_all_its_facts() -> None:
    async with placet.open(tools=[restart], store=placet.MEMORY) as gate:
        asked = await gate.submit(call(), principal=OPERATOR, run="r1")
        assert isinstance(asked, AwaitingApproval)
        view = await gate.desk.show(asked.approval_id, by=PERSON)
        await gate.desk.approve(asked.approval_id, digest=view.digest, by=PERSON)
        await gate.submit(call(), principal=OPERATOR, run="r1")

        bodies: list[dict[str, Any]] = [json.loads(event.body) async for event in gate.store.chained()]
        finished = [body for body in bodies if body.get("effect_state") == "committed"]

    (event,) = finished
    facts = ("run_id", "attempt", "call_id", "operation", "tool", "tool_version", "policy_version", "decision")
    assert {
        name: event[name] for name in ("kind", "run_id", "attempt", "call_id", "tool", "tool_version", "outcome")
    } == {
        "kind": "completed",
        "run_id": "r1",
        "attempt": 1,
        "call_id": "c1",
        "tool": "restart",
        "tool_version": "1",
        "outcome": "success",
    }
    assert all(event[name] for name in facts)
    assert len(event["operation"]) == len(event["policy_version"]) == len(event["result_fingerprint"]) == 64
    assert event["duration_ms"] >= 0
    assert event["arguments"]["redacted_field_count"] == 1
