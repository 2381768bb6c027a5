"""`placet serve`: the project's gate behind HTTP, in one process that ends in order when it is told to."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Collection
from contextlib import AsyncExitStack, redirect_stdout
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from placet.bootstrap.surroundings import configure_logging
from placet.cli.commands.doctor import deployment
from placet.cli.draining import DRAIN_SECONDS, drain_seconds, draining
from placet.cli.failing import UsageProblem
from placet.cli.project import finish, load_tools, person, project_opening, require_store
from placet.cli.screen import Screen, shown
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.table import Exit
from placet.errors import ConfigurationError
from placet.model.exact import is_seconds
from placet.model.principal import Principal
from placet.rules.contracts import Tool

if TYPE_CHECKING:
    from placet.proof.doctor import Report

app = new_app("serve")
_log = logging.getLogger("placet.serve")
_NEEDED = ("fastapi", "jinja2", "limits", "uvicorn")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
DEFAULT_PORT = 8420


@app.command(epilog=epilog())
@with_session
def serve(
    session: Session,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65_535, help="The port; 0 lets the system choose.")
    ] = DEFAULT_PORT,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev", help="For development: prints a one-time link that signs you in to the console. Loopback only."
        ),
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", help="How long to pause between rounds of the worker.")
    ] = 10.0,
    drain: Annotated[
        float,
        typer.Option("--drain-seconds", metavar="SECONDS", help="How long what runs may take to end after SIGTERM."),
    ] = DRAIN_SECONDS,
) -> Exit:
    """Serve the HTTP API and the console, and do what `placet worker` does beside it, until SIGTERM.

    Looks at the deployment first, as `placet doctor` does, and does not start where that finds a fault. Writes one line
    with its address to standard output, and JSON lines to standard error. It speaks plain HTTP: put whatever ends TLS
    in front of it. Agents sign in with the keys of `placet api-keys`. Ends with 0, or with 1 if calls had to be left.
    """
    if not is_seconds(interval):
        raise UsageProblem("--interval is a finite number above zero")
    limit = drain_seconds(drain)
    if dev and host not in _LOOPBACK:
        raise UsageProblem("--dev is for this machine alone", hint="Leave --host out, or --dev.")
    _require_libraries()
    require_store(session.settings)
    developer = person(session.settings) if dev else None
    tools = load_tools(session.settings)
    _require_safe(session)
    configure_logging(sys.stderr)
    configure_logging(sys.stderr, logging.WARNING, logger=logging.getLogger("uvicorn"))
    from placet.serve.http_server import listening_socket

    at = listening_socket(host, port)
    if host not in _LOOPBACK:
        _log.warning("plain HTTP beyond this machine: put TLS in front of it")
    finish(_served(session, tools, at, interval, limit, developer))
    return Exit.OK


def _require_libraries() -> None:
    """Raises:
    ConfigurationError: a library of the front doors, which are an extra, is not installed.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"placet serve needs {', '.join(missing)}, which is not installed.", hint='pip install "placet[server]"'
        )


def _require_safe(session: Session) -> None:
    """Raises:
    ConfigurationError: the deployment has a fault; each was told on standard error.
    """
    from placet.proof.doctor import diagnose

    report = finish(diagnose(deployment(session.settings)))
    if report.red:
        _tell_red(session.screen, report)
        names = ", ".join(each.id for each in report.red)
        raise ConfigurationError(
            f"This deployment is not safe to start: {names}.", code="not_safe_to_start", hint="placet doctor"
        )


def _tell_red(screen: Screen, report: Report) -> None:
    for each in report.red:
        screen.warn(f"placet: {each.id}: {shown(each.saying.told)}")
        if each.saying.next_step:
            screen.warn(f"  next: {shown(each.saying.next_step)}")


async def _served(
    session: Session,
    tools: Collection[Tool],
    at: socket.socket,
    interval: float,
    limit: float,
    developer: Principal | None,
) -> None:
    from prometheus_client import CollectorRegistry

    from placet.bootstrap.announcing import announcer_of
    from placet.bootstrap.sign_in import doors_of
    from placet.bootstrap.surroundings import system_clock
    from placet.console.app import Console
    from placet.serve.serving import Doors, serving

    registry, settings = CollectorRegistry(), session.settings
    opening = project_opening(settings, tools, metrics=registry)
    with redirect_stdout(sys.stderr):  # a handler's print is no data
        async with opening as gate, AsyncExitStack() as opened:
            admitting = doors_of(opening, settings.admission)
            opened.push_async_callback(admitting.close)
            console = Console(gate, sessions=admitting.sessions, clock=system_clock(), is_dev=developer is not None)
            doors = Doors(
                sign_in=admitting.sign_in,
                rate_limiter=admitting.rate_limiter,
                metrics=registry,
                console=console,
                announcer=announcer_of(opening, settings.announcements),
            )
            async with serving(gate, doors, at, round_seconds=interval) as process:

                async def end() -> bool:
                    return await process.end(limit)

                with draining(end, when_left=lambda: _log.warning("calls left unfinished"), code=Exit.FAILED):
                    _tell_address(session.screen, process.url)
                    if developer is not None:
                        link = await admitting.sessions.link(developer)
                        _tell_link(session.screen, f"{process.url}{console.root}/sign-in#{link}")
                    await process.until_ended()
    _log.info("ended")


def _tell_address(screen: Screen, url: str) -> None:
    if screen.is_text:
        screen.line(url)
    else:
        screen.document("serving/1", {"url": url})
    screen.flush()


def _tell_link(screen: Screen, link: str) -> None:
    """On standard error, which is talk: whoever reads the data of this command is not given a way in."""
    screen.warn("placet: for development only: plain HTTP, and whoever has this link signs in as you, once:")
    screen.warn(f"  {link}")
