"""One look at what a server says of its tools, over a session that is begun and ended for it."""

from __future__ import annotations

import asyncio

from placet.adapters.transports.mcp import conversing
from placet.adapters.transports.mcp.attention import Attention
from placet.adapters.transports.mcp.faults import NotAccepted, RequestFault
from placet.adapters.transports.mcp.links import Link, Terms, opened
from placet.adapters.transports.mcp.ways import way_to
from placet.model.pins import Definition, Drift
from placet.model.upstreams import StdioWay, StreamableWay, UpstreamBounds
from placet.ports.clock import Clock


class Unseen(Exception):
    """Nothing could be learnt.

    Attributes:
        reason: one of a few fixed words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def look(
    server: str, way: StdioWay | StreamableWay, tenant: str | None, *, bounds: UpstreamBounds, clock: Clock
) -> tuple[Definition, ...]:
    """All definitions, as the server has them now for a tenant; None: of no tenant's.

    Raises:
        Unseen: it cannot be reached or spoken with, or what it says cannot be believed.
    """
    reasons: list[str] = []
    terms = Terms(
        server=server,
        pins={},
        bounds=bounds,
        relayed=frozenset(),
        clock=clock,
        drifted=_nothing,
        unbelievable=reasons.append,
    )
    links: list[Link] = []
    reason, talk = "unreachable", conversing.talk(frozenset())
    way_there = way_to(way, tenant, bounds=bounds, clock=clock, attention=Attention(clock.monotonic))
    try:
        async with asyncio.timeout(bounds.connect_seconds):
            link = await opened(terms, way_there, talk=talk, ended=_nothing, discard=links.append)
        links.append(link)
        if not reasons:
            return link.definitions
        reason = reasons[0]
    except NotAccepted as fault:
        reason = fault.reason
    except TimeoutError:
        reason = "too_slow"
    except (RequestFault, OSError, ValueError):
        pass
    finally:
        for each in links:
            await each.close()
    raise Unseen(reason)


def _nothing(_: Link | Drift) -> None: ...
