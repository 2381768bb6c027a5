"""A distinct secret in everything an MCP client may send; every answer, span, log line and number searched for them.

`BELONGS` says which secret may, and must, be read in which channel, and why; any other pair is a leak.
Source: REQUIREMENTS B162, B202; DESIGN section 14; CASES M01, M02. The core has its own in tests/scenarios.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext
from prometheus_client import generate_latest

import placet
from placet.mcp_server import tracing
from tests.mcp_server.conftest import OLDER, QUICK, WITH_PAGES, InProcess, headers_of, in_process, modern
from tests.scenarios.canary import LogEars, Outputs, Secrets
from tests.scenarios.test_canary import assert_exactly

PROPOSER = "it is the proposer's own, or was made for it"
NAME = "a name that the caller chose for its call, told to it alone"
LOG = ("log as JSON", "log as text")

BELONGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "result": (PROPOSER, ("answers",)),
    "runid": (NAME, ("answers",)),
    "callid": (NAME, ("answers",)),
    "callerkey": (NAME, ("answers",)),
    "rejectedwords": ("a handler that raises ToolRejected speaks to the proposer", ("answers",)),
    "membername": ("a problem names its place, and the proposer wrote the name", ("answers",)),
    "method": ("the SDK says which method there is none of, to whoever asked for it", ("answers",)),
    "requestid": ("the id of the request is the caller's to choose, and what log and answer go by", ("headers", *LOG)),
}


class Spans:
    """What a program that traces would be given; and what the SDK would record on its own."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs

    @contextmanager
    def start_as_current_span(self, name: str, **said: Any) -> Iterator[Span]:
        self._outputs.hear("spans", name, said.get("attributes"))
        outputs = self._outputs

        class Heard(NonRecordingSpan):
            def set_attribute(self, key: str, value: Any) -> None:
                outputs.hear("spans", f"{key}={value}")

            def set_attributes(self, attributes: Any) -> None:
                outputs.hear("spans", attributes)

            def set_status(self, status: Any, description: str | None = None) -> None:
                outputs.hear("spans", f"{status} {description} {getattr(status, 'description', '')}")

            def record_exception(self, exception: BaseException, *more: Any, **most: Any) -> None:
                outputs.hear("spans", exception, str(exception))

        try:
            yield Heard(SpanContext(1, 1, is_remote=False))
        except BaseException as fault:
            if said.get("record_exception", True):
                self._outputs.hear("spans", fault, str(fault))
            raise


@pytest.fixture
def outputs() -> Outputs:
    return Outputs()


@pytest.fixture(autouse=True)
def listening(outputs: Outputs, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from mcp.shared import _otel

    for name in ("httpx", "httpcore.http11", "httpcore.connection"):  # the client here is the test's own
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)
    monkeypatch.setattr(tracing, "_tracer", Spans(outputs))
    monkeypatch.setattr(_otel, "_tracer", Spans(outputs))
    yield from LogEars(outputs).listening()


def tools_of(s: Secrets) -> list[placet.Tool]:
    @placet.tool(effect="read")
    async def look(word: str) -> str:
        """Say something else."""
        return s.text("result")

    @placet.tool(effect="read")
    async def broken(word: str) -> str:
        """Break."""
        raise RuntimeError(s.text("errortext"))

    @placet.tool(effect="read")
    async def rejected(word: str) -> str:
        """Refuse."""
        raise placet.ToolRejected(s("rejectedwords"))

    @placet.tool(effect="write", risk="medium", permission="w", approval="always")
    async def pay(word: str) -> str:
        """Pay."""
        return s.text("paidresult")

    @placet.tool(effect="write", risk="medium", permission="w")
    async def vague(word: str) -> str:
        """Act, and say nothing sensible."""
        raise ConnectionError(s.text("vaguetext"))

    return [look, broken, rejected, pay, vague]


