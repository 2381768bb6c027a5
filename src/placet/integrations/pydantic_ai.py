"""PydanticAI: the tools of a gate as a toolset that only asks the gate.

    toolset = BoundaryToolset(gate, principal=lambda deps: deps.principal)
    agent = Agent(model, deps_type=Mine, toolsets=[toolset], output_type=[str, DeferredToolRequests])
    result = await agent.run("pay it back", deps=mine)
    if isinstance(result.output, DeferredToolRequests):   # a person is asked; keep the messages, in whatever process
        history = result.all_messages()
        result = await agent.run(message_history=history, deferred_tool_results=woken(result.output), deps=mine)

A call that waits for a person is one that the framework defers. What it is resumed with is a wake-up: the gate is asked
again with the arguments as the model wrote them, whatever the results say of them. A history replayed acts once.

Needs the extra `pydantic-ai`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

from opentelemetry.trace import NoOpTracer
from pydantic_ai import DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from placet.engine.gate import Gate
from placet.errors import MisuseError
from placet.model.asking import NotAsked
from placet.model.contract import ApprovalMode, Contract
from placet.model.identifiers import CallId
from placet.model.outcome import AwaitingApproval, Outcome
from placet.model.principal import Principal
from placet.model.proposal import Proposal
from placet.rules.projections.aliases import names_of, provider_name
from placet.rules.projections.roots import plain_root
from placet.rules.proposals import is_call_id

DepsT = TypeVar("DepsT")

_MARK: Final = "placet"

_WHOLE: Final = frozenset({"stop", "tool_call"})
"""How a model says, in the framework's words, that it came to its end."""


def woken(requests: DeferredToolRequests) -> DeferredToolResults:
    """The results to go on with: every call of the gate's that waits asks anew. Best once a person has answered.

    It approves nothing: a call that still waits is deferred again. Add what the program has to say of other requests.
    """
    ours = [call.tool_call_id for call in requests.approvals if _MARK in requests.metadata.get(call.tool_call_id, {})]
    return DeferredToolResults(approvals=dict.fromkeys(ours, True))


