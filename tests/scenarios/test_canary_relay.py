"""What passes between a client and an upstream is read at its two ends, and nowhere between or beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

import placet
from placet.mcp_server import tracing
from placet.model.contract import EffectClass, Risk
from placet.model.upstreams import Relayed
from placet.testing import FixedSignIn
from tests.mcp_server.conftest import InProcess, in_process, modern
from tests.mcp_server.test_canary import Spans
from tests.scenarios.canary import LogEars, Outputs, Secrets
from tests.scenarios.test_canary import assert_exactly
from tests.upstreams.scene import TERMS, Server, joined, over_stdio

AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",))
ABLE: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
CLIENT = "the client is told it"
BELONGS: dict[str, tuple[str, tuple[str, ...]]] = {
    name: (CLIENT, ("answers",))
    for name in (
        *("resourcename", "resourcetext", "resourceaddress", "templatename", "templateaddress"),
        *("promptname", "promptdescription", "prompttext", "completed"),
        *("question", "questionfield", "progresswords", "logdata", "toolresult"),
    )
} | {
    "toolfault": ("a tool that says that it failed speaks to the proposer", ("answers",)),
    "progresstoken": ("what the client's own notices are called", ("answers",)),
}


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Outputs]:
    heard = Outputs()
    monkeypatch.setattr(tracing, "_tracer", Spans(heard))
    yield from (heard for _ in LogEars(heard).listening())


def offers(server: Server, s: Secrets) -> None:
    """What the upstream says where it is asked for it."""

    def result(**members: Any) -> dict[str, Any]:
        return {"result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **members}}

    resource = {"uri": f"file:///{s('resourceaddress')}", "name": s("resourcename")}
    template = {"uriTemplate": f"file:///{s('templateaddress')}/{{x}}", "name": s("templatename")}
    prompt = {"name": s("promptname"), "description": s("promptdescription")}
    said = {"role": "user", "content": {"type": "text", "text": s("prompttext")}}
    for method, answer in {
        "resources/list": result(resources=[resource]),
        "resources/templates/list": result(resourceTemplates=[template]),
        "resources/read": result(contents=[{"uri": resource["uri"], "text": s("resourcetext")}]),
        "prompts/list": result(prompts=[prompt]),
        "prompts/get": result(messages=[said]),
        "completion/complete": result(completion={"values": [s("completed")]}),
    }.items():
        server.do("answer", text=method, **{"with": answer})


class Story:
    def __init__(self, door: InProcess, s: Secrets, outputs: Outputs) -> None:
        self.door, self.s, self.outputs = door, s, outputs
        self.capabilities: dict[str, Any] | None = None

    async def ask(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        answer = await self.door.post(modern(method, params, capabilities=self.capabilities, meta=meta))
        self.outputs.hear("answers", answer.content)
        lines = answer.text.splitlines()
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return dict(json.loads(data[-1] if data else answer.text))

    async def read(self, text: str, **params: Any) -> dict[str, Any]:
        call = {"name": "desk.read", "arguments": {"text": text}, **params}
        level = {"io.modelcontextprotocol/logLevel": "debug", "progressToken": self.s("progresstoken")}
        return await self.ask("tools/call", call, **level)

    async def echo(self) -> None:
        """For the process that what is said to the server next goes to."""
        await self.ask("tools/call", {"name": "desk.echo", "arguments": {"text": "a"}})

    async def what_is_no_tool(self, server: Server) -> None:
        s = self.s
        for method in ("resources/list", "resources/templates/list", "prompts/list"):
            await self.ask(method)
        await self.ask("resources/read", {"uri": f"placet:desk/file:///{s('askedaddress')}"})
        await self.ask("prompts/get", {"name": f"desk.{s('promptname')}", "arguments": {"a": s("promptargument")}})
        ref = {"type": "ref/prompt", "name": f"desk.{s('promptname')}"}
        await self.ask("completion/complete", {"ref": ref, "argument": {"name": "a", "value": s("completing")}})
        for method in ("resources/read", "prompts/get", "completion/complete", "resources/list"):
            fault = {"error": {"code": -32603, "message": s("fault"), "data": {"x": s("faultdata")}}}
            server.do("answer", text=method, **{"with": fault})
        await self.ask("resources/list")
        await self.ask("resources/read", {"uri": f"placet:desk/file:///{s('askedaddress')}"})
        await self.ask("prompts/get", {"name": f"desk.{s('promptname')}"})

    async def calls(self, server: Server) -> None:
        s = self.s
        lines: list[dict[str, Any]] = [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": "$ID", "progress": 1, "message": s("progresswords")}},
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": s("logdata")}},
            {"jsonrpc": "2.0", "method": f"notifications/{s('strange')}", "params": {"x": s("strangeparams")}},
            {"jsonrpc": "2.0", "id": s("foreignid"), "method": s("foreignmethod"), "params": {}},
        ]  # fmt: skip
        done = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":{"said":"SAID"}}}'
        texts = [json.dumps(each).replace('"$ID"', "$ID") for each in lines]
        whole = {"lines": [*texts, s("noise"), done.replace("SAID", s("toolresult"))]}
        fails = {"result": {"content": [{"type": "text", "text": s("toolfault")}], "isError": True}}
        broken = {"result": {"content": [], "structuredContent": {"other": s("brokenresult")}}}
        fault = {"error": {"code": -32000, "message": s("callfault"), "data": {"x": s("callfaultdata")}}}
        for number, answer in enumerate((whole, fails, broken, fault)):
            server.do("answer", text=f"{number}{s('argument')}", **{"with": answer})
            await self.read(f"{number}{s('argument')}")

    async def questions(self, server: Server) -> None:
        """By a client that can be asked: it has a session, and a process, of its own."""
        s, self.capabilities = self.s, ABLE
        await self.echo()
        schema = {"type": "object", "properties": {s("questionfield"): {"type": "string"}}}
        form = {"method": "elicitation/create", "params": {"message": s("question"), "requestedSchema": schema}}
        wrong = {"method": "elicitation/create", "params": {"message": "pass\u200bword" + s("hiddenquestion")}}
        password = {"type": "object", "properties": {"password": {"type": "string"}}}
        wanted = {"message": s("secretquestion"), "requestedSchema": password}
        secret = {"method": "elicitation/create", "params": wanted}
        for key, question in {"a": form, "b": wrong, "c": secret}.items():
            result = {"resultType": "input_required", "inputRequests": {key: question}, "requestState": s("theirstate")}
            server.do("answer", text=key, **{"with": {"result": result}})
            asked = (await self.read(key))["result"]
            if "requestState" in asked:
                answers = {key: {"action": "accept", "content": {s("questionfield"): s("clientsanswer")}}}
                await self.read(key, requestState=asked["requestState"], inputResponses=answers)


@pytest.mark.req("B202")
@pytest.mark.case("K08")
async def test_what_passes_through_the_relay_is_read_at_its_ends_alone(tmp_path: Path, outputs: Outputs) -> None:
    s, server = Secrets(), Server(tmp_path)
    reads = replace(TERMS["read"], effect=EffectClass.READ, risk=Risk.LOW)
    upstream = joined(over_stdio(server, "stateless", relayed=frozenset(Relayed)), read=reads)
    async with in_process(tmp_path, tools=[], upstreams=[upstream], sign_in=FixedSignIn({"t-agent": AGENT})) as door:
        story = Story(door, s, outputs)
        await story.echo()
        offers(server, s)
        await story.what_is_no_tool(server)
        await story.calls(server)
        await story.questions(server)
        outputs.hear("audit", *[json.dumps(event) for event in await door.events()])
        outputs.hear("metrics", generate_latest(door.registry))
    outputs.hear_files("store", tmp_path, "placet.db*")
    assert {"answers", "audit", "metrics", "spans", "log as JSON"} <= set(outputs.channels)
    assert_exactly(outputs, s, BELONGS)
