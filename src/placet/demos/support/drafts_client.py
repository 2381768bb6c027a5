"""Speaking to the drafts service: the process that runs it, and the client that the agent's tool uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placet.demos.remote.reaching import RemoteClient, RemoteProcess
from placet.demos.support.contracts import DraftReceipt


class DraftsProcess(RemoteProcess):
    """The drafts service in a process of its own."""

    program = "placet.demos.support.drafts"
    name = "drafts service"


class DraftsClient(RemoteClient):
    """The drafts service's HTTP interface."""

    many = "drafts"
    name = "drafts service"

    async def create(self, key: str, question: str, *, timeout_seconds: float | None = None) -> DraftReceipt:
        """Create the draft, or get the one this key made before.

        Raises:
            NotSent: the service could not be reached; nothing happened.
            ToolRejected: the service refused; nothing happened.
            RemoteStatus: the service answered with another status than success.
            ConnectionError: the answer was lost; the draft may exist.
        """
        return self._receipt(await self._created(key, {"question": question}, timeout_seconds=timeout_seconds))

    async def find(self, key: str) -> DraftReceipt | None:
        """Look up what became of a key; None if the service holds nothing under it. Raises as `create` does."""
        found = await self._under(key)
        return None if found is None else self._receipt(found)

    def _receipt(self, members: Mapping[str, Any]) -> DraftReceipt:
        try:
            return DraftReceipt(draft_id=members["id"], url=members["url"], created=members.get("created", False))
        except (KeyError, TypeError, ValueError):
            raise self._not_understood() from None
