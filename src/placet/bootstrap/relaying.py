"""What of a gate's upstreams a front door may pass on besides tools."""

from __future__ import annotations

from collections.abc import Iterable

from placet.bootstrap.joined import Joined
from placet.bootstrap.upstreams import McpUpstream
from placet.ports.relay import UpstreamSide


def relay_sides(upstreams: Iterable[Joined]) -> tuple[UpstreamSide, ...]:
    """The MCP servers among these, for as long as their gate is open; whether anything of them is passed on is each
    one's own declaration."""
    from placet.adapters.transports.mcp.relaying import McpSide

    return tuple(
        McpSide(upstream.declared, pool=upstream.open_pool)
        for upstream in upstreams
        if isinstance(upstream, McpUpstream)
    )
