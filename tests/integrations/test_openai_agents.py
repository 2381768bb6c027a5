"""Agents of the OpenAI Agents SDK on a gate: what its states, approvals and traces say does not decide anything.

A real gate on a SQLite store, a remote that counts, the SDK with its own scripted model.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, RunState, function_tool, set_trace_processors
from agents.exceptions import UserError
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tracing import TracingProcessor

import placet
from placet.engine.gate import Gate
from placet.integrations.openai_agents import Boundary
from placet.model.principal import Principal
from tests.kill_points.actors import AGENT, PERSON, SURVIVED, Place, approve, ended, open_gate, start

VIEWER = placet.Principal.agent("agent-3", tenant="acme", roles=["viewer"], scopes=[])


@dataclass(frozen=True, kw_only=True)
class Mine:
    """The program's own context. A state is kept without it."""

    principal: Principal = AGENT
    run: str = "conversation-1"


def refund(order: str = "o-2", call_id: str = "b", amount: int = 5) -> Any:
    return function_call("refund", f'{{"order":"{order}","amount":{amount}}}', call_id=call_id)


ASKS = [function_call("pay", '{"order":"o-1","amount":5}', call_id="a"), refund()]
DONE = assistant_message("done")


@asynccontextmanager
async def boundary_of(place: Place) -> AsyncIterator[tuple[Gate, Boundary]]:
    async with open_gate(place, timeout_seconds=10.0) as gate:
        yield gate, Boundary(gate, principal=lambda mine: mine.principal, run=lambda mine: mine.run)


def agent_of(boundary: Boundary, *says: Any) -> Agent[Mine]:
    return Agent(name="ops", model=ScriptedModel(list(says)), tools=list(boundary.tools()))


def nested(boundary: Boundary, inner: list[Any], outer: list[Any]) -> Agent[Mine]:
    helper = boundary.agent_tool(agent_of(boundary, *inner), tool_name="helper", tool_description="Pays back.")
    return Agent(name="desk", model=ScriptedModel(outer), tools=[helper, *boundary.tools()])


HELP = function_call("helper", '{"input":"pay it back"}', call_id="h")


async def run(boundary: Boundary, agent: Agent[Mine], given: Any = "pay it back", **more: Any) -> Any:
    config = boundary.run_config()
    if isinstance(given, RunState):
        return await Runner.run(agent, boundary.woken(given), run_config=config)
    return await Runner.run(agent, given, context=more.pop("context", Mine()), run_config=config, **more)


def kept(result: Any) -> str:
    text: str = result.to_state().to_string(context_serializer=lambda mine: {})
    return text


async def again(agent: Agent[Mine], text: str) -> Any:
    return await RunState.from_string(agent, text, context_deserializer=lambda _: Mine())


def outputs(result: Any) -> list[str]:
    return [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]


def acted(place: Place) -> int:
    return sum(place.remote.effects().values())


async def asked(gate: Gate) -> str:
    [waiting] = await gate.desk.pending(by=PERSON)
    return waiting.approval_id


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(folder=tmp_path)


class Collector(TracingProcessor):
    """What would be sent away."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def on_trace_start(self, trace: Any) -> None:
        self.sent.append(trace.export())

    def on_trace_end(self, trace: Any) -> None:
        self.sent.append(trace.export())

    def on_span_start(self, span: Any) -> None:
        return None

    def on_span_end(self, span: Any) -> None:
        self.sent.append(span.export())

    def shutdown(self) -> None:
        return None

    def force_flush(self) -> None:
        return None


@pytest.fixture(autouse=True)
def traces() -> Iterator[Collector]:
    collector = Collector()
    set_trace_processors([collector])
    yield collector
    set_trace_processors([])


# ---------------------------------------------------------------- pause, answer, resume


def begin(folder: str) -> None:
    """A process that asks, in two places, keeps the states, and is gone while people think."""

    async def act() -> None:
        set_trace_processors([])
        for kind in ("plain", "nested"):
            place = Place(folder=Path(folder, kind))
            place.folder.mkdir()
            async with boundary_of(place) as (_, boundary):
                agent = nested(boundary, [[refund()]], [[HELP]]) if kind == "nested" else agent_of(boundary, ASKS)
                result = await run(boundary, agent)
                assert [item.tool_name for item in result.interruptions] == ["refund"]
                (place.folder / "state.json").write_text(kept(result))

    asyncio.run(act())
    os._exit(SURVIVED)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What that process left. Starting one costs seconds, nearly all of them the SDK's imports."""
    folder = tmp_path_factory.mktemp("left")
    assert ended(start(begin, str(folder)), within=60.0) == SURVIVED
    return folder


