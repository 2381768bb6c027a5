"""What a tool of an MCP server came back with, in a form of our own."""

from typing import Any

import pytest

from placet.errors import InvalidArguments
from placet.model.attempt import BrokenResult
from placet.model.contract import EffectClass
from placet.rules.contracts import tool_from_schema
from placet.rules.upstream_results import (
    CONTENT_RESULT,
    MOST_BLOCKS,
    error_words,
    is_content,
    is_error,
    is_unfinished,
    result_of,
)


async def _nothing(arguments: dict[str, Any]) -> object:
    return None


TOOL = tool_from_schema(
    _nothing, name="desk.say", arguments={"type": "object"}, result=CONTENT_RESULT, effect=EffectClass.READ,
    description="Says.",
)  # fmt: skip
TEXT = {"type": "text", "text": "a"}


@pytest.mark.parametrize(
    "block",
    [
        TEXT,
        {**TEXT, "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}},
        {"type": "image", "data": "AA==", "mimeType": "image/png"},
        {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "title": "A", "size": 3},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "t", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "file:///a", "blob": "AA=="}},
    ],
)
def test_blocks_that_the_protocol_knows_come_through_as_they_are(block: dict[str, Any]) -> None:
    value = result_of({"content": [{**block, "_meta": {"x": 1}, "icons": []}]}, schema=None)

    assert value == {"content": [block]}
    assert TOOL.check_result(value)[0] == value


@pytest.mark.parametrize(
    "content", ["x", {}, [3], [{}], [{"type": "video", "data": ""}], [{"type": ["text"]}], [TEXT, None]]
)
def test_blocks_of_no_known_kind_break_the_result(content: Any) -> None:
    assert isinstance(result_of({"content": content}, schema=None), BrokenResult)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text"},
        {"type": "text", "text": 3},
        {"type": "image", "data": "AA=="},
        {"type": "resource", "resource": {"uri": "file:///a"}},
        {"type": "resource", "resource": 3},
        {"type": "resource_link", "uri": "u", "name": "n", "size": "3"},
        {"type": "text", "text": "a", "annotations": {"audience": ["everybody"]}},
    ],
)
def test_blocks_that_break_their_own_form_break_the_contract(block: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments):
        TOOL.check_result(result_of({"content": [block]}, schema=None))


def test_there_are_only_so_many_blocks() -> None:
    TOOL.check_result(result_of({"content": [TEXT] * MOST_BLOCKS}, schema=None))
    with pytest.raises(InvalidArguments):
        TOOL.check_result(result_of({"content": [TEXT] * (MOST_BLOCKS + 1)}, schema=None))


def test_with_a_pinned_schema_the_structured_part_is_the_result() -> None:
    schema = {"type": "object"}
    assert result_of({"content": [TEXT], "structuredContent": {"a": 1}}, schema=schema) == {"a": 1}
    assert result_of({"content": [TEXT], "structuredContent": None}, schema=schema) is None
    assert isinstance(result_of({"content": [TEXT]}, schema=schema), BrokenResult)


def test_no_content_at_all_is_no_result() -> None:
    assert isinstance(result_of({}, schema=None), BrokenResult)


def test_what_is_not_said_to_be_complete_is_not_finished() -> None:
    finished = ({"content": []}, {"resultType": "complete", "content": []}, {"task": {}, "content": []}, {})
    assert [is_unfinished(each) for each in finished] == [False] * 4
    kinds = ("input_required", "task", "Complete", "", None, 7)
    assert [is_unfinished({"resultType": kind, "content": []}) for kind in kinds] == [True] * 6
    assert is_unfinished({"task": {"status": "working"}})


def test_only_the_mark_says_that_a_tool_failed() -> None:
    assert is_error({"content": [{"type": "text", "text": "Error: not found"}]}) is False
    assert is_error({"isError": True}) is True
    assert [is_error({"isError": odd}) for odd in (None, 1, "true", [])] == [None] * 4


def test_a_failures_words_are_its_texts() -> None:
    assert error_words({"content": [TEXT, {"type": "image", "data": "AA=="}, {"type": "text", "text": "b"}]}) == "a\nb"
    assert error_words({"content": "x"}) == error_words({}) == ""


def test_the_form_is_known_again_in_a_contract() -> None:
    assert is_content(TOOL.contract.result_schema)
    assert not is_content({"type": "object", "properties": {"content": {"type": "array"}}, "required": ["content"]})
