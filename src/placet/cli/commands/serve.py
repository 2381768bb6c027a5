"""`placet serve`: the project's gate behind HTTP, in one process that ends in order when it is told to."""

from __future__ import annotations

import logging
import socket
import ssl
import sys
from collections.abc import Collection
from contextlib import AsyncExitStack, redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from placet.bootstrap.surroundings import configure_logging
from placet.cli.commands.doctor import deployment
from placet.cli.draining import DRAIN_SECONDS, DrainSeconds, drain_seconds, draining
from placet.cli.extras import require_extra, require_mcp
from placet.cli.failing import UsageProblem
from placet.cli.mcp_doors import mcp_front_of, resource_of
from placet.cli.project import finish, load_tools, person, project_opening, require_store
from placet.cli.screen import Screen, shown
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.table import Exit
from placet.errors import ConfigurationError
from placet.model.exact import is_seconds
from placet.model.principal import Principal
from placet.model.serving import DEFAULT_HOST, DEFAULT_PORT, Listening
from placet.rules.contracts import Tool
from placet.rules.serving import CONSOLE_ROOT, is_this_machine, networks_of

if TYPE_CHECKING:
    from placet.proof.doctor import Report
    from placet.serve.front import Site
    from placet.serve.serving import Serving

app = new_app("serve")
_log = logging.getLogger("placet.serve")
_NEEDED = ("fastapi", "jinja2", "limits", "uvicorn")


