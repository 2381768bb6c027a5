"""Agents of LangChain's `create_agent` on a gate: no middleware, resume value or checkpoint decides anything.

A real gate on a SQLite store, a remote that counts, LangGraph's SQLite checkpointer, a model that says what it is told.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from pydantic import Field

import placet
from placet.engine.gate import Gate
from placet.errors import MisuseError
from placet.integrations.langchain import BoundaryMiddleware
from placet.integrations.langgraph.checkpoints import strict
from tests.kill_points.actors import AGENT, PERSON, SURVIVED, Place, approve, ended, open_gate, start

VIEWER = placet.Principal.agent("agent-3", tenant="acme", roles=["viewer"], scopes=[])
CONFIG: Any = {"configurable": {"thread_id": "thread-1"}}
OTHER: Any = {"configurable": {"thread_id": "thread-2"}}
TURN: Any = {"messages": [HumanMessage("pay it back", id="h1")]}
WHOLE = {"finish_reason": "tool_calls"}


class Model(GenericFakeChatModel):
    """Says one message after another, whatever it is asked, and remembers which tools it was shown."""

    shown: list[str] = Field(default_factory=list)

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        self.shown = sorted(each.name for each in tools)
        return self


def call(name: str, order: str, *, call_id: str, amount: int = 5) -> dict[str, Any]:
    arguments = {"order": order} if name == "balance" else {"order": order, "amount": amount}
    return {"name": name, "args": arguments, "id": call_id, "type": "tool_call"}


def says(*calls: dict[str, Any], name: str = "ai-1", **more: Any) -> AIMessage:
    return AIMessage(content="", id=name, tool_calls=list(calls), response_metadata=WHOLE, **more)


ASKS = says(call("pay", "o-1", call_id="a"), call("refund", "o-2", call_id="b"))
DONE = AIMessage(content="done", id="ai-9")


@asynccontextmanager
async def agent_of(
    place: Place,
    *messages: AIMessage,
    others: tuple[Any, ...] = (),
    after: tuple[Any, ...] = (),
    tools: tuple[Any, ...] = (),
    who: Any = AGENT,
) -> AsyncIterator[tuple[Gate, Any, Model]]:
    """A gate and an agent on it; `others` are around the boundary, as everything before it in the list is.

    Those `after` it hear of the model's answer before it does.
    """
    async with (
        open_gate(place, timeout_seconds=10.0) as gate,
        AsyncSqliteSaver.from_conn_string(str(place.folder / "graph.db")) as checkpointer,
    ):
        model = Model(messages=iter(messages))
        boundary = BoundaryMiddleware(gate, principal=lambda config: who)
        await checkpointer.setup()
        agent = create_agent(
            model, tools=list(tools), middleware=[*others, boundary, *after], checkpointer=strict(checkpointer)
        )
        yield gate, agent, model


async def resumed(agent: Any, value: Any = True) -> Any:
    return await agent.ainvoke(Command(resume=value), CONFIG, durability="sync")


def answers(result: Any) -> dict[str, str]:
    return {each.tool_call_id: str(each.content) for each in result["messages"] if isinstance(each, ToolMessage)}


def acted(place: Place) -> int:
    return sum(place.remote.effects().values())


async def asked(gate: Gate) -> str:
    [waiting] = await gate.desk.pending(by=PERSON)
    return waiting.approval_id


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(folder=tmp_path)


# ---------------------------------------------------------------- pause, answer, resume


def begin(folder: str) -> None:
    """A process that asks, and is gone while a person thinks."""

    async def act() -> None:
        async with agent_of(Place(folder=Path(folder)), ASKS) as (gate, agent, _):
            paused = await agent.ainvoke(TURN, CONFIG, durability="sync")
            [question] = paused["__interrupt__"]
            assert question.value == {"approvals": [await asked(gate)]}

    asyncio.run(act())
    os._exit(SURVIVED)


@pytest.mark.req("X003")
@pytest.mark.case("P03")
async def test_an_agent_waits_for_a_person_across_processes_and_acts_once(place: Place) -> None:
    assert ended(start(begin, str(place.folder)), within=60.0) == SURVIVED
    assert acted(place) == 1  # what needed nobody was done

    again = AIMessage(content="done", id="ai-10")
    async with agent_of(place, DONE, again) as (gate, agent, _):
        still = await resumed(agent, {"decisions": [{"type": "approve"}]})
        assert "__interrupt__" in still and acted(place) == 1
        await approve(gate, await asked(gate))
        result = await resumed(agent)
        before = [state async for state in agent.aget_state_history(CONFIG) if "BoundaryMiddleware" in str(state.next)]
        forked = await agent.ainvoke(None, before[-1].config, durability="sync")

    assert result["messages"][-1].content == "done"
    assert ['"succeeded"' in answers(result)["b"], '"replayed"' in answers(forked)["b"]] == [True, True]
    assert acted(place) == 2


# ---------------------------------------------------------------- only the public call surface


class Catching(AgentMiddleware[Any, Any, Any]):
    """What people write around tools: catches everything, tries again, answers for itself."""

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except Exception:
            return ToolMessage("went wrong, went on", tool_call_id=request.tool_call["id"])


@pytest.mark.case("P03", "G02")
async def test_nothing_that_wraps_tool_calls_repeats_or_swallows_them(place: Place) -> None:
    others = (Catching(), ToolRetryMiddleware(max_retries=3, initial_delay=0.0))
    async with agent_of(place, ASKS, DONE, others=others) as (gate, agent, _):
        paused = await agent.ainvoke(TURN, CONFIG, durability="sync")
        assert "__interrupt__" in paused and answers(paused) == {}
        await approve(gate, await asked(gate))
        result = await resumed(agent)

    assert ["succeeded" in answers(result)["b"], "replayed" in answers(result)["a"]] == [True, True]
    assert acted(place) == 2


class Reminds(AgentMiddleware):
    """Says something of its own after each answer of the model's."""

    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [HumanMessage("be brief")]}


