"""A whole model turn through the gate, and back as the messages its provider takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import placet
from placet import AwaitingApproval, Invalid, NotRun, Refused, Replayed, Succeeded
from placet.errors import MisuseError
from tests.engine.conftest import OPERATOR, OpenWorld, Spy, World, looked_up, written


def chat(*calls: tuple[str, str, object], finish_reason: str = "tool_calls") -> dict[str, Any]:
    asked = [
        {"id": label, "type": "function", "function": {"name": name, "arguments": text}} for label, name, text in calls
    ]
    return {"choices": [{"finish_reason": finish_reason, "message": {"role": "assistant", "tool_calls": asked}}]}


async def take(world: World, turn: placet.Turn, run: str = "r1") -> tuple[Any, ...]:
    return await world.gate.submit_all(turn.proposals, principal=OPERATOR, run=run)


@pytest.mark.case("B07", "B08")
async def test_every_call_is_answered_under_the_providers_own_id(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(looked_up(spy), written(spy), store=where)
    turn = placet.openai_turn(
        chat(("null", "look", '{"word":"a"}'), ("null", "nothing", "{}"), ("", "write", '{"word":"b"}')), turn=0
    )

    outcomes = await take(world, turn)
    answers = turn.answers(outcomes)

    assert [type(outcome) for outcome in outcomes] == [Succeeded, Invalid, Succeeded]
    assert [(answer["role"], answer["tool_call_id"]) for answer in answers] == [
        ("tool", "null"),
        ("tool", "null"),
        ("tool", ""),
    ]
    assert [json.loads(answer["content"])["status"] for answer in answers] == ["succeeded", "invalid", "succeeded"]


async def test_responses_and_messages_are_answered_in_their_own_forms(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy))
    item = {"type": "function_call", "call_id": "call_9", "name": "look", "arguments": '{"word":"a"}'}
    block = {"type": "tool_use", "id": "toolu_9", "name": "look", "input": {"word": "a"}}
    one = placet.openai_responses_turn({"status": "completed", "output": [item]}, turn=0)
    other = placet.anthropic_turn({"stop_reason": "tool_use", "content": [block, block]}, turn=1)

    (output,) = one.answers(await take(world, one))
    (message,) = other.answers(await take(world, other))

    assert (output["type"], output["call_id"]) == ("function_call_output", "call_9")
    assert json.loads(output["output"])["result"] == {"word": "a"}
    assert message["role"] == "user"
    assert [(part["type"], part["tool_use_id"]) for part in message["content"]] == [("tool_result", "toolu_9")] * 2


@pytest.mark.case("A17")
async def test_no_call_of_a_cut_off_turn_runs_and_each_says_so(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(looked_up(spy), written(spy), store=where)
    turn = placet.openai_turn(
        chat(("a", "look", '{"word":"a"}'), ("b", "write", '{"word":"b"}'), finish_reason="length"), turn=0
    )

    outcomes = await take(world, turn)

    assert [(outcome.code, outcome.problems) for outcome in outcomes] == [
        ("invalid_arguments", (("", "turn_truncated"),)),
        ("invalid_arguments", (("", "turn_truncated"),)),
    ]
    assert "cut off" in outcomes[0].message and "send less" in outcomes[0].message
    assert (spy.count, await world.effects()) == (0, ())
    assert world.words() == ["started", "validation", "started", "validation"]


@pytest.mark.case("A17")
async def test_the_mark_survives_whatever_it_is_set_to(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy))
    marked: Any = placet.Proposal(call_id="c1", tool="look", arguments={"word": "a"}, is_truncated="no")  # type: ignore[arg-type]

    outcome = await world.gate.submit(marked, principal=OPERATOR, run="r1")

    assert (type(outcome), spy.count) == (Invalid, 0)


@pytest.mark.case("A05")
async def test_empty_arguments_are_judged_by_the_contract(open_world: OpenWorld, spy: Spy) -> None:
    @placet.tool(effect="read")
    async def now() -> str:
        spy("now")
        return "12:00"

    @placet.tool(effect="read")
    async def search(text: str = "all") -> str:
        spy(text)
        return text

    world = await open_world(now, search, looked_up(spy))
    turn = placet.openai_turn(
        chat(("a", "now", ""), ("b", "search", ""), ("c", "look", ""), ("d", "now", None)), turn=0
    )

    outcomes = await take(world, turn)

    assert [outcome.status for outcome in outcomes] == ["succeeded", "succeeded", "invalid", "invalid"]
    assert spy.calls == ["now", "all"]


@pytest.mark.case("B07")
async def test_an_id_used_again_in_a_later_turn_is_a_new_call(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy), store=where)
    first = placet.openai_turn(chat(("call_1", "write", '{"word":"a"}')), turn=0)
    second = placet.openai_turn(chat(("call_1", "write", '{"word":"b"}')), turn=1)

    outcomes = [*await take(world, first), *await take(world, second), *await take(world, first)]

    assert [type(outcome) for outcome in outcomes] == [Succeeded, Succeeded, Replayed]
    assert spy.calls == [("a", 1), ("b", 1)]


@pytest.mark.case("J04")
async def test_a_turn_with_more_calls_than_providers_take_runs_none_and_answers_all(
    open_world: OpenWorld, spy: Spy
) -> None:
    world = await open_world(looked_up(spy))
    calls = [(f"call_{number}", "look", '{"word":"a"}') for number in range(200)]
    turn = placet.openai_turn(chat(*calls), turn=0)

    outcomes = await take(world, turn)
    answers = turn.answers(outcomes)

    assert spy.count == 0
    assert [answer["tool_call_id"] for answer in answers] == [label for label, _, _ in calls]
    assert {type(outcome) for outcome in outcomes} == {NotRun, Invalid}
    assert world.words() == ["started", "validation"]


async def test_outcomes_of_other_calls_answer_no_turn(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy))
    turn = placet.openai_turn(chat(("a", "look", '{"word":"a"}'), ("b", "look", '{"word":"b"}')), turn=0)
    outcomes = await take(world, turn)

    for wrong in (outcomes[:1], outcomes[::-1], (*outcomes, outcomes[0]), ()):
        with pytest.raises(MisuseError, match="in their order"):
            turn.answers(wrong)


async def test_outcomes_of_another_tool_or_of_no_gate_answer_no_turn(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy), written(spy))
    (looked,) = await take(world, placet.openai_turn(chat(("a", "look", '{"word":"a"}')), turn=0))
    turn = placet.openai_turn(chat(("b", "write", '{"word":"b"}')), turn=0)

    class Pretender:
        call_id, tool = "t0.0", "write"

    others: list[Any] = [[looked], [Pretender()], [None], None, "x", iter([looked]), {0: looked}]
    for wrong in others:
        with pytest.raises(MisuseError, match="in their order"):
            turn.answers(wrong)


async def test_a_waiting_call_asked_again_in_a_later_turn_is_the_same_question(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, approval="always"))
    first = placet.openai_turn(chat(("call_1", "write", '{"word":"a"}')), turn=0)
    second = placet.openai_turn(chat(("call_7", "write", '{"word":"a"}')), turn=1)

    (asked,) = await take(world, first)
    assert isinstance(asked, AwaitingApproval)
    await world.approve(asked)
    (done,) = await take(world, second)
    (refused_or_replayed,) = await take(world, first)

    assert (type(done), spy.count) == (Succeeded, 1)
    assert not isinstance(refused_or_replayed, Refused)
    (answer,) = second.answers([done])
    assert answer["tool_call_id"] == "call_7"