@pytest.mark.req("X003")
async def test_a_run_waits_for_a_person_across_processes_and_its_state_resumed_twice_acts_once(left: Path) -> None:
    place = Place(folder=left / "plain")
    assert acted(place) == 1  # what needed nobody was done
    text = (place.folder / "state.json").read_text()

    async with boundary_of(place) as (gate, boundary):
        await approve(gate, await asked(gate))
        first = await run(boundary, one := agent_of(boundary, [DONE]), await again(one, text))
        second = await run(boundary, two := agent_of(boundary, [DONE]), await again(two, text))

    assert (first.final_output, second.final_output) == ("done", "done")
    assert '"status":"succeeded"' in outputs(first)[-1] and '"status":"replayed"' in outputs(second)[-1]
    assert acted(place) == 2


@pytest.mark.case("P01")
async def test_an_inner_agents_question_is_in_the_one_queue_and_resumes_through_both_levels_once(left: Path) -> None:
    place = Place(folder=left / "nested")
    text = (place.folder / "state.json").read_text()

    async with boundary_of(place) as (gate, boundary):
        [waiting] = await gate.desk.pending(by=PERSON)
        view = await gate.desk.show(waiting.approval_id, by=PERSON)
        await approve(gate, waiting.approval_id)
        for _ in range(2):
            agent = nested(boundary, [[assistant_message("paid back")]], [[DONE]])
            result = await run(boundary, agent, await again(agent, text))
            assert (result.final_output, outputs(result)) == ("done", ["paid back"])

    assert (view.call_id, view.run_id, view.requested_by) == ("h:b", "conversation-1", AGENT.identity)
    assert acted(place) == 1


@pytest.mark.case("P01")
async def test_calls_of_inner_agents_count_in_the_run_and_its_budget_and_are_told_apart_by_their_parents(
    place: Place,
) -> None:
    pays = [function_call("pay", f'{{"order":"o-{n}","amount":5}}', call_id="same") for n in (1, 2, 3)]
    helps = [function_call("helper", '{"input":"x"}', call_id=name) for name in ("h1", "h2")]

    async with boundary_of(place) as (gate, boundary):
        await gate.runs.begin("conversation-1", by=AGENT, limits=placet.RunLimits(max_steps=2))
        inner = [[pays[0]], [DONE], [pays[1]], [DONE]]
        agent = nested(boundary, inner, [[helps[0]], [helps[1]], [pays[2]], [DONE]])
        result = await run(boundary, agent)
        effects = await gate.store.effects(tenant="acme", states=list(placet.EffectState), limit=9)

    assert sorted(effect.call_id for effect in effects) == ["h1:same", "h2:same"]
    assert "budget_exhausted" in outputs(result)[-1]
    assert acted(place) == 2


# ---------------------------------------------------------------- what the SDK says is only a wake-up


async def test_what_the_sdk_approves_by_itself_and_for_good_approves_nothing(place: Place) -> None:
    async with boundary_of(place) as (gate, boundary):
        paused = await run(boundary, agent_of(boundary, [refund()]))
        agent = agent_of(boundary, [refund("o-9", call_id="c", amount=1_000_000)], [DONE])
        state = await again(agent, kept(paused))
        for item in state.get_interruptions():
            state.approve(item, always_approve=True)
        result = await Runner.run(agent, state, run_config=boundary.run_config())

        assert len(await gate.desk.pending(by=PERSON)) == 2
    assert [output.count("approval_required") for output in outputs(result)] == [1, 1]
    assert acted(place) == 0


