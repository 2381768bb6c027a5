"""Faults that users of neighbouring systems met, retold against a gate."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import placet
from placet import CallContext, Deny, Failed, Invalid, Principal, Proposal, Succeeded, TimedOut, Unknown
from placet.errors import MisuseError
from placet.model.call import Call
from placet.model.contract import Contract
from placet.model.decision import Decision
from placet.rules.policy import Matrix
from tests.at_once import each_at_once

OPERATOR = Principal.agent("agent-1", tenant="acme", roles=("operator",), scopes=("ops.write",))
ELSEWHERE = Principal.agent("agent-1", tenant="globex", roles=("operator",), scopes=("ops.write",))


async def submit(
    gate: placet.Gate, tool: str, arguments: object, *, by: Principal = OPERATOR, call_id: str = "c1"
) -> Any:
    return await gate.submit(Proposal(call_id=call_id, tool=tool, arguments=arguments), principal=by, run="r1")


def bodies(gate: placet.Gate) -> list[dict[str, Any]]:
    return [json.loads(event.body) for event in each_at_once(gate.store.chained())]


@pytest.mark.case("C05")
async def test_parameters_named_like_a_frameworks_own_reach_the_tool_as_they_were_sent() -> None:
    seen: dict[str, object] = {}

    @placet.tool(effect="read")
    async def theme(
        config: str,
        callbacks: list[str],
        run_manager: str,
        runtime: str,
        context: str,
        kwargs: str,
        cls: str,
        ctx: CallContext,
    ) -> str:
        seen.update(config=config, callbacks=callbacks, run_manager=run_manager, runtime=runtime)
        seen.update(context=context, kwargs=kwargs, cls=cls)
        return ctx.call_id

    sent = {
        "config": "dark",
        "callbacks": ["a"],
        "run_manager": "m",
        "runtime": "r",
        "context": "c",
        "kwargs": "k",
        "cls": "x",
    }
    async with placet.open(tools=[theme], store=placet.MEMORY) as gate:
        outcome = await submit(gate, "theme", sent)

    assert (outcome.unwrap(), seen) == ("c1", sent)


@pytest.mark.case("C06")
async def test_what_the_server_adds_is_no_argument_and_in_no_error() -> None:
    @placet.tool(effect="write", risk="medium", permission="ops.write")
    async def rename(name: str, context: CallContext) -> str:
        return context.principal.subject

    schema = json.dumps(rename.contract.arguments_schema)
    assert "context" not in schema and "principal" not in schema.lower()

    async with placet.open(tools=[rename], store=placet.MEMORY) as gate:
        missing = await submit(gate, "rename", {})
        sent = await submit(gate, "rename", {"name": "a", "context": {"principal": "root"}}, call_id="c2")
        good = await submit(gate, "rename", {"name": "a"}, call_id="c3")

    assert missing.problems == (("/name", "missing"),)
    assert sent.problems == (("/context", "extra_forbidden"),)
    assert "agent-1" not in repr(missing) + repr(sent)
    assert good.unwrap() == "agent-1"


class UpToAHundred(Matrix):
    """The matrix, and no more than a hundred at a time. It reads arguments, which a listing does not have."""

    async def decide(self, call: Call) -> Decision:
        decision = await super().decide(call)
        amount = call.arguments["amount"]
        if isinstance(amount, int) and amount > 100:
            return Deny(reasons=("amount_above_100",), policy_version=decision.policy_version)
        return decision


@pytest.mark.case("D06")
async def test_a_rule_about_arguments_hides_no_tool_and_still_holds_when_it_is_called() -> None:
    @placet.tool(effect="write", risk="medium", permission="ops.write")
    async def transfer(amount: int) -> int:
        return amount

    async with placet.open(tools=[transfer], store=placet.MEMORY, policy=UpToAHundred()) as gate:
        listed: tuple[Contract, ...] = gate.tools_for(OPERATOR)
        small = await submit(gate, "transfer", {"amount": 50})
        large = await submit(gate, "transfer", {"amount": 500}, call_id="c2")

    assert [contract.name for contract in listed] == ["transfer"]
    assert (type(small), large.code, large.reasons) == (Succeeded, "denied", ("amount_above_100",))


@pytest.mark.case("I04")
async def test_a_caller_that_leaves_cancels_the_handler_and_the_effect_is_unknown_on_record() -> None:
    began, was_cancelled = asyncio.Event(), asyncio.Event()

    @placet.tool(effect="write", risk="medium", permission="ops.write")
    async def slow() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled.set()
            raise
        return "never"

    async with placet.open(tools=[slow], store=placet.MEMORY, recovery="manual") as gate:
        asking = asyncio.ensure_future(submit(gate, "slow", {}))
        await asyncio.wait_for(began.wait(), 60)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        again = await submit(gate, "slow", {})
        pairs = [(body["kind"], body.get("effect_state")) for body in bodies(gate) if body.get("attempt") == 1]

    assert was_cancelled.is_set()
    assert isinstance(again, Unknown) and again.may_have_acted
    assert ("completed", "unknown") in pairs
    assert [kind for kind, _ in pairs].count("started") == [kind for kind, _ in pairs].count("completed")


@pytest.mark.case("M05")
async def test_what_a_tool_raises_is_an_outcome_and_only_misuse_is_raised() -> None:
    raised: list[BaseException] = [
        ValueError("x"),
        RuntimeError("x"),
        KeyError("x"),
        StopIteration("x"),
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        placet.ToolRejected("no"),
        placet.NotSent(),
        MisuseError("x"),
        TimeoutError("x"),
        MemoryError(),
        BaseExceptionGroup("x", [KeyboardInterrupt()]),
    ]

    @placet.tool(effect="read", retry=placet.RetryPolicy(max_attempts=1))
    async def look(index: int) -> str:
        raise raised[index]

    async with placet.open(tools=[look], store=placet.MEMORY) as gate:
        outcomes = [await submit(gate, "look", {"index": index}, call_id=f"c{index}") for index in range(len(raised))]
        misused: Any = {"principal": OPERATOR, "run": 7}
        with pytest.raises(MisuseError):
            await gate.submit({"call_id": "c", "tool": "look", "arguments": {}}, **misused)

    assert {type(outcome) for outcome in outcomes} == {Failed}
    assert [type(outcome) for outcome in outcomes if isinstance(outcome, TimedOut | Invalid)] == []


@pytest.mark.case("N08")
async def test_equal_calls_of_two_tenants_leave_no_equal_digest_and_none_that_can_be_tried_out() -> None:
    import hashlib

    @placet.tool(effect="write", risk="medium", permission="ops.write", operation_key="answer:{yes}")
    async def answer(yes: bool) -> bool:
        return yes

    async with placet.open(tools=[answer], store=placet.MEMORY) as gate:
        for by in (OPERATOR, ELSEWHERE):
            assert (await submit(gate, "answer", {"yes": True}, by=by)).is_success
        one, other = (
            {value for body in bodies(gate) if body["tenant"] == tenant for value in hex_digests(body)}
            for tenant in ("acme", "globex")
        )
        shared = {body["policy_version"] for body in bodies(gate)}

    assert one & other == shared
    guesses = (b'{"yes":true}', b"true", b'{"yes":false}', b'"answer:{yes}"', b'["answer:{yes}",true]')
    tried = {hashlib.sha256(prefix + guess).hexdigest() for guess in guesses for prefix in (b"", b"answer", b"acme")}
    assert not tried & (one | other)


def hex_digests(value: object) -> set[str]:
    """Every text of 64 hex digits inside."""
    if isinstance(value, dict):
        return {digest for child in value.values() for digest in hex_digests(child)}
    return {value} if isinstance(value, str) and len(value) == 64 else set()
