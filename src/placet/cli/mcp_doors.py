"""The MCP front door of the project's gate, put together from its settings.

Where people decide is the console's address, as `[placet] console_url` or `[serve] public_url` say; without one a
client is told that a person has to decide, and not where.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

from placet.bootstrap.relaying import relay_sides
from placet.bootstrap.surroundings import configure_logging, mcp_meter, random_ids, system_clock
from placet.cli.settings import Settings
from placet.cli.versions import version_facts
from placet.errors import MisuseError
from placet.model.serving import Listening
from placet.rules.serving import MCP_PATH

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from placet.bootstrap.opening import Opening
    from placet.bootstrap.sign_in import FrontDoors
    from placet.mcp_server import McpServer, Resource
    from placet.serve.mcp_front import McpFront

_PAGES: Final = "/approvals/"


def mcp_server_of(
    opening: Opening,
    settings: Settings,
    *,
    metrics: CollectorRegistry | None = None,
    resource: Resource | None = None,
    console_url: str | None = None,
) -> McpServer:
    """The server of an open gate.

    Args:
        resource: what clients know it as; None over standard input and output.
        console_url: where people decide, if it is somewhere else than the settings say.
    """
    from placet.mcp_server import METHODS, OUTCOMES, McpServer, McpSettings
    from placet.mcp_server.relay import UpstreamRelay
    from placet.mcp_server.state import AUDIENCE

    running = opening.running
    if running is None:
        raise MisuseError("This gate is not open. Enter it first.")
    configure_logging(sys.stderr, logging.ERROR, logger=logging.getLogger("mcp"))  # below that it repeats what was sent
    console = console_url or settings.announcements.console_url
    sides = relay_sides(running.upstreams)
    return McpServer(
        gate=running.gate,
        keys=running.keys,
        clock=system_clock(),
        ids=random_ids(),
        meter=mcp_meter(metrics, methods=METHODS, outcomes=OUTCOMES),
        version=version_facts()["placet"],
        settings=McpSettings(resumed_traces=settings.listening.mcp_resumed_traces),
        audience=resource.audience if resource is not None and resource.is_public else AUDIENCE,
        pages=None if console is None else console.rstrip("/") + _PAGES,
        relay=UpstreamRelay(gate=running.gate, sides=sides) if sides else None,
    )


def mcp_front_of(
    opening: Opening,
    settings: Settings,
    admitting: FrontDoors,
    *,
    metrics: CollectorRegistry | None,
    resource: Resource,
    console_url: str | None,
) -> McpFront:
    """The door over HTTP of an open gate."""
    from placet.mcp_server import McpDoor
    from placet.serve.mcp_front import mcp_front

    mcp = mcp_server_of(opening, settings, metrics=metrics, resource=resource, console_url=console_url)
    sign_in = admitting.agents(resource.audience)
    door = McpDoor(mcp, sign_in=sign_in, resource=resource, rate_limiter=admitting.rate_limiter)
    return mcp_front(mcp, door, metrics=metrics)


def resource_of(settings: Settings, listening: Listening, *, site: str) -> Resource:
    """The door as the world knows it.

    Args:
        site: where it listens, for a deployment that has not said what it is called.
    """
    from placet.mcp_server import Resource, issuers_of_agents

    public = listening.public_url
    return Resource(
        site=public or site,
        audience=listening.mcp_audience or f"{public or site}{MCP_PATH}",
        issuers=issuers_of_agents(settings.admission.issuers),
        is_public=public is not None,
    )