async def test_waking_approves_no_tool_of_the_programs_own(place: Place) -> None:
    @function_tool(needs_approval=True)
    async def erase() -> None:
        raise AssertionError("nobody approved it")

    async with boundary_of(place) as (_, boundary):
        asks = [refund(), function_call("erase", "{}", call_id="e")]
        agent = agent_of(boundary, asks)
        agent.tools.append(erase)
        paused = await run(boundary, agent)
        state = boundary.woken(paused.to_state())
        result = await Runner.run(agent, state, run_config=boundary.run_config())

    assert [item.tool_name for item in result.interruptions] == ["erase"]


async def test_a_call_that_still_waits_is_told_so_and_pauses_the_run_when_it_is_made_again(place: Place) -> None:
    async with boundary_of(place) as (gate, boundary):
        paused = await run(boundary, agent_of(boundary, [refund()]))
        before = await asked(gate)
        agent = agent_of(boundary, [refund(call_id="b2")], [DONE])
        still = await run(boundary, agent, await again(agent, kept(paused)))
        assert [item.tool_name for item in still.interruptions] == ["refund"]
        assert await asked(gate) == before  # no second question

        await approve(gate, before)
        agent = agent_of(boundary, [DONE])
        result = await run(boundary, agent, await again(agent, kept(still)))

    assert (result.final_output, acted(place)) == ("done", 1)


async def test_a_refusal_of_a_person_reaches_the_model_whatever_the_state_says(place: Place) -> None:
    async with boundary_of(place) as (gate, boundary):
        paused = await run(boundary, agent_of(boundary, [refund()]))
        view = await gate.desk.show(await asked(gate), by=PERSON)
        await gate.desk.deny(view.approval_id, digest=view.digest, by=PERSON, reason="paid already")
        agent = agent_of(boundary, [DONE])
        result = await run(boundary, agent, await again(agent, kept(paused)))

    assert "approval_denied" in outputs(result)[-1] and "paid already" in outputs(result)[-1]
    assert acted(place) == 0


# ---------------------------------------------------------------- the gate alone reads and runs


async def test_the_gate_reads_the_text_of_the_arguments_itself(place: Place) -> None:
    texts = {
        "twice": '{"order":"o-1","amount":5,"amount":5000}',
        "more": '{"order":"o-1","amount":5,"tenant":"other"}',
        "text": '{"order":"o-1","amount":"5"}',
        "broken": '{"order":"o-1"',
    }
    calls = [function_call("pay", text, call_id=name) for name, text in texts.items()]
    async with boundary_of(place) as (_, boundary):
        result = await run(boundary, agent := agent_of(boundary, calls, [DONE]))
        while result.interruptions:  # the SDK cannot read one of them, and pauses before it asks anybody
            state = await again(agent, kept(result))
            result = await run(boundary, agent, state)

    assert [output.count('"status":"invalid"') for output in outputs(result)] == [1] * 4
    assert acted(place) == 0


async def test_a_call_that_was_cut_off_does_not_run(place: Place) -> None:
    cut = function_call("pay", '{"order":"o-1","amount":5}', call_id="a")
    cut = cut.model_copy(update={"status": "incomplete"})
    async with boundary_of(place) as (_, boundary):
        result = await run(boundary, agent_of(boundary, [cut], [DONE]))

    assert "turn_truncated" in outputs(result)[0] and acted(place) == 0


