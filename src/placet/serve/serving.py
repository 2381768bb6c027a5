"""Gate, API and worker of one process, from their beginning to their orderly end.

    serving ─ told to end ─► nobody waits any more; new calls are turned away; those inside end, within a limit
                             ─► answers under way are sent ─► the listener goes ─► the gate closes

What has not ended within the limit is left as a killed process leaves it, for recovery to find.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from placet.bootstrap.surroundings import metrics_page, system_clock
from placet.console.app import Console
from placet.engine.announcing import Announcer
from placet.engine.gate import Gate
from placet.http_api import HttpSettings, create_app
from placet.http_api.door import Door
from placet.ports.rate_limits import RateLimiter
from placet.ports.sign_in import SignIn
from placet.serve.front import Site, nothing_else, together
from placet.serve.http_server import HttpServer
from placet.serve.mcp_front import McpFront
from placet.serve.numbers import numbers
from placet.worker import Worker

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.types import ASGIApp

ROUND_SECONDS = 10.0
_GRACE_SECONDS = 5.0
_log = logging.getLogger("placet.serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """What the front doors of one gate need besides it.

    Attributes:
        sign_in: who stands behind a bearer credential.
        rate_limiter: how often anybody may come; None lets everybody.
        metrics: the registry that the gate measures into.
        console: the pages for people; None serves the API alone.
        announcer: tells of what happens; None tells nobody.
        site: what the world calls this place.
        tls: of the listener's own; None leaves it to somebody in front.
        mcp: the front door for MCP clients; None serves none.
        numbers_at: where the numbers are served to whoever can reach it; None serves them to those who sign in alone.
    """

    sign_in: SignIn
    rate_limiter: RateLimiter | None = None
    metrics: CollectorRegistry | None = None
    settings: HttpSettings | None = None
    console: Console | None = None
    announcer: Announcer | None = None
    site: Site | None = None
    tls: ssl.SSLContext | None = None
    mcp: McpFront | None = None
    numbers_at: socket.socket | None = None


class Closing(Protocol):
    """A front door that can be told to let nobody wait any longer."""

    def close(self) -> None: ...


class Serving:
    """A process that serves.

    Attributes:
        url: where its API is.
        numbers_url: where its numbers are, for whoever can reach that.
    """

    def __init__(
        self,
        *,
        gate: Gate,
        closing: Sequence[Closing],
        mcp: McpFront | None,
        server: HttpServer,
        numbers: HttpServer | None,
        worker: Worker,
    ) -> None:
        self._gate = gate
        self._numbers = numbers
        self.numbers_url = None if numbers is None else f"{numbers.url}/metrics"
        self._closing = tuple(closing)
        self._mcp = mcp
        self._server = server
        self._answering = AsyncExitStack()
        self._working = asyncio.Event()
        self._ended = asyncio.Event()
        self._worker = worker
        self._rounds: asyncio.Task[None] | None = None
        self.url = server.url

    async def _start(self) -> None:
        if self._mcp is not None:
            await self._answering.enter_async_context(self._mcp.running())
        await self._server.start()
        if self._numbers is not None:
            await self._numbers.start()
        self._rounds = asyncio.ensure_future(self._worker.run(self._working))

    async def until_ended(self) -> None:
        """Until `end` has run."""
        await self._ended.wait()

    async def end(self, seconds: float) -> bool:
        """Take nothing more, let what runs end within so long; whether everything has ended."""
        _log.info("ending")
        self._close_doors()
        report = await self._gate.drain(seconds)
        if report.left:
            return False
        self._ended.set()
        return True

    async def _stop(self) -> None:
        """Answers that are under way are sent; a round of the worker is finished."""
        self._close_doors()
        if self._mcp is not None:  # whose streams stay open for as long as their clients like
            await self._mcp.door.settle(_GRACE_SECONDS)
        await self._answering.aclose()
        await self._server.stop()
        if self._numbers is not None:
            await self._numbers.stop()
        self._working.set()
        if self._rounds is not None:
            await asyncio.wait((self._rounds,), timeout=_GRACE_SECONDS)
            self._rounds.cancel()

    def _close_doors(self) -> None:
        """Nobody waits any more: long polls, and pages that are open."""
        for each in self._closing:
            each.close()


@asynccontextmanager
async def serving(
    gate: Gate, doors: Doors, at: socket.socket, *, round_seconds: float = ROUND_SECONDS
) -> AsyncIterator[Serving]:
    """The front doors of an open gate, for as long as this lasts; it answers when this is entered."""
    app = create_app(
        gate=gate,
        sign_in=doors.sign_in,
        rate_limiter=doors.rate_limiter,
        settings=doors.settings,
        metrics=doors.metrics,
    )
    door: Door = app.state.door
    front = together(app, doors.console, doors.site, mcp=doors.mcp)
    async with _serving(gate, doors, front, at, closing=(door, doors.console), round_seconds=round_seconds) as process:
        yield process


@asynccontextmanager
async def serving_mcp(
    gate: Gate, doors: Doors, at: socket.socket, *, round_seconds: float = ROUND_SECONDS
) -> AsyncIterator[Serving]:
    """The same with the door for MCP clients alone, which `doors` has."""
    front = together(nothing_else, None, doors.site, mcp=doors.mcp)
    async with _serving(gate, doors, front, at, closing=(), round_seconds=round_seconds) as process:
        yield process


@asynccontextmanager
async def _serving(
    gate: Gate,
    doors: Doors,
    front: ASGIApp,
    at: socket.socket,
    *,
    closing: Sequence[Closing | None],
    round_seconds: float,
) -> AsyncIterator[Serving]:
    process = Serving(
        gate=gate,
        closing=[each for each in (*closing, doors.mcp) if each is not None],
        mcp=doors.mcp,
        server=HttpServer(front, at, grace_seconds=_GRACE_SECONDS, tls=doors.tls),
        numbers=_numbers(doors),
        worker=Worker(gate, clock=system_clock(), pause_seconds=round_seconds, announcer=doors.announcer),
    )
    try:
        await process._start()
        yield process
    finally:
        await process._stop()


def _numbers(doors: Doors) -> HttpServer | None:
    if doors.numbers_at is None or doors.metrics is None:
        return None
    return HttpServer(numbers(metrics_page(doors.metrics)), doors.numbers_at, grace_seconds=1.0)
