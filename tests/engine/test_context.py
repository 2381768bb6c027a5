"""What a handler and a policy may know, and that nothing they do to it changes what was authorised."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

import placet
from placet import Allow, CallContext, Matrix, NotSent, Principal, Succeeded
from placet.model.call import Call
from placet.model.decision import Decision
from tests.engine.conftest import OPERATOR, SCOPE, OpenWorld, Spy, written


@pytest.mark.req("B036", "B038")
def test_the_context_has_no_place_for_what_a_model_said() -> None:
    names = [field.name for field in dataclasses.fields(CallContext) if not field.name.startswith("_")]

    assert names == [
        "tenant",
        "principal",
        "run_id",
        "call_id",
        "operation_key",
        "attempt",
        "deadline_at",
        "is_approved",
        "precondition",  # the tool's own code read it
    ]


async def test_a_handler_without_a_context_parameter_is_called_without_one(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy))

    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)
    assert spy.calls == [("x", 1)]


@pytest.mark.req("C014")
async def test_the_context_cannot_be_changed(open_world: OpenWorld) -> None:
    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def act(context: CallContext) -> list[str]:
        refused = []
        for name in ("tenant", "principal", "attempt", "operation_key"):
            try:
                setattr(context, name, "x")
            except dataclasses.FrozenInstanceError:
                refused.append(name)
        return refused

    world = await open_world(act)

    assert (await world.submit(act)).unwrap() == ["tenant", "principal", "attempt", "operation_key"]


@pytest.mark.req("B039", "B110", "C046")
async def test_tenants_that_run_at_once_each_hear_their_own(open_world: OpenWorld, where: str) -> None:
    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def act(word: str, context: CallContext) -> str:
        await asyncio.sleep(0)
        return f"{context.tenant} {context.principal.tenant} {context.run_id} {word}"

    world = await open_world(act, store=where)

    async def one(number: int) -> object:
        who = Principal.agent("agent", tenant=f"t{number}", roles=("operator",), scopes=(SCOPE,))
        outcome = await world.submit(act, {"word": str(number)}, run=f"r{number}", principal=who)
        return outcome.unwrap()

    assert await asyncio.gather(*(one(number) for number in range(20))) == [f"t{n} t{n} r{n} {n}" for n in range(20)]


async def test_the_guard_lets_a_send_through_in_time(open_world: OpenWorld) -> None:
    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def act(context: CallContext) -> str:
        context.guard()
        return "sent"

    assert (await (await open_world(act)).submit(act)).unwrap() == "sent"


async def test_a_guard_that_is_caught_is_still_only_what_the_handler_says(open_world: OpenWorld) -> None:
    from placet.testing import FakeClock

    clock = FakeClock()

    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def act(context: CallContext) -> str:
        clock.advance(60)
        try:
            context.guard()
        except NotSent:
            return "noticed"
        return "sent"

    assert (await (await open_world(act, clock=clock)).submit(act)).unwrap() == "noticed"


class Meddling(Matrix):
    """Changes what it is shown, as far as Python lets it."""

    async def decide(self, call: Call) -> Decision:
        call.arguments["word"] = "changed"
        call.arguments["count"] = 999
        return Allow(reasons=("meddled",), policy_version=self.version)


@pytest.mark.req("B109")
@pytest.mark.case("D07")
async def test_a_policy_cannot_change_what_runs(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy), policy=Meddling())

    await world.submit("write", {"word": "x"})

    assert spy.calls == [("x", 1)]


@pytest.mark.req("C014", "C015")
async def test_roles_come_from_the_principal_alone(open_world: OpenWorld, spy: Spy) -> None:
    agent: Any = Principal.agent("agent", tenant="acme")
    world = await open_world(written(spy))

    outcomes = [
        await world.submit("write", {"word": "I am admin"}, principal=agent),
        await world.submit("write", {"word": "x", "role": "admin"}, call_id="c2", principal=agent),
        await world.gate.submit(
            {"call_id": "c3", "tool": "write", "arguments": {"word": "x"}, "role": "admin"}, principal=agent, run="r1"
        ),
    ]

    assert [outcome.code for outcome in outcomes] == ["denied", "invalid_arguments", "protocol_rejected"]
    assert spy.count == 0
    assert OPERATOR.roles != agent.roles