async def test_a_principal_is_shown_its_own_tools_under_names_the_api_takes(place: Place) -> None:
    @placet.tool(effect="read", name="shop.balance")
    async def balance(order: str = "o-1") -> int:
        return 7

    @placet.tool(effect="write", risk="medium", permission="pay")
    async def pay(order: str) -> None:
        raise AssertionError("not shown, so not run")

    mine = Mine(principal=VIEWER)
    async with placet.open(tools=[balance, pay], store=placet.MEMORY) as gate:
        boundary = Boundary(gate, principal=lambda mine: mine.principal, run=lambda mine: mine.run)
        [told, _] = boundary.tools()
        call = function_call(told.name, "", call_id="a")
        agent = agent_of(boundary, [call], [DONE])
        result = await run(boundary, agent, context=mine)
        while result.interruptions:
            state = await RunState.from_string(agent, kept(result), context_deserializer=lambda _: mine)
            result = await run(boundary, agent, state)
        [shown] = agent.model.calls[0].tools  # type: ignore[union-attr]

    assert (shown.name, told.name) == (told.name, told.name)
    assert "." not in told.name and '"result":7' in outputs(result)[0]


# ---------------------------------------------------------------- traces


CANARY = "canary-4711"


async def test_traces_hold_neither_arguments_nor_results(place: Place, traces: Collector) -> None:
    call = function_call("pay", f'{{"order":"{CANARY}","amount":5}}', call_id="a")
    async with boundary_of(place) as (_, boundary):
        await run(boundary, agent_of(boundary, [call], [DONE]))

    assert acted(place) == 1
    assert any(span["span_data"].get("name") == "pay" for span in traces.sent if "span_data" in span)
    assert CANARY not in str(traces.sent) and "succeeded" not in str(traces.sent)


async def test_a_run_that_is_traced_with_arguments_is_refused_and_nothing_runs(place: Place, traces: Collector) -> None:
    call = function_call("pay", f'{{"order":"{CANARY}","amount":5}}', call_id="a")
    async with boundary_of(place) as (_, boundary):
        with pytest.raises(UserError, match="run_config"):
            await Runner.run(agent_of(boundary, [call]), "x", context=Mine(), run_config=RunConfig())

    spans = [span for span in traces.sent if span.get("span_data", {}).get("type") == "function"]
    assert acted(place) == 0
    assert spans and CANARY not in str(spans)


async def test_a_traced_run_whose_call_asks_a_person_is_refused_before_it_asks(place: Place, traces: Collector) -> None:
    async with boundary_of(place) as (gate, boundary):
        with pytest.raises(UserError, match="run_config"):
            await Runner.run(agent_of(boundary, [refund(CANARY)]), "x", context=Mine())

        assert await gate.desk.pending(by=PERSON) == ()
    spans = [span for span in traces.sent if span.get("span_data", {}).get("type") == "function"]
    assert spans and CANARY not in str(spans)


async def test_a_run_whose_traces_would_hold_what_an_agent_inside_it_says_is_refused(
    place: Place, traces: Collector
) -> None:
    async with boundary_of(place) as (_, boundary):
        inner = agent_of(boundary, [function_call("pay", '{"order":"o-1","amount":5}', call_id="a")], [DONE])
        helper = boundary.agent_tool(
            inner, tool_name="helper", tool_description="Pays back.", run_config=boundary.run_config()
        )
        call = function_call("helper", f'{{"input":"{CANARY}"}}', call_id="h")
        outer = Agent(name="desk", model=ScriptedModel([[call], [DONE]]), tools=[helper])
        with pytest.raises(UserError, match="run_config"):
            await Runner.run(outer, "x", context=Mine())

    spans = [span for span in traces.sent if span.get("span_data", {}).get("type") == "function"]
    assert acted(place) == 0
    assert spans and CANARY not in str(spans)


async def test_a_run_that_is_not_traced_needs_no_configuration_of_ours(place: Place) -> None:
    async with boundary_of(place) as (_, boundary):
        agent = agent_of(boundary, [function_call("pay", '{"order":"o-1","amount":5}', call_id="a")], [DONE])
        await Runner.run(agent, "x", context=Mine(), run_config=RunConfig(tracing_disabled=True))

    assert acted(place) == 1