class BoundaryToolset(AbstractToolset[DepsT], Generic[DepsT]):
    """The tools of the gate that the run's principal may see. Give the agent `DeferredToolRequests` as an output type:
    without it the framework ends a run that waits with an error, after its other calls have run.

    A tool whose every call is asked about is listed as `unapproved`; any other one as `function`, which the gate may
    defer all the same. `metadata["placet"]` of a definition says risk, effect class and how it is approved.

    A response that does not say, in its `finish_reason`, that it came to its end is taken for cut off, and none of its
    calls runs.

    Args:
        principal: who acts, of the run's `deps`; from authentication.
        run: the conversation; its `conversation_id` unless it is named here. Call ids are the model's own and are
            unique within it.
    """

    def __init__(
        self,
        gate: Gate,
        *,
        principal: Callable[[DepsT], Principal],
        run: Callable[[RunContext[DepsT]], str] | None = None,
        id: str = "placet",
    ) -> None:
        self._gate = gate
        self._principal = principal
        self._run = run or _conversation
        self._id = id
        self._names = names_of(gate.contracts)

    @property
    def id(self) -> str:
        return self._id

    async def get_tools(self, ctx: RunContext[DepsT]) -> dict[str, ToolsetTool[DepsT]]:
        """What the principal of this run may see, under names that every provider takes.

        Raises:
            MisuseError: the run is traced with arguments and results; the model has not been asked.
        """
        _refuse_traces(ctx)
        listed = (self._listed(contract) for contract in self._gate.tools_for(self._principal(ctx.deps)))
        return {tool.tool_def.name: tool for tool in listed if tool is not None}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[DepsT], tool: ToolsetTool[DepsT]
    ) -> Any:
        """What the gate says of the call, as plain data for the model.

        Raises:
            ApprovalRequired: a person is asked and has not answered; nothing ran.
            MisuseError: the run is traced with arguments and results; nothing ran.
        """
        outcome = await self._submitted(name, tool_args, ctx)
        if isinstance(outcome, AwaitingApproval):
            raise _deferral(outcome)
        return outcome.as_data()

    # ------------------------------------------------------------ inside

    def _listed(self, contract: Contract) -> ToolsetTool[DepsT] | None:
        schema = plain_root(contract)
        if schema is None:
            return None
        is_always = contract.approval is ApprovalMode.ALWAYS
        name = provider_name(contract.name)

        async def asked(ctx: RunContext[DepsT], /, **arguments: Any) -> None:
            await self._asked(name, arguments, ctx)

        facts = {
            "risk": contract.risk.value,
            "effect_class": contract.effect_class.value,
            "approval": contract.approval.value,
        }
        definition = ToolDefinition(
            name=name,
            description=contract.description,
            parameters_json_schema=schema,
            sequential=contract.effect_class.is_write,
            kind="unapproved" if is_always else "function",
            metadata={_MARK: facts},
        )
        return ToolsetTool(
            toolset=self,
            tool_def=definition,
            max_retries=0,
            args_validator=_Unread(),
            args_validator_func=asked if is_always else None,
        )

    async def _asked(self, name: str, arguments: dict[str, Any], ctx: RunContext[DepsT]) -> None:
        """Ask the person before the framework defers, so that what is deferred is a question; refuse what is none.

        Raises:
            ApprovalRequired: the question is asked, and named; or nobody has to be asked any more, and it names none.
            ToolFailed: the gate refused the call; that is on record, and the model is told.
            MisuseError: as `call_tool`.
        """
        if ctx.tool_call_approved:  # woken: `call_tool` asks
            return
        _refuse_traces(ctx)
        proposal = self._proposal(name, arguments, ctx)
        principal, run = self._principal(ctx.deps), self._run(ctx)
        asked = await self._gate.ask(proposal, principal=principal, run=run)
        if isinstance(asked, AwaitingApproval):
            raise _deferral(asked)
        if asked is NotAsked.READY:
            raise _deferral(None)
        outcome = await self._submitted(name, arguments, ctx)
        if isinstance(outcome, AwaitingApproval):  # what kept the question from being asked is over
            raise _deferral(outcome)
        if outcome.is_success or outcome.may_have_acted:  # approved in between: the record answers once it is woken
            raise _deferral(None)
        raise ToolFailed(json.dumps(outcome.as_data()))

    async def _submitted(self, name: str, arguments: dict[str, Any], ctx: RunContext[DepsT]) -> Outcome:
        _refuse_traces(ctx)
        return await self._gate.submit_listed(
            self._proposal(name, arguments, ctx), principal=self._principal(ctx.deps), run=self._run(ctx)
        )

    def _proposal(self, name: str, arguments: dict[str, Any], ctx: RunContext[DepsT]) -> Proposal:
        """The call as the model wrote it. What the framework made of its arguments counts only where no response of the
        conversation has the call, as in calls that code makes."""
        response, calls = _written(ctx)
        return Proposal(
            call_id=_call_id(ctx.tool_call_id),
            tool=self._names.get(name, name),
            arguments=_text(calls) if calls else arguments,
            is_truncated=response is not None and response.finish_reason not in _WHOLE,
        )


class _Unread:
    """Takes whatever text there is for arguments: the gate reads it, and says what is wrong with it."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:
        try:
            read = json.loads(input)
        except (ValueError, RecursionError):
            return {}
        return self.validate_python(read)

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:
        return dict(input) if isinstance(input, Mapping) else {}

    def validate_strings(self, input: Any, **_: Any) -> dict[str, Any]:
        return self.validate_python(input)


def _written(ctx: RunContext[Any]) -> tuple[ModelResponse | None, list[ToolCallPart]]:
    """The latest response of the conversation with a call of this id, and its calls of this id."""
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse):
            calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
            named = [call for call in calls if call.tool_call_id == ctx.tool_call_id]
            if named:
                return message, named
    return None, []


def _text(calls: list[ToolCallPart]) -> object:
    """The arguments as the model's provider handed them on. Of two calls with one id nobody knows which is meant."""
    if len(calls) != 1:
        return None
    given = calls[0].args
    return {} if given is None or (isinstance(given, str) and not given.strip(" \t\r\n")) else given


def _deferral(waiting: AwaitingApproval | None) -> ApprovalRequired:
    return ApprovalRequired(metadata={_MARK: {"approval_id": None if waiting is None else str(waiting.approval_id)}})


def _conversation(ctx: RunContext[Any]) -> str:
    return ctx.conversation_id or ""


def _call_id(given: str | None) -> CallId:
    if given is not None and is_call_id(given):
        return CallId(given)
    return CallId(f"call-{sha256(str(given).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}")


def _refuse_traces(ctx: RunContext[Any]) -> None:
    if ctx.trace_include_content and not isinstance(ctx.tracer, NoOpTracer):
        raise MisuseError(
            "The traces of this run would hold arguments and results. "
            "Instrument the agent with InstrumentationSettings(include_content=False)."
        )
