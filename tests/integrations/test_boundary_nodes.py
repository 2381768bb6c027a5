"""A graph of the user's own with the boundary in it: what breaks LangGraph's own pauses does not break these.

A real gate on a SQLite store, a remote that counts, LangGraph with its SQLite checkpointer in a file beside it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

import placet
from placet.engine.gate import Gate
from placet.integrations.langgraph import Boundary, BoundaryState
from placet.integrations.langgraph.checkpoints import strict
from tests.kill_points.actors import AGENT, PERSON, Place, approve, ended, open_gate, start

SURVIVED = 7
CONFIG: Any = {"configurable": {"thread_id": "thread-1"}}
TURN: dict[str, Any] = {
    "messages": [HumanMessage(content="pay it back", id="h1")],
}


def call(tool: str, order: str, *, call_id: str, amount: int = 5) -> dict[str, Any]:
    arguments = {"order": order} if tool == "balance" else {"order": order, "amount": amount}
    return {"name": tool, "args": arguments, "id": call_id, "type": "tool_call"}


WHOLE = {"finish_reason": "tool_calls"}
ASKS = AIMessage(
    content="",
    id="ai-1",
    tool_calls=[call("pay", "o-1", call_id="a"), call("refund", "o-2", call_id="b")],
    response_metadata=WHOLE,
)
DONE = AIMessage(content="done", id="ai-2")


class Model:
    """Says the first message it has not said yet: what a model would say, and in whatever process the same."""

    def __init__(self, *says: AIMessage) -> None:
        self._says = says

    def __call__(self, state: BoundaryState) -> dict[str, Any]:
        said = sum(isinstance(message, AIMessage) for message in state["messages"])
        return {"messages": [self._says[said]]}


Wrapped = Callable[[Boundary], Boundary]


@asynccontextmanager
async def graph_of(place: Place, *says: AIMessage, wrapped: Wrapped | None = None) -> AsyncIterator[tuple[Gate, Any]]:
    """A gate and a graph on it: model, boundary, and on to the model until it asks for nothing."""
    async with (
        open_gate(place, timeout_seconds=10.0) as gate,
        AsyncSqliteSaver.from_conn_string(str(place.folder / "graph.db")) as checkpointer,
    ):
        boundary = Boundary(gate, principal=lambda config: AGENT)
        builder: Any = StateGraph(BoundaryState)
        builder.add_node("model", Model(*(says or (ASKS, DONE))))
        builder.add_edge(START, "model")
        builder.add_node("go_on", lambda state: {})
        (wrapped(boundary) if wrapped else boundary).add_to(builder, after="model", then="go_on")
        builder.add_conditional_edges(
            "go_on",
            lambda state: END if isinstance(state["messages"][-1], AIMessage) else "model",
            ["model", END],
        )
        graph = builder.compile(checkpointer=strict(checkpointer))
        await checkpointer.setup()
        yield gate, graph


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(folder=tmp_path)


def acted(place: Place) -> int:
    return sum(place.remote.effects().values())


async def asked(gate: Gate) -> str:
    [waiting] = await gate.desk.pending(by=PERSON)
    return waiting.approval_id


def answers(values: dict[str, Any]) -> dict[str, str]:
    return {message.tool_call_id: message.status for message in values["messages"] if isinstance(message, ToolMessage)}


# ---------------------------------------------------------------- pause, answer, resume


def begin(folder: str) -> None:
    """A process that asks, and is gone while a person thinks."""

    async def act() -> None:
        async with graph_of(Place(folder=Path(folder))) as (_, graph):
            await graph.ainvoke(TURN, CONFIG, durability="sync")

    asyncio.run(act())
    os._exit(SURVIVED)


@pytest.mark.req("X003")
@pytest.mark.case("P05")
async def test_a_pause_is_resumed_in_another_process_and_its_sibling_is_not_run_again(place: Place) -> None:
    assert ended(start(begin, str(place.folder))) == SURVIVED
    assert acted(place) == 1  # the sibling that needed nobody

    async with graph_of(place) as (gate, graph):
        seen = await graph.aget_state(CONFIG)
        approval_id = await asked(gate)
        assert seen.next == ("wait_for_answer",)
        assert [each.value for each in seen.interrupts] == [{"approvals": [approval_id]}]
        await approve(gate, approval_id)
        done = await graph.ainvoke(Command(resume="look"), CONFIG, durability="sync")
        again = await graph.ainvoke(Command(resume="look"), CONFIG, durability="sync")

    assert answers(done) == {"a": "success", "b": "success"}
    assert done["messages"][-1] == DONE
    assert again["messages"] == done["messages"]
    assert acted(place) == 2


@pytest.mark.parametrize("lie", [{"approved": True}, True, "approve", {"decision": "approve", "args": {"amount": 9}}])
async def test_what_a_graph_is_resumed_with_is_only_a_wake_up(place: Place, lie: object) -> None:
    async with graph_of(place) as (gate, graph):
        await graph.ainvoke(TURN, CONFIG)
        await graph.ainvoke(Command(resume=lie), CONFIG)
        seen = await graph.aget_state(CONFIG)

        assert seen.next == ("wait_for_answer",)
        assert len(await gate.desk.pending(by=PERSON)) == 1  # the same question, not another one
    assert acted(place) == 1


async def test_a_denied_call_is_answered_and_never_runs(place: Place) -> None:
    async with graph_of(place) as (gate, graph):
        await graph.ainvoke(TURN, CONFIG)
        approval_id = await asked(gate)
        view = await gate.desk.show(approval_id, by=PERSON)
        await gate.desk.deny(approval_id, digest=view.digest, by=PERSON, reason="not this one")
        done = await graph.ainvoke(Command(resume="look"), CONFIG)

    assert answers(done) == {"a": "success", "b": "error"}
    assert acted(place) == 1


# ---------------------------------------------------------------- what wraps it


class Catching(Boundary):
    """A wrapper as many programs have it: whatever goes wrong in a node becomes a message to the model."""

    def __init__(self, inner: Boundary) -> None:
        self._inner = inner

    async def call(self, state: BoundaryState, config: RunnableConfig) -> dict[str, Any]:
        for _ in range(3):
            try:
                return await self._inner.call(state, config)
            except Exception:
                continue
        return {"messages": [HumanMessage(content="the tool failed")], "placet_waiting": []}


@pytest.mark.case("G02")
async def test_under_a_wrapper_that_catches_and_retries_everything_it_still_pauses(place: Place) -> None:
    async with graph_of(place, wrapped=Catching) as (gate, graph):
        await graph.ainvoke(TURN, CONFIG)
        seen = await graph.aget_state(CONFIG)
        await approve(gate, await asked(gate))
        done = await graph.ainvoke(Command(resume="look"), CONFIG)

    assert (seen.next, len(seen.interrupts)) == (("wait_for_answer",), 1)
    assert not any(message.content == "the tool failed" for message in done["messages"])
    assert answers(done) == {"a": "success", "b": "success"}


# ---------------------------------------------------------------- twice


@pytest.mark.case("G08")
async def test_two_resumes_at_once_act_once(place: Place) -> None:
    async with graph_of(place) as (gate, graph), graph_of(place) as (_, other):
        await graph.ainvoke(TURN, CONFIG)
        await approve(gate, await asked(gate))
        await asyncio.gather(*(each.ainvoke(Command(resume="look"), CONFIG) for each in (graph, other)))

    assert acted(place) == 2


async def test_a_fork_from_before_the_boundary_is_answered_from_the_record(place: Place) -> None:
    async with graph_of(place) as (gate, graph):
        await graph.ainvoke(TURN, CONFIG)
        await approve(gate, await asked(gate))
        await graph.ainvoke(Command(resume="look"), CONFIG)
        before = [each async for each in graph.aget_state_history(CONFIG) if each.next == ("boundary",)][-1]
        forked = await graph.ainvoke(None, before.config)

    assert answers(forked) == {"a": "success", "b": "success"}
    assert acted(place) == 2


async def test_two_calls_under_one_provider_id_are_two_calls(place: Place) -> None:
    twins = AIMessage(
        content="",
        id="ai-1",
        tool_calls=[call("pay", "o-1", call_id="x"), call("refund", "o-2", call_id="x")],
        response_metadata=WHOLE,
    )
    async with graph_of(place, twins, DONE) as (gate, graph):
        await graph.ainvoke(TURN, CONFIG)
        await approve(gate, await asked(gate))
        done = await graph.ainvoke(Command(resume="look"), CONFIG)

    told = [message for message in done["messages"] if isinstance(message, ToolMessage)]
    assert [(message.tool_call_id, message.status) for message in told] == [("x", "success"), ("x", "success")]
    assert acted(place) == 2


# ---------------------------------------------------------------- what a model may say


async def test_a_call_that_langchain_could_not_read_is_refused_by_the_gates_decoder(place: Place) -> None:
    broken: Any = {
        "name": "pay",
        "args": '{"order": "o-1", "order": "o-2"',
        "id": "a",
        "error": "x",
        "type": "invalid_tool_call",
    }
    async with graph_of(
        place, AIMessage(content="", id="ai-1", invalid_tool_calls=[broken], response_metadata=WHOLE), DONE
    ) as (_, graph):
        done = await graph.ainvoke(TURN, CONFIG)

    assert answers(done) == {"a": "error"}
    assert '"code":"invalid' in done["messages"][2].content.replace(" ", "")
    assert acted(place) == 0


@pytest.mark.case("A17")
@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"finish_reason": "length"}, id="openai"),
        pytest.param({"stop_reason": "max_tokens"}, id="anthropic"),
        pytest.param({"done_reason": "length"}, id="ollama"),
        pytest.param({"stopReason": "max_tokens"}, id="bedrock"),
        pytest.param({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, id="responses"),
        pytest.param({}, id="says-nothing"),
    ],
)
async def test_calls_of_a_turn_that_was_cut_off_do_not_run(place: Place, said: dict[str, Any]) -> None:
    cut = AIMessage(content="", id="ai-1", tool_calls=[call("pay", "o-1", call_id="a")], response_metadata=said)
    async with graph_of(place, cut, DONE) as (_, graph):
        done = await graph.ainvoke(TURN, CONFIG)

    assert answers(done) == {"a": "error"}
    assert acted(place) == 0


async def test_a_tool_nobody_registered_is_answered_as_refused(place: Place) -> None:
    strange = AIMessage(content="", id="ai-1", tool_calls=[call("rm_rf", "o-1", call_id="a")], response_metadata=WHOLE)
    async with graph_of(place, strange, DONE) as (_, graph):
        assert answers(await graph.ainvoke(TURN, CONFIG)) == {"a": "error"}


async def test_without_a_thread_or_a_message_id_nothing_is_asked(place: Place) -> None:
    async with open_gate(place) as gate:
        boundary = Boundary(gate, principal=lambda config: AGENT)
        with pytest.raises(placet.PlacetError, match="Name the thread"):
            await boundary.call({"messages": [ASKS]}, {"configurable": {}})
        with pytest.raises(placet.PlacetError, match="no id"):
            await boundary.call({"messages": [ASKS.model_copy(update={"id": None})]}, CONFIG)
    assert acted(place) == 0


# ---------------------------------------------------------------- what a checkpoint may hold


class Planted:
    """Whoever writes to the checkpointer's database names a type, and LangGraph by itself would make it."""

    made = 0

    def __init__(self, value: str) -> None:
        Planted.made += 1


async def test_a_checkpoint_names_no_type_that_is_then_made(place: Place) -> None:
    import ormsgpack
    from langgraph.checkpoint.serde import jsonplus

    planted = ormsgpack.packb(
        ormsgpack.Ext(
            jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG,
            ormsgpack.packb((Planted.__module__, Planted.__name__, "x")),
        )
    )
    async with AsyncSqliteSaver.from_conn_string(str(place.folder / "graph.db")) as checkpointer:
        await checkpointer.setup()
        safe = strict(checkpointer)
        Planted.made = 0
        safe.serde.loads_typed(("msgpack", planted))
        assert Planted.made == 0
        checkpointer.serde.loads_typed(("msgpack", planted))  # what it is kept from
        assert Planted.made == 1
