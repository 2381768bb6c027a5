"""What a principal is shown is what it may call, in both eras, and an answer is what was promised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.mcp_server.conftest import CAPABILITIES, MODERN, VERSION, in_process, modern, said_in
from tests.mcp_server.tools import acted


async def all_pages(door: Any, **more: Any) -> list[dict[str, Any]]:
    found, cursor = [], {}
    while True:
        answer = await door.ask("tools/list", cursor, **more)
        found += answer["result"]["tools"]
        if "nextCursor" not in answer["result"]:
            return found
        cursor = {"cursor": answer["result"]["nextCursor"]}


async def test_a_principal_is_shown_its_own_tools_a_page_at_a_time(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        first = (await door.ask("tools/list"))["result"]
        assert len(first["tools"]) == 4
        assert first["cacheScope"] == "private"
        assert [each["name"] for each in await all_pages(door)] == ["broken", "look", "much", "note", "pay", "slow"]
        assert [each["name"] for each in await all_pages(door, as_="t-viewer")] == ["broken", "look", "much"]


async def test_a_cursor_that_is_none_is_refused(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        answer = await door.ask("tools/list", {"cursor": ""})
        assert answer["error"]["code"] == -32602


async def test_annotations_say_what_the_contract_says(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        tools = {each["name"]: each for each in await all_pages(door)}
    assert tools["look"]["annotations"] == {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
    assert tools["note"]["annotations"] == {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}
    assert tools["note"]["_meta"] == {"io.placet/risk": "medium", "io.placet/effect-class": "write"}
    assert tools["look"]["inputSchema"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("tool", "arguments", "status"),
    [
        ("look", {"word": "a"}, "succeeded"),
        ("look", {"word": 1}, "invalid"),
        ("broken", {"word": "a"}, "failed"),
        ("pay", {"amount": 3}, "awaiting_approval"),
    ],
)
async def test_structured_content_is_what_the_output_schema_promises(
    tmp_path: Path, tool: str, arguments: dict[str, Any], status: str
) -> None:
    async with in_process(tmp_path) as door:
        schema = next(each["outputSchema"] for each in await all_pages(door) if each["name"] == tool)
        result = (await door.call(tool, arguments))["result"]
    jsonschema_rs.validator_for(schema).validate(result["structuredContent"])
    assert result["structuredContent"]["status"] == status
    assert result["_meta"]["io.placet/outcome"]["status"] == status
    assert result["isError"] is (status != "succeeded")
    told = json.loads(result["content"][0]["text"])
    assert told["message"] == result["structuredContent"]["message"]


async def test_what_programs_need_stands_in_meta(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        meta = {"io.placet/run": "r1", "io.placet/call-id": "c1"}
        result = (await door.call("note", {"word": "a"}, meta=meta))["result"]
        said = result["_meta"]["io.placet/outcome"]
        assert said == {
            "status": "succeeded",
            "code": "succeeded",
            "retryable": False,
            "may_have_acted": True,
            "operation_key": '["call","r1","c1"]',
            "run": "r1",
            "call_id": "c1",
        }
        again = (await door.call("note", {"word": "a"}, meta=meta))["result"]
    assert again["structuredContent"]["status"] == "replayed"
    assert acted(tmp_path) == ["a"]


async def test_an_idempotency_key_names_the_operation(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        meta = {"io.placet/idempotency-key": "order 7"}
        statuses = [(await door.call("note", {"word": word}, meta=meta))["result"] for word in ("a", "a", "b")]
    assert [each["structuredContent"]["status"] for each in statuses] == ["succeeded", "replayed", "conflict"]
    assert acted(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("io.placet/run", ""),
        ("io.placet/run", 7),
        ("io.placet/call-id", "with space"),
        ("io.placet/idempotency-key", "ü"),
        ("io.placet/approval", ["x"]),
    ],
    ids=["empty-run", "number-run", "call", "key", "approval"],
)
async def test_a_member_of_ours_that_cannot_be_read_is_refused(tmp_path: Path, member: str, value: object) -> None:
    async with in_process(tmp_path) as door:
        answer = await door.call("note", {"word": "a"}, meta={member: value})
        assert answer["error"]["data"] == {"code": "meta_malformed", "member": member}
    assert acted(tmp_path) == []


@pytest.mark.case("L05")
@pytest.mark.parametrize("as_", ["t-agent", "t-viewer"])
async def test_a_hidden_tool_and_one_that_does_not_exist_are_the_same(tmp_path: Path, as_: str) -> None:
    name = "note" if as_ == "t-viewer" else "nothing"
    async with in_process(tmp_path) as door:
        first = await door.post(modern("tools/call", {"name": name, "arguments": {"word": "a"}}), as_=as_)
        other = await door.post(modern("tools/call", {"name": "nothing", "arguments": {"word": "a"}}), as_=as_)
        assert first.status_code == other.status_code
        assert first.json() == other.json()
        assert first.json()["error"]["data"] == {"code": "unknown_tool"}
        details = [event.get("detail") for event in await door.events("completed")]
        assert details == (["not_listed", "unknown_tool"] if as_ == "t-viewer" else ["unknown_tool"] * 2)
    assert acted(tmp_path) == []


@pytest.mark.case("L05")
async def test_asking_for_a_hidden_tool_often_looks_the_same_to_the_end(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        for name in ("note", "nothing"):
            answers = [await door.call(name, {"word": "a"}, as_="t-viewer") for _ in range(12)]
            assert {json.dumps(answer["error"], sort_keys=True) for answer in answers} == {
                json.dumps(answers[0]["error"], sort_keys=True)
            }


@pytest.mark.req("B183")
@pytest.mark.case("L05")
@pytest.mark.parametrize("method", ["resources/list", "prompts/list", "completion/complete", "resources/read"])
async def test_methods_that_nobody_enabled_do_not_exist(tmp_path: Path, method: str) -> None:
    params = {
        "completion/complete": {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}},
        "resources/read": {"uri": "file:///x"},
    }.get(method, {})
    async with in_process(tmp_path) as door:
        assert (await door.ask(method, params))["error"]["code"] == -32601


async def test_a_result_of_two_megabytes_arrives_whole_and_a_larger_one_is_withheld(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        whole = (await door.call("much", {"size": 1_900_000}))["result"]["structuredContent"]
        larger = (await door.call("much", {"size": 2_100_000}))["result"]
    assert len(whole["result"]) == 1_900_000
    assert "result" not in larger["structuredContent"]
    assert len(json.dumps(larger)) < 2_000


async def test_discovery_names_the_revisions_and_no_more_than_there_is(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        result = (await door.ask("server/discover"))["result"]
    assert result["supportedVersions"] == [MODERN]
    assert set(result["capabilities"]) == {"tools"}


async def test_numbers_keep_their_kind_on_the_way_in_and_out(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        answer = await door.post(modern("tools/call", {"name": "look", "arguments": {"word": "a", "number": 2.0}}))
        assert '"number":2.0' in answer.text
        refused = said_in(await door.post(modern("tools/call", {"name": "pay", "arguments": {"amount": 2.0}})))
    assert refused["result"]["structuredContent"]["status"] == "invalid"


async def test_a_trace_that_the_client_names_is_on_record(tmp_path: Path) -> None:
    parent = f"00-{'a1' * 16}-{'b2' * 8}-01"
    async with in_process(tmp_path) as door:
        await door.call("note", {"word": "a"}, meta={"traceparent": parent})
        await door.call("note", {"word": "b"}, meta={"traceparent": "00-secret-in-here-01"})
        ids = [event["request_id"] for event in await door.events("completed")]
    assert ids[0] == f"trace-{'a1' * 16}-{'b2' * 8}"
    assert "secret" not in ids[1]


async def test_requests_that_name_no_run_share_one_for_an_hour_and_others_have_none_of_it(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        runs = [
            (await door.call("look", {"word": "a"}, as_=who))["result"]["_meta"]["io.placet/outcome"]["run"]
            for who in ("t-agent", "t-agent", "t-other", "t-stranger")
        ]
    assert runs[0] == runs[1]
    assert len(set(runs)) == 3


async def test_messages_are_counted_by_method_and_how_they_were_answered(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        await door.call("look", {"word": "a"})
        await door.call("nothing", {})
        await door.call("pay", {"amount": 1})
        await door.ask("made/up")

        def count(method: str, outcome: str) -> float | None:
            return door.registry.get_sample_value("placet_mcp_messages_total", {"method": method, "outcome": outcome})

        assert count("tools/call", "succeeded") == 1
        assert count("tools/call", "protocol_error") == 1
        assert count("tools/call", "awaiting_approval") == 1
        assert count("unknown", "protocol_error") == 1


async def test_an_older_client_gets_the_same(tmp_path: Path) -> None:
    async with in_process(tmp_path) as door:
        opened = await door.client.post(
            "/mcp",
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2024-11-05",
                    "capabilities": {},
                    "clientInfo": {"name": "old", "version": "1"},
                },
            },
            headers={"authorization": "Bearer t-agent", "accept": "application/json, text/event-stream"},
        )
        assert said_in(opened)["result"]["protocolVersion"] == "2024-11-05"
        session = {
            "authorization": "Bearer t-agent",
            "accept": "application/json, text/event-stream",
            "mcp-session-id": opened.headers["mcp-session-id"],
        }
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await door.client.post("/mcp", json=ready, headers=session)).status_code == 202
        call = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "look", "arguments": {"word": "a"}},
        }
        result = said_in(await door.client.post("/mcp", json=call, headers=session))["result"]
        assert result["structuredContent"]["result"] == {"said": "a", "number": 1.0}
        assert result["_meta"]["io.placet/outcome"]["run"] == f"mcp-session-{opened.headers['mcp-session-id']}"
    assert VERSION not in result["_meta"] and CAPABILITIES not in result["_meta"]
