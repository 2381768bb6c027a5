"""A call that nobody waits for any more: the server is told once, and what it says late is still evidence."""

from __future__ import annotations

import asyncio

import pytest

import placet
from tests.upstreams.scene import AGENT, OTHER, Server, gate_with, joined, over_http, over_stdio, submit, until
from tests.upstreams.test_guard import Guard, context


async def given_up(gate: placet.Gate, server: Server, tool: str) -> placet.Outcome | None:
    """Submit, wait until the server has it, and leave."""
    call = asyncio.create_task(submit(gate, tool, "one"))
    await until(lambda: tool.partition(".")[2] in [each["tool"] for each in server.lines("called")])
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    return None


@pytest.mark.case("K01")
async def test_a_server_is_told_exactly_once_and_of_the_right_request(server: Server, era: str) -> None:
    async with gate_with(joined(over_stdio(server, era))) as gate:
        await given_up(gate, server, "desk.ponder")
        after = await submit(gate, "desk.echo", "two", call="c-2")
        told = server.heard("notifications/cancelled")

    call = next(each for each in server.heard("tools/call") if each["params"]["name"] == "ponder")
    assert [each["params"]["requestId"] for each in told] == [call["id"]]
    assert after.unwrap() == {"said": "two"}
    assert len(server.lines("started")) == 1


