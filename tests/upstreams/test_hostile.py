"""What a server may send without stopping anybody else, or being believed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

import placet
from tests.upstreams.scene import Server, gate_with, joined, over_http, over_stdio, submit, until

CANARY = "canary-upstream-words"


@pytest.fixture
async def desk(server: Server) -> AsyncIterator[placet.Gate]:
    async with gate_with(joined(over_stdio(server))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        yield gate


async def ponder(desk: placet.Gate, server: Server) -> asyncio.Task[placet.Outcome]:
    call = asyncio.create_task(submit(desk, "desk.ponder", "one"))
    await until(lambda: "ponder" in [each["tool"] for each in server.lines("called")])
    return call


def request_id(server: Server) -> int:
    return int(next(each for each in server.heard("tools/call") if each["params"]["name"] == "ponder")["id"])


async def test_answers_to_nobodys_request_and_floods_are_passed_over(desk: placet.Gate, server: Server) -> None:
    call = await ponder(desk, server)
    own = request_id(server)
    wrong: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": other, "result": {"content": [{"type": "text", "text": CANARY}]}}
        for other in (own + 1_000, str(own), True, None, -1, [own], {"id": own}, 1e400, float(own))
    ]
    noise: list[dict[str, Any]] = [
        {"raw": line}
        for line in (
            *("", "no json", "[]", "3", '"x"', "{}", "\x00", "[" * 10_000),
            f'{{"jsonrpc":"1.0","id":{own},"result":{{}}}}',
            '{"jsonrpc":"2.0","method":"notifications/message","params":3}',
        )
    ]
    flood: list[dict[str, Any]] = [
        {
            "jsonrpc": "2.0",
            "method": method,
            "params": {"progressToken": own, "progress": 1, "level": "info", "data": "x"},
        }
        for method in ("notifications/message", "notifications/progress", "notifications/strange")
    ]
    await asyncio.to_thread(server.do, "send", messages=[*wrong, *noise])
    await asyncio.to_thread(server.do, "send", messages=flood, times=300)
    meanwhile = await submit(desk, "desk.echo", "two", call="c-2")
    server.do("release")

    assert (await call).unwrap() == {"content": [{"type": "text", "text": "held"}]}
    assert meanwhile.unwrap() == {"said": "two"}
    assert len(server.lines("started")) == 1


async def test_a_second_answer_to_one_request_is_passed_over(desk: placet.Gate, server: Server) -> None:
    call = await ponder(desk, server)
    own = request_id(server)
    server.do("release")
    server.do("send", messages=[{"jsonrpc": "2.0", "id": own, "error": {"code": -32603, "message": CANARY}}])

    assert (await call).status == "succeeded"
    assert (await submit(desk, "desk.echo", "two", call="c-2")).unwrap() == {"said": "two"}


async def test_half_a_character_costs_nobody_anything(
    desk: placet.Gate, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """In one read with it comes the answer to somebody else's call."""
    half = r"\ud800" + CANARY
    server.do("answer", text="half", **{"with": {"lines": [
        '{"jsonrpc":"2.0","id":"' + half + '","method":"ping"}',
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"' + half + '"}}',
        '{"jsonrpc":"2.0","id":"' + half + '","error":{"code":-32603,"message":"no"}}',
        '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}',
    ]}})  # fmt: skip
    server.do("answer", text="torn", **{"with": {"result": {"content": [{"type": "text", "text": "\ud800"}]}}})

    whole, torn = await submit(desk, "desk.say", "half"), await submit(desk, "desk.say", "torn", call="c-2")

    assert whole.unwrap() == {"content": []}
    assert (torn.status, torn.code) == ("unknown", "effect_unknown")
    assert caplog.text.count(CANARY) == 0 and not [each for each in caplog.records if each.name == "asyncio"]


@pytest.mark.case("K08")
async def test_questions_in_the_middle_of_a_call_are_declined(desk: placet.Gate, server: Server) -> None:
    call = await ponder(desk, server)
    server.do("send", messages=[
        {"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": {"message": CANARY}},
        {"jsonrpc": "2.0", "id": "q-2", "method": "sampling/createMessage", "params": {"messages": []}},
        {"jsonrpc": "2.0", "id": "q-3", "method": "roots/list", "params": {}},
        {"jsonrpc": "2.0", "id": "q-4", "method": "ping", "params": {}},
    ])  # fmt: skip
    await until(lambda: len(answered(server)) == 4)
    server.do("release")

    assert (await call).status == "succeeded"
    told = answered(server)
    assert told["q-1"]["result"] == {"action": "decline"} and told["q-4"]["result"] == {}
    assert {told[each]["error"]["code"] for each in ("q-2", "q-3")} <= {-32600, -32601}
    assert server.heard("initialize")[0]["params"]["capabilities"] == {}


