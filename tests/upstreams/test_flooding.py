"""A session in which a server goes on and on is ended, with a code of its own; its callers alone are told."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from placet.adapters.clock import SystemClock
from placet.adapters.telemetry.upstream_metrics import PrometheusUpstreamMeter
from placet.bootstrap.joined import Around
from placet.engine.discovering import Discovered
from placet.errors import NotSent, UpstreamFailed
from placet.model.context import CallContext
from placet.model.identifiers import CallId, OperationKey, RunId
from tests.upstreams.scene import AGENT, LONGEST_SECONDS, Server, joined, over_stdio, until

CONTEXT = CallContext(
    tenant="north", principal=AGENT, run_id=RunId("r"), call_id=CallId("c"), operation_key=OperationKey("k"),
    attempt=1, deadline_at=datetime(2030, 1, 1, tzinfo=UTC), _remaining=lambda: LONGEST_SECONDS, _guard=lambda: None,
)  # fmt: skip


class Standing(SystemClock):
    """Whose time stands still until it is set on."""

    at = 0.0

    def monotonic(self) -> float:
        return self.at


async def _nothing(*_: object) -> tuple[Discovered, ...]:
    return ()


async def _not(*_: object) -> bool:
    return False


async def test_a_server_that_goes_on_flooding_is_given_up_and_left_alone_for_a_while(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    registry, clock, upstream = CollectorRegistry(), Standing(), joined(over_stdio(server))
    meter = PrometheusUpstreamMeter(registry, servers=["desk"])
    tools = {each.contract.name: each.function for each in upstream.tools}
    heavy = {"jsonrpc": "2.0", "method": "x", "params": {"a": [1] * 40_000}}

    def counted(name: str) -> float | None:
        return registry.get_sample_value(f"placet_upstream_{name}", {"server": "desk"})

    await upstream.open(Around(clock=clock, meter=meter, quarantine=_not, is_quarantined=_not, discovered=_nothing))
    call = asyncio.ensure_future(tools["desk.hold"]({"text": "one"}, CONTEXT))
    await until(lambda: "hold" in [each["tool"] for each in server.lines("called")])
    while True:
        await asyncio.to_thread(_in_vain, server, heavy)
        with suppress(NotSent, UpstreamFailed):
            await tools["desk.echo"]({"text": "flood"}, CONTEXT)  # what came before its answer was heard
        if call.done():
            break
        clock.at += 2.85  # room for two, and never for a whole burst
    with pytest.raises(UpstreamFailed):
        await call
    with pytest.raises(NotSent) as not_sent:
        await tools["desk.read"]({"text": "two"}, CONTEXT)
    clock.at += 60.0
    again = await tools["desk.echo"]({"text": "three"}, CONTEXT)
    await upstream.close()

    assert not_sent.value.code == "upstream_unavailable" and again is not None
    assert [counted(each) for each in ("floods_total", "connecting_failures_total")] == [1, 0]
    assert len(server.lines("started")) == 2
    said = {(record.levelno, record.__dict__.get("code")) for record in caplog.records}
    assert said == {(logging.ERROR, "flooding"), (logging.WARNING, "flooding"), (logging.WARNING, "left_alone")}
    assert any("desk took nothing up: left_alone" in record.getMessage() for record in caplog.records)


def _in_vain(server: Server, message: object) -> None:
    """Its process ends in the middle of it."""
    with suppress(OSError):
        server.do("send", messages=[message], times=2)