@app.command(epilog=epilog())
@with_session
def serve(
    session: Session,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help=f"Where to listen: {DEFAULT_HOST} if absent.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="N", min=0, max=65_535, help=f"The port: {DEFAULT_PORT} if absent; 0: the system chooses."
        ),
    ] = None,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev", help="For development: prints a one-time link that signs you in to the console. Loopback only."
        ),
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", help="How long to pause between rounds of the worker.")
    ] = 10.0,
    drain: DrainSeconds = DRAIN_SECONDS,
) -> Exit:
    """Serve the HTTP API and the console, and do what `placet worker` does beside it, until SIGTERM.

    With mcp = true in [serve] of placet.toml, MCP clients are served at /mcp.

    Looks at the deployment first, as `placet doctor` does, and does not start where that finds a fault. Writes one line
    with its address to standard output, and JSON lines to standard error. It speaks plain HTTP, for whatever ends TLS
    in front of it, unless [serve] in placet.toml names a certificate; --dev goes by nothing of [serve]. Agents sign in
    with the keys of `placet api-keys`, people through the issuers of [sign_in]. Ends with 0, or with 1 if calls had to
    be left.
    """
    if not is_seconds(interval):
        raise UsageProblem("--interval is a finite number above zero")
    limit = drain_seconds(drain)
    listening = listening_at(session.settings.listening, host, port, dev=dev)
    if dev and not is_this_machine(listening.host):
        raise UsageProblem("--dev is for this machine alone", hint="Leave --host out, or --dev.")
    require_libraries(is_mcp=listening.mcp)
    require_store(session.settings)
    developer = person(session.settings) if dev else None
    tools = load_tools(session.settings)
    require_safe(session, dev=dev)
    configure_logging(sys.stderr)
    configure_logging(sys.stderr, logging.WARNING, logger=logging.getLogger("uvicorn"))
    finish(_served(session, tools, opened_at(listening), interval, limit, developer, listening))
    return Exit.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What the world meets: sockets that listen, and what is shown and believed there."""

    at: socket.socket
    numbers_at: socket.socket | None
    tls: ssl.SSLContext | None
    site: Site

    @property
    def url(self) -> str:
        from placet.serve.http_server import url_of

        return url_of(self.at, tls=self.tls)


def listening_at(said: Listening, host: str | None, port: int | None, *, dev: bool) -> Listening:
    """Flags over the file; a server for development goes by none of the file."""
    usual = Listening() if dev else said
    return replace(usual, host=usual.host if host is None else host, port=usual.port if port is None else port)


def opened_at(listening: Listening) -> Outside:
    """Raises:
    ConfigurationError: an address cannot be had, or the certificate cannot be used.
    """
    from placet.serve.front import Site
    from placet.serve.http_server import listening_socket
    from placet.serve.tls import tls_of

    tls = None if listening.certificate is None else tls_of(listening.certificate)
    numbers = listening.metrics_at
    if tls is None and not is_this_machine(listening.host) and not listening.trusted_proxies:
        _log.warning("plain HTTP beyond this machine: put TLS in front of it")
    if numbers is not None and not is_this_machine(numbers.host):
        _log.warning("metrics beyond this machine: whoever can reach them reads them")
    return Outside(
        at=listening_socket(listening.host, listening.port),
        numbers_at=None if numbers is None else listening_socket(numbers.host, numbers.port),
        tls=tls,
        site=Site(public_url=listening.public_url, proxies=networks_of(listening.trusted_proxies)),
    )


def require_libraries(*, is_mcp: bool) -> None:
    """Raises:
    ConfigurationError: a library of the front doors, which are extras, is not installed.
    """
    if is_mcp:
        require_mcp()
    require_extra("placet serve", "server", _NEEDED)


def require_safe(session: Session, *, dev: bool) -> None:
    """Raises:
    ConfigurationError: the deployment has a fault; each was told on standard error.
    """
    from placet.proof.doctor import diagnose

    what = deployment(session.settings)
    if dev and what.admission is not None:  # which has no way through an issuer, and needs no secret of one
        what = replace(what, admission=replace(what.admission, clients=()))
    report = finish(diagnose(replace(what, listening=None) if dev else what))
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
    outside: Outside,
    interval: float,
    limit: float,
    developer: Principal | None,
    listening: Listening,
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
            console = Console(
                gate,
                sessions=admitting.sessions,
                clock=system_clock(),
                root=CONSOLE_ROOT,
                is_dev=developer is not None,
                issuers=admitting.issuers,
                public_url=outside.site.public_url,
                rate_limiter=admitting.rate_limiter,
            )
            mcp = None
            if listening.mcp:
                mcp = mcp_front_of(
                    opening,
                    settings,
                    admitting,
                    metrics=registry,
                    resource=resource_of(settings, listening, site=outside.url),
                    console_url=f"{listening.public_url or outside.url}{CONSOLE_ROOT}",
                )
            doors = Doors(
                sign_in=admitting.sign_in,
                rate_limiter=admitting.rate_limiter,
                metrics=registry,
                console=console,
                announcer=announcer_of(opening, settings.announcements),
                site=outside.site,
                tls=outside.tls,
                mcp=mcp,
                numbers_at=outside.numbers_at,
            )
            async with serving(gate, doors, outside.at, round_seconds=interval) as process:

                async def end() -> bool:
                    return await process.end(limit)

                with draining(end, when_left=lambda: _log.warning("calls left unfinished"), code=Exit.FAILED):
                    _tell_address(session.screen, process, outside.site.public_url)
                    if developer is not None:
                        link = await admitting.sessions.link(developer)
                        _tell_link(session.screen, f"{process.url}{console.root}/sign-in#{link}")
                    await process.until_ended()
    _log.info("ended")


def _tell_address(screen: Screen, process: Serving, public_url: str | None) -> None:
    if screen.is_text:
        screen.line(process.url if public_url is None else f"{public_url} (here: {process.url})")
    else:
        screen.document("serving/1", {"url": process.url, "metrics_url": process.numbers_url})
    screen.flush()
    if process.numbers_url is not None:
        _log.info("metrics of their own", extra={"url": process.numbers_url})


def _tell_link(screen: Screen, link: str) -> None:
    """On standard error, which is talk: whoever reads the data of this command is not given a way in."""
    screen.warn("placet: for development only: plain HTTP, and whoever has this link signs in as you, once:")
    screen.warn(f"  {link}")