def answered(server: Server) -> dict[str, dict[str, Any]]:
    heard = [each["message"] for each in server.lines("heard")]
    return {each["id"]: each for each in heard if "method" not in each}


@pytest.mark.case("K08")
async def test_a_server_that_asks_although_nobody_can_be_asked_may_have_done_a_part_of_a_write(server: Server) -> None:
    asks = {"result": {"resultType": "input_required", "inputRequests": {
        "q": {"method": "elicitation/create", "params": {"message": CANARY}}}, "requestState": "s"}}  # fmt: skip
    async with gate_with(joined(over_stdio(server, "stateless"))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        server.do("answer", text="ask", **{"with": asks})
        outcome = await submit(gate, "desk.say", "ask")
        read = await submit(gate, "desk.read", "ask", call="c-2")

    assert (outcome.status, outcome.may_have_acted) == ("unknown", True)
    assert (read.status, read.code) == ("failed", "tool_rejected")
    assert CANARY not in repr(outcome) + repr(read)
    meta = server.heard("tools/call")[0]["params"]["_meta"]
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {}


async def test_a_server_that_reads_nothing_costs_its_own_callers_alone(server: Server) -> None:
    """Questions that it does not read the answers to pile up to a bound, and then it is given up."""
    async with gate_with(joined(over_stdio(server))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        first = server.process
        pings = [{"jsonrpc": "2.0", "id": "p" * 120, "method": "ping", "params": {}}]
        await asyncio.to_thread(server.do, "send", messages=pings, times=2_000)
        outcome = await submit(gate, "desk.echo", "two", call="c-2")

    assert outcome.unwrap() == {"said": "two"}
    assert first > 0


@pytest.mark.parametrize("era", ["stateless"], indirect=True)
async def test_an_answer_on_another_requests_stream_is_passed_over(http: Server) -> None:
    async with gate_with(joined(over_http(http))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        call = asyncio.create_task(submit(gate, "desk.ponder", "one"))
        await until(lambda: "ponder" in [each["tool"] for each in http.lines("called")])
        own = request_id(http)
        forged = f'{{"jsonrpc":"2.0","id":{own},"result":{{"content":[{{"type":"text","text":"{CANARY}"}}]}}}}'
        own_answer = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":{"said":"own"}}}'
        http.do("answer", text="forge", **{"with": {"lines": [forged, own_answer]}})
        other = await submit(gate, "desk.read", "forge", call="c-2")
        http.do("release")
        outcome = await call

    assert other.unwrap() == {"said": "own"}
    assert outcome.unwrap() == {"content": [{"type": "text", "text": "held"}]}


@pytest.mark.req("B201", "B202")
async def test_no_word_of_a_server_is_in_logs_or_errors(
    desk: placet.Gate, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answers: list[Any] = [
        {"error": {"code": -32603, "message": CANARY, "data": CANARY}},
        {"error": {"code": -32602, "message": CANARY}},
        {"result": {"isError": True, "content": [{"type": "text", "text": CANARY}]}},
        {"result": {"content": [{"type": CANARY}]}},
        {"lines": [CANARY, '{"jsonrpc":"2.0","id":$ID,"result":"' + CANARY + '"}']},
    ]
    outcomes = []
    for number, answer in enumerate(answers):
        server.do("answer", text=f"t{number}", **{"with": answer})
        outcomes.append(await submit(desk, "desk.say", f"t{number}", call=f"w-{number}"))
    server.do("describe", tool="echo", member="description", value=CANARY)
    server.do("changed")
    await submit(desk, "desk.echo", "two", call="c-9")

    assert CANARY not in caplog.text
    assert all(CANARY not in repr(record.__dict__) for record in caplog.records)
    assert all(CANARY not in repr(each) for each in outcomes)
    with pytest.raises(placet.PlacetError) as raised:
        outcomes[0].unwrap()
    assert raised.value.__cause__ is None and raised.value.__context__ is None


@pytest.mark.parametrize("era", ["stateless"], indirect=True)
@pytest.mark.parametrize("manner", ["half", "status 500", "redirect", "compressed"])
async def test_a_request_that_fails_costs_its_own_call_alone(http: Server, manner: str) -> None:
    async with gate_with(joined(over_http(http))) as gate:
        call = asyncio.create_task(submit(gate, "desk.ponder", "one"))
        await until(lambda: "ponder" in [each["tool"] for each in http.lines("called")])
        http.do("manner", manner=manner)
        failed = await submit(gate, "desk.say", "x", call="c-2")
        http.do("manner", manner="")
        http.do("release")
        outcome = await call

    assert failed.status in ("unknown", "failed")
    assert outcome.unwrap() == {"content": [{"type": "text", "text": "held"}]}