@pytest.mark.case("K01")
async def test_a_deadline_tells_it_too(server: Server) -> None:
    async with gate_with(joined(over_stdio(server))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        number = 0
        while (await submit(gate, "desk.ponder", "one", seconds=1.5, call=f"c-{number}")).status != "timed_out":
            number += 1  # a machine that stood still has not even sent it
        await until(lambda: bool(server.heard("notifications/cancelled")))

    assert [each["tool"] for each in server.lines("called")] == ["echo", "ponder"]
    assert len(server.heard("notifications/cancelled")) == 1


@pytest.mark.case("K01")
@pytest.mark.parametrize("over", ["stdio", "http"])
@pytest.mark.parametrize("era", ["handshake"], indirect=True)
async def test_a_late_answer_settles_what_a_write_did(http: Server, tmp_path_factory: pytest.TempPathFactory,
                                                      over: str) -> None:  # fmt: skip
    server = http if over == "http" else Server(tmp_path_factory.mktemp("stdio"))
    upstream = over_http(server) if over == "http" else over_stdio(server)
    async with gate_with(joined(upstream)) as gate:
        await submit(gate, "desk.echo", call="c-0")
        await given_up(gate, server, "desk.hold")
        await until(lambda: bool(server.heard("notifications/cancelled")))
        unknown = await submit(gate, "desk.hold", "one")
        server.do("release")
        replayed = await settled(gate, "desk.hold")

    assert unknown.status == "unknown"
    assert replayed.unwrap() == {"content": [{"type": "text", "text": "held"}]}
    assert len(server.lines("acted")) == 1 and len(server.heard("notifications/cancelled")) == 1


async def settled(gate: placet.Gate, tool: str) -> placet.Outcome:
    async with asyncio.timeout(30):
        while (outcome := await submit(gate, tool, "one")).status in ("unknown", "in_progress"):
            await asyncio.sleep(0.01)
    return outcome


@pytest.mark.parametrize("era", ["stateless"], indirect=True)
async def test_over_http_of_the_newer_era_closing_the_stream_is_how_it_is_said(http: Server) -> None:
    async with gate_with(joined(over_http(http))) as gate:
        await given_up(gate, http, "desk.ponder")
        http.do("release")
        await until(lambda: bool(http.lines("stream closed")))
        after = await submit(gate, "desk.echo", "two", call="c-2")

    assert http.heard("notifications/cancelled") == []
    assert after.unwrap() == {"said": "two"}


@pytest.mark.case("K01")
async def test_a_server_that_dies_of_being_told_is_begun_anew(server: Server) -> None:
    async with gate_with(joined(over_stdio(server))) as gate:
        await given_up(gate, server, "desk.ponder")
        server.do("die")
        after = await settled_echo(gate)

    assert after.unwrap() == {"said": "two"}
    assert len(server.lines("started")) == 2


async def settled_echo(gate: placet.Gate) -> placet.Outcome:
    async with asyncio.timeout(30):
        number = 0
        while (outcome := await submit(gate, "desk.echo", "two", call=f"e-{number}")).status != "succeeded":
            number += 1
            await asyncio.sleep(0.01)
    return outcome


async def test_what_has_not_left_in_time_does_not_leave_later(server: Server) -> None:
    """While the definitions are looked at, calls wait; one whose time is over then was never sent."""
    async with gate_with(joined(over_stdio(server))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        server.do("manner", manner="silent")
        server.do("changed")
        await until(lambda: len(server.heard("tools/list")) > 1)
        outcome = await submit(gate, "desk.note", "one", seconds=2.5)

    assert (outcome.status, outcome.may_have_acted) == ("failed", False)
    assert outcome.code in ("upstream_unavailable", "not_sent")
    assert server.lines("acted") == []
    assert AGENT.subject == "agent"


async def test_a_server_that_is_slow_to_begin_leaves_a_write_unsent_and_not_unknown(server: Server) -> None:
    async with gate_with(joined(over_stdio(server, "mute"))) as gate:
        outcome = await submit(gate, "desk.note", "one", seconds=2.5)

    assert (outcome.status, outcome.may_have_acted) == ("failed", False)
    assert server.heard("tools/call") == []


@pytest.mark.parametrize("era", ["handshake", "stateless"], indirect=True)
async def test_a_call_that_was_given_up_leaves_no_request_open(http: Server) -> None:
    """Each holds a connection, and there are so many of those."""
    async with gate_with(joined(over_http(http))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        for number in range(3):
            call = asyncio.create_task(submit(gate, "desk.ponder", f"n-{number}", call=f"p-{number}"))
            await until(lambda: f"n-{number}" in [each["text"] for each in http.lines("called")])  # noqa: B023
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await until(lambda: not [each for each in asyncio.all_tasks() if is_a_call(each)])
        after = await submit(gate, "desk.echo", "two", call="c-2")

    assert after.unwrap() == {"said": "two"}


def is_a_call(task: asyncio.Task[object]) -> bool:
    """Whether it is a POST over which an answer is waited for; the subscription's is not counted."""
    coroutine = task.get_coro()
    frame = getattr(coroutine, "cr_frame", None)
    is_post = getattr(coroutine, "__qualname__", "") == "StreamableChannel._ask"
    return is_post and frame is not None and b'"tools/call"' in frame.f_locals["message"]


class LetsThrough(Guard):
    def __call__(self) -> None:
        self.asked += 1


async def test_a_call_that_is_cancelled_twice_leaves_nothing_behind(server: Server) -> None:
    """The second time while its late answer is listened for."""
    upstream = joined(over_stdio(server))
    async with gate_with(upstream):
        handler = next(each.function for each in upstream.tools if each.contract.name == "desk.hold")
        attempt = asyncio.ensure_future(handler({"text": "one"}, context(LetsThrough())))
        await until(lambda: bool(server.lines("called")))
        attempt.cancel()
        await until(lambda: bool(server.heard("notifications/cancelled")))
        attempt.cancel()
        await asyncio.wait((attempt,))
        await asyncio.sleep(0)
        (link,) = upstream.open_pool()._links.values()

        assert attempt.cancelled() and not link.session.is_busy


async def test_a_caller_whose_own_time_is_short_keeps_nobody_else_from_a_server(server: Server) -> None:
    async with gate_with(joined(over_stdio(server))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        short = {(await submit(gate, "desk.echo", call=f"s-{n}", seconds=0.01)).status for n in range(12)}
        other = await submit(gate, "desk.echo", "two", by=OTHER, call="c-1")

    assert "succeeded" not in short
    assert other.unwrap() == {"said": "two"}
