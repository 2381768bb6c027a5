"""What an upstream says of its progress reaches whoever made the call, and keeps the call from being given up."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

import placet
from placet import CallProgress
from tests.engine.conftest import Moved
from tests.upstreams.scene import AGENT, TERMS, Server, gate_with, joined, over_http, over_stdio, proposal, until

PATIENT = replace(TERMS["ponder"], timeout_seconds=30.0, silence_seconds=0.5)


def noticed(token: Any, progress: Any, **more: Any) -> dict[str, Any]:
    params = {"progressToken": token, "progress": progress, **more}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def token_of(server: Server) -> Any:
    return server.heard("tools/call")[-1]["params"]["_meta"]["progressToken"]


def says(server: Server, *notices: dict[str, Any]) -> None:
    """In the middle of one call of `read`, before its answer."""
    lines = [json.dumps(each).replace('"$ID"', "$ID") for each in notices]
    answer = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":{"said":"done"}}}'
    server.do("answer", text="one", **{"with": {"lines": [*lines, answer]}})


async def read(gate: placet.Gate, heard: list[CallProgress] | None) -> placet.Outcome:
    on_progress = None if heard is None else heard.append
    return await gate.submit(proposal("desk.read", "one"), principal=AGENT, run="r", on_progress=on_progress)


@pytest.mark.case("I08")
async def test_a_call_that_somebody_listens_to_has_a_token_and_its_progress_reaches_its_caller(
    server: Server, era: str
) -> None:
    heard: list[CallProgress] = []
    async with gate_with(joined(over_stdio(server, era))) as gate:
        await gate.submit(proposal("desk.echo"), principal=AGENT, run="r")
        says(
            server,
            noticed("$ID", 1, total=4, message="a quarter"),
            noticed("$ID", 2, message="hid\u200bden"),
            noticed("$ID", "3", message="no number"),
            noticed(999, 3, message="of nobody's call"),
            noticed("$ID", 4, total=4, message="x" * 5_000),
        )
        assert (await read(gate, heard)).unwrap() == {"said": "done"}
        assert token_of(server) is not None
        assert (await gate.submit(proposal("desk.echo", call_id="c-9"), principal=AGENT, run="r")).status == "succeeded"
    tokens = ["progressToken" in each["params"]["_meta"] for each in server.heard("tools/call")]
    assert tokens == [False, True, False]
    assert [(each.done, each.total, each.message) for each in heard] == [
        (1.0, 4.0, "a quarter"),
        (2.0, None, None),
        (4.0, 4.0, "x" * 200),
    ]


async def test_over_http_it_comes_on_the_calls_own_stream(http: Server) -> None:
    heard: list[CallProgress] = []
    async with gate_with(joined(over_http(http))) as gate:
        await gate.submit(proposal("desk.echo"), principal=AGENT, run="r")
        says(http, noticed("$ID", 1, message="one"))
        assert (await read(gate, heard)).unwrap() == {"said": "done"}
    assert [(each.done, each.message) for each in heard] == [(1.0, "one")]


@pytest.mark.case("I08")
@pytest.mark.parametrize("goes_on", [True, False], ids=["says so to the end", "falls silent"])
async def test_progress_keeps_a_long_call_and_silence_ends_it(server: Server, goes_on: bool) -> None:
    clock, heard = Moved(), list[CallProgress]()
    async with gate_with(joined(over_stdio(server), ponder=PATIENT), clock=clock) as gate:
        calling = asyncio.ensure_future(
            gate.submit(proposal("desk.ponder"), principal=AGENT, run="r", on_progress=heard.append)
        )
        await until(lambda: bool(server.lines("called")))
        for number in range(1, 6):  # two seconds in all, four times what it may keep silent
            clock.advance(0.4)
            await asyncio.to_thread(server.do, "send", messages=[noticed(token_of(server), number)])
            await until(lambda: len(heard) == number)  # noqa: B023
        if goes_on:
            await asyncio.to_thread(server.do, "release")
        else:
            clock.advance(0.5)
        outcome = await calling
    assert [each.done for each in heard] == [1.0, 2.0, 3.0, 4.0, 5.0]
    if goes_on:
        assert outcome.status == "succeeded"
    else:
        assert outcome.status == "timed_out"
        assert "30 seconds in all, 0.5 without a word of its progress" in outcome.message
        assert server.heard("notifications/cancelled")
