"""A question of an upstream is on record before anybody is asked, and its answer before it goes out, or it does not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

import placet
from placet.errors import StoreUnavailable
from placet.model.contract import EffectClass, Risk
from placet.model.upstreams import Relayed
from placet.testing import FixedSignIn
from tests.mcp_server.conftest import InProcess, in_process, modern
from tests.upstreams.scene import TERMS, Server, joined, over_stdio, wait_until

AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",))
ASKING = frozenset({Relayed.ELICITATION, Relayed.SAMPLING, Relayed.ROOTS})
ABLE: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
FORM = {"message": "canary-question", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
PAGE = {"mode": "url", "message": "canary-page", "url": "https://desk.example/in", "elicitationId": "e1"}
PASSWORD = {**FORM, "requestedSchema": {"type": "object", "properties": {"password": {"type": "string"}}}}
SAMPLE = {"messages": [], "maxTokens": 1}
DONE = {"result": {"resultType": "complete", "content": [], "structuredContent": {"said": "done"}}}


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@asynccontextmanager
async def door_of(tmp_path: Path, server: Server) -> AsyncIterator[InProcess]:
    reads = replace(TERMS["read"], effect=EffectClass.READ, risk=Risk.LOW)
    upstream = joined(over_stdio(server, "stateless", relayed=ASKING), read=reads)
    async with in_process(tmp_path, tools=[], upstreams=[upstream], sign_in=FixedSignIn({"t-agent": AGENT})) as found:
        await found.ask("tools/call", {"name": "desk.echo", "arguments": {"text": "a"}}, capabilities=ABLE)
        wait_until(lambda: bool(server.lines("started")))
        yield found


def asks(server: Server, *, state: str = "theirs", **questions: tuple[str, dict[str, Any]]) -> None:
    requests = {key: {"method": method, "params": params} for key, (method, params) in questions.items()}
    result = {"resultType": "input_required", "inputRequests": requests, "requestState": state}
    server.do("answer", text="one", **{"with": {"result": result}})


async def read(door: InProcess, **params: Any) -> dict[str, Any]:
    call = {"name": "desk.read", "arguments": {"text": "one"}, **params}
    return await door.ask("tools/call", call, capabilities=ABLE)


async def on_record(door: InProcess) -> list[tuple[str, str, list[str]]]:
    events = await door.events("upstream_asked", "upstream_answered")
    assert {each["subject"] for each in events} <= {"agent"} and {each["tool"] for each in events} <= {"desk.read"}
    return [(each["kind"], each["detail"], each["reasons"]) for each in events]


@pytest.mark.case("K08")
async def test_what_is_asked_and_how_it_is_answered_is_on_record_and_no_word_of_it(
    tmp_path: Path, server: Server
) -> None:
    async with door_of(tmp_path, server) as door:
        asks(
            server,
            a=("elicitation/create", FORM),
            b=("elicitation/create", PAGE),
            c=("sampling/createMessage", SAMPLE),
            d=("roots/list", {}),
        )
        asked = (await read(door))["result"]
        assert asked["resultType"] == "input_required", asked
        was_asked = [
            ("upstream_asked", kind, ["upstream:desk"])
            for kind in ("elicitation_form", "elicitation_url", "sampling", "roots")
        ]
        assert await on_record(door) == was_asked

        server.do("answer", text="one", **{"with": DONE})
        responses = {
            "a": {"action": "accept", "content": {"name": "canary-answer"}},
            "b": {"action": "decline"},
            "c": {"role": "assistant", "content": {"type": "text", "text": "canary-answer"}, "model": "m"},
            "z": {"action": "accept"},
        }
        done = await read(door, requestState=asked["requestState"], inputResponses=responses)
        assert done["result"]["structuredContent"] == {"said": "done"}
        assert await on_record(door) == [
            *was_asked,
            ("upstream_answered", "accept", ["upstream:desk", "question:elicitation.form"]),
            ("upstream_answered", "decline", ["upstream:desk", "question:elicitation.url"]),
            ("upstream_answered", "given", ["upstream:desk", "question:sampling"]),
        ]
        numbers = generate_latest(door.registry).decode()
        for answer, kind in (("accept", "elicitation.form"), ("decline", "elicitation.url"), ("given", "sampling")):
            assert f'questions_total{{answer="{answer}",kind="{kind}",server="desk"}} 1.0' in numbers
        assert "canary" not in json.dumps(await door.events()) + numbers


@pytest.mark.case("K08")
async def test_a_form_that_asks_for_a_secret_reaches_nobody_and_is_said_out_loud(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with door_of(tmp_path, server) as door:
        asks(server, a=("elicitation/create", PASSWORD))
        answer = (await read(door))["result"]
        assert answer["isError"] and "inputRequests" not in answer
        assert await on_record(door) == []
        numbers = generate_latest(door.registry).decode()
        assert 'questions_total{answer="secret",kind="elicitation.form",server="desk"} 1.0' in numbers
        (said,) = (each for each in caplog.records if "asked for a secret" in each.getMessage())
        assert said.__dict__["server"] == "desk" and "canary" not in caplog.text


async def test_a_question_that_cannot_be_put_on_record_reaches_nobody(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door_of(tmp_path, server) as door:
        asks(server, a=("elicitation/create", FORM))

        async def fails(*args: Any, **more: Any) -> None:
            raise StoreUnavailable("canary")

        monkeypatch.setattr(door.gate.upstream_questions, "asked", fails)
        answer = await read(door)
        assert answer["error"]["code"] == -32603 and "canary" not in json.dumps(answer)


async def test_an_answer_that_cannot_be_put_on_record_does_not_go_out(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door_of(tmp_path, server) as door:
        asks(server, a=("elicitation/create", FORM))
        asked = (await read(door))["result"]
        before = len(server.lines("called"))

        async def fails(*args: Any, **more: Any) -> None:
            raise StoreUnavailable("canary")

        monkeypatch.setattr(door.gate.upstream_questions, "answered", fails)
        responses = {"a": {"action": "accept", "content": {"name": "Ada"}}}
        answer = await read(door, requestState=asked["requestState"], inputResponses=responses)
        assert answer["error"]["code"] == -32603 and "canary" not in json.dumps(answer)
        assert len(server.lines("called")) == before


@pytest.mark.parametrize("state", ["-" * 45_000, '"\\' * 6_000, "\U0001f642" * 3_000], ids=["long", "escaped", "drawn"])
async def test_a_state_that_no_client_could_bring_back_asks_nobody(tmp_path: Path, server: Server, state: str) -> None:
    async with door_of(tmp_path, server) as door:
        asks(server, state=state, a=("elicitation/create", FORM))
        answer = await read(door)
        assert answer["error"]["code"] == -32603 and "canary" not in json.dumps(answer)
        assert await on_record(door) == []


@pytest.mark.parametrize("state", ["-" * 35_000, '"\\' * 4_000, "\U0001f642" * 2_000], ids=["long", "escaped", "drawn"])
async def test_a_state_that_is_large_comes_back_as_it_was(tmp_path: Path, server: Server, state: str) -> None:
    async with door_of(tmp_path, server) as door:
        asks(server, state=state, a=("elicitation/create", FORM))
        asked = (await read(door))["result"]
        server.do("answer", text="one", **{"with": DONE})
        responses = {"a": {"action": "accept", "content": {"name": "Ada"}}}
        done = await read(door, requestState=asked["requestState"], inputResponses=responses)
        assert done["result"]["structuredContent"] == {"said": "done"}
        assert server.heard("tools/call")[-1]["params"]["requestState"] == state


@pytest.mark.parametrize("scope", ["relay.desk", "relay.other"])
async def test_who_sees_no_tool_but_what_an_upstream_offers_is_let_in(
    tmp_path: Path, server: Server, scope: str
) -> None:
    hidden = {name: replace(terms, allowed_tenants=frozenset({"other"})) for name, terms in TERMS.items()}
    upstream = joined(over_stdio(server, "stateless", relayed=frozenset({Relayed.RESOURCES})), **hidden)
    reader = FixedSignIn({"t-agent": placet.Principal.agent("reader", tenant="acme", scopes=(scope,))})
    async with in_process(tmp_path, tools=[], upstreams=[upstream], sign_in=reader) as door:
        answer = await door.post(modern("resources/list"))
        tools = await door.post(modern("tools/list"))
    assert (answer.status_code, tools.status_code) == ((200, 200) if scope == "relay.desk" else (403, 403))
    assert scope != "relay.desk" or tools.json()["result"]["tools"] == []
