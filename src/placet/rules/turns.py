"""One turn of a model, as its provider's SDK hands it over, to proposals; and their outcomes back to messages.

    response ── openai_turn | openai_responses_turn | anthropic_turn ── Turn.proposals ── gate ── Turn.answers

Call ids are made here, of turn and place. The provider's id is only a label to answer with: a label that is absent,
repeated, or used again in a later turn neither merges two calls nor revives an old one.

A provider whose names have no dots was told another name of such a tool (`rules/projections/aliases.py`): say which
tools it was told, and a call goes by the exact name from here on.

A turn counts as complete only when its provider says so in a word known here. In any other turn no call runs, also
one whose arguments look whole: the part that is missing may be the part that mattered.

Source: CASES A05, A17, B07, B08, J04.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from placet.errors import MisuseError
from placet.model.contract import UNKNOWN_TOOL_LABEL, Contract
from placet.model.identifiers import CallId
from placet.model.outcome import Outcome
from placet.model.proposal import Proposal
from placet.rules.projections.aliases import names_of

_COMPLETE_CHAT = frozenset({"tool_calls", "stop"})
"""`stop` is what a forced tool choice ends with."""
_COMPLETE_RESPONSES = "completed"
_COMPLETE_ANTHROPIC = "tool_use"
_ENDINGS = ("finish_reason", "stop_reason", "done_reason", "stopReason", "status")
"""Where providers say how an answer ended, as frameworks hand it on."""

_COMPLETE_ANYWHERE = frozenset({"tool_calls", "stop", "STOP", "tool_use", "end_turn", "completed"})
_RUN_BY_PROVIDER = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
_NO_ARGUMENTS = "{}"
_OUTCOMES: tuple[type[Any], ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The calls a model asked for in one answer.

    Attributes:
        proposals: one per call, in the order proposed; untrusted. Give them to `submit_all`.
        is_truncated: the model did not come to its end, so every proposal will be refused.
    """

    proposals: tuple[Proposal, ...]
    is_truncated: bool
    _labels: tuple[str, ...] = field(repr=False)
    _render: Callable[[Iterable[tuple[str, Outcome]]], list[dict[str, Any]]] = field(repr=False)

    def answers(self, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
        """The messages that answer every call of this turn, in the provider's form; append them to the conversation.

        Raises:
            MisuseError: these are not outcomes of such proposals, in their order. Call ids are unique within a run, so
                outcomes of another run cannot always be told from this one's.
        """
        is_listed = type(outcomes) in (list, tuple) and len(outcomes) == len(self.proposals)
        if not is_listed or not all(map(_answers, outcomes, self.proposals)):
            raise MisuseError("A turn is answered with the outcomes of all its proposals, in their order.")
        return self._render(zip(self._labels, outcomes, strict=True)) if outcomes else []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One call as the provider wrote it; every member untrusted."""

    label: object
    tool: object
    arguments: object


def is_whole(said: Mapping[str, object]) -> bool:
    """Whether an answer whose protocol is not known came to its end: its provider says so in words known here.

    Args:
        said: what was handed on of the provider's answer, such as LangChain's `response_metadata`. One that says
            nothing of its end may have been cut off anywhere.
    """
    words = [said[name] for name in _ENDINGS if said.get(name) is not None]
    is_said = bool(words) and all(type(word) is str and word in _COMPLETE_ANYWHERE for word in words)
    return is_said and not any(said.get(name) for name in ("error", "incomplete_details"))


def openai_turn(response: object, *, turn: int, tools: Sequence[Contract] = ()) -> Turn:
    """Read a Chat Completions response: `client.chat.completions.create(...).model_dump()`, or its decoded JSON.

    Args:
        turn: the number of this answer within its run, counted from zero by the caller. The same answer read again
            under the same number names the same calls, so that repeating a turn after a crash acts once.
        tools: the contracts that the model was told of; those whose names have dots are found by them.

    Raises:
        MisuseError: it is no such response, or one with several choices, of which only one may run; or the tools
            are no list of contracts that a provider can tell apart.
    """
    choices = _list(_object(response, "a Chat Completions response"), "choices")
    if len(choices) != 1:
        raise MisuseError("A response with exactly one choice makes a turn; several choices are alternatives.")
    choice = _object(choices[0], "a choice")
    message = _object(choice.get("message"), "a message")
    if message.get("function_call") is not None:
        raise MisuseError("function_call is the form before tools; ask the model with tools=.")
    asked = [_chat_call(_object(call, "a tool call")) for call in _list(message, "tool_calls")]
    is_truncated = _word(choice, "finish_reason") not in _COMPLETE_CHAT
    return _turn(asked, turn, tools, is_truncated=bool(asked) and is_truncated, render=_chat_answers)


def openai_responses_turn(response: object, *, turn: int, tools: Sequence[Contract] = ()) -> Turn:
    """Read a Responses API response: `client.responses.create(...).model_dump()`, or its decoded JSON.

    Calls that the provider runs itself, such as its web search, are not proposals. A call of any other kind than a
    function is proposed under the name of its kind, so that it is refused and answered instead of overlooked.

    Raises:
        MisuseError: it is no such response.
    """
    document = _object(response, "a Responses response")
    items = [_object(item, "an output item") for item in _list(document, "output")]
    calls = [item for item in items if _is_our_call(item)]
    is_spoilt = any(document.get(name) is not None for name in ("error", "incomplete_details"))
    is_truncated = (
        is_spoilt
        or _word(document, "status") != _COMPLETE_RESPONSES
        or any(item.get("status") is not None and _word(item, "status") != _COMPLETE_RESPONSES for item in calls)
    )
    asked = [_responses_call(item) for item in calls]
    return _turn(asked, turn, tools, is_truncated=bool(asked) and is_truncated, render=_responses_answers)


def anthropic_turn(message: object, *, turn: int, tools: Sequence[Contract] = ()) -> Turn:
    """Read a Messages response: `client.messages.create(...).model_dump()`, or its decoded JSON.

    Raises:
        MisuseError: it is no such response.
    """
    document = _object(message, "a Messages response")
    blocks = [_object(block, "a content block") for block in _list(document, "content")]
    asked = [
        _Asked(label=block.get("id"), tool=block.get("name"), arguments=block.get("input", {}))
        for block in blocks
        if _word(block, "type") == "tool_use"
    ]
    is_truncated = _word(document, "stop_reason") != _COMPLETE_ANTHROPIC
    return _turn(asked, turn, tools, is_truncated=bool(asked) and is_truncated, render=_anthropic_answers)


def _turn(
    asked: list[_Asked],
    turn: int,
    tools: Sequence[Contract],
    *,
    is_truncated: bool,
    render: Callable[[Iterable[tuple[str, Outcome]]], list[dict[str, Any]]],
) -> Turn:
    if type(turn) is not int or turn < 0:
        raise MisuseError("turn= is the number of this answer within its run, counted from zero.")
    names = names_of(tools)
    proposals: list[Proposal] = []
    labels: list[str] = []
    for index, call in enumerate(asked):
        call_id = CallId(f"t{turn}.{index}")
        named = names.get(call.tool, call.tool) if type(call.tool) is str else call.tool
        tool = cast(str, named)  # as untrusted as the arguments; the gate checks both
        proposals.append(Proposal(call_id=call_id, tool=tool, arguments=call.arguments, is_truncated=is_truncated))
        labels.append(call.label if type(call.label) is str else call_id)
    return Turn(proposals=tuple(proposals), is_truncated=is_truncated, _labels=tuple(labels), _render=render)


def _answers(outcome: Any, proposal: Proposal) -> bool:
    """Whether this may be the proposal's outcome, by call and tool; a tool that does not exist bears no name."""
    is_of_call = any(type(outcome) is kind for kind in _OUTCOMES) and outcome.call_id == proposal.call_id
    return is_of_call and (
        outcome.tool == UNKNOWN_TOOL_LABEL or (type(proposal.tool) is str and outcome.tool == proposal.tool)
    )


# ---------------------------------------------------------------- one call


def _chat_call(call: dict[str, Any]) -> _Asked:
    if call.get("type") is not None and _word(call, "type") != "function":
        return _Asked(label=call.get("id"), tool=call["type"], arguments=None)
    function = _object(call.get("function"), "a function call")
    return _Asked(label=call.get("id"), tool=function.get("name"), arguments=_text(function))


def _is_our_call(item: dict[str, Any]) -> bool:
    kind = _word(item, "type")
    return kind.endswith("_call") and kind not in _RUN_BY_PROVIDER


def _responses_call(item: dict[str, Any]) -> _Asked:
    if item["type"] != "function_call":
        return _Asked(label=item.get("call_id"), tool=item["type"], arguments=None)
    name, namespace = item.get("name"), item.get("namespace")
    is_qualified = type(name) is str and type(namespace) is str
    return _Asked(
        label=item.get("call_id"), tool=f"{namespace}.{name}" if is_qualified else name, arguments=_text(item)
    )


def _text(members: dict[str, Any]) -> object:
    """Argument text. Absent, empty or blank is what providers write for a call without arguments; nothing else is."""
    text = members.get("arguments", "")
    return _NO_ARGUMENTS if type(text) is str and not text.strip(" \t\r\n") else text


# ---------------------------------------------------------------- answers


def _chat_answers(pairs: Iterable[tuple[str, Outcome]]) -> list[dict[str, Any]]:
    return [outcome.for_openai() | {"tool_call_id": label} for label, outcome in pairs]


def _responses_answers(pairs: Iterable[tuple[str, Outcome]]) -> list[dict[str, Any]]:
    return [
        {"type": "function_call_output", "call_id": label, "output": outcome.for_openai()["content"]}
        for label, outcome in pairs
    ]


def _anthropic_answers(pairs: Iterable[tuple[str, Outcome]]) -> list[dict[str, Any]]:
    """One user message holds every result; a provider refuses a turn whose calls are answered in pieces."""
    return [{"role": "user", "content": [outcome.for_anthropic() | {"tool_use_id": label} for label, outcome in pairs]}]


# ---------------------------------------------------------------- foreign members


def _object(value: object, what: str) -> dict[str, Any]:
    if type(value) is dict and all(type(key) is str for key in value):
        return value
    raise MisuseError(f"This is not {what}: give its decoded JSON, or what model_dump() makes of it.")


def _word(members: dict[str, Any], name: str) -> str:
    """A member that is exact text; empty for everything else."""
    value = members.get(name)
    return value if type(value) is str else ""


def _list(members: dict[str, Any], name: str) -> list[Any]:
    value = members.get(name)
    if value is None:
        return []
    if type(value) is list:
        return value
    raise MisuseError(f"The member {name!r} of a model's response is a list.")
