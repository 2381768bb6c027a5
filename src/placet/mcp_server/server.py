"""One gate as an MCP server, for whatever transport carries its messages.

Both eras are served from the same handlers: the revisions with a handshake, and 2026-07-28, where every request brings
what is to be known of its client. What is no tool is answered by a relay, or not at all.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import Any, Final

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, PaginatedRequestParams

from placet.engine.gate import Gate
from placet.engine.waiting_room import WaitingRoom
from placet.mcp_server.calling import Calls, NoPlace
from placet.mcp_server.carried import Carried, carried_of
from placet.mcp_server.listing import Listing, own_name
from placet.mcp_server.naming import Namer
from placet.mcp_server.observing import Observed
from placet.mcp_server.relaying import Relay
from placet.mcp_server.reopening import Reopened
from placet.mcp_server.settings import McpSettings
from placet.mcp_server.state import AUDIENCE, boundary
from placet.model.principal import Principal
from placet.ports.clock import Clock, IdSource
from placet.ports.keys import Keys
from placet.ports.meter import McpMeter

NAME: Final = "placet"
_INSTRUCTIONS: Final = (
    "Every tool call is decided here before it runs. The answer's message says what to do next. Where a person has to "
    "approve a call, nothing has run yet: ask again, unchanged, after the decision. Never repeat what is unknown."
)
_LIST_SECONDS: Final = 5
carrying: ContextVar[Carried | None] = ContextVar("placet_mcp_carrying", default=None)
"""The message that a transport hands over right now, for what the SDK asks without a context."""


_WORDY: Final = {"mcp.server": logging.ERROR, "sse_starlette": logging.WARNING}
"""Loggers of the libraries below that repeat what was sent: session ids, hosts, and at DEBUG whole answers."""


def _hush() -> None:
    """Have them say no more than that something is wrong, where nobody has said what they shall say."""
    for name, level in _WORDY.items():
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)


class McpServer:
    """The front door of one open gate; close it before the gate. Use it from the gate's event loop.

    Attributes:
        server: the SDK's, for a transport to drive.
        ending: set once this process ends; whoever waits then is answered at once.
    """

    def __init__(
        self,
        *,
        gate: Gate,
        keys: Keys,
        clock: Clock,
        ids: IdSource,
        meter: McpMeter,
        version: str,
        settings: McpSettings | None = None,
        pages: str | None = None,
        audience: str = AUDIENCE,
        relay: Relay | None = None,
    ) -> None:
        """
        Args:
            pages: the address where people decide, before an approval's id; None where there is none.
            audience: this service, as its clients know it.
            relay: answers for what is no tool; None answers for none of it.
        """
        _hush()
        self.gate = gate
        self.clock = clock
        self.settings = settings or McpSettings()
        self.ending = asyncio.Event()
        self._relay = relay
        self._listing = Listing(
            gate, page_size=self.settings.page_size, outward=own_name if relay is None else relay.outward
        )
        namer = Namer(clock=clock, ids=ids, keys=keys)
        self._calls = Calls(
            gate=gate,
            listing=self._listing,
            namer=namer,
            reopened=Reopened(gate=gate, keys=keys, namer=namer),
            waiting=self._waiting_room(),
            clock=clock,
            settings=self.settings,
            pages=pages,
            relay=relay,
        )
        self.server = self._made(version)
        self.server.middleware[:] = [
            Observed(gate=gate, clock=clock, meter=meter, inward=str if relay is None else relay.inward),
            boundary(keys, state_seconds=self.settings.state_seconds, audience=audience),
        ]
        if relay is not None:
            relay.join(self.server)

    def close(self) -> None:
        """Let nobody wait any longer."""
        self.ending.set()
        if self._relay is not None:
            self._relay.close()

    def has_nothing_for(self, principal: Principal) -> bool:
        """Whether there is something here, and this principal may see none of it: no tool, nothing of an upstream."""
        if not self.gate.lists_nothing_for(principal):
            return False
        return self._relay is None or not self._relay.offers_to(principal)

    def _waiting_room(self) -> WaitingRoom:
        return WaitingRoom(
            wakeups=self.gate.store,
            clock=self.clock,
            ending=self.ending,
            poll_seconds=self.settings.poll_seconds,
            max_waiting=self.settings.max_waiting,
            max_waiting_each=self.settings.max_waiting_each,
            when_full=NoPlace,
        )

    def _made(self, version: str) -> Server[Any]:
        async def list_tools(ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None) -> Any:
            carried = carried_of(ctx)
            return self._listing.page(carried.principal, carried.params.get("cursor"))

        async def call_tool(ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> Any:
            return await self._calls.answer(ctx, params)

        return Server(
            NAME,
            version=version,
            instructions=_INSTRUCTIONS,
            cache_hints={"tools/list": CacheHint(ttl_ms=_LIST_SECONDS * 1_000, scope="private")},
            get_tool_input_schema=self._schema,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )

    def _schema(self, name: str) -> Any:
        """What the SDK holds mirrored headers against: what this very caller was shown."""
        carried = carrying.get()
        if carried is None:
            return None
        return self._listing.schema_for(name if self._relay is None else self._relay.inward(name), carried.principal)
