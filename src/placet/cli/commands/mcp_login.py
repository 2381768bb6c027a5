"""`placet mcp login`: an operator lets this deployment in at an upstream, in a browser."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from placet.bootstrap.upstream_sign_in import KnownAs, sign_in_at
from placet.cli.extras import require_mcp
from placet.cli.failing import UsageProblem
from placet.cli.pinning import upstream_named
from placet.cli.project import finish
from placet.cli.screen import shown
from placet.cli.session import Session
from placet.cli.table import Exit

_MOST = 65_535


def login(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The upstream, as placet.toml calls it.")],
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="For the credential of this tenant alone.")
    ] = None,
    client_id: Annotated[
        str | None, typer.Option("--client-id", metavar="ID", help="Of a client that was registered there by hand.")
    ] = None,
    client_secret_env: Annotated[
        str | None,
        typer.Option("--client-secret-env", metavar="VARIABLE", help="The variable that holds that client's secret."),
    ] = None,
    client_description: Annotated[
        str | None,
        typer.Option("--client-description", metavar="URL", help="Where a description of this client is published."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", help="Where on this host the browser comes back to; 0: anywhere.")
    ] = 0,
) -> Exit:
    """Let this deployment in at an upstream that wants tokens of an authorization server.

    Prints a page to open in a browser on this host, and waits until it comes back. What it gets is kept in the file
    that the upstream's credential of form oauth names, which only its owner may read, and is refreshed from then on.
    Where a tool wanted more leave than there was, that is asked for too. No caller's token is ever shown.
    """
    if not 0 <= port <= _MOST:
        raise UsageProblem("--port is a number from 0 to 65535")
    require_mcp("Signing in at MCP servers")
    known_as = KnownAs(
        client_id=client_id, client_secret=_secret(client_id, client_secret_env), described_at=client_description
    )
    upstream = upstream_named(session.settings, name)
    screen = session.screen

    async def open_page(page: str) -> None:
        screen.warn(f"placet: open this page in a browser on this host: {page}")

    path = finish(sign_in_at(upstream, tenant=tenant, known_as=known_as, port=port, open_page=open_page))
    if screen.is_text:
        screen.line(f"signed in  {shown(name)}  kept in {shown(path)}")
    else:
        screen.document("upstream_signed_in/1", {"upstream": name, "tenant": tenant, "file": str(path)})
    return Exit.OK


def _secret(client_id: str | None, variable: str | None) -> str | None:
    """
    Raises:
        UsageProblem: there is a secret of nobody, or none where it should be.
    """
    if variable is None:
        return None
    secret = os.environ.get(variable, "")
    if client_id is None or not secret:
        raise UsageProblem("--client-secret-env names a variable that is set, and goes with --client-id")
    return secret
