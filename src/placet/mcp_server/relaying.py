"""What the front door needs of whoever passes on what is no tool: who talks with the client of a call, and which names
tools of upstreams go by outside. Nothing is passed on where there is no relay.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from placet.mcp_server.carried import Carried
from placet.model.contract import Contract
from placet.model.json import JsonObject
from placet.model.outcome import Outcome
from placet.model.principal import Principal


class Talking(Protocol):
    """The client of one call, as far as the tool's upstream may reach it."""

    async def bring(self) -> None:
        """Put on record what the client came back with, before the call goes on.

        Raises:
            MCPError: it cannot be put on record, so the call does not go on.
        """
        ...

    async def answer(self, outcome: Outcome, kept: JsonObject) -> dict[str, Any] | None:
        """What the client is answered in place of the outcome, if the upstream wants to know something first.

        Args:
            kept: members of `_meta` by which the second round is the very same call; they go into its state.

        Raises:
            MCPError: the client cannot be asked what it would have to be asked.
        """
        ...


class Relay(Protocol):
    """What upstreams offer besides tools."""

    def join(self, server: Server[Any]) -> None:
        """Answer for the methods that some upstream allows."""
        ...

    def offers_to(self, principal: Principal) -> bool:
        """Whether this principal may see anything that an upstream offers."""
        ...

    def calling_for(self, ctx: ServerRequestContext[Any, Any], carried: Carried) -> AbstractContextManager[Talking]:
        """The client of one call, for as long as the call lasts."""
        ...

    def kept(self, request_state: str) -> JsonObject:
        """The members that were kept in a state of the relay's own.

        Raises:
            MCPError: it is no such state.
        """
        ...

    def outward_content(self, contract: Contract, content: list[Any]) -> list[Any]:
        """What an upstream's tool answered, with the names that its client knows resources by."""
        ...

    def outward(self, contract: Contract) -> str:
        """What the tool is called outside."""
        ...

    def inward(self, name: str) -> str:
        """What the tool of this name is called here; the name itself where it means none."""
        ...

    def close(self) -> None:
        """End what goes on between requests."""
        ...
