"""Every attempt has one started and one completed event, whatever happened in between, and says no more than it may."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import placet
from placet import Principal, RetryPolicy, ToolRejected
from placet.adapters.telemetry import metrics
from placet.model.audit import AuditEvent
from tests.engine.conftest import APPROVER, OPERATOR, SCOPE, VIEWER, OpenWorld, Spy, World, looked_up, written


async def busy_world(open_world: OpenWorld, spy: Spy, **more: Any) -> World:
    """A gate after something of everything."""

    @placet.tool(effect="idempotent_write", risk="medium", permission=SCOPE, retry=RetryPolicy(max_attempts=2))
    async def flaky(word: str) -> str:
        raise ConnectionError

    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def rejects(word: str) -> str:
        raise ToolRejected("no")

    @placet.tool(effect="read", timeout_seconds=0.005, retry=RetryPolicy(max_attempts=2))
    async def slow(word: str) -> str:
        await asyncio.sleep(60)
        return ""

    world = await open_world(
        looked_up(spy), written(spy), written(spy, name="asked", approval="always"), flaky, rejects, slow, **more
    )
    arguments = {"word": "x"}
    for index, name in enumerate(("look", "write", "flaky", "rejects", "slow", "nope", "asked")):
        await world.submit(name, arguments, call_id=f"c{index}")
    await world.submit("write", arguments, call_id="c1")
    await world.submit("write", {"word": "y"}, call_id="c1")
    await world.submit("flaky", arguments, call_id="c2")
    await world.submit("look", {"word": 7}, call_id="c8")
    await world.submit("write", arguments, call_id="c9", principal=VIEWER, run="r2")
    await world.gate.submit(None, principal=OPERATOR, run="r1")
    (view,) = await world.gate.desk.pending(by=APPROVER)
    await world.gate.desk.approve(view.approval_id, digest=view.digest, by=APPROVER)
    await world.submit("asked", arguments, call_id="c6")
    return world


@pytest.mark.req("B009", "B114", "B118", "C051", "C071")
async def test_every_word_occurs_and_every_pair_is_closed(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await busy_world(open_world, spy, store=where)

    assert set(world.words()) == {
        "started",
        "validation",
        "denied",
        "approval_required",
        "timeout",
        "success",
        "replayed",
        "conflict",
        "error",
        "unknown",
    }
    assert world.words().count("started") * 2 == len(world.words())
    world.check_pairs()
    assert (await world.gate.verify_audit()).unpaired == 0


@pytest.mark.req("B115", "B116", "B121", "C050")
async def test_every_event_has_only_the_fixed_fields(open_world: OpenWorld, spy: Spy) -> None:
    world = await busy_world(open_world, spy)
    allowed = set(AuditEvent.__slots__) | {"schema"}

    for event in world.events():
        assert set(event) <= allowed
        for name in ("arguments", "result"):
            assert all(type(count) is int for count in event.get(name, {}).values())
    completed = world.events("completed")[1]
    assert {
        "at",
        "tool",
        "permission",
        "risk",
        "outcome",
        "duration_ms",
        "subject",
        "roles",
        "request_id",
        "call_id",
        "operation",
        "run_id",
    } <= set(completed)


@pytest.mark.req("B119", "H035")
async def test_a_result_is_fingerprinted_only_on_success(open_world: OpenWorld, spy: Spy) -> None:
    world = await busy_world(open_world, spy)

    for event in world.events("completed"):
        assert ("result_fingerprint" in event) == (event["outcome"] == "success"), event
        assert ("result" in event) == (event["outcome"] == "success"), event


@pytest.mark.req("B117", "B081")
async def test_fingerprints_are_keyed_and_differ_between_stores_and_tenants(open_world: OpenWorld, spy: Spy) -> None:
    one = await open_world(looked_up(spy))
    two = await open_world(looked_up(spy))
    abroad = Principal.agent("agent", tenant="globex")
    for world in (one, two):
        await world.submit("look", {"word": "x"}, call_id="c1")
        await world.submit("look", {"word": "x"}, call_id="c2")
        await world.submit("look", {"word": "y"}, call_id="c3")
        await world.submit("look", {"word": "x"}, call_id="c4", principal=abroad)

    prints = [[event["arguments_fingerprint"] for event in world.events("completed")] for world in (one, two)]
    for same, again, other, elsewhere in prints:
        assert (same == again, len({same, other, elsewhere})) == (True, 3)
    assert not set(prints[0]) & set(prints[1])
    plain = hashlib.sha256(json.dumps({"word": "x"}).encode()).hexdigest()
    assert plain not in prints[0]
    assert all(len(each) == 64 for each in prints[0])


@pytest.mark.req("B116", "B120", "B043")
async def test_known_arguments_have_known_counts(open_world: OpenWorld) -> None:
    @placet.tool(effect="read")
    async def look(order_id: str, api_token: str, question: str, tags: list[str]) -> dict[str, str]:
        return {"answer": "a", "password": "b"}

    world = await open_world(look)
    await world.submit(look, {"order_id": "1", "api_token": "t", "question": "q", "tags": ["a", "b"]})

    completed = world.completed()
    assert completed["arguments"] == {
        "field_count": 4,
        "scalar_count": 4,
        "collection_count": 2,
        "redacted_field_count": 1,
        "content_field_count": 1,
        "identifier_field_count": 1,
    }
    assert completed["result"] == {
        "field_count": 2,
        "scalar_count": 1,
        "collection_count": 1,
        "redacted_field_count": 1,
        "content_field_count": 1,
        "identifier_field_count": 0,
    }


@pytest.mark.req("B120")
async def test_two_secrets_of_one_field_have_one_fingerprint(open_world: OpenWorld) -> None:
    @placet.tool(effect="read")
    async def look(token: str, word: str) -> str:
        return ""

    world = await open_world(look)
    for index, (token, word) in enumerate((("a", "x"), ("b", "x"), ("a", "y"))):
        await world.submit(look, {"token": token, "word": word}, call_id=f"c{index}")

    one, two, three = (event["arguments_fingerprint"] for event in world.events("completed"))
    assert (one == two, one == three) == (True, False)


@pytest.mark.req("B135")
async def test_durations_are_milliseconds_of_three_places_and_starts_have_none(open_world: OpenWorld) -> None:
    from placet.testing import FakeClock

    clock = FakeClock()

    @placet.tool(effect="read")
    async def look() -> str:
        clock.advance(1.2345678)
        return ""

    world = await open_world(look, clock=clock)
    await world.submit(look)

    started, completed = world.events()
    assert (started["duration_ms"], completed["duration_ms"]) == (0.0, 1234.568)


@pytest.mark.req("B173", "B169", "B171")
async def test_each_completed_event_counts_once_and_no_start_does(open_world: OpenWorld, spy: Spy, where: str) -> None:
    registry = CollectorRegistry()
    world = await busy_world(open_world, spy, store=where, metrics=registry)
    await asyncio.sleep(0)

    counted = {
        (sample.labels["tool"], sample.labels["outcome"]): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "placet_tool_calls_total" and sample.value
    }
    recorded: dict[tuple[str, str], float] = {}
    for event in world.events("completed"):
        key = (event["tool"], event["outcome"])
        recorded[key] = recorded.get(key, 0) + 1
    assert counted == recorded


@pytest.mark.req("B176", "B170", "B029")
async def test_no_label_holds_an_id_or_a_word_of_the_call(open_world: OpenWorld, spy: Spy) -> None:
    registry = CollectorRegistry()
    await busy_world(open_world, spy, metrics=registry)
    known = {"look", "write", "asked", "flaky", "rejects", "slow", "unknown"}
    closed = {
        "tool": known,
        "outcome": metrics.OUTCOMES | metrics.SIGN_IN_OUTCOMES | metrics.ANNOUNCED,
        "scope": metrics.LIMITED_SCOPES,
        "destination": metrics.DESTINATIONS,
        "decision": metrics.DECISIONS,
        "enforced": metrics.DECISIONS,
        "would_be": metrics.SHADOW_ANSWERS,
        "state": metrics.STATES | metrics.BREAKER_STATES,
        "sink": metrics.SINKS | {metrics.UNKNOWN},
        "kind": metrics.ALARM_KINDS | metrics.SIGN_IN_KINDS,
        "reason": metrics.CUT_SHORT,
        "code": metrics.WITHOUT_ROOM,
    }

    for metric in registry.collect():
        for sample in metric.samples:
            labels = dict(sample.labels)
            labels.pop("le", None)
            for label, value in labels.items():
                assert value in closed[label], (sample.name, label, value)


async def test_an_open_generic_executor_is_on_record_each_time_the_gate_opens(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, name="run_sql", generic_executor="read replica only"))

    (event,) = world.events("override_declared")
    assert (event["tool"], event["detail"], event["model_suggested"]) == ("run_sql", "generic_executor", False)
    assert b"read replica only" not in world.bodies()
