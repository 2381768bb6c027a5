"""`placet mcp serve`: the project's gate for MCP clients, over standard input and output or over HTTP."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Collection
from contextlib import AsyncExitStack, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from placet.bootstrap.surroundings import configure_logging, system_clock
from placet.cli.draining import DRAIN_SECONDS, DrainSeconds, drain_seconds, draining
from placet.cli.extras import require_mcp
from placet.cli.failing import UsageProblem
from placet.cli.mcp_doors import mcp_front_of, mcp_server_of, resource_of
from placet.cli.project import agent, finish, load_tools, project_opening, require_store
from placet.cli.serving import place_in
from placet.cli.session import Session
from placet.cli.table import Exit
from placet.model.exact import is_seconds
from placet.model.principal import Principal
from placet.model.serving import Listening
from placet.rules.contracts import Tool

if TYPE_CHECKING:
    from placet.cli.commands.serve import Outside
    from placet.engine.gate import Gate
    from placet.mcp_server import StdioDoor

_log = logging.getLogger("placet.serve")
_ROUND_SECONDS = 10.0


def serve(
    session: Session,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve over HTTP there instead of standard input and output; 'serve' goes by [serve] of placet.toml.",
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", help="How long to pause between rounds of the worker.")
    ] = _ROUND_SECONDS,
    drain: DrainSeconds = DRAIN_SECONDS,
) -> Exit:
    """Serve MCP, every call through the gate, and do what `placet worker` does beside it, until SIGTERM.

    Over standard input and output there is one client, and it acts as [agent] of placet.toml says; standard output
    carries the protocol and nothing else. Over HTTP clients sign in with the keys of `placet api-keys`, or tokens of
    the issuers of [sign_in] that were issued for this address. Looks at the deployment first, as `placet doctor` does,
    and does not start where that finds a fault. People decide in the console, which `placet serve` serves; with
    mcp = true in [serve] it serves MCP as well. Ends with 0, or with 1 if calls had to be left.
    """
    if not is_seconds(interval):
        raise UsageProblem("--interval is a finite number above zero")
    limit = drain_seconds(drain)
    require_mcp()
    require_store(session.settings)
    if http is None:
        return _over_stdio(session, interval, limit)
    # On use: with it comes all that doctor looks at, which the other commands of `placet mcp` can do without.
    from placet.cli.commands.serve import opened_at, require_libraries, require_safe

    listening = _listening(session.settings.listening, http)
    require_libraries(is_mcp=True)
    tools = load_tools(session.settings)
    require_safe(session, dev=False)
    configure_logging(sys.stderr)
    configure_logging(sys.stderr, logging.WARNING, logger=logging.getLogger("uvicorn"))
    finish(_served(session, tools, opened_at(listening), listening, interval, limit))
    return Exit.OK


def _listening(said: Listening, http: str) -> Listening:
    """Raises:
    UsageProblem: it is no place.
    """
    if http == "serve":
        return said
    place = place_in(http)
    if place is None:
        raise UsageProblem("--http is an address and a port, such as 127.0.0.1:8421, or the word serve")
    return replace(said, host=place.host, port=place.port)


# ---------------------------------------------------------------- standard input and output


def _over_stdio(session: Session, interval: float, limit: float) -> Exit:
    from placet.cli.commands.serve import require_safe

    principal = agent(session.settings)
    tools = load_tools(session.settings)
    require_safe(session, dev=False)
    configure_logging(sys.stderr)
    if sys.stdin is not None and sys.stdin.isatty():
        session.screen.talk("MCP goes over standard input and output here: an MCP client starts this command.")
        session.screen.talk("Over HTTP: placet mcp serve --http 127.0.0.1:8421. Ctrl-D ends it.")
    finish(_spoken(session, tools, principal, interval, limit))
    return Exit.OK


async def _spoken(
    session: Session, tools: Collection[Tool], principal: Principal, interval: float, limit: float
) -> None:
    from placet.bootstrap.announcing import announcer_of
    from placet.mcp_server import StdioDoor, standard_streams
    from placet.worker import Worker

    opening = project_opening(session.settings, tools)
    with standard_streams() as (source, sink), redirect_stdout(sys.stderr):
        async with opening as gate:
            mcp = mcp_server_of(opening, session.settings)
            door = StdioDoor(mcp, principal=principal)
            announcer = announcer_of(opening, session.settings.announcements)
            worker = Worker(gate, clock=system_clock(), pause_seconds=interval, announcer=announcer)
            working = asyncio.Event()
            rounds = asyncio.ensure_future(worker.run(working))

            async def end() -> bool:
                mcp.close()
                return await _drained(gate, door, limit)

            try:
                with draining(end, when_left=lambda: _log.warning("calls left unfinished"), code=Exit.FAILED):
                    await door.serve(source, sink)
            finally:
                working.set()
                await asyncio.wait((rounds,), timeout=limit)
                rounds.cancel()
    _log.info("ended")


async def _drained(gate: Gate, door: StdioDoor, limit: float) -> bool:
    """Take nothing more, let what runs end; whether everything has."""
    report = await gate.drain(limit)
    if report.left:
        return False
    door.leave()
    return True


# ---------------------------------------------------------------- HTTP


async def _served(
    session: Session,
    tools: Collection[Tool],
    outside: Outside,
    listening: Listening,
    interval: float,
    limit: float,
) -> None:
    from prometheus_client import CollectorRegistry

    from placet.bootstrap.announcing import announcer_of
    from placet.bootstrap.sign_in import doors_of
    from placet.serve.serving import Doors, serving_mcp

    registry, settings = CollectorRegistry(), session.settings
    opening = project_opening(settings, tools, metrics=registry)
    with redirect_stdout(sys.stderr):  # a handler's print is no data
        async with opening as gate, AsyncExitStack() as opened:
            admitting = doors_of(opening, settings.admission)
            opened.push_async_callback(admitting.close)
            front = mcp_front_of(
                opening,
                settings,
                admitting,
                metrics=registry,
                resource=resource_of(settings, listening, site=outside.url),
                console_url=None,
            )
            doors = Doors(
                sign_in=admitting.sign_in,
                metrics=registry,
                announcer=announcer_of(opening, settings.announcements),
                site=outside.site,
                tls=outside.tls,
                mcp=front,
                numbers_at=outside.numbers_at,
            )
            async with serving_mcp(gate, doors, outside.at, round_seconds=interval) as process:

                async def end() -> bool:
                    return await process.end(limit)

                with draining(end, when_left=lambda: _log.warning("calls left unfinished"), code=Exit.FAILED):
                    session.screen.line(f"{listening.public_url or process.url}/mcp")
                    session.screen.flush()
                    await process.until_ended()
    _log.info("ended")