async def test_words_put_after_the_models_answer_pass_and_between_a_call_and_its_answer_they_are_misuse(
    place: Place,
) -> None:
    call_and_words = (DONE, says(call("pay", "o-1", call_id="a")))
    async with agent_of(place, *call_and_words, after=(Reminds(),)) as (_, agent, _):
        result = await agent.ainvoke(TURN, CONFIG, durability="sync")
        with pytest.raises(MisuseError, match="last in the list"):
            await agent.ainvoke(TURN, OTHER, durability="sync")
    async with agent_of(place, DONE, others=(Reminds(),)) as (_, agent, _):
        before = await agent.ainvoke(TURN, OTHER, durability="sync")

    assert [message.content for message in result["messages"]][1:] == ["done", "be brief"]
    assert before["messages"][-1].content == "be brief"
    assert acted(place) == 0


@pytest.mark.case("P03")
async def test_a_tool_that_is_not_the_gates_is_refused_and_not_run(place: Place) -> None:
    @tool
    def shell(command: str) -> str:
        """Runs."""
        raise AssertionError("it ran")

    asks = says({"name": "shell", "args": {"command": "x"}, "id": "a", "type": "tool_call"})
    async with agent_of(place, asks, DONE, tools=(shell,)) as (_, agent, model):
        result = await agent.ainvoke(TURN, CONFIG)

    assert "unknown_tool" in answers(result)["a"]
    assert model.shown == ["balance", "pay", "refund", "shell", "top_up"]


async def test_whoever_calls_a_hint_of_the_boundary_goes_nowhere(place: Place) -> None:
    async with open_gate(place) as gate:
        boundary = BoundaryMiddleware(gate, principal=lambda config: AGENT)
        for hint in boundary.tools:
            with pytest.raises(MisuseError):
                await hint.ainvoke({"order": "o-1", "amount": 5})
    assert acted(place) == 0


