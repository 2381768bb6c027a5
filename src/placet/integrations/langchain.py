"""LangChain: a middleware for `create_agent` through which every call of the model's goes to the gate.

    boundary = BoundaryMiddleware(gate, principal=lambda config: principal)
    agent = create_agent(model, middleware=[boundary], checkpointer=checkpointer)
    config = {"configurable": {"thread_id": "conversation-1"}}
    result = await agent.ainvoke({"messages": [HumanMessage("pay it back")]}, config, durability="sync")
    # `__interrupt__` in the result names the questions; once a person has answered, in whatever process:
    result = await agent.ainvoke(Command(resume=True), config, durability="sync")

The calls of one message are answered by a node of their own after the model, before any tool could be run: nothing that
wraps tool calls can repeat, change or swallow them. What the agent is resumed with is not looked at.

Needs the extra `langchain`. A graph of your own takes `placet.integrations.langgraph.Boundary` instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse, hook_config
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.types import interrupt

from placet.engine.gate import Gate
from placet.errors import MisuseError
from placet.integrations.langgraph.boundary import Boundary
from placet.model.contract import Contract
from placet.model.principal import Principal
from placet.rules.projections.aliases import provider_name
from placet.rules.projections.roots import plain_root

_WAITING = "placet_waiting"


class BoundaryMiddleware(AgentMiddleware[Any, Any, Any]):
    """The gate, for an agent of `create_agent`. It brings the gate's tools, and the model is shown those that the
    principal may see. Every call of a message is asked of the gate, also of tools that are not the gate's, which it
    refuses: give the agent no others, leave out `HumanInTheLoopMiddleware`, and put this one last in the list.

    A message that does not say, in the words of its provider, that it came to its end is taken for cut off, and none of
    its calls runs. Use the agent asynchronously, with a checkpointer.

    Args:
        principal: who acts, of the invocation's config; from authentication, never from the state.
    """

    def __init__(self, gate: Gate, *, principal: Callable[[RunnableConfig], Principal]) -> None:
        super().__init__()
        self._gate = gate
        self._principal = principal
        self._boundary = Boundary(gate, principal=principal)
        hints = [(hint, contract.name) for contract in gate.contracts if (hint := _hint(contract)) is not None]
        self.tools = [hint for hint, _ in hints]
        self._exact = {hint.name: name for hint, name in hints}

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Show the model what the principal may see."""
        principal = self._principal(get_config())
        return await handler(
            request.override(tools=[tool for tool in request.tools if self._is_shown(tool, principal)])
        )

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Answer every call of the model's last message; pause while a person is asked about one of them.

        Resumed, it asks about all of them again: what acted is replayed, and what only reads is read again.

        Raises:
            MisuseError: the thread has no name, or another middleware has put something between the model's calls and
                their answers; nothing ran.
        """
        config = get_config()
        _refuse_words_between(state["messages"])
        while True:
            update = await self._boundary.call(state, config)
            answers = update.get("messages")
            if not update[_WAITING]:
                return {"messages": answers, "jump_to": "model"} if answers else None
            interrupt({"approvals": update[_WAITING]})

    def wrap_model_call(self, request: Any, handler: Any) -> NoReturn:
        """
        Raises:
            MisuseError: always; the gate is asked asynchronously. Nothing ran.
        """
        raise MisuseError("Use the agent asynchronously: ainvoke, or astream.")

    # ------------------------------------------------------------ inside

    def _is_shown(self, tool: Any, principal: Principal) -> bool:
        name = self._exact.get(tool.name) if isinstance(tool, BaseTool) else None
        return name is None or self._gate.tool_for(name, principal) is not None


def _refuse_words_between(messages: list[AnyMessage]) -> None:
    """Calls of the model's are answered right after it, or its provider takes the conversation no more."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            is_between = message is not messages[-1] and not isinstance(messages[-1], ToolMessage)
            if is_between and (message.tool_calls or message.invalid_tool_calls):
                raise MisuseError(
                    "Another middleware has put a message between the model's calls and their answers. "
                    "Put BoundaryMiddleware last in the list: then it hears of the model's answer first."
                )
            return


class _Hint(BaseTool):
    """What the model is told of a tool. Whatever calls it goes around the boundary."""

    def _run(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise MisuseError("This tool is called through the gate: leave its calls to BoundaryMiddleware.")


def _hint(contract: Contract) -> _Hint | None:
    schema = plain_root(contract)
    if schema is None:
        return None
    return _Hint(name=provider_name(contract.name), description=contract.description, args_schema=schema)
