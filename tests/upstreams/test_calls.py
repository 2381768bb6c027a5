"""A call through a gate to a server of our own, over both transports and both eras; and what its answers mean."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import placet
from placet.adapters.transports.mcp.calling import KEY_META
from placet.model.upstreams import StdioWay, ToolErrors
from tests.upstreams.scene import (
    AGENT,
    TERMS,
    Server,
    gate_with,
    joined,
    over_http,
    over_stdio,
    submit,
)

CANARY = "canary-upstream-words"


async def test_calls_come_through_over_stdio_in_both_eras(server: Server, era: str) -> None:
    async with gate_with(joined(over_stdio(server, era))) as gate:
        read = await submit(gate, "desk.echo", "one")
        written = await submit(gate, "desk.note", "two", call="c-2", key="key-2")

    assert read.unwrap() == {"said": "one"}
    assert written.unwrap() == {"content": [{"type": "text", "text": "noted two"}]}
    called = server.lines("called")
    assert [(each["tool"], each["text"]) for each in called] == [("echo", "one"), ("note", "two")]
    assert "key-2" in called[1]["meta"][KEY_META]
    method = "initialize" if era == "handshake" else "server/discover"
    assert len(server.heard(method)) == 1


async def test_calls_come_through_over_http_in_both_eras(http: Server, era: str) -> None:
    async with gate_with(joined(over_http(http))) as gate:
        read = await submit(gate, "desk.echo", "one")
        http.do("manner", manner="plain")
        written = await submit(gate, "desk.note", "two", call="c-2")

    assert read.unwrap() == {"said": "one"}
    assert written.unwrap() == {"content": [{"type": "text", "text": "noted two"}]}
    headers = [each["headers"] for each in http.lines("headers")]
    calls = [each for each in headers if each.get("mcp-method") == "tools/call"]
    assert len(calls) == (2 if era == "stateless" else 0)
    assert all(each["mcp-protocol-version"] == "2026-07-28" and each["mcp-name"] in ("echo", "note") for each in calls)
    assert all(each.get("authorization") is None for each in headers)
    assert bool(http.lines("deleted")) is (era == "handshake")


async def test_the_same_key_goes_out_in_every_attempt_of_one_operation(server: Server) -> None:
    async with gate_with(joined(over_stdio(server))) as gate:
        first = await submit(gate, "desk.note", "one", key="key-1")
        again = await submit(gate, "desk.note", "one", key="key-1", call="c-2")

    assert first.status == "succeeded" and again.status == "replayed"
    assert len(server.lines("acted")) == 1


# ---------------------------------------------------------------- what answers mean


def answers(server: Server, **by_text: Any) -> None:
    for text, answer in by_text.items():
        server.do("answer", text=text, **{"with": answer})


def ok(**members: Any) -> dict[str, Any]:
    return {"result": {"resultType": "complete", **members}}


def text(*words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": each} for each in words]


@pytest.fixture
async def desk(server: Server) -> AsyncIterator[placet.Gate]:
    async with gate_with(joined(over_stdio(server))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        yield gate


@pytest.mark.case("K05")
async def test_a_tools_own_error_is_passed_on_as_data_and_not_held_to_the_shape(
    desk: placet.Gate, server: Server
) -> None:
    answers(server, bad=ok(isError=True, content=text("no such thing"), structuredContent={"error": 1}))

    outcome = await submit(desk, "desk.read", "bad")

    assert (outcome.status, outcome.code) == ("failed", "tool_rejected")
    assert isinstance(outcome, placet.Failed) and outcome.words == "no such thing"


@pytest.mark.case("K05")
@pytest.mark.parametrize(
    "result",
    [
        ok(content=[], structuredContent={"said": 1}),
        ok(content=text("said one")),
        ok(content=[], structuredContent={"said": "a", "more": "b"}),
    ],
    ids=["breaks its schema", "has no structured part", "has a member too many"],
)
async def test_a_result_that_breaks_the_pinned_schema_is_withheld(
    desk: placet.Gate, server: Server, result: dict[str, Any]
) -> None:
    answers(server, odd=result)

    outcome = await submit(desk, "desk.read", "odd")

    assert (outcome.status, outcome.code) == ("failed", "result_broken")


@pytest.mark.case("K05", "K07")
@pytest.mark.parametrize(
    "content",
    [[{"type": "hologram", "text": "x"}], None, "no list", text("t" * 100_000), [{"type": "image", "data": 3}]],
    ids=["of no known kind", "none", "no list", "larger than the contract allows", "broken picture"],
)
async def test_a_write_whose_result_cannot_be_shown_stays_done(desk: placet.Gate, server: Server, content: Any) -> None:
    answers(server, odd=ok(content=content))

    outcome = await submit(desk, "desk.say", "odd")

    assert outcome.status == "succeeded" and outcome.may_have_acted
    assert isinstance(outcome, placet.Succeeded) and outcome.result_unavailable is not None


@pytest.mark.case("K07")
async def test_pictures_sounds_and_resources_come_through_whole_without_what_nobody_knows(
    desk: placet.Gate, server: Server
) -> None:
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    link = {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3}
    inner = {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAA="}}
    answers(server, rich=ok(content=[{**picture, "_meta": {"x": 1}}, link, inner]))

    outcome = await submit(desk, "desk.say", "rich")

    assert outcome.unwrap() == {"content": [picture, link, inner]}


@pytest.mark.case("K06")
async def test_prose_is_not_read_without_the_mark_it_is_a_success(desk: placet.Gate, server: Server) -> None:
    answers(server, prose=ok(content=text("Error: not found")))

    outcome = await submit(desk, "desk.say", "prose")

    assert outcome.unwrap() == {"content": text("Error: not found")}


@pytest.mark.case("K06")
@pytest.mark.parametrize("code", [-32601, -32020, -32022])
async def test_an_error_of_the_protocol_before_acceptance_is_a_failure(
    desk: placet.Gate, server: Server, code: int
) -> None:
    answers(server, no={"error": {"code": code, "message": CANARY}})

    outcome = await submit(desk, "desk.say", "no")

    assert (outcome.status, outcome.code) == ("failed", "tool_rejected")
    assert CANARY not in repr(outcome)


@pytest.mark.case("K06")
@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32603, "message": CANARY}},
        {"error": {"code": -32602, "message": CANARY}},  # so some answer when a result of theirs breaks their schema
        {"error": {"code": -32000, "message": CANARY}},
        ok(isError=True, content=text(CANARY)),
        ok(isError="perhaps", content=text(CANARY)),
        {"result": {"resultType": "task", "task": {"status": "working"}, "content": []}},
        {"result": {"resultType": 7, "content": text(CANARY)}},
        {"result": {"task": {"taskId": "t-1", "status": "working"}}},
        {"result": 3},
        {"lines": ['{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"content":[]}}']},
    ],
    ids=[
        "internal error",
        "invalid parameters",
        "server error",
        "tool error",
        "strange mark",
        "task",
        "no kind",
        "older task",
        "no result",
        "member twice",
    ],
)
async def test_what_may_come_after_the_act_leaves_a_write_unknown(
    desk: placet.Gate, server: Server, answer: dict[str, Any]
) -> None:
    answers(server, doubt=answer)

    outcome = await submit(desk, "desk.say", "doubt")

    assert (outcome.status, outcome.may_have_acted) == ("unknown", True)
    assert CANARY not in repr(outcome)


@pytest.mark.case("K06")
async def test_the_deployment_may_know_that_a_tools_error_means_that_nothing_happened(server: Server) -> None:
    from dataclasses import replace

    upstream = joined(over_stdio(server), say=replace(TERMS["say"], errors=ToolErrors.REFUSED))
    async with gate_with(upstream) as gate:
        await submit(gate, "desk.echo", call="c-0")
        answers(server, bad=ok(isError=True, content=text("no such thing")))

        outcome = await submit(gate, "desk.say", "bad")

        answers(server, worse={"error": {"code": -32602, "message": CANARY}})
        refused = await submit(gate, "desk.say", "worse", call="c-2")
        answers(server, worst={"error": {"code": -32603, "message": CANARY}})
        doubtful = await submit(gate, "desk.say", "worst", call="c-3")

    assert isinstance(outcome, placet.Failed) and (outcome.code, outcome.words) == ("tool_rejected", "no such thing")
    assert (refused.code, doubtful.code) == ("tool_rejected", "effect_unknown")


@pytest.mark.case("K06")
async def test_a_read_whose_parameters_are_refused_fails_and_is_not_tried_again(
    desk: placet.Gate, server: Server
) -> None:
    answers(server, no={"error": {"code": -32602, "message": CANARY}})

    outcome = await submit(desk, "desk.read", "no")

    assert (outcome.status, outcome.code) == ("failed", "tool_rejected")
    assert [each["text"] for each in server.lines("called")] == ["hello", "no"] and CANARY not in repr(outcome)


@pytest.mark.case("K07")
async def test_an_answer_larger_than_what_is_read_leaves_a_write_unknown_and_others_alone(
    desk: placet.Gate, server: Server
) -> None:
    answers(server, huge=ok(content=text("t" * 8_000_000)))

    outcome = await submit(desk, "desk.say", "huge")
    after = await submit(desk, "desk.echo", "still there", call="c-2")

    assert outcome.status == "unknown"
    assert after.unwrap() == {"said": "still there"}
    assert len(server.lines("started")) == 1  # the session goes on


# ---------------------------------------------------------------- HTTP


@pytest.mark.parametrize("manner", ["status 307", "status 401"])
@pytest.mark.parametrize("era", ["handshake"], indirect=True)
async def test_a_write_that_is_turned_away_twice_has_been_sent_twice_and_is_in_doubt(http: Server, manner: str) -> None:
    async with gate_with(joined(over_http(http))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        http.do("manner", manner=manner)
        outcome = await submit(gate, "desk.say", "x")
        http.do("manner", manner="")
        after = await submit(gate, "desk.note", "y", call="c-2")

    assert (outcome.status, outcome.code) == ("unknown", "effect_unknown")
    assert [each["text"] for each in http.lines("called")] == ["hello", "", "", "y"]
    assert after.status == "succeeded"


@pytest.mark.parametrize("era", ["handshake"], indirect=True)
async def test_a_server_that_lets_nobody_in_is_sent_a_write_once(http: Server) -> None:
    async with gate_with(joined(over_http(http))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        http.do("manner", manner="redirect")
        outcome = await submit(gate, "desk.say", "x")

    assert (outcome.status, outcome.code) == ("failed", "upstream_unavailable")
    assert outcome.may_have_acted is False


@pytest.mark.parametrize(
    ("manner", "status", "code"),
    [
        ("status 429", "failed", "remote_busy"),
        ("redirect", "failed", "upstream_unavailable"),
        ("status 500", "unknown", "effect_unknown"),
        ("status 302", "unknown", "effect_unknown"),
        ("half", "unknown", "effect_unknown"),
        ("compressed", "unknown", "effect_unknown"),
    ],
)
@pytest.mark.parametrize("era", ["stateless"], indirect=True)
async def test_what_http_says_of_a_write(http: Server, manner: str, status: str, code: str) -> None:
    async with gate_with(joined(over_http(http))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        http.do("manner", manner=manner)

        outcome = await submit(gate, "desk.say", "x")

    assert (outcome.status, outcome.code) == (status, code)
    assert CANARY not in repr(outcome)


async def test_what_another_tenants_server_is_shown_is_its_own(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from placet.model.destinations import SecretPlace, SecretRef

    monkeypatch.setenv("NORTH_TOKEN", "north-secret")
    ref = SecretRef(place=SecretPlace.ENVIRONMENT, name="NORTH_TOKEN")
    upstream = over_stdio(server, way={"environment_by_tenant": {"north": {"TOKEN": ref}}})
    assert isinstance(upstream.way, StdioWay)
    async with gate_with(joined(upstream)) as gate:
        await submit(gate, "desk.echo")
        await submit(gate, "desk.echo", by=placet.Principal(
            subject="agent", tenant="south", roles=AGENT.roles, scopes=AGENT.scopes))  # fmt: skip

    tokens = [each["environment"].get("TOKEN") for each in server.lines("started")]
    assert tokens == ["north-secret", None]
