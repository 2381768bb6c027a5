"""The last look before the first byte: whoever may not send any more sends nothing, over either transport."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from placet.adapters.clock import SystemClock
from placet.adapters.telemetry.upstream_metrics import PrometheusUpstreamMeter
from placet.bootstrap.joined import Around
from placet.bootstrap.upstreams import McpUpstream
from placet.engine.discovering import Discovered
from placet.errors import NotSent
from placet.model.context import CallContext
from placet.model.identifiers import CallId, Digest, OperationKey, RunId
from placet.model.pins import Drift
from tests.upstreams.scene import AGENT, Server, gate_with, joined, over_http, over_stdio, submit, until


class Guard:
    """Lets nobody through; counts who asks."""

    asked = 0

    def __call__(self) -> None:
        self.asked += 1
        raise NotSent("It is too late to send this attempt.")


def context(guard: Guard, remaining: float = 20.0) -> CallContext:
    return CallContext(
        tenant="north", principal=AGENT, run_id=RunId("r"), call_id=CallId("c"), operation_key=OperationKey("k"),
        attempt=1, deadline_at=datetime(2030, 1, 1, tzinfo=UTC), _remaining=lambda: remaining, _guard=guard,
    )  # fmt: skip


async def call(upstream: McpUpstream, tool: str, guard: Guard, **how: Any) -> str:
    """The code with which nothing was sent."""

    async def quarantine(_: Drift) -> bool:
        return True

    async def discovered(server: str, tools: Collection[str]) -> tuple[Discovered, ...]:
        return ()

    async def is_quarantined(name: str, pin: Digest) -> bool:
        return False

    meter = PrometheusUpstreamMeter(CollectorRegistry(), servers=["desk"])
    await upstream.open(
        Around(
            clock=SystemClock(),
            meter=meter,
            quarantine=quarantine,
            is_quarantined=is_quarantined,
            discovered=discovered,
        )
    )
    try:
        handler = next(each.function for each in upstream.tools if each.contract.name == f"desk.{tool}")
        with pytest.raises(NotSent) as raised:
            await handler({"text": "one"}, context(guard, **how))
        return raised.value.code
    finally:
        await upstream.close()


async def test_a_guard_is_asked_once_and_keeps_a_call_from_a_process(server: Server, era: str) -> None:
    guard = Guard()

    assert await call(joined(over_stdio(server, era)), "note", guard) == "not_sent"
    assert guard.asked == 1
    assert server.heard("tools/list") and server.heard("tools/call") == []


async def test_a_guard_is_asked_once_and_keeps_a_call_from_a_service(http: Server) -> None:
    guard = Guard()

    assert await call(joined(over_http(http)), "note", guard) == "not_sent"
    assert guard.asked == 1
    assert http.heard("tools/list") and http.heard("tools/call") == []


async def test_without_time_left_to_send_nothing_is_begun(server: Server) -> None:
    guard = Guard()

    assert await call(joined(over_stdio(server)), "note", guard, remaining=0.0) == "upstream_unavailable"
    assert guard.asked == 0 and server.heard("tools/call") == []


async def test_a_closed_upstream_sends_nothing(server: Server) -> None:
    upstream = joined(over_stdio(server))
    handler = upstream.tools[0].function

    with pytest.raises(NotSent) as raised:
        await handler({"text": "one"}, context(Guard()))

    assert raised.value.code == "upstream_unavailable" and server.lines() == []


async def test_sessions_reinitialisations_and_drifts_are_counted(server: Server) -> None:
    registry = CollectorRegistry()

    def counted(name: str) -> float | None:
        return registry.get_sample_value(f"placet_upstream_{name}", {"server": "desk"})

    async with gate_with(joined(over_stdio(server)), metrics=registry) as gate:
        assert [counted(each) for each in ("sessions", "reinitialisations_total", "drifts_total")] == [0, 0, 0]
        await submit(gate, "desk.echo", call="c-0")
        assert counted("sessions") == 1
        server.do("die")
        await until(lambda: counted("sessions") == 0)
        await submit(gate, "desk.echo", call="c-1")
        assert (counted("sessions"), counted("reinitialisations_total")) == (1, 1)
        server.do("describe", tool="echo", member="description", value="Other words.")
        server.do("changed")
        server.do("changed")
        await until(lambda: counted("drifts_total") == 1)
        server.do("manner", manner="no_list")
        server.do("changed")
        await until(lambda: counted("unbelievable_lists_total") == 1)

    assert counted("sessions") == 0 and counted("drifts_total") == 1
    servers = {label["server"] for metric in registry.collect() for each in metric.samples
               if metric.name.startswith("placet_upstream") for label in [each.labels]}  # fmt: skip
    assert servers == {"desk"}
