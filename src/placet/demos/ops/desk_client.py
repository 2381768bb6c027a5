"""Speaking to the ticket desk: the process that runs it, and the client that the agent's tool uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placet.demos.ops.contracts import TicketDraft, TicketReceipt
from placet.demos.remote.reaching import RemoteClient, RemoteProcess


class DeskProcess(RemoteProcess):
    """The ticket desk in a process of its own."""

    program = "placet.demos.ops.desk"
    name = "ticket desk"


class DeskClient(RemoteClient):
    """The ticket desk's HTTP interface."""

    many = "tickets"
    name = "ticket desk"

    async def create(self, key: str, ticket: TicketDraft, *, timeout_seconds: float | None = None) -> TicketReceipt:
        """Create the ticket, or get the one this key made before.

        Args:
            timeout_seconds: how long to wait for the desk; the client's own patience if absent.

        Raises:
            NotSent: the desk could not be reached; nothing happened.
            ToolRejected: the desk refused; nothing happened.
            RemoteStatus: the desk answered with another status than success.
            ConnectionError: the answer was lost; the ticket may exist.
        """
        posted = ticket.model_dump(mode="json")
        return self._receipt(key, await self._created(key, posted, timeout_seconds=timeout_seconds))

    async def find(self, key: str) -> TicketReceipt | None:
        """Look up what became of a key; None if the desk holds nothing under it. Raises as `create` does."""
        found = await self._under(key)
        return None if found is None else self._receipt(key, found)

    async def tickets(self) -> list[dict[str, Any]]:
        """The tickets the desk holds, oldest first: `id`, `key`, `url` and `ticket`. Raises as `create` does."""
        return await self.records()

    def _receipt(self, key: str, members: Mapping[str, Any]) -> TicketReceipt:
        try:
            return TicketReceipt(
                ticket_id=members["id"], url=members["url"], created=members.get("created", False), operation_key=key
            )
        except (KeyError, TypeError, ValueError):
            raise self._not_understood() from None
