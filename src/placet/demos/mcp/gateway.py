"""What an agent's client sees: `placet mcp serve`, started by it and spoken with by the protocol's own SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from placet.demos.mcp.project import environment, placet_command

if TYPE_CHECKING:
    from mcp import Client

_OUTCOME: Final = "io.placet/outcome"
_RUN: Final = "io.placet/run"
_LOG: Final = "gateway.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What came of a call.

    Attributes:
        status, code: of its outcome, as the gateway says it.
        approval: the question that waits, if one does.
        text: what the client may show its model.
    """

    status: str
    code: str
    approval: str | None
    text: str

    @property
    def was_sent(self) -> bool:
        """Whether the tool may have acted for it."""
        return self.status not in ("refused", "failed", "awaiting_approval", "invalid")


class Agent:
    """An agent in one run."""

    def __init__(self, client: Client, run: str) -> None:
        self._client = client
        self._run = run

    async def tools(self) -> dict[str, str]:
        """What it is told of each tool it may see."""
        listed = await self._client.list_tools()
        return {tool.name: tool.description or "" for tool in listed.tools}

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Answered:
        """Ask for a call, or for the very same again."""
        meta: Any = {_RUN: self._run}
        result = await self._client.call_tool(tool, dict(arguments), meta=meta)
        outcome: dict[str, Any] = (result.meta or {})[_OUTCOME]
        texts = [block.text for block in result.content if block.type == "text"]
        return Answered(
            status=str(outcome["status"]),
            code=str(outcome["code"]),
            approval=outcome.get("approval_id"),
            text="\n".join(texts),
        )


@asynccontextmanager
async def gateway(folder: Path, *, run: str) -> AsyncIterator[Agent]:
    """A gateway of the project in a process of its own, until the block ends; what it logs is kept beside it."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command, *words = placet_command("mcp", "serve")
    started = StdioServerParameters(command=command, args=words, cwd=folder, env=environment())
    with (folder / _LOG).open("a", encoding="utf-8") as log:
        async with Client(stdio_client(started, errlog=log)) as client:
            yield Agent(client, run)
