"""The MCP front door: one gate as an MCP server, over streamable HTTP and over standard input and output.

server      the handlers, for both eras and every transport; calling, listing, rendering: what they do
naming      the names that a call goes by; state: what a client carries between rounds, sealed
http        who and what comes over the network, before the SDK sees it; resource, refusing, sessions
stdio       the same over two pipes
observing   spans, numbers, log lines; no exception leaves
relay*      what upstreams offer besides tools, where the deployment allows it
"""

from placet.mcp_server.http import McpDoor
from placet.mcp_server.observing import METHODS, OUTCOMES
from placet.mcp_server.resource import Resource, issuers_of_agents
from placet.mcp_server.server import McpServer
from placet.mcp_server.settings import McpSettings
from placet.mcp_server.stdio import StdioDoor, standard_streams

__all__ = [
    "METHODS",
    "OUTCOMES",
    "McpDoor",
    "McpServer",
    "McpSettings",
    "Resource",
    "StdioDoor",
    "issuers_of_agents",
    "standard_streams",
]
