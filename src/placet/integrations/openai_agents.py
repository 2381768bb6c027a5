"""OpenAI Agents SDK: the tools of a gate as function tools that only ask the gate.

    boundary = Boundary(gate, principal=lambda context: context.principal, run=lambda context: context.run)
    agent = Agent(name="ops", tools=boundary.tools())
    result = await Runner.run(agent, "pay it back", context=mine, run_config=boundary.run_config())
    while result.interruptions:           # a person is asked; keep the state, and go on in whatever process
        kept = result.to_state().to_string(context_serializer=...)
        state = await RunState.from_string(agent, kept, context_deserializer=lambda _: mine)
        result = await Runner.run(agent, boundary.woken(state), run_config=boundary.run_config())

The SDK pauses where a person is asked and is not believed about anything else: what it approves is a wake-up, and the
gate is asked again with the text of the arguments as the model wrote it. A state that is resumed twice acts once.

Needs the extra `openai-agents`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, Final
from weakref import WeakSet

from agents import Agent, FunctionTool, RunConfig, RunContextWrapper, RunState
from agents.items import ToolApprovalItem
from agents.tool_context import ToolContext
from agents.tracing import FunctionSpanData, get_current_span, get_current_trace

from placet.engine.gate import Gate
from placet.errors import MisuseError
from placet.model.contract import ApprovalMode, Contract
from placet.model.identifiers import CallId
from placet.model.outcome import AwaitingApproval
from placet.model.principal import Principal
from placet.model.projection import NoProjection
from placet.model.proposal import Proposal
from placet.rules.projections import openai_responses_tool
from placet.rules.projections.aliases import names_of
from placet.rules.proposals import is_call_id

_PARENTS: ContextVar[tuple[str, ...]] = ContextVar("placet_openai_agents_parents", default=())
"""The calls that the running agent is inside of, outermost first."""

_NO_ARGUMENTS: Final = "{}"
_BETWEEN: Final = ":"


class Boundary:
    """The gate, as agents see it.

    Args:
        principal: who acts, of the context that the program gives to `Runner.run`; from authentication. It must not
            come out of a kept state: give `RunState.from_string` a `context_deserializer=` that answers the context
            of whoever is signed in now. (Its `context_override=` does not reach the agents inside others.)
        run: the conversation, of the same context: text of 1 to 128 characters, the same when it is resumed. Call ids
            are the model's own and are unique within it.
    """

    def __init__(self, gate: Gate, *, principal: Callable[[Any], Principal], run: Callable[[Any], str]) -> None:
        self._gate = gate
        self._principal = principal
        self._run = run
        self._bodies: WeakSet[Callable[..., Any]] = WeakSet()

    def tools(self) -> list[FunctionTool]:
        """Every tool of the gate that the API takes; each is shown only to the principals who may see it.

        Raises:
            MisuseError: two of them would go by one name there.
        """
        names_of(self._gate.contracts)
        made = (self._tool(contract) for contract in self._gate.contracts)
        return [tool for tool in made if tool is not None]

    def agent_tool(self, agent: Agent[Any], **options: Any) -> FunctionTool:
        """`agent.as_tool(**options)`, whose calls are named after the call they are made in.

        Without it they have the names that the inner model gives them, and are told from the outer ones by those alone.
        Principal and run are those of the outer agent either way: the SDK hands the context on. As calls of tools are,
        its calls are refused where the outer run is traced with arguments and results.
        """
        tool = agent.as_tool(**options)
        inner = tool.on_invoke_tool

        async def invoke(context: ToolContext[Any], text: str) -> Any:
            _refuse_traces(context)  # what the inner agent says would be in the outer run's traces
            token = _PARENTS.set((*_PARENTS.get(), context.tool_call_id))
            try:
                return await inner(context, text)
            finally:
                _PARENTS.reset(token)

        tool.on_invoke_tool = invoke
        return tool

    def run_config(self, **settings: Any) -> RunConfig:
        """A `RunConfig` whose traces hold no arguments and results; without one a traced run is refused."""
        return RunConfig(**{**settings, "trace_include_sensitive_data": False})

    def woken(self, state: RunState[Any, Any]) -> RunState[Any, Any]:
        """The state, to be run again: every call of the gate's that waits in it asks anew. Best once it is answered.

        It approves nothing: a call that still waits is told so to the model, and pauses the run when it is made again.
        What else waits in the state, such as a tool of the program's own, is left to the program.
        """
        for waiting in state.get_interruptions():
            if self._is_ours(waiting):
                state.approve(waiting)
        return state

    # ------------------------------------------------------------ inside

    def _tool(self, contract: Contract) -> FunctionTool | None:
        projection = openai_responses_tool(contract)
        if isinstance(projection, NoProjection):
            return None
        definition: Any = projection.definition
        name = contract.name

        async def invoke(context: ToolContext[Any], text: str) -> str:
            return await self._answer(name, context, text)

        async def waits(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
            return await self._waits(name, context, arguments, call_id)

        def is_shown(context: RunContextWrapper[Any], agent: Any) -> bool:
            return self._gate.tool_for(name, self._principal(context.context)) is not None

        tool = FunctionTool(
            name=definition["name"],
            description=definition["description"],
            params_json_schema=definition["parameters"],
            on_invoke_tool=invoke,
            strict_json_schema=False,  # else the SDK rewrites the schema, and demands what is optional
            is_enabled=is_shown,
            needs_approval=False if contract.approval is ApprovalMode.NEVER else waits,
        )
        tool.strict_json_schema = definition["strict"]
        self._bodies.add(invoke)
        return tool

    def _is_ours(self, waiting: ToolApprovalItem) -> bool:
        named = [tool for tool in waiting.agent.tools if tool.name == waiting.tool_name]
        return bool(named) and all(
            isinstance(tool, FunctionTool) and tool.on_invoke_tool in self._bodies for tool in named
        )

    async def _answer(self, tool: str, context: ToolContext[Any], text: str) -> str:
        """What the gate says, to the model.

        Raises:
            MisuseError: the run is traced with arguments and results; nothing ran.
        """
        _refuse_traces(context)
        status = getattr(context.tool_call, "status", None)
        proposal = Proposal(
            call_id=_call_id(context.tool_call_id),
            tool=tool,
            arguments=text if text.strip(" \t\r\n") else _NO_ARGUMENTS,
            is_truncated=status not in (None, "completed"),
        )
        outcome = await self._gate.submit_listed(
            proposal, principal=self._principal(context.context), run=self._run(context.context)
        )
        content: str = outcome.for_openai()["content"]
        return content

    async def _waits(self, tool: str, context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        """Whether the run pauses before this call. Nothing runs here: these arguments are as the SDK read them.

        Raises:
            MisuseError: the run is traced with arguments and results; nobody was asked.
        """
        _refuse_traced_question()
        proposal = Proposal(call_id=_call_id(call_id), tool=tool, arguments=arguments)
        principal, run = self._principal(context.context), self._run(context.context)
        return isinstance(await self._gate.ask(proposal, principal=principal, run=run), AwaitingApproval)


def _call_id(given: str) -> CallId:
    """The model's name of the call after those of the calls around it, or a digest of them where they make no id."""
    chain = (*_PARENTS.get(), given)
    plain = _BETWEEN.join(chain)
    if is_call_id(plain) and not any(_BETWEEN in part for part in chain):
        return CallId(plain)
    return CallId(f"call-{sha256(json.dumps(chain).encode()).hexdigest()[:32]}")


def _refuse_traces(context: ToolContext[Any]) -> None:
    """Before a call runs: the SDK says how its run is traced."""
    is_bare = context.run_config is not None and not context.run_config.trace_include_sensitive_data
    if _is_exported() and not is_bare:
        raise _traced()


def _refuse_traced_question() -> None:
    """Before a person is asked, where the SDK does not say it: a call's span holds its arguments by then, or never."""
    span = get_current_span()
    data = None if span is None else span.span_data
    if _is_exported() and isinstance(data, FunctionSpanData) and data.input is not None:
        raise _traced()


def _is_exported() -> bool:
    trace = get_current_trace()
    return trace is not None and trace.export() is not None


def _traced() -> MisuseError:
    """The refusal; what the call's span holds already, it holds no longer."""
    span = get_current_span()
    if span is not None and isinstance(span.span_data, FunctionSpanData):
        span.span_data.input = None  # written before the tool is asked anything, and sent whatever it answers
    return MisuseError(
        "The SDK's traces of this run would be sent away with arguments and results in them. "
        "Run with run_config=boundary.run_config(), or turn tracing off."
    )
