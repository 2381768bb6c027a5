"""Tools of a JSON Schema through a whole gate: asked, approved, carried out once, replayed, audited, recovered."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import AwaitingApproval, CallContext, Found, Invalid, ProbeContext, Replayed, Succeeded, Tool, Unknown
from tests.engine import described_tools
from tests.engine.conftest import ADMIN, APPROVER, OPERATOR, SCOPE, OpenWorld, Spy, World

SECRET = "marker-5d1c-do-not-show"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"type": "string", "pattern": "^[a-z]+-[0-9]+$"},
        "cents": {"type": "integer", "minimum": 1},
        "lines": {
            "items": {"properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}, "required": ["sku"]}
        },
        "note": {"type": ["string", "null"]},
    },
    "required": ["order", "cents"],
}
RESULT = {"type": "object", "properties": {"refunded": {"type": "integer"}}, "required": ["refunded"]}
ASKED = {"order": "o-17", "cents": 250, "lines": [{"sku": "a", "count": 1}], "note": SECRET}


async def ask(world: World, arguments: dict[str, Any], **more: Any) -> placet.Outcome:
    return await world.submit("refund", arguments, principal=ADMIN, **more)


def refunds(spy: Spy, answer: Any = None, **options: Any) -> Tool:
    async def refund(arguments: dict[str, Any], context: CallContext) -> Any:
        """Refund an order."""
        spy((arguments, context.operation_key))
        arguments.clear()  # what a handler does to its copy changes nothing
        return {"refunded": 250} if answer is None else answer

    settings: dict[str, Any] = {"effect": "irreversible", "risk": "high", "permission": SCOPE}
    settings |= {"name": "refund", "operation_key": "refund:{order}", "resource": "order:{order}"}
    settings |= {"arguments": SCHEMA, "result": RESULT}
    return placet.tool_from_schema(refund, **(settings | options))


@pytest.mark.req("B025", "B027")
@pytest.mark.case("A14")
async def test_a_write_of_a_schema_is_approved_runs_once_and_is_replayed(
    open_world: OpenWorld, where: str, spy: Spy
) -> None:
    world = await open_world(refunds(spy), store=where)
    invalid = await ask(world, ASKED | {"lines": [{"sku": "a", "price": SECRET}]}, call_id="c0")
    awaiting = await ask(world, ASKED)
    await world.approve(awaiting)
    done = await ask(world, ASKED)
    again = await ask(world, ASKED, call_id="c2", run="r2")

    assert isinstance(invalid, Invalid)
    assert invalid.problems == (("/lines/0/price", "extra_forbidden"),)
    assert "order, cents, lines, note" in invalid.message
    assert isinstance(awaiting, AwaitingApproval)
    assert isinstance(done, Succeeded)
    assert done.result == {"refunded": 250}
    assert isinstance(again, Replayed)
    assert again.result == {"refunded": 250}
    assert spy.calls == [({}, done.operation_key)]  # the handler emptied its own copy
    assert SECRET.encode() not in world.bodies()
    assert world.completed()["outcome"] == "replayed"


async def test_the_approver_sees_exactly_what_runs(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(refunds(spy, redact=("note",)))
    awaiting = await ask(world, ASKED)
    assert isinstance(awaiting, AwaitingApproval)
    view = await world.gate.desk.show(awaiting.approval_id, by=APPROVER)

    assert SECRET not in repr(view)
    assert view.arguments["lines"] == ASKED["lines"]


@pytest.mark.parametrize(
    "change", [{"open_members": ("",)}, {"result": None}, {"arguments": SCHEMA | {"maxProperties": 9}}]
)
async def test_an_approval_does_not_outlive_a_change_of_the_schema(
    open_world: OpenWorld, tmp_path: Path, spy: Spy, change: dict[str, Any]
) -> None:
    store = str(tmp_path / "placet.db")
    first = await open_world(refunds(spy), store=store)
    await first.approve(await ask(first, ASKED))
    second = await open_world(refunds(spy, **change), store=store, clock=first.clock, seed=1)
    outcome = await ask(second, ASKED)

    assert not isinstance(outcome, Succeeded)
    assert spy.count == 0


async def test_a_result_that_breaks_its_schema_stays_performed_and_is_withheld(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(refunds(spy, {"refunded": 250, "token": SECRET}, risk="medium", effect="write"))
    outcome = await ask(world, ASKED)

    assert isinstance(outcome, Succeeded)
    assert outcome.code == "performed_result_unavailable"
    assert SECRET not in repr(outcome)
    assert (await world.effect()).state is placet.EffectState.COMMITTED
    assert SECRET.encode() not in world.bodies()


async def test_a_probe_settles_an_unknown_effect_with_a_result_of_the_schema(open_world: OpenWorld, spy: Spy) -> None:
    async def found(context: ProbeContext) -> Found:
        return Found(result={"refunded": 250})

    async def lost(arguments: dict[str, Any]) -> None:
        raise ConnectionError

    tool = placet.tool_from_schema(
        lost,
        arguments=SCHEMA,
        result=RESULT,
        name="refund",
        effect="write",
        risk="medium",
        permission=SCOPE,
        operation_key="refund:{order}",
        retry=placet.RetryPolicy(max_attempts=1),
        probe=found,
    )
    world = await open_world(tool)
    first = await ask(world, ASKED)
    await world.gate.reconciler.recover()
    again = await ask(world, ASKED, call_id="c2")

    assert isinstance(first, Unknown)
    assert isinstance(again, Replayed)
    assert again.result == {"refunded": 250}


async def test_both_kinds_of_tool_work_in_one_gate_and_in_one_batch(open_world: OpenWorld, spy: Spy) -> None:
    @placet.tool(effect="read")
    async def look(word: str) -> str:
        return word

    world = await open_world(look, refunds(spy, risk="medium", effect="write"))
    outcomes = await world.gate.submit_all(
        [
            {"call_id": "c1", "tool": "look", "arguments": {"word": "a"}},
            {"call_id": "c2", "tool": "refund", "arguments": ASKED},
            {"call_id": "c3", "tool": "refund", "arguments": ASKED | {"cents": 1.0, "order": "o-18"}},
        ],
        principal=OPERATOR,
        run="r1",
    )

    assert [type(outcome).__name__ for outcome in outcomes] == ["Succeeded", "Succeeded", "Invalid"]
    assert isinstance(outcomes[2], Invalid)
    assert outcomes[2].problems == (("/cents", "type"),)


async def test_a_described_tool_runs_in_a_process_of_its_own(open_world: OpenWorld) -> None:
    world = await open_world(described_tools.ELSEWHERE)
    outcome = await world.submit("act", {"order": "o-1"})

    assert isinstance(outcome, Succeeded)
    assert isinstance(outcome.result, dict)
    assert outcome.result["process"] != os.getpid()
    assert (outcome.result["received"], outcome.result["key"]) == ({"order": "o-1"}, outcome.operation_key)
