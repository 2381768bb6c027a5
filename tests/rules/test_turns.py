"""What a provider's response becomes: proposals in order, or a turn whose calls may not run."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import MisuseError
from placet.model.contract import UNKNOWN_TOOL_LABEL
from placet.model.outcome import Succeeded
from placet.rules.contracts import tool_from_schema
from placet.rules.projections.aliases import provider_name
from placet.rules.turns import anthropic_turn, is_whole, openai_responses_turn, openai_turn


def chat(*calls: object, finish_reason: object = "tool_calls") -> dict[str, Any]:
    message = {"role": "assistant", "content": None, "tool_calls": list(calls), "function_call": None}
    return {"id": "chatcmpl-1", "choices": [{"index": 0, "finish_reason": finish_reason, "message": message}]}


def chat_call(label: object = "call_1", name: object = "look", **function: object) -> dict[str, Any]:
    return {"id": label, "type": "function", "function": {"name": name, "arguments": "{}"} | function}


def responses(*items: object, status: object = "completed") -> dict[str, Any]:
    return {"id": "resp_1", "status": status, "output": list(items)}


def responses_call(label: object = "call_1", **members: object) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": label, "name": "look", "arguments": "{}"} | members


def messages(*blocks: object, stop_reason: object = "tool_use") -> dict[str, Any]:
    return {"id": "msg_1", "role": "assistant", "stop_reason": stop_reason, "content": list(blocks)}


def tool_use(label: object = "toolu_1", **members: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": label, "name": "look", "input": {}} | members


READERS = [
    pytest.param(openai_turn, chat, chat_call, id="openai"),
    pytest.param(openai_responses_turn, responses, responses_call, id="openai_responses"),
    pytest.param(anthropic_turn, messages, tool_use, id="anthropic"),
]


@pytest.mark.case("B08")
@pytest.mark.parametrize(("read", "response", "call"), READERS)
def test_calls_keep_their_order_and_each_gets_an_id_of_its_own(read: Any, response: Any, call: Any) -> None:
    turn = read(response(call("a"), call("b"), call("c")), turn=2)

    assert [proposal.call_id for proposal in turn.proposals] == ["t2.0", "t2.1", "t2.2"]
    assert [proposal.tool for proposal in turn.proposals] == ["look"] * 3
    assert turn.is_truncated is False


@pytest.mark.case("B07")
@pytest.mark.parametrize("label", ["", "null", "look", None, 7, "call_1"])
@pytest.mark.parametrize(("read", "response", "call"), READERS)
def test_the_providers_id_names_no_call(read: Any, response: Any, call: Any, label: object) -> None:
    first = read(response(call(label), call(label)), turn=0).proposals
    later = read(response(call(label)), turn=1).proposals

    assert len({proposal.call_id for proposal in (*first, *later)}) == 3


@pytest.mark.parametrize(("read", "response", "call"), READERS)
def test_the_same_answer_under_the_same_number_is_the_same_turn(read: Any, response: Any, call: Any) -> None:
    assert read(response(call()), turn=4) == read(response(call()), turn=4)
    assert read(response(call()), turn=4) != read(response(call()), turn=5)


@pytest.mark.parametrize(("read", "response", "call"), READERS[:2])
def test_a_turn_is_a_value_that_can_be_remembered_where_its_arguments_are_text(
    read: Any, response: Any, call: Any
) -> None:
    assert {read(response(call()), turn=4), read(response(call()), turn=4)} == {read(response(call()), turn=4)}


@pytest.mark.case("A17")
@pytest.mark.parametrize("reason", ["length", "content_filter", "max_tokens", "incomplete", "", None, "a new word", 7])
@pytest.mark.parametrize(("read", "response", "call"), READERS)
def test_any_end_but_a_known_complete_one_marks_every_call(read: Any, response: Any, call: Any, reason: object) -> None:
    ended = {chat: "finish_reason", responses: "status", messages: "stop_reason"}[response]

    turn = read(response(call("a"), call("b"), **{ended: reason}), turn=0)

    assert turn.is_truncated
    assert [proposal.is_truncated for proposal in turn.proposals] == [True, True]


@pytest.mark.case("A17")
def test_one_incomplete_item_spoils_a_completed_response() -> None:
    turn = openai_responses_turn(responses(responses_call(), responses_call(status="incomplete")), turn=0)

    assert [proposal.is_truncated for proposal in turn.proposals] == [True, True]


@pytest.mark.case("A17")
@pytest.mark.parametrize("member", ["error", "incomplete_details"])
def test_a_completed_response_that_also_says_what_went_wrong_is_not_believed(member: str) -> None:
    response = responses(responses_call()) | {member: {"reason": "max_output_tokens"}}

    assert openai_responses_turn(response, turn=0).is_truncated
    assert openai_responses_turn(response | {member: None}, turn=0).is_truncated is False


def test_a_forced_tool_choice_ends_with_stop_and_is_complete() -> None:
    assert openai_turn(chat(chat_call(), finish_reason="stop"), turn=0).is_truncated is False


@pytest.mark.parametrize(("read", "response", "call"), READERS)
def test_a_turn_without_calls_has_no_proposals_and_needs_no_answer(read: Any, response: Any, call: Any) -> None:
    turn = read(response(), turn=0)

    assert (turn.proposals, turn.is_truncated, turn.answers([])) == ((), False, [])


@pytest.mark.case("A05")
@pytest.mark.parametrize("text", ["", "  ", "\r\n\t "])
def test_blank_argument_text_is_what_providers_write_for_none(text: str) -> None:
    chat_turn = openai_turn(chat(chat_call(arguments=text)), turn=0)
    responses_turn = openai_responses_turn(responses(responses_call(arguments=text)), turn=0)

    assert [turn.proposals[0].arguments for turn in (chat_turn, responses_turn)] == ["{}", "{}"]


@pytest.mark.case("A05")
def test_absent_arguments_are_none_too() -> None:
    call = chat_call()
    del call["function"]["arguments"]
    item = responses_call()
    del item["arguments"]
    block = tool_use()
    del block["input"]

    assert openai_turn(chat(call), turn=0).proposals[0].arguments == "{}"
    assert openai_responses_turn(responses(item), turn=0).proposals[0].arguments == "{}"
    assert anthropic_turn(messages(block), turn=0).proposals[0].arguments == {}


@pytest.mark.case("A05")
@pytest.mark.parametrize("value", [None, "null", "{", "X", "\u00a0", [], 0, False])
def test_nothing_else_becomes_an_empty_object(value: object) -> None:
    assert openai_turn(chat(chat_call(arguments=value)), turn=0).proposals[0].arguments == value
    assert openai_responses_turn(responses(responses_call(arguments=value)), turn=0).proposals[0].arguments == value
    assert anthropic_turn(messages(tool_use(input=value)), turn=0).proposals[0].arguments == value


def test_a_call_that_is_no_function_is_proposed_under_its_kind_without_arguments() -> None:
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "look", "input": "{}"}}
    shell = {"type": "local_shell_call", "call_id": "call_2", "action": {"command": ["rm", "-rf", "/"]}}

    (first,) = openai_turn(chat(custom), turn=0).proposals
    (second,) = openai_responses_turn(responses(shell), turn=0).proposals

    assert (first.tool, first.arguments) == ("custom", None)
    assert (second.tool, second.arguments) == ("local_shell_call", None)


RUN_BY_PROVIDER = ("web_search", "file_search", "code_interpreter", "image_generation", "mcp")


@pytest.mark.parametrize("kind", [*(f"{name}_call" for name in RUN_BY_PROVIDER), "reasoning", "message", 7, None])
def test_what_the_provider_runs_or_says_is_no_proposal(kind: object) -> None:
    assert openai_responses_turn(responses({"type": kind, "status": "incomplete"}), turn=0).proposals == ()
    assert anthropic_turn(messages({"type": kind}), turn=0).proposals == ()


def test_a_namespace_is_part_of_the_name() -> None:
    (proposal,) = openai_responses_turn(responses(responses_call(namespace="crm")), turn=0).proposals

    assert proposal.tool == "crm.look"


@pytest.mark.parametrize("name", [None, 7, ["look"]])
def test_a_name_that_is_no_text_is_never_made_into_one_by_its_namespace(name: object) -> None:
    (proposal,) = openai_responses_turn(responses(responses_call(name=name, namespace="crm")), turn=0).proposals

    assert proposal.tool is name


@pytest.mark.parametrize(
    ("read", "response"),
    [
        (openai_turn, {"choices": [{"message": {}}]}),
        (openai_turn, {"choices": [{"message": {"tool_calls": None}}]}),
        (openai_responses_turn, {}),
        (anthropic_turn, {"content": None}),
    ],
)
def test_a_list_that_is_absent_holds_no_calls(read: Any, response: dict[str, Any]) -> None:
    assert (read(response, turn=0).proposals, read(response, turn=0).is_truncated) == ((), False)


def test_several_choices_are_alternatives_and_make_no_turn() -> None:
    response = chat(chat_call())
    response["choices"] *= 2

    with pytest.raises(MisuseError, match="alternatives"):
        openai_turn(response, turn=0)


def test_the_form_before_tools_is_refused_and_not_overlooked() -> None:
    response = chat()
    response["choices"][0]["message"]["function_call"] = {"name": "look", "arguments": "{}"}

    with pytest.raises(MisuseError, match="function_call"):
        openai_turn(response, turn=0)


class Exploding(dict[str, object]):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("secret-marker")

    def __iter__(self) -> Any:
        raise RuntimeError("secret-marker")


class Unhashable(str):
    def __hash__(self) -> int:
        raise RuntimeError("secret-marker")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("secret-marker")


@pytest.mark.parametrize("index", range(9))
@pytest.mark.parametrize("read", [openai_turn, openai_responses_turn, anthropic_turn])
def test_what_is_no_response_is_misuse_and_runs_no_foreign_method(read: Any, index: int) -> None:
    exploding = Exploding()
    inside: dict[str, object] = {name: [exploding] for name in ("choices", "output", "content")}
    no_list: dict[str, object] = dict.fromkeys(inside, 7)
    response: list[object] = [None, 7, "x", [], exploding, {1: 2}, [exploding], inside, no_list]

    with pytest.raises(MisuseError) as caught:
        read(response[index], turn=0)

    assert "secret-marker" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


@pytest.mark.parametrize(("read", "response", "call"), READERS)
def test_hostile_words_inside_are_compared_by_nobody(read: Any, response: Any, call: Any) -> None:
    ended = {chat: "finish_reason", responses: "status", messages: "stop_reason"}[response]

    turn = read(response(call(Unhashable("x"), name=Unhashable("look")), **{ended: Unhashable("stop")}), turn=0)

    assert [proposal.is_truncated for proposal in turn.proposals] == [True]


@pytest.mark.parametrize("number", [-1, True, 1.0, "1", None])
def test_a_turn_has_a_number(number: Any) -> None:
    with pytest.raises(MisuseError, match="turn="):
        openai_turn(chat(), turn=number)


# ---------------------------------------------------------------- answers


def done(call_id: str, *, tool: str = "look") -> Succeeded:
    return Succeeded(call_id=call_id, tool=tool, code="succeeded", message="", result={"n": call_id})


def test_each_call_is_answered_under_its_label_in_the_providers_form() -> None:
    outcomes = [done("t3.0"), done("t3.1")]
    first, second = (outcome.for_openai()["content"] for outcome in outcomes)

    assert openai_turn(chat(chat_call("a"), chat_call(7)), turn=3).answers(outcomes) == [
        {"role": "tool", "tool_call_id": "a", "content": first},
        {"role": "tool", "tool_call_id": "t3.1", "content": second},
    ]
    answers = openai_responses_turn(responses(responses_call("a"), responses_call(None)), turn=3).answers(outcomes)
    assert answers == [
        {"type": "function_call_output", "call_id": "a", "output": first},
        {"type": "function_call_output", "call_id": "t3.1", "output": second},
    ]
    blocks = [
        {"type": "tool_result", "tool_use_id": label, "content": content, "is_error": False}
        for label, content in (("a", first), ("a", second))
    ]
    assert anthropic_turn(messages(tool_use("a"), tool_use("a")), turn=3).answers(tuple(outcomes)) == [
        {"role": "user", "content": blocks}
    ]


def test_a_call_of_another_kind_is_answered_under_its_label_too() -> None:
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "look", "input": "{}"}}
    shell = {"type": "local_shell_call", "call_id": "call_2", "action": {}}
    kinds = [
        (openai_turn(chat(custom), turn=0), "custom", "tool_call_id", "call_1"),
        (openai_responses_turn(responses(shell), turn=0), "local_shell_call", "call_id", "call_2"),
    ]

    for turn, tool, name, label in kinds:
        assert [answer[name] for answer in turn.answers([done("t0.0", tool=tool)])] == [label]


def test_only_outcomes_of_these_proposals_in_their_order_answer_a_turn() -> None:
    turn = openai_turn(chat(chat_call(), chat_call()), turn=0)
    first, second = done("t0.0"), done("t0.1")
    child = type("Child", (Succeeded,), {})(call_id="t0.0", tool="look", code="succeeded", message="", result={})
    nameless = openai_turn(chat(chat_call(name=Unhashable("look"))), turn=0)

    assert len(turn.answers([first, second])) == 2
    assert len(turn.answers([done("t0.0", tool=UNKNOWN_TOOL_LABEL), second])) == 2
    others: list[Any] = [
        [first],
        [second, first],
        [first, second, second],
        [],
        [first, done("t1.1")],
        [first, done("t0.1", tool="write")],
        [child, second],
        iter([first, second]),
        {0: first, 1: second}.values(),
    ]
    for wrong in others:
        with pytest.raises(MisuseError, match="in their order"):
            turn.answers(wrong)
    with pytest.raises(MisuseError, match="in their order"):
        nameless.answers([first])


def test_a_turn_shows_its_calls_and_not_how_it_answers() -> None:
    shown = repr(openai_turn(chat(chat_call("label-of-the-provider")), turn=0))

    assert "label-of-the-provider" not in shown
    assert "_chat_answers" not in shown


@pytest.mark.parametrize("reason", ["length", None, "tool_calls"])
@pytest.mark.parametrize(("read", "response", "call"), READERS)
def test_a_turn_without_calls_has_nothing_that_could_be_cut_off(
    read: Any, response: Any, call: Any, reason: object
) -> None:
    ended = {chat: "finish_reason", responses: "status", messages: "stop_reason"}[response]

    assert read(response(**{ended: reason}), turn=0).is_truncated is False


def test_items_that_say_they_are_completed_are_believed() -> None:
    assert openai_responses_turn(responses(responses_call(status="completed")), turn=0).is_truncated is False


@pytest.mark.parametrize(
    ("read", "response", "what"),
    [
        (openai_turn, [], "a Chat Completions response"),
        (openai_turn, {"choices": [7]}, "a choice"),
        (openai_turn, {"choices": [{}]}, "a message"),
        (openai_turn, chat(7), "a tool call"),
        (openai_turn, chat({"function": 7}), "a function call"),
        (openai_responses_turn, [], "a Responses response"),
        (openai_responses_turn, responses(7), "an output item"),
        (anthropic_turn, [], "a Messages response"),
        (anthropic_turn, messages(7), "a content block"),
    ],
)
def test_what_is_not_as_it_should_be_is_named(read: Any, response: object, what: str) -> None:
    with pytest.raises(MisuseError, match=f"This is not {what}:"):
        read(response, turn=0)


@pytest.mark.case("B05")
@pytest.mark.parametrize(
    ("read", "response", "call"),
    [
        pytest.param(openai_turn, chat, chat_call, id="openai"),
        pytest.param(openai_responses_turn, responses, responses_call, id="openai_responses"),
        pytest.param(anthropic_turn, messages, tool_use, id="anthropic"),
    ],
)
def test_a_tool_that_goes_by_another_name_there_is_called_by_its_own(read: Any, response: Any, call: Any) -> None:
    scale = tool_from_schema(_scaled, name="ops.scale", arguments={"type": "object"}, effect="read")
    alias = provider_name("ops.scale")

    turn = read(response(call(name=alias), call(name="look"), call(name=alias + "x")), turn=0, tools=[scale.contract])

    assert [proposal.tool for proposal in turn.proposals] == ["ops.scale", "look", alias + "x"]
    with pytest.raises(MisuseError):
        read(response(call()), turn=0, tools=["ops.scale"])


async def _scaled(arguments: dict[str, Any]) -> None: ...


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ({"finish_reason": "tool_calls"}, True),
        ({"stop_reason": "tool_use", "model": "m"}, True),
        ({"done_reason": "stop", "done": True}, True),
        ({"stopReason": "end_turn"}, True),
        ({"status": "completed", "incomplete_details": None}, True),
        ({}, False),
        ({"finish_reason": None}, False),
        ({"finish_reason": "length"}, False),
        ({"finish_reason": 7}, False),
        ({"finish_reason": "stop", "stop_reason": "max_tokens"}, False),
        ({"status": "completed", "incomplete_details": {"reason": "max_output_tokens"}}, False),
        ({"status": "completed", "error": {"code": "server_error"}}, False),
    ],
    ids=str,
)
def test_an_answer_of_any_provider_is_whole_only_if_it_says_so(said: dict[str, object], whole: bool) -> None:
    assert is_whole(said) is whole