class Story:
    """Everything that may be sent, right and wrong."""

    def __init__(self, door: InProcess, s: Secrets, outputs: Outputs) -> None:
        self.door = door
        self.s = s
        self.outputs = outputs

    async def send(self, message: Any, *, body: bytes | None = None, **headers: str) -> Any:
        shown = headers_of(message) | {name.replace("_", "-"): value for name, value in headers.items()}
        content = json.dumps(message).encode() if body is None else body
        answer = await self.door.client.post("/mcp", content=content, headers=shown)
        self.outputs.hear("answers", answer.content)
        self.outputs.hear("headers", *(f"{name}: {value}" for name, value in answer.headers.items()))
        return answer

    async def call(self, tool: str, arguments: Any, **more: Any) -> Any:
        return await self.send(modern("tools/call", {"name": tool, "arguments": arguments}, **more))

    async def calls(self) -> None:
        s = self.s
        meta = {
            "io.placet/run": s("runid"),
            "io.placet/call-id": s("callid"),
            "io.placet/idempotency-key": s("callerkey"),
            "traceparent": s("traceparent"),
            "tracestate": s("tracestate"),
            s("metaname"): s("metavalue"),
            "progressToken": s("progresstoken"),
        }
        await self.call("vague", {"word": s.text("argument")}, meta=meta)
        for tool in ("look", "broken", "rejected"):
            await self.call(tool, {"word": s.text("otherargument")})
        await self.call("look", {"word": 1, s("membername"): s.text("membervalue")})
        await self.call(s("toolname"), {"word": s.text("unknownargument")})
        await self.call("look", {"word": s.text("badmeta")}, meta={"io.placet/run": [s("badrun")]})
        message = modern("tools/call", {"name": "look", "arguments": {"word": "a"}})
        await self.send(message, x_request_id=s("requestid"))

    async def rounds(self) -> None:
        s = self.s
        pay = {"name": "pay", "arguments": {"word": s.text("paidargument")}}
        asked = (await self.send(modern("tools/call", pay, capabilities=WITH_PAGES))).json()["result"]
        state = {"requestState": asked["requestState"]}
        said = {"approval": {"action": "accept", "content": {s("formname"): s("formvalue")}}}
        await self.send(modern("tools/call", pay | state | {"inputResponses": said}, capabilities=WITH_PAGES))
        for bad in (s("state"), asked["requestState"][:-3] + "abc"):
            await self.send(modern("tools/call", pay | {"requestState": bad}, capabilities=WITH_PAGES))
        await self.door.approve(asked["_meta"]["io.placet/outcome"]["approval_id"])

    async def wrong(self) -> None:
        s = self.s
        look = modern("tools/call", {"name": "look", "arguments": {"word": "a"}})
        await self.send(modern(f"made/{s('method')}", {"x": s("methodparams")}))
        await self.send(modern("tools/list", {"cursor": s("cursor") * 20}))
        await self.send(modern("resources/read", {"uri": f"file:///{s('uri')}"}))
        await self.send(look, body=f'{{"jsonrpc":"2.0","id":1,"id":"{s("doubled")}"'.encode())
        await self.send(look, body=json.dumps(look | {"method": [s("methodlist")]}).encode())
        await self.send(look, authorization=f"Bearer {s('token')}")
        await self.send(look, origin=f"https://{s('origin')}.test")
        await self.send(look, host=f"{s('host')}.test")
        await self.send(look, content_type=f"text/{s('mediatype')}")
        await self.send(look, mcp_name=s("mirrored"))
        await self.send(look, mcp_protocol_version=OLDER, mcp_session_id=s("session"))
        await self.send(look, body=json.dumps({"jsonrpc": "2.0", "id": {"a": s("idvalue")}, "method": "x"}).encode())
        bad = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": [s("version")]}}
        await self.send(look, body=json.dumps(bad).encode(), mcp_protocol_version=OLDER)


@pytest.mark.req("B202")
async def test_nothing_that_a_client_sends_can_be_read_where_it_does_not_belong(
    tmp_path: Path, outputs: Outputs
) -> None:
    s = Secrets()
    unhurried = replace(QUICK, progress_seconds=3_600.0)  # whether a notice with its token goes out is no race here
    async with in_process(tmp_path, tools=tools_of(s), settings=unhurried) as door:
        story = Story(door, s, outputs)
        await story.calls()
        await story.rounds()
        await story.wrong()
        outputs.hear("metrics", generate_latest(door.registry))
    assert_exactly(outputs, s, BELONGS)


@pytest.mark.case("M01")
async def test_an_exception_that_nobody_expected_leaves_no_text(
    tmp_path: Path, outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = Secrets()
    async with in_process(tmp_path) as door:

        async def fails(*args: Any, **more: Any) -> Any:
            raise RuntimeError(s.text("inside"))

        monkeypatch.setattr(door.gate, "submit_listed", fails)
        story = Story(door, s, outputs)
        answer = await story.call("look", {"word": "a"})
        assert answer.json()["error"] == {"code": -32603, "message": "Internal error"}
    assert_exactly(outputs, s, {})
