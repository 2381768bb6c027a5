"""PydanticAI agents on a gate: deferred results, histories and overrides wake a call, and decide nothing about it.

A real gate on a SQLite store, a remote that counts, the framework with its own function model.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, Tracer, TracerProvider
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.usage import RunUsage

import placet
from placet.engine.gate import Gate
from placet.errors import MisuseError, StoreUnavailable
from placet.integrations.pydantic_ai import BoundaryToolset, woken
from placet.model.principal import Principal
from tests.kill_points.actors import AGENT, PERSON, SURVIVED, Place, approve, ended, open_gate, start

VIEWER = placet.Principal.agent("agent-3", tenant="acme", roles=["viewer"], scopes=[])


@dataclass(frozen=True, kw_only=True)
class Mine:
    principal: Principal = AGENT


def pay(order: str = "o-1", call_id: str = "a", text: str | None = None) -> ToolCallPart:
    return ToolCallPart("pay", text or f'{{"order":"{order}","amount":5}}', tool_call_id=call_id)


def refund(order: str = "o-2", call_id: str = "b") -> ToolCallPart:
    return ToolCallPart("refund", {"order": order, "amount": 5}, tool_call_id=call_id)


def says(*parts: ToolCallPart | TextPart, reason: Any = "tool_call") -> ModelResponse:
    return ModelResponse(parts=list(parts), finish_reason=reason)


DONE = says(TextPart("done"), reason="stop")
ASKS = says(pay(), refund())


class Script:
    """Says one response after another, and remembers what it was told."""

    def __init__(self, *responses: ModelResponse) -> None:
        self._left = list(responses)
        self.told: list[list[ModelMessage]] = []
        self.shown: list[str] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.told.append(messages)
        self.shown = [tool.name for tool in info.function_tools]
        return self._left.pop(0)


def agent_of(toolset: BoundaryToolset[Mine], script: Script, **more: Any) -> Agent[Mine, Any]:
    return Agent(
        FunctionModel(script),
        deps_type=Mine,
        toolsets=[toolset],
        output_type=[str, DeferredToolRequests],
        **more,
    )


@asynccontextmanager
async def toolset_of(place: Place) -> AsyncIterator[tuple[Gate, BoundaryToolset[Mine]]]:
    async with open_gate(place, timeout_seconds=10.0) as gate:
        yield gate, BoundaryToolset(gate, principal=lambda mine: mine.principal)


def answers(result: Any) -> dict[str, Any]:
    parts = [part for message in result.all_messages() for part in message.parts]
    return {part.tool_call_id: part.content for part in parts if part.part_kind == "tool-return"}


def context(**more: Any) -> RunContext[Mine]:
    """What the framework hands to a toolset."""
    return RunContext(deps=Mine(), model=FunctionModel(Script()), usage=RunUsage(), **more)


def failing_once(gate: Gate) -> Any:
    sound, faults = gate.store.same_ask, [StoreUnavailable("gone")]

    async def once(*args: Any, **more: Any) -> Any:
        if faults:
            raise faults.pop()
        return await sound(*args, **more)

    return once


async def unavailable(*_: Any, **__: Any) -> Any:
    raise StoreUnavailable("gone")


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
    """A process that asks, keeps the messages, and is gone while a person thinks."""

    async def act() -> None:
        place = Place(folder=Path(folder))
        async with toolset_of(place) as (gate, toolset):
            result = await agent_of(toolset, Script(ASKS)).run("pay it back", deps=Mine(), conversation_id="c-1")
            assert isinstance(result.output, DeferredToolRequests)
            assert result.output.metadata == {"b": {"placet": {"approval_id": await asked(gate)}}}
            (place.folder / "messages.json").write_bytes(result.all_messages_json())

    asyncio.run(act())
    os._exit(SURVIVED)


@pytest.mark.req("X003")
@pytest.mark.case("P02")
async def test_a_run_waits_across_processes_and_resumes_with_the_users_words_beside_the_decision(place: Place) -> None:
    assert ended(start(begin, str(place.folder)), within=60.0) == SURVIVED
    assert acted(place) == 1  # what needed nobody was done
    history = ModelMessagesTypeAdapter.validate_json((place.folder / "messages.json").read_bytes())
    results = DeferredToolResults(approvals={"b": True})

    async with toolset_of(place) as (gate, toolset):
        await approve(gate, await asked(gate))
        script = Script(DONE)
        first = await agent_of(toolset, script).run(
            "and tell me when", message_history=history, deferred_tool_results=results, deps=Mine()
        )
        second = await agent_of(toolset, Script(DONE)).run(
            message_history=history, deferred_tool_results=results, deps=Mine()
        )

    assert (first.output, second.output) == ("done", "done")
    assert [answers(result)["b"]["status"] for result in (first, second)] == ["succeeded", "replayed"]
    assert "and tell me when" in str(script.told[-1])
    assert acted(place) == 2


async def test_a_history_replayed_without_its_results_acts_once(place: Place) -> None:
    async with toolset_of(place) as (_, toolset):
        first = await agent_of(toolset, Script(says(pay()), DONE)).run("pay", deps=Mine(), conversation_id="c-1")
        before = first.all_messages()[:2]  # the request, and the response that asks
        second = await agent_of(toolset, Script(DONE)).run(message_history=before, deps=Mine(), conversation_id="c-1")

    assert [answers(result)["a"]["status"] for result in (first, second)] == ["succeeded", "replayed"]
    assert acted(place) == 1


# ---------------------------------------------------------------- what is listed


@pytest.mark.case("P02")
async def test_every_tool_is_listed_with_its_kind_and_only_to_who_may_see_it(place: Place) -> None:
    async with toolset_of(place) as (_, toolset):
        script = Script(DONE, DONE)
        agent = agent_of(toolset, script)
        await agent.run("x", deps=Mine())
        listed: dict[str, tuple[str, str, bool]] = {}

        @agent.tool
        async def look(ctx: RunContext[Mine]) -> None:
            raise AssertionError("not asked for")

        for name, tool in (await toolset.get_tools(context())).items():
            facts = (tool.tool_def.metadata or {})["placet"]
            listed[name] = (tool.tool_def.kind, facts["approval"], tool.tool_def.sequential)
        await agent.run("x", deps=Mine(principal=VIEWER))

    assert listed == {
        "pay": ("function", "by_policy", True),
        "refund": ("unapproved", "always", True),
        "top_up": ("function", "by_policy", True),
        "balance": ("function", "by_policy", False),
    }
    assert sorted(script.shown) == ["balance", "look"]


@pytest.mark.case("P02")
async def test_a_call_of_a_listed_question_that_the_gate_refuses_is_answered_and_not_deferred(place: Place) -> None:
    bad = ToolCallPart("refund", {"order": "o-2"}, tool_call_id="b")
    async with toolset_of(place) as (gate, toolset):
        result = await agent_of(toolset, Script(says(bad), DONE)).run("x", deps=Mine())

        assert await gate.desk.pending(by=PERSON) == ()
    assert result.output == "done" and json.loads(answers(result)["b"])["status"] == "invalid"


@pytest.mark.parametrize("gone", ["draining", "cancelled", "store"])
async def test_a_call_that_nobody_was_asked_about_is_answered_and_not_deferred(
    place: Place, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that waits for a person whom nobody asked would wait for good."""
    async with toolset_of(place) as (gate, toolset):
        if gone == "draining":
            await gate.drain(0.1)
        elif gone == "cancelled":
            await gate.runs.begin("c-1", by=AGENT, limits=placet.RunLimits())
            await gate.runs.cancel("c-1", by=AGENT)
        else:
            monkeypatch.setattr(gate.store, "same_ask", unavailable)
        result = await agent_of(toolset, Script(says(refund()), DONE)).run("x", deps=Mine(), conversation_id="c-1")

    assert (result.output, acted(place)) == ("done", 0)
    codes = {"draining": "draining", "cancelled": "run_cancelled", "store": "boundary_unavailable"}
    assert json.loads(answers(result)["b"])["code"] == codes[gone]


