"""Sessions are few: a tenant leaves some to the others, and whoever only listens gives way to whoever calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

import placet
from placet.bootstrap.relaying import relay_sides
from placet.bootstrap.upstreams import McpUpstream
from placet.model.contract import RetryPolicy
from placet.model.json import JsonObject
from placet.model.upstreams import Relayed, Statefulness
from placet.ports.relay import RelayRefused
from tests.upstreams.scene import (
    AGENT,
    LONGEST_SECONDS,
    SOUTH,
    TERMS,
    Server,
    gate_with,
    joined,
    over_http,
    submit,
    until,
)

pytestmark = pytest.mark.parametrize("era", ["stateless"], indirect=True)


def principal(name: str) -> placet.Principal:
    return replace(AGENT, subject=name)


WANTED: JsonObject = {"resourcesListChanged": True}


def stateful(http: Server, max_sessions: int) -> McpUpstream:
    once = replace(TERMS["echo"], retry=RetryPolicy(max_attempts=1))
    return joined(
        over_http(
            http,
            statefulness=Statefulness.STATEFUL,
            relayed=frozenset({Relayed.RESOURCES}),
            bounds={"max_sessions": max_sessions},
        ),
        echo=once,
    )


@asynccontextmanager
async def held(gate: placet.Gate, http: Server, *names: str) -> AsyncIterator[None]:
    """Calls of these principals that are under way."""
    before = len(http.lines("called"))
    calls = [asyncio.create_task(submit(gate, "desk.hold", name, by=principal(name), seconds=60)) for name in names]
    await until(lambda: len(http.lines("called")) == before + len(names))
    yield
    http.do("release")
    assert {(await call).status for call in calls} == {"succeeded"}


async def test_a_tenants_calls_leave_a_session_to_another_tenant(http: Server) -> None:
    async with gate_with(stateful(http, 3)) as gate, held(gate, http, "one", "two"):
        third = await submit(gate, "desk.echo", by=principal("three"), call="c-3")
        south = await submit(gate, "desk.echo", by=SOUTH, call="c-4")

    assert (third.status, third.code) == ("failed", "upstream_unavailable")
    assert south.unwrap() == {"said": "hello"}


async def test_what_is_used_no_more_counts_for_nobody(http: Server) -> None:
    async with gate_with(stateful(http, 2)) as gate:
        outcomes = [await submit(gate, "desk.echo", by=principal(name), call=name) for name in ("one", "two", "three")]
        async with held(gate, http, "four"):
            south = await submit(gate, "desk.echo", by=SOUTH, call="c-5")

    assert {each.status for each in (*outcomes, south)} == {"succeeded"}


async def test_who_only_listens_gives_way_to_a_call_and_hears_that_it_is_over(http: Server) -> None:
    upstream = stateful(http, 2)
    async with gate_with(upstream) as gate, asyncio.timeout(LONGEST_SECONDS):
        (side,) = relay_sides((upstream,))
        async with side.notices(principal("one"), WANTED) as first, side.notices(principal("two"), WANTED) as second:
            with pytest.raises(RelayRefused):  # who listens ends nobody's listening
                async with side.notices(principal("three"), WANTED):
                    raise AssertionError
            outcome = await submit(gate, "desk.echo", by=principal("three"))
            http.do("send", messages=[{"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}])
            told = await anext(second)
            over = [each async for each in first]

    assert outcome.unwrap() == {"said": "hello"}
    assert told.method == "notifications/resources/list_changed"
    assert over == []


async def test_a_session_that_is_idle_ends_before_one_that_is_listened_to(http: Server) -> None:
    upstream = stateful(http, 2)
    async with gate_with(upstream) as gate, asyncio.timeout(LONGEST_SECONDS):
        (side,) = relay_sides((upstream,))
        async with side.notices(principal("one"), WANTED) as first:
            for name in ("two", "three"):
                await submit(gate, "desk.echo", by=principal(name), call=name)
            http.do("send", messages=[{"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}])
            told = await anext(first)

    assert told.method == "notifications/resources/list_changed"


async def test_who_begins_to_listen_keeps_no_call_waiting(http: Server) -> None:
    """Only the gate's own subscription says something of the tools."""
    upstream = joined(over_http(http, relayed=frozenset((Relayed.RESOURCES,))))
    async with gate_with(upstream) as gate, asyncio.timeout(LONGEST_SECONDS):
        (side,) = relay_sides((upstream,))
        await submit(gate, "desk.echo", call="c-0")
        looks = len(http.heard("tools/list"))
        async with side.notices(principal("one"), WANTED):
            outcome = await submit(gate, "desk.echo", call="c-1")
            listening = len(http.heard("subscriptions/listen"))

    assert outcome.unwrap() == {"said": "hello"}
    assert (len(http.heard("tools/list")), listening) == (looks, 2)
