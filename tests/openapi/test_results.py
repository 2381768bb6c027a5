"""What comes back is held against what is declared for its status, and anything else says what it proves."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import InvalidArguments, RemoteStatus, ToolRejected
from placet.model.attempt import BrokenResult
from placet.model.openapi import HttpAnswer, Operation
from placet.rules.contracts import Tool, tool_from_schema
from placet.rules.decoding import DecodingLimits
from placet.rules.openapi.answers import AnswerLost, declared_body, result_of
from tests.openapi.conftest import answers, carried, why_unfit

pytestmark = pytest.mark.req("B035")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


async def never(arguments: dict[str, Any]) -> object:
    raise AssertionError(arguments)


def a_tool(operation: Operation) -> Tool:
    return tool_from_schema(
        never, name="desk.op", arguments={"type": "object"}, result=operation.result_schema,
        effect="write", risk="medium", permission="x", description="x",
    )  # fmt: skip


def broken(tool: Tool, result: Any) -> bool:
    try:
        tool.check_result(result)
    except InvalidArguments:
        return True
    return False


def test_each_status_has_its_own_body() -> None:
    tool = a_tool(carried("post", responses=answers(("200", NAME), ("201", COUNT), ("204", None), ("404", NAME))))
    assert not broken(tool, {"status": 200, "body": {"name": "a"}})
    assert not broken(tool, {"status": 201, "body": {"count": 1}})
    assert not broken(tool, {"status": 204})
    for wrong in (
        {"status": 200, "body": {"count": 1}},
        {"status": 201, "body": {"name": "a"}},
        {"status": 202, "body": {"name": "a"}},
        {"status": 200},
        {"status": 204, "body": {"name": "a"}},
        {"status": 200, "body": {"name": "a", "more": 1}},
        {"status": 404, "body": {"name": "a"}},
    ):
        assert broken(tool, wrong), wrong


def test_statuses_of_one_body_share_it() -> None:
    operation = carried("post", responses=answers(("200", NAME), ("201", NAME)))
    assert operation.result_schema["properties"] == {"status": {"enum": [200, 201]}, "body": NAME}


@pytest.mark.parametrize("others", ["2XX", "default"])
def test_others_are_those_that_are_not_named(others: str) -> None:
    responses = answers(("200", NAME), (others, COUNT))
    tool = a_tool(carried("post", responses=responses))
    assert broken(tool, {"status": 200, "body": {"count": 1}})
    # what `default` says beside a success is how the service fails
    assert broken(tool, {"status": 207, "body": {"count": 1}}) is (others == "default")
    alone = a_tool(carried("post", responses=answers((others, COUNT))))
    assert not broken(alone, {"status": 207, "body": {"count": 1}})
    assert broken(alone, {"status": 300, "body": {"count": 1}})


def test_a_text_is_a_text_and_what_is_neither_is_not_carried() -> None:
    text = {"200": {"description": "", "content": {"text/plain": {"schema": {"type": "string"}}, "text/csv": {}}}}
    tool = a_tool(carried("get", responses=text))
    assert not broken(tool, {"status": 200, "body": "a,b"})
    assert "neither" in why_unfit("get", responses={"200": {"content": {"application/pdf": {}}}})


# ---------------------------------------------------------------- what an answer means

OPERATION = carried("post", responses=answers(("201", NAME), ("204", None)))
LIMITS = DecodingLimits(max_bytes=1_000)


def meant(status: int, body: bytes | None = b'{"name":"a"}', **said: Any) -> Any:
    answer = HttpAnswer(
        status=status,
        media_type=said.pop("media_type", "application/json"),
        encoding=said.pop("encoding", "identity"),
        retry_after=said.pop("retry_after", None),
        body=body,
    )
    return result_of(OPERATION, answer, refusals=said.pop("refusals", frozenset()), limits=LIMITS)


def test_a_success_is_its_status_and_body() -> None:
    assert meant(201) == {"status": 201, "body": {"name": "a"}}
    assert meant(204, b"") == {"status": 204}
    assert declared_body(OPERATION, 201)
    assert not declared_body(OPERATION, 204)
    assert not declared_body(OPERATION, 404)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"name":"a","name":"b"}', b"[1e999]", b"NaN", b'{"name":"a"} {}', b"\xff", b'"\\ud800"', b"[" * 40],
)
def test_a_body_that_is_not_one_sound_json_value_does_not_undo_the_success(body: bytes) -> None:
    assert type(meant(201, body)) is BrokenResult


def test_a_body_cannot_close_what_it_is_read_in() -> None:
    assert type(meant(201, b'1,"status":200')) is BrokenResult
    assert type(meant(201, b'1},{"a":2')) is BrokenResult


def test_too_much_or_compressed_is_performed_without_a_result() -> None:
    assert meant(201, None) == BrokenResult(reason="result_too_large")
    assert meant(201, encoding="gzip") == BrokenResult(reason="result_broken")
    assert meant(206) == {"status": 206}  # which its contract refuses


def test_another_media_type_is_not_the_services_answer() -> None:
    with pytest.raises(AnswerLost):
        meant(201, b"<html>sign in</html>", media_type="text/html")
    with pytest.raises(AnswerLost):
        meant(201, media_type="")


@pytest.mark.parametrize("status", [100, 301, 302, 303, 307, 308, 400, 404, 409, 429, 500, 503, 599])
def test_any_other_status_is_left_to_the_table(status: int) -> None:
    with pytest.raises(RemoteStatus) as answered:
        meant(status, retry_after="7")
    assert (answered.value.status, answered.value.retry_after) == (status, "7")


def test_what_the_manifest_calls_a_refusal_is_one() -> None:
    with pytest.raises(ToolRejected) as refused:
        meant(409, refusals=frozenset({409}))
    assert refused.value.status == 409
    assert type(meant(201, refusals=frozenset({201}))) is dict