async def test_the_agent_is_used_asynchronously(place: Place) -> None:
    async with open_gate(place) as gate:
        boundary = BoundaryMiddleware(gate, principal=lambda config: AGENT)
        agent = create_agent(Model(messages=iter([DONE])), middleware=[boundary])
        with pytest.raises(MisuseError, match="asynchronously"):
            agent.invoke(TURN, CONFIG)


# ---------------------------------------------------------------- the gate alone reads and runs


async def test_a_principal_is_shown_its_own_tools(place: Place) -> None:
    asks = says(call("pay", "o-1", call_id="a"))
    async with agent_of(place, asks, DONE, who=VIEWER) as (_, agent, model):
        result = await agent.ainvoke(TURN, CONFIG)

    assert model.shown == ["balance"]
    assert "refused" in answers(result)["a"] and acted(place) == 0


async def test_a_tool_with_dots_in_its_name_is_found_by_the_one_that_the_model_was_told(place: Place) -> None:
    @placet.tool(effect="read", name="shop.balance")
    async def balance(order: str) -> int:
        return 7

    async with placet.open(tools=[balance], store=placet.MEMORY) as gate:
        boundary = BoundaryMiddleware(gate, principal=lambda config: AGENT)
        [told] = boundary.tools
        asks = says({"name": told.name, "args": {"order": "o-1"}, "id": "a", "type": "tool_call"})
        agent = create_agent(Model(messages=iter([asks, DONE])), middleware=[boundary])
        result = await agent.ainvoke(TURN, CONFIG)

    assert "." not in told.name and '"result":7' in answers(result)["a"]


async def test_a_member_written_twice_is_seen_where_langchain_keeps_what_the_model_wrote(place: Place) -> None:
    text = '{"order":"o-1","amount":1,"amount":5}'
    chat = {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "pay", "arguments": text}}]}
    block = {"type": "function_call", "call_id": "b", "name": "pay", "arguments": text}
    first = says(call("pay", "o-1", call_id="a"), name="ai-1", additional_kwargs=chat)
    second = AIMessage(
        content=[block], id="ai-2", tool_calls=[call("pay", "o-1", call_id="b")], response_metadata=WHOLE
    )
    async with agent_of(place, first, second, DONE) as (_, agent, _):
        result = await agent.ainvoke(TURN, CONFIG)

    assert ["duplicate_member" in answer for answer in answers(result).values()] == [True, True]
    assert acted(place) == 0


async def test_arguments_that_somebody_changed_since_are_what_the_message_says_now(place: Place) -> None:
    text = '{"order":"o-1","amount":1}'
    chat = {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "pay", "arguments": text}}]}
    asks = says(call("pay", "o-1", call_id="a", amount=5), additional_kwargs=chat)
    async with agent_of(place, asks, DONE) as (_, agent, _model):
        result = await agent.ainvoke(TURN, CONFIG)

    assert '"amount":5' in answers(result)["a"] and acted(place) == 1


async def test_what_cannot_be_read_is_answered_and_what_was_cut_off_does_not_run(place: Place) -> None:
    broken = AIMessage(
        content="",
        id="ai-1",
        invalid_tool_calls=[
            {"name": "pay", "args": '{"order":', "id": "a", "error": None, "type": "invalid_tool_call"},
        ],
        response_metadata=WHOLE,
    )
    cut = AIMessage(
        content="",
        id="ai-2",
        tool_calls=[call("pay", "o-1", call_id="b")],
        response_metadata={"finish_reason": "length"},
    )
    async with agent_of(place, broken, cut, DONE) as (_, agent, _):
        result = await agent.ainvoke(TURN, CONFIG)

    assert result["messages"][-1].content == "done"
    assert ['"invalid"' in answers(result)[name] for name in ("a", "b")] == [True, True]
    assert acted(place) == 0
