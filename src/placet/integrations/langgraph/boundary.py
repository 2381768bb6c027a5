"""Two nodes for a graph of the user's own: one asks the gate for every call of the model's last message, one pauses.

    model --> boundary --(all answered)--> model
                 ^  |
                 |  +--(a person is asked)--> wait
                 +-----------(woken)-----------+

The boundary's pause is a value that it returns, and what the graph is resumed with is not looked at: the gate is asked
again. Calls that were answered stay answered; a call that is asked again acts once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Annotated, Any, Final, TypedDict, cast

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

from placet.engine.gate import Gate
from placet.errors import MisuseError
from placet.model.identifiers import CallId
from placet.model.outcome import AwaitingApproval, Outcome
from placet.model.principal import Principal
from placet.model.proposal import Proposal
from placet.rules.projections.aliases import names_of
from placet.rules.turns import is_whole

BOUNDARY: Final = "boundary"
WAIT: Final = "wait_for_answer"
_WAITING: Final = "placet_waiting"
_CALL_ID: Final = "placet_call_id"


class BoundaryState(TypedDict, total=False):
    """What the nodes need of a graph's state; extend it.

    Attributes:
        placet_waiting: the questions that people have not answered yet; ids.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    placet_waiting: list[str]


class Boundary:
    """Calls of a model's messages, through the gate. Give the model schemas alone (`placet.openai_tools`), and no
    `ToolNode`: whatever runs a tool by itself goes around the gate. A message that does not say, in the words of its
    provider, that it came to its end is taken for cut off, and none of its calls runs.

    Args:
        principal: who acts, of the invocation's config; from authentication, never from the state.

    Raises:
        MisuseError: two tools of the gate would go by one name where a provider takes no dots.
    """

    def __init__(self, gate: Gate, *, principal: Callable[[RunnableConfig], Principal]) -> None:
        self._gate = gate
        self._principal = principal
        self._names = names_of(gate.contracts)

    def add_to(self, graph: StateGraph[Any, Any, Any, Any], *, after: str, then: str) -> None:
        """Between the node that asks the model and the one that goes on once every call is answered.

        A message without calls passes through. New messages of the user's own belong after the answers: LangGraph
        drops a pause when a paused thread is given anything but a resume, and the model's calls stay unanswered.
        """
        graph.add_node(BOUNDARY, self.call)
        graph.add_node(WAIT, self.wait)
        graph.add_edge(after, BOUNDARY)
        graph.add_conditional_edges(BOUNDARY, lambda state: WAIT if state.get(_WAITING) else then, [WAIT, then])
        graph.add_edge(WAIT, BOUNDARY)

    async def call(self, state: BoundaryState, config: RunnableConfig) -> dict[str, Any]:
        """Ask the gate for every call that has no answer yet; what waits for a person has none, and is named.

        Raises:
            MisuseError: the thread has no name, or the message none: its calls could not be told from others later.
        """
        message, answered = _last_turn(state.get("messages", []))
        if message is None:
            return {_WAITING: []}
        asked = [each for each in _calls(message, self._names) if not answered & {each.call_id, each.label}]
        outcomes = await self._gate.submit_all(
            [each.proposal for each in asked], principal=self._principal(config), run=_run(config)
        )
        pairs = list(zip(asked, outcomes, strict=True))
        return {
            "messages": [
                _answer(each, outcome) for each, outcome in pairs if not isinstance(outcome, AwaitingApproval)
            ],
            _WAITING: [str(outcome.approval_id) for _, outcome in pairs if isinstance(outcome, AwaitingApproval)],
        }

    def wait(self, state: BoundaryState) -> dict[str, Any]:
        """Pause, and nothing else."""
        interrupt({"approvals": list(state.get("placet_waiting", []))})
        return {}


class _Call:
    """One call of a message. The provider's id is a label to answer with; ours is made of message and place."""

    def __init__(self, message: AIMessage, index: int, label: object, tool: object, arguments: object) -> None:
        self.call_id = CallId(f"{sha256(str(message.id).encode()).hexdigest()[:24]}.{index}")
        self.label = label if type(label) is str and label else self.call_id
        self.proposal = Proposal(
            call_id=self.call_id,
            tool=cast(str, tool),  # as untrusted as the arguments; the gate checks both
            arguments=arguments,
            is_truncated=not is_whole(message.response_metadata),
        )


def _calls(message: AIMessage, names: Mapping[str, str]) -> list[_Call]:
    """Also those that LangChain could not read: their text goes to the gate's decoder, which says what is wrong.

    A tool is found by its own name, and by the one that providers are told.
    """
    if not message.id:
        raise MisuseError("The model's message has no id: keep messages with LangGraph's add_messages.")
    texts = _texts(message)
    calls: list[_Call] = []
    for index, call in enumerate([*message.tool_calls, *message.invalid_tool_calls]):
        label, tool, arguments = call.get("id"), call.get("name"), call.get("args")
        written = texts.get(label) if type(label) is str else None
        calls.append(
            _Call(
                message,
                index,
                label,
                names.get(tool, tool) if type(tool) is str else tool,
                written if written is not None and _reads_as(written, arguments) else arguments,
            )
        )
    return calls


def _texts(message: AIMessage) -> dict[str, str]:
    """The arguments as the model wrote them, by call, where LangChain has kept the provider's own form of the calls.

    What it made of them shows no member that was written twice.
    """
    chat = message.additional_kwargs.get("tool_calls")
    blocks = message.content if isinstance(message.content, list) else []
    written = [(each.get("id"), each.get("function")) for each in _objects(chat)]
    written += [(each.get("call_id"), each) for each in _objects(blocks) if each.get("type") == "function_call"]
    found: dict[str, str] = {}
    for label, function in written:
        text = function.get("arguments") if isinstance(function, dict) else None
        if type(label) is str and type(text) is str and text:
            found[label] = text
    return found


def _objects(values: object) -> list[dict[Any, Any]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _reads_as(text: str, arguments: object) -> bool:
    """Whether the arguments are what a plain JSON reader makes of the text; else somebody has changed them since."""
    try:
        return bool(json.loads(text) == arguments)
    except (ValueError, RecursionError):
        return False


def _last_turn(messages: list[AnyMessage]) -> tuple[AIMessage | None, frozenset[str]]:
    """The model's last message, if calls of it may be open, and what was answered after it: our ids of calls, and the
    provider's of what somebody else has answered. A provider may give one id to two calls."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.additional_kwargs.get(_CALL_ID) or message.tool_call_id)
        elif isinstance(message, AIMessage):
            return message, frozenset(answered)
        else:
            break
    return None, frozenset()


def _answer(call: _Call, outcome: Outcome) -> ToolMessage:
    return ToolMessage(
        content=outcome.for_openai()["content"],
        tool_call_id=call.label,
        name=outcome.tool,
        status="success" if outcome.is_success else "error",
        additional_kwargs={_CALL_ID: call.call_id},
    )


def _run(config: RunnableConfig) -> str:
    thread = config.get("configurable", {}).get("thread_id")
    if type(thread) is not str:
        raise MisuseError("Name the thread: config={'configurable': {'thread_id': ...}}, with a checkpointer.")
    return thread
