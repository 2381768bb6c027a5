"""What a server that cannot be reached costs: one try for all, and then none for a while."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from placet.adapters.telemetry.upstream_metrics import PrometheusUpstreamMeter
from placet.adapters.transports.mcp import conversing
from placet.adapters.transports.mcp.channels import Channel
from placet.adapters.transports.mcp.faults import NotAccepted
from placet.adapters.transports.mcp.links import MakeChannel, Terms
from placet.adapters.transports.mcp.pool import Holder, Pool
from placet.adapters.transports.mcp.session import Session
from placet.model.upstreams import Statefulness, UpstreamBounds
from placet.testing import FakeClock

HOLDER = Holder(tenant="north", subject="agent")


class Away:
    """A way that leads nowhere, and counts who tries it."""

    def __init__(self) -> None:
        self.tried: list[str | None] = []

    def to(self, tenant: str | None) -> MakeChannel:
        def make(_: Session) -> Channel:
            self.tried.append(tenant)
            raise OSError

        return make


def pool_on(away: Away, clock: FakeClock, registry: CollectorRegistry) -> Pool:
    terms = Terms(
        server="desk", pins={}, bounds=UpstreamBounds(), relayed=frozenset(), clock=clock,
        drifted=lambda _: None, unbelievable=lambda _: None,
    )  # fmt: skip
    meter = PrometheusUpstreamMeter(registry, servers=["desk"])
    return Pool(terms, statefulness=Statefulness.STATELESS, way=away.to, meter=meter)


async def reason(pool: Pool, holder: Holder = HOLDER) -> str:
    with pytest.raises(NotAccepted) as raised:
        async with pool.link(holder, conversing.talk(frozenset())):
            raise AssertionError
    return raised.value.reason


async def test_one_try_is_made_for_all_who_wait() -> None:
    away = Away()
    pool = pool_on(away, FakeClock(), CollectorRegistry())

    reasons = await asyncio.gather(*(reason(pool) for _ in range(5)))

    assert reasons == ["unreachable"] * 5
    assert away.tried == ["north"]


async def test_after_a_failure_it_is_left_alone_longer_each_time_and_for_nobody_else() -> None:
    away, clock, registry = Away(), FakeClock(), CollectorRegistry()
    pool = pool_on(away, clock, registry)

    pauses: list[float] = []
    for _ in range(9):
        assert await reason(pool) == "unreachable"
        assert await reason(pool) == "left_alone"
        began = clock.monotonic()
        while await reason(pool) == "left_alone":
            clock.advance(0.25)
        pauses.append(clock.monotonic() - began)
        clock.advance(60.0)

    assert pauses == sorted(pauses) and pauses[0] <= 0.5 and pauses[-1] <= 30.0
    assert pauses[-1] > pauses[0]
    assert await reason(pool, Holder(tenant="south", subject="agent")) == "unreachable"
    failures = registry.get_sample_value("placet_upstream_connecting_failures_total", {"server": "desk"})
    assert failures == len(away.tried)


async def test_a_closed_pool_connects_nobody() -> None:
    away = Away()
    pool = pool_on(away, FakeClock(), CollectorRegistry())
    await pool.close()

    assert await reason(pool) == "closed"
    assert away.tried == []
