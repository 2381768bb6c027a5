"""Gate, API and worker of one process, from their beginning to their orderly end.

    serving ─ told to end ─► nobody waits any more; new calls are turned away; those inside end, within a limit
                             ─► answers under way are sent ─► the listener goes ─► the gate closes

What has not ended within the limit is left as a killed process leaves it, for recovery to find.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from placet.bootstrap.surroundings import system_clock
from placet.console.app import Console
from placet.engine.announcing import Announcer
from placet.engine.gate import Gate
from placet.http_api import HttpSettings, create_app
from placet.http_api.door import Door
from placet.ports.rate_limits import RateLimiter
from placet.ports.sign_in import SignIn
from placet.serve.http_server import HttpServer
from placet.worker import Worker

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

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
    """

    sign_in: SignIn
    rate_limiter: RateLimiter | None = None
    metrics: CollectorRegistry | None = None
    settings: HttpSettings | None = None
    console: Console | None = None
    announcer: Announcer | None = None


class Serving:
    """A process that serves.

    Attributes:
        url: where its API is.
    """

    def __init__(self, *, gate: Gate, door: Door, console: Console | None, server: HttpServer, worker: Worker) -> None:
        self._gate = gate
        self._door = door
        self._console = console
        self._server = server
        self._working = asyncio.Event()
        self._ended = asyncio.Event()
        self._worker = worker
        self._rounds: asyncio.Task[None] | None = None
        self.url = server.url

    async def _start(self) -> None:
        await self._server.start()
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
        await self._server.stop()
        self._working.set()
        if self._rounds is not None:
            await asyncio.wait((self._rounds,), timeout=_GRACE_SECONDS)
            self._rounds.cancel()

    def _close_doors(self) -> None:
        """Nobody waits any more: long polls, and pages that are open."""
        self._door.close()
        if self._console is not None:
            self._console.close()


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
    server = HttpServer(together(app, doors.console), at, grace_seconds=_GRACE_SECONDS)
    worker = Worker(gate, clock=system_clock(), pause_seconds=round_seconds, announcer=doors.announcer)
    process = Serving(gate=gate, door=door, console=doors.console, server=server, worker=worker)
    try:
        await process._start()
        yield process
    finally:
        await process._stop()


def together(api: ASGIApp, console: Console | None) -> ASGIApp:
    """The front doors as one application: what is under the console's path is the console's, all else is the API's."""
    if console is None:
        return api
    inside = f"{console.root}/"

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        is_for_people = scope["type"] == "http" and f"{scope['path']}/".startswith(inside)
        await (console if is_for_people else api)(scope, receive, send)

    return either
