"""A client that sends a progress token hears what its tool says of its progress, in numbers that rise."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.mcp_server import McpSettings
from placet.mcp_server.progressing import STILL_RUNNING, Reporter
from placet.model.identifiers import CallId
from tests.engine.conftest import Moved
from tests.engine.test_progress import turns
from tests.mcp_server.conftest import QUICK, InProcess, in_process, modern

SELDOM = McpSettings(wait_seconds=0.2, poll_seconds=0.02, progress_seconds=3_600.0, max_rounds=3, page_size=4)


def telling(*words: tuple[Any, ...], until: asyncio.Event | None = None) -> placet.Tool:
    @placet.tool(effect="read", allowed_tenants=("acme",))
    async def count(context: placet.CallContext) -> str:
        for each in words:
            context.progress(*each)
        if until is not None:
            await until.wait()
        return "counted"

    return count


async def told(desk: InProcess, *, token: Any = 7) -> list[dict[str, Any]]:
    """The messages that answer a call, the answer last."""
    meta = {} if token is None else {"progressToken": token}
    answer = await desk.post(modern("tools/call", {"name": "count", "arguments": {}}, meta=meta))
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return [answer.json()]
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line]


async def test_what_a_tool_says_reaches_its_client_before_the_answer(tmp_path: Path) -> None:
    tool = telling((0,), (3, 10, "three"), (3, 10, "still three"), (1, 10, "hid\u200bden"), (10, 10, "all"))
    async with in_process(tmp_path, settings=SELDOM, tools=[tool]) as desk:
        *notices, answer = await told(desk)
    assert answer["result"]["structuredContent"]["result"] == "counted"
    assert {each["method"] for each in notices} == {"notifications/progress"}
    assert [each["params"] for each in notices] == [
        {"progressToken": 7, "progress": 0.0},
        {"progressToken": 7, "progress": 3.0, "total": 10.0, "message": "three"},
        {"progressToken": 7, "progress": 3.001, "total": 10.0, "message": "still three"},
        {"progressToken": 7, "progress": pytest.approx(3.002), "total": 10.0},
        {"progressToken": 7, "progress": 10.0, "total": 10.0, "message": "all"},
    ]


async def test_a_client_without_a_token_is_told_nothing(tmp_path: Path) -> None:
    async with in_process(tmp_path, settings=QUICK, tools=[telling((1,), (2,))]) as desk:
        (answer,) = await told(desk, token=None)
    assert answer["result"]["structuredContent"]["result"] == "counted"


class Client:
    """Hears, and can be slow, or gone."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self.heard: list[tuple[float, float | None, str | None]] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.is_gone = is_gone

    @property
    def session(self) -> Client:
        return self

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        await self.reads.wait()
        if self.is_gone:
            raise ConnectionError
        self.heard.append((progress, total, message))


def word(done: float, total: float | None = None, message: str | None = None) -> placet.CallProgress:
    return placet.CallProgress(call_id=CallId("c"), tool="t", attempt=1, done=done, total=total, message=message)


async def test_signs_of_life_go_on_from_where_the_tool_is() -> None:
    clock, client = Moved(), Client()
    reporter = Reporter(client, clock=clock, every_seconds=5.0)  # type: ignore[arg-type]
    async with reporter.until_answered():
        for _ in range(2):
            await turns()
            clock.advance(5.0)
        await turns()
        reporter.heard(word(5, 9, "words"))
        await turns()
        clock.advance(5.0)
        await turns()
        reporter.heard(word(6, 9))
    assert client.heard == [
        (0.0, None, STILL_RUNNING),
        (0.001, None, STILL_RUNNING),
        (5.0, 9, "words"),
        (5.001, 9, STILL_RUNNING),
        (6, 9, None),
    ]


async def test_numbers_rise_at_any_size_and_no_word_of_a_tool_ends_the_signs_of_life() -> None:
    clock, client = Moved(), Client()
    reporter = Reporter(client, clock=clock, every_seconds=5.0)  # type: ignore[arg-type]
    async with reporter.until_answered():
        for done in (1e300, 2.0**53, -5.0, sys.float_info.max, 1.0):
            reporter.heard(word(done))
        await turns()
        clock.advance(5.0)
        await turns()
    said = [each[0] for each in client.heard]
    assert said == sorted(set(said)) and len(said) == 6
    assert client.heard[-1][2] == STILL_RUNNING


async def test_after_the_answer_nothing_is_told_any_more() -> None:
    client = Client()
    reporter = Reporter(client, clock=Moved(), every_seconds=5.0)  # type: ignore[arg-type]
    async with reporter.until_answered():
        reporter.heard(word(1))
    reporter.heard(word(2))
    await turns()
    assert [each[0] for each in client.heard] == [1]


async def test_a_slow_client_costs_its_oldest_words_and_a_gone_one_nothing() -> None:
    client = Client()
    client.reads.clear()
    reporter = Reporter(client, clock=Moved(), every_seconds=5.0)  # type: ignore[arg-type]
    async with reporter.until_answered():
        for done in range(100):
            reporter.heard(word(done))
        client.reads.set()
    assert [each[0] for each in client.heard] == [*range(36, 100)]

    gone = Client(is_gone=True)
    reporter = Reporter(gone, clock=Moved(), every_seconds=5.0)  # type: ignore[arg-type]
    async with reporter.until_answered():
        reporter.heard(word(1))
    assert gone.heard == []