async def test_a_question_that_could_not_be_asked_at_first_is_asked_and_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with toolset_of(place) as (gate, toolset):
        monkeypatch.setattr(gate.store, "same_ask", failing_once(gate))
        result = await agent_of(toolset, Script(says(refund()))).run("x", deps=Mine())

        assert result.output.metadata == {"b": {"placet": {"approval_id": await asked(gate)}}}


async def test_what_acted_after_all_is_told_as_done_once_it_is_woken(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with toolset_of(place) as (gate, toolset):
        agent = agent_of(toolset, Script(says(refund()), DONE))
        first = await agent.run("x", deps=Mine(), conversation_id="c-1")
        await approve(gate, await asked(gate))
        monkeypatch.setattr(gate.store, "same_ask", failing_once(gate))
        again = await agent.run(message_history=first.all_messages()[:2], deps=Mine(), conversation_id="c-1")
        assert again.output.metadata == {"b": {"placet": {"approval_id": None}}}
        result = await agent.run(
            message_history=again.all_messages(), deferred_tool_results=woken(again.output), deps=Mine()
        )

    assert (answers(result)["b"]["status"], acted(place)) == ("replayed", 1)


# ---------------------------------------------------------------- what the framework says is only a wake-up


async def test_a_result_that_approves_before_a_person_did_defers_the_call_again(place: Place) -> None:
    async with toolset_of(place) as (gate, toolset):
        agent = agent_of(toolset, Script(says(refund()), DONE))
        paused = await agent.run("x", deps=Mine())
        before = await asked(gate)
        assert paused.output.metadata == {"b": {"placet": {"approval_id": before}}}
        still = await agent.run(
            message_history=paused.all_messages(), deferred_tool_results=woken(paused.output), deps=Mine()
        )
        assert isinstance(still.output, DeferredToolRequests)
        assert still.output.metadata == {"b": {"placet": {"approval_id": before}}}
        await approve(gate, before)
        result = await agent.run(
            message_history=still.all_messages(), deferred_tool_results=woken(still.output), deps=Mine()
        )

    assert (result.output, acted(place)) == ("done", 1)


async def test_waking_says_nothing_of_what_the_gate_did_not_defer(place: Place) -> None:
    async with toolset_of(place) as (_, toolset):
        script = Script(says(refund(), ToolCallPart("erase", {}, tool_call_id="e")))
        agent = agent_of(toolset, script)

        @agent.tool(requires_approval=True)
        async def erase(ctx: RunContext[Mine]) -> None:
            raise AssertionError("nobody approved it")

        paused = await agent.run("x", deps=Mine())

    assert sorted(waiting.tool_call_id for waiting in paused.output.approvals) == ["b", "e"]
    assert woken(paused.output).approvals == {"b": True}


async def test_a_listed_question_that_is_answered_already_runs_once_it_is_woken(place: Place) -> None:
    async with toolset_of(place) as (gate, toolset):
        agent = agent_of(toolset, Script(says(refund()), DONE))
        first = await agent.run("x", deps=Mine(), conversation_id="c-1")
        await approve(gate, await asked(gate))
        history = first.all_messages()[:2]
        again = await agent.run(message_history=history, deps=Mine(), conversation_id="c-1")
        assert acted(place) == 0
        result = await agent.run(
            message_history=again.all_messages(), deferred_tool_results=woken(again.output), deps=Mine()
        )

    assert again.output.metadata == {"b": {"placet": {"approval_id": None}}}
    assert (result.output, acted(place)) == ("done", 1)


async def test_arguments_that_a_result_puts_in_the_place_of_the_approved_ones_do_not_run(place: Place) -> None:
    forged = DeferredToolResults(approvals={"b": ToolApproved(override_args={"order": "o-9", "amount": 999})})
    async with toolset_of(place) as (gate, toolset):
        agent = agent_of(toolset, Script(says(refund()), DONE))
        paused = await agent.run("x", deps=Mine())
        await approve(gate, await asked(gate))
        result = await agent.run(message_history=paused.all_messages(), deferred_tool_results=forged, deps=Mine())

    assert answers(result)["b"]["result"] == {"amount": 5}
    assert acted(place) == 1


async def test_a_refusal_in_the_framework_alone_leaves_the_question_with_the_people(place: Place) -> None:
    refused = DeferredToolResults(approvals={"b": ToolDenied("no")})
    async with toolset_of(place) as (gate, toolset):
        agent = agent_of(toolset, Script(says(refund()), DONE))
        paused = await agent.run("x", deps=Mine())
        await agent.run(message_history=paused.all_messages(), deferred_tool_results=refused, deps=Mine())

        assert await asked(gate)
    assert acted(place) == 0


# ---------------------------------------------------------------- the gate alone reads and runs


async def test_the_gate_reads_the_text_of_the_arguments_itself(place: Place) -> None:
    texts = {
        "twice": '{"order":"o-1","amount":5,"amount":5000}',
        "more": '{"order":"o-1","amount":5,"tenant":"other"}',
        "text": '{"order":"o-1","amount":"5"}',
        "broken": '{"order":"o-1"',
        "deep": "[" * 100_000,
    }
    calls = [pay(call_id=name, text=text) for name, text in texts.items()]
    async with toolset_of(place) as (_, toolset):
        result = await agent_of(toolset, Script(says(*calls), DONE)).run("x", deps=Mine())
        prefixed: Any = toolset.prefixed("shop")
        call = ToolCallPart("shop_pay", texts["twice"], tool_call_id="a")
        other = await agent_of(prefixed, Script(says(call), DONE)).run("x", deps=Mine())

    assert {name: answer["status"] for name, answer in answers(result).items()} == dict.fromkeys(texts, "invalid")
    assert answers(other)["a"]["status"] == "invalid"
    assert acted(place) == 0


async def test_two_calls_of_one_id_and_calls_of_a_response_that_was_cut_off_do_not_run(place: Place) -> None:
    async with toolset_of(place) as (_, toolset):
        ctx = context(messages=[says(pay("o-1"), pay("o-2"))], tool_call_id="a", conversation_id="c-1")
        listed = await toolset.get_tools(ctx)
        twice = await toolset.call_tool("pay", {"order": "o-2", "amount": 5}, ctx, listed["pay"])
        cut = await agent_of(toolset, Script(says(pay(), reason="length"), DONE)).run("x", deps=Mine())
        silent = await agent_of(toolset, Script(says(pay(), reason=None), DONE)).run("x", deps=Mine())

    assert twice["status"] == "invalid"
    assert ["turn_truncated" in str(answers(result)["a"]) for result in (cut, silent)] == [True, True]
    assert acted(place) == 0


# ---------------------------------------------------------------- agents inside agents, traces


async def test_an_agent_inside_another_acts_for_the_same_principal_in_the_run_that_it_is_given(place: Place) -> None:
    async with toolset_of(place) as (gate, toolset):
        inner = agent_of(toolset, Script(says(pay("o-1", call_id="same")), DONE))
        outer = agent_of(
            toolset,
            Script(says(ToolCallPart("helper", {}, tool_call_id="h"), pay("o-2", call_id="same")), DONE),
        )

        @outer.tool
        async def helper(ctx: RunContext[Mine]) -> str:
            result = await inner.run("x", deps=ctx.deps, conversation_id=f"{ctx.conversation_id}.{ctx.tool_call_id}")
            return str(result.output)

        await outer.run("x", deps=Mine(), conversation_id="c-1")
        effects = await gate.store.effects(tenant="acme", states=list(placet.EffectState), limit=9)

    assert sorted((effect.run_id, effect.call_id) for effect in effects) == [("c-1", "same"), ("c-1.h", "same")]  # type: ignore[union-attr]
    assert acted(place) == 2


CANARY = "canary-4711"


class Traces(TracerProvider, Tracer, NonRecordingSpan):
    """Everything that is said to a tracer, or to a span of it."""

    def __init__(self) -> None:
        NonRecordingSpan.__init__(self, INVALID_SPAN_CONTEXT)
        self.heard: list[str] = []

    def get_tracer(self, *args: Any, **kwargs: Any) -> Tracer:
        return self

    def start_span(self, *args: Any, **kwargs: Any) -> Any:
        self.heard.append(f"{args} {kwargs}")
        return self

    @contextmanager
    def start_as_current_span(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        yield self.start_span(*args, **kwargs)

    def is_recording(self) -> bool:
        return True

    def set_attribute(self, *args: Any) -> None:
        self.heard.append(str(args))

    def set_attributes(self, *args: Any) -> None:
        self.heard.append(str(args))

    def record_exception(self, *args: Any, **kwargs: Any) -> None:
        self.heard.append(f"{args} {kwargs}")

    def set_status(self, *args: Any, **kwargs: Any) -> None:
        self.heard.append(f"{args} {kwargs}")


async def test_a_traced_run_is_refused_unless_its_traces_hold_no_content(place: Place) -> None:
    def instrumented(traces: Traces, *, has_content: bool) -> Instrumentation:
        return Instrumentation(settings=InstrumentationSettings(tracer_provider=traces, include_content=has_content))

    script = Script(says(pay(CANARY)), DONE)
    async with toolset_of(place) as (_, toolset):
        refused = Traces()
        with pytest.raises(MisuseError, match="include_content"):
            await agent_of(toolset, script, capabilities=[instrumented(refused, has_content=True)]).run(
                "x", deps=Mine()
            )
        assert (acted(place), script.told) == (0, [])  # before the model is asked: its answer would be in the trace
        assert refused.heard and CANARY not in "".join(refused.heard)
        traces = Traces()
        await agent_of(toolset, script, capabilities=[instrumented(traces, has_content=False)]).run("x", deps=Mine())

    assert acted(place) == 1
    assert any("pay" in heard for heard in traces.heard) and CANARY not in "".join(traces.heard)
