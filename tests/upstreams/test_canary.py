"""A distinct secret in all that goes to a server or comes from it: each is read where it belongs and nowhere else.

Source: REQUIREMENTS B121, B176, B202; DESIGN section 14.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet.bootstrap.records import audit_export
from placet.bootstrap.stores import open_existing_store
from placet.model.destinations import SecretPlace, SecretRef
from tests.scenarios.canary import LogEars, Outputs, Secrets
from tests.upstreams.scene import Server, gate_with, joined, over_stdio, submit, until

pytestmark = pytest.mark.req("B121", "B176", "B202")

BELONGS = {("result", "outcomes"), ("readerror", "outcomes")}
"""What a tool says of a read, result or its own failure, is the proposer's."""


def answers_of(secrets: Secrets) -> dict[str, tuple[str, Any]]:
    """One for each way in which a server may answer: the tool that is asked, and what it is answered."""

    def text(name: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": secrets(name)}]

    def error(code: int, name: str) -> dict[str, Any]:
        return {"error": {"code": code, "message": secrets(name), "data": {"x": secrets(f"{name}data")}}}

    return {
        "a": ("say", {"result": {"content": text("result"), "_meta": {secrets("metaname"): secrets("meta")}}}),
        "b": ("say", {"result": {"isError": True, "content": text("writeerror")}}),
        "c": ("read", {"result": {"isError": True, "content": text("readerror")}}),
        "d": ("say", {"result": {"content": [{"type": secrets("kind"), "text": secrets("odd")}]}}),
        "e": ("read", {"result": {"structuredContent": {secrets("membername"): secrets("broken")}}}),
        "f": ("say", error(-32602, "refused")),
        "g": ("say", error(-32603, "internal")),
        "h": ("say", {"result": {"resultType": "input_required", "inputRequests": {
            secrets("question"): {"method": "elicitation/create", "params": {"message": secrets("asked")}}}}}),
        "i": ("say", {"lines": [secrets("noise"), json.dumps({"jsonrpc": "2.0", "id": 0, "result": secrets("stray")}),
                                '{"jsonrpc":"2.0","id":$ID,"result":"' + secrets("garbled") + '"}']}),
        "j": ("say", {"result": {"content": [{"type": "text", "text": "a" * 5_000_000 + secrets("toolong")}]}}),
    }  # fmt: skip


async def test_what_goes_to_a_server_and_comes_from_it_is_read_only_where_it_belongs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets, outputs, registry = Secrets(), Outputs(), CollectorRegistry()
    listening = LogEars(outputs).listening()
    next(listening)
    monkeypatch.setenv("DESK_TOKEN", secrets("token"))
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    token = SecretRef(place=SecretPlace.ENVIRONMENT, name="DESK_TOKEN")
    upstream = over_stdio(server, way={"environment": {"TOKEN": token}})
    store = tmp_path / "placet.db"
    async with gate_with(joined(upstream), store=store, metrics=registry) as gate:
        await submit(gate, "desk.echo", secrets("argument"), call="c-0")
        outcomes = []
        for key, (tool, answer) in answers_of(secrets).items():
            server.do("answer", text=key, **{"with": answer})
            outcomes.append(await submit(gate, f"desk.{tool}", key, call=f"c-{key}"))
        server.do("describe", tool="echo", member="description", value=secrets("description"))
        server.do("add", tool={"name": secrets("toolname"), "inputSchema": {"type": "object"}})
        notice = {"jsonrpc": "2.0", "method": secrets("method"), "params": {"a": secrets("note")}}
        await asyncio.to_thread(server.do, "send", messages=[notice])  # it may be writing what is too long still
        server.do("changed")
        await until(lambda: len(server.heard("tools/list")) > 1)
        outcomes.append(await submit(gate, "desk.echo", "after", call="c-z"))
        await gate.reconciler.recover()
        outputs.hear("metrics", generate_latest(registry))
        outputs.hear("audit", *[event.body async for event in gate.store.chained()])
    for outcome in outcomes:
        outputs.hear_outcome(outcome)
    keys, opened = open_existing_store(store)
    async with audit_export(opened, keys, tenant="north") as lines:
        outputs.hear("audit export", *[line async for line in lines])
    await opened.close()
    outputs.hear_files("store files", tmp_path, "placet.db*")
    next(listening, None)

    assert server.lines("started")[0]["environment"]["TOKEN"] == secrets("token")
    assert {each.status for each in outcomes} >= {"succeeded", "unknown", "failed"}
    assert {"log as text", "metrics", "audit", "errors", "store files"} <= set(outputs.channels)
    assert set(outputs.found(secrets)) == BELONGS
    assert isinstance(outcomes[2], placet.Failed) and outcomes[2].words == secrets("readerror")
