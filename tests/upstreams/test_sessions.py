"""Whose session is whose, what happens when one is lost, and what a server that is away costs."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import placet
from placet.model.contract import RetryPolicy
from placet.model.issuers import Network
from placet.model.upstreams import Statefulness, StdioWay, StreamableWay, Upstream
from tests.processes import is_gone
from tests.upstreams.scene import (
    AGENT,
    OTHER,
    SOUTH,
    TERMS,
    Server,
    gate_with,
    joined,
    over_http,
    over_stdio,
    submit,
    until,
)


async def ask_three(gate: placet.Gate) -> list[placet.Outcome]:
    return [await submit(gate, "desk.echo", "one", by=each) for each in (AGENT, OTHER, SOUTH)]


async def test_a_session_is_never_another_tenants(server: Server) -> None:
    async with gate_with(joined(over_stdio(server))) as gate:
        outcomes = await ask_three(gate)

    assert {each.status for each in outcomes} == {"succeeded"}
    assert len(server.lines("started")) == 2  # north's two principals share theirs


async def test_a_session_that_remembers_is_never_another_principals(server: Server) -> None:
    upstream = over_stdio(server, statefulness=Statefulness.STATEFUL)
    async with gate_with(joined(upstream)) as gate:
        outcomes = [*await ask_three(gate), *await ask_three(gate)]

    assert {each.status for each in outcomes} == {"succeeded"}
    assert len(server.lines("started")) == 3


async def test_a_server_is_for_its_own_tenants_alone(server: Server) -> None:
    async with gate_with(joined(over_stdio(server, tenants=frozenset({"north"})))) as gate:
        outcome = await submit(gate, "desk.echo", by=SOUTH)

    assert (outcome.status, outcome.may_have_acted) == ("refused", False)
    assert server.lines("started") == []


async def test_a_lost_session_is_begun_anew_once_for_all_who_wait(server: Server) -> None:
    async with gate_with(joined(over_stdio(server))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        first = server.process
        server.do("die")
        await until(lambda: is_gone(first))
        outcomes = await asyncio.gather(*(submit(gate, "desk.echo", "two", call=f"c-{n}") for n in range(1, 9)))

    assert {each.status for each in outcomes} == {"succeeded"}
    assert len(server.lines("started")) == 2
    assert len(server.heard("tools/list")) == 2  # verified anew before the first of them went out


@pytest.mark.parametrize("era", ["handshake"], indirect=True)
async def test_a_session_that_the_server_forgot_is_begun_anew_and_the_call_sent_once_more(http: Server) -> None:
    once = replace(TERMS["note"], retry=RetryPolicy(max_attempts=1))  # it is one attempt that sends it again
    async with gate_with(joined(over_http(http), note=once)) as gate:
        await submit(gate, "desk.note", "one", call="c-0")
        http.do("forget")
        outcomes = await asyncio.gather(*(submit(gate, "desk.note", f"n-{n}", call=f"c-{n}") for n in range(1, 5)))

    assert {each.status for each in outcomes} == {"succeeded"}
    assert sorted(each["text"] for each in http.lines("acted")) == ["n-1", "n-2", "n-3", "n-4", "one"]
    assert len(http.heard("initialize")) == 2


@pytest.mark.parametrize("era", ["handshake"], indirect=True)
async def test_a_session_that_is_forgotten_anew_proves_nothing_the_second_time(http: Server) -> None:
    async with gate_with(joined(over_http(http))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        http.do("manner", manner="forgets each call")
        outcome = await submit(gate, "desk.note", "one")
        read = await submit(gate, "desk.echo", "two", call="c-2")
        http.do("manner", manner="")
        after = await submit(gate, "desk.echo", "three", call="c-3")
        http.do("forget")
        again = await submit(gate, "desk.note", "four", call="c-4")

    assert (outcome.status, outcome.may_have_acted) == ("unknown", True)
    assert [each["text"] for each in http.lines("acted")] == ["one", "one", "four"]
    assert (read.status, after.status, again.status) == ("failed", "succeeded", "succeeded")


@pytest.mark.parametrize("era", ["stateless"], indirect=True)
async def test_where_there_are_no_sessions_404_is_a_status_like_others_whatever_names_one(http: Server) -> None:
    http.do("manner", manner="forgets each call")
    async with gate_with(joined(over_http(http))) as gate:
        outcome = await submit(gate, "desk.note", "one")

    assert (outcome.status, outcome.may_have_acted) == ("unknown", True)
    assert [each["text"] for each in http.lines("acted")] == ["one"]
    assert all("mcp-session-id" not in each["headers"] for each in http.lines("headers"))


async def test_a_write_that_may_have_been_taken_up_is_unknown_and_not_sent_again(server: Server) -> None:
    async with gate_with(joined(over_stdio(server))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        server.do("answer", text="dying", **{"with": "die"})

        outcome = await submit(gate, "desk.say", "dying")
        after = await submit(gate, "desk.echo", "two", call="c-2")

    assert outcome.status == "unknown"
    assert [each["text"] for each in server.lines("acted")] == ["dying"]
    assert after.unwrap() == {"said": "two"}


async def test_what_became_of_it_is_asked_of_another_tool_of_the_same_server(server: Server) -> None:
    async with gate_with(joined(over_stdio(server))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        call = asyncio.create_task(submit(gate, "desk.hold", "one", seconds=20))
        await until(lambda: bool(server.lines("acted")))
        call.cancel()
        await asyncio.wait((call,))
        server.do("release", **{"with": {"error": {"code": -32603, "message": "canary"}}})
        outcome = await recovered(gate)

    assert outcome.status == "replayed" and outcome.may_have_acted
    assert len(server.lines("acted")) == 1
    assert [each["tool"] for each in server.lines("called")].count("notes") >= 1


async def recovered(gate: placet.Gate) -> placet.Outcome:
    """Looked for until it was found."""
    async with asyncio.timeout(30):
        while (outcome := await submit(gate, "desk.hold", "one")).status in ("unknown", "in_progress"):
            await gate.reconciler.recover()
            await asyncio.sleep(0.01)
    return outcome


async def test_a_dead_server_costs_its_own_callers_a_named_failure(tmp_path: Path) -> None:
    way = StreamableWay(url="http://127.0.0.1:9/mcp", network=Network.LOOPBACK)
    dead = Upstream(name="dead", way=way, manifest=tmp_path / "m", statefulness=Statefulness.STATELESS)
    gone = replace(dead, name="gone", way=StdioWay(command="/nonexistent", folder=tmp_path))
    async with gate_with(joined(dead), joined(gone)) as gate:
        outcomes = [await submit(gate, f"{name}.note", "one", call=name) for name in ("dead", "gone", "dead")]

    assert [(each.status, each.code) for each in outcomes] == [("failed", "upstream_unavailable")] * 3
    assert all(each.retryable and not each.may_have_acted for each in outcomes)


async def test_a_private_address_is_not_reached_unless_it_is_allowed(tmp_path: Path) -> None:
    way = StreamableWay(url="https://127.0.0.1:9/mcp", network=Network.PUBLIC)
    inner = Upstream(name="inner", way=way, manifest=tmp_path / "m", statefulness=Statefulness.STATELESS)
    async with gate_with(joined(inner)) as gate:
        outcome = await submit(gate, "inner.note")

    assert outcome.code == "upstream_unavailable"


@pytest.mark.parametrize("era", ["stateless"], indirect=True)
async def test_a_credential_is_looked_up_for_each_tenant_and_the_callers_own_is_never_passed_on(
    http: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from placet.model.destinations import SecretPlace, SecretRef
    from placet.model.upstreams import Credential, CredentialForm

    def bearer(name: str) -> Credential:
        return Credential(form=CredentialForm.BEARER, secret=SecretRef(place=SecretPlace.ENVIRONMENT, name=name))

    monkeypatch.setenv("ALL", "for-all")
    monkeypatch.setenv("NORTH", "for-north")
    way = {"credential": bearer("ALL"), "credential_by_tenant": {"north": bearer("NORTH")}}
    async with gate_with(joined(over_http(http, way=way))) as gate:
        await submit(gate, "desk.echo")
        north = {each["headers"].get("authorization") for each in http.lines("headers")}
        await submit(gate, "desk.echo", by=SOUTH)
        both = {each["headers"].get("authorization") for each in http.lines("headers")}
        monkeypatch.delenv("NORTH")
        missing = await submit(gate, "desk.note", call="c-2")

    assert north == {"Bearer for-north"} and both == {"Bearer for-north", "Bearer for-all"}
    assert (missing.status, missing.code) == ("failed", "upstream_unavailable")
    assert http.lines("acted") == []


async def test_an_idle_session_ends_and_its_process_with_it(server: Server) -> None:
    async with gate_with(joined(over_stdio(server, bounds={"idle_seconds": 0.2}))) as gate:
        await submit(gate, "desk.echo", call="c-0")
        first = server.process
        await until(lambda: is_gone(first))
        again = await submit(gate, "desk.echo", "two", call="c-1")

    assert again.unwrap() == {"said": "two"}
    assert server.lines("ended")


async def test_a_server_that_dies_of_a_question_it_does_not_know_is_greeted_the_older_way(server: Server) -> None:
    async with gate_with(joined(over_stdio(server, "fragile"))) as gate:
        outcome = await submit(gate, "desk.echo", "one")

    assert outcome.unwrap() == {"said": "one"}
    assert len(server.lines("started")) == 2


async def test_there_are_never_more_sessions_than_may_be(server: Server) -> None:
    upstream = over_stdio(server, statefulness=Statefulness.STATEFUL, bounds={"max_sessions": 1})
    async with gate_with(joined(upstream)) as gate:
        await submit(gate, "desk.echo", by=AGENT)
        first = server.process
        other = await submit(gate, "desk.echo", by=OTHER)
        await until(lambda: is_gone(first))
        holding = asyncio.create_task(submit(gate, "desk.ponder", "one", by=OTHER, call="c-9"))
        await until(lambda: "ponder" in [each["tool"] for each in server.lines("called")])
        third = await submit(gate, "desk.echo", by=AGENT, call="c-3")
        server.do("release", **{"with": {"result": {"content": []}}})
        held = await holding

    assert other.status == held.status == "succeeded"
    assert third.code == "upstream_unavailable"


async def test_five_servers_one_dead_one_slow_one_hostile_and_the_others_do_not_notice(tmp_path: Path) -> None:
    servers = {name: Server(tmp_path / name) for name in ("good", "fair", "slow", "wild")}
    for each in servers.values():
        each.folder.mkdir()
    dead = Upstream(name="dead", way=StdioWay(command=sys.executable, args=("-c", ""), folder=tmp_path),
                    manifest=tmp_path / "m", statefulness=Statefulness.STATELESS)  # fmt: skip
    upstreams = [joined(over_stdio(each, name=name)) for name, each in servers.items()]
    async with gate_with(*upstreams, joined(dead)) as gate:
        for name in servers:
            await submit(gate, f"{name}.echo", call=f"{name}-0")
        slow = asyncio.create_task(submit(gate, "slow.ponder", "one"))
        await until(lambda: "ponder" in [each["tool"] for each in servers["slow"].lines("called")])
        notice = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 100}}
        flood = asyncio.create_task(
            asyncio.to_thread(
                servers["wild"].do, "send", messages=[notice, {"jsonrpc": "2.0", "id": 999, "result": {}}], times=2_000
            )
        )
        outcomes = await asyncio.gather(*(
            submit(gate, f"{name}.{tool}", "two", call=f"{name}-{tool}-{n}")
            for n in range(5) for name in ("good", "fair", "dead") for tool in ("echo", "note")
        ))  # fmt: skip
        await flood
        wild = await submit(gate, "wild.echo", "three", call="w-1")
        servers["slow"].do("release")
        await slow

    by_server: dict[str, set[str]] = {}
    for each in outcomes:
        by_server.setdefault(each.tool.partition(".")[0], set()).add(f"{each.status} {each.code}")
    assert by_server["good"] == by_server["fair"] == {"succeeded succeeded"}
    assert by_server["dead"] <= {"failed upstream_unavailable", "refused circuit_open"}
    assert wild.unwrap() == {"said": "three"}
    assert all(len(each.lines("started")) == 1 for each in servers.values())
