"""`placet mcp add`: a server is written into the project, with terms for its tools that are as careful as can be."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from placet.cli.declaring import declaration, write_declaration
from placet.cli.failing import UsageProblem
from placet.cli.pinning import require_askable
from placet.cli.project import finish
from placet.cli.screen import shown
from placet.cli.session import Session
from placet.cli.table import Exit
from placet.engine.pinning import ACCEPT_SCOPE
from placet.errors import ContractError
from placet.model.pins import Definition
from placet.model.upstreams import Upstream
from placet.rules.manifest_skeletons import Suggested, skeleton
from placet.rules.pins import refuse_unfit
from placet.rules.upstream_names import contract_name


def add(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the deployment calls it: 1 to 24 of a-z 0-9 _ -.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND ARGS]", help="How to start it; no shell is used.")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Where it is, if it runs already; streamable HTTP.")
    ] = None,
    credential: Annotated[
        str | None,
        typer.Option("--credential", metavar="REF", help="Its bearer token: env:NAME or file:PATH, never the token."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", metavar="NAME=VALUE", help="A variable for its process, as text or as env:X; repeatable."
        ),
    ] = None,
    network: Annotated[
        str | None, typer.Option("--network", metavar="WORD", help="Where it may be: public, private or loopback.")
    ] = None,
    tenant: Annotated[
        list[str] | None, typer.Option("--tenant", metavar="NAME", help="A tenant that may use it; repeatable.")
    ] = None,
    connect_seconds: Annotated[
        float | None,
        typer.Option(
            "--connect-seconds", metavar="SECONDS", help="How long it may take until it has said what it has; 20."
        ),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask the server; the manifest has no tools.")
    ] = False,
) -> Exit:
    """Write a server, and the most careful terms for its tools, into the project. Nothing is accepted.

    [upstreams.NAME] goes to the end of placet.toml; the manifest has each tool as irreversible and critical. The
    server is started, or asked, once, for what it says of its tools. Nothing that exists is overwritten.
    """
    members = _members(command or [], url=url, credential=credential, env=env or [], network=network, tenants=tenant)
    members |= {"bounds": {"connect_seconds": connect_seconds}} if connect_seconds is not None else {}
    declared = declaration(session.settings, name, members)
    if not offline:
        require_askable((declared.upstream,))
        _require_program(declared.upstream)
    definitions = () if offline else finish(_described(declared.upstream))
    fit, unfit = _sorted_out(definitions)
    write_declaration(declared, skeleton(name, [_suggested(each) for each in fit]))
    screen = session.screen
    if screen.is_text:
        screen.line(f"declared  {shown(name)}  in {shown(declared.file)}")
        screen.line(f"manifest  {shown(declared.upstream.manifest)}")
        screen.line(f"tools     {len(fit)}")
    else:
        screen.document(
            "upstream_declared/1",
            {
                "upstream": name,
                "file": str(declared.file),
                "manifest": str(declared.upstream.manifest),
                "tools": [each.tool for each in fit],
            },
        )
    for problem in unfit:
        screen.warn(f"placet: left out: {shown(problem)}")
    screen.talk("Say in the manifest what is true of each tool; [agent] of placet.toml needs the scopes it names.")
    screen.talk(f"Then, as a person with the scope {ACCEPT_SCOPE}: placet mcp accept {shown(name)}")
    return Exit.OK


def _members(
    command: list[str],
    *,
    url: str | None,
    credential: str | None,
    env: list[str],
    network: str | None,
    tenants: list[str] | None,
) -> dict[str, Any]:
    """The table as the file would have it."""
    if bool(command) is (url is not None):
        raise UsageProblem("Say how to start it, with -- COMMAND ARGS, or where it is, with --url; one of them")
    if url is None and (credential is not None or network is not None):
        raise UsageProblem("--credential and --network go with --url; a process is given variables with --env")
    if url is not None and env:
        raise UsageProblem("--env goes with -- COMMAND ARGS")
    members: dict[str, Any] = {}
    if url is None:
        members["command"] = command[0]
        members |= {"args": command[1:]} if command[1:] else {}
        members |= {"env": _variables(env)} if env else {}
    else:
        members["url"] = url
        members |= {"credential": credential} if credential is not None else {}
        members |= {"network": network} if network is not None else {}
    return members | ({"tenants": tenants} if tenants else {})


def _variables(said: list[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in said]
    if not all(name and separator for name, separator, _ in pairs):
        raise UsageProblem("--env is NAME=VALUE, such as DESK_TOKEN=env:DESK_TOKEN")
    return {name: value for name, _, value in pairs}


def _require_program(upstream: Upstream) -> None:
    """
    Raises:
        UsageProblem: there is no such program here, so nothing was started or written.
    """
    from placet.bootstrap.declared import missing_programs

    for program in missing_programs(upstream):
        raise UsageProblem(
            f"The upstream {upstream.name!r} cannot be started: there is no program {program!r} here.",
            hint="Name it as a shell would find it, or by its path; --offline writes it down all the same.",
        )


async def _described(upstream: Upstream) -> tuple[Definition, ...]:
    from placet.bootstrap.declared import described

    return await described(upstream)


def _sorted_out(definitions: tuple[Definition, ...]) -> tuple[list[Definition], list[str]]:
    """Those that somebody may accept, and what keeps the others from it."""
    fit: list[Definition] = []
    unfit: list[str] = []
    for each in definitions:
        try:
            refuse_unfit(each)
            fit.append(each)
        except ContractError as error:
            unfit.append(str(error))
    return fit, unfit


def _suggested(definition: Definition) -> Suggested:
    """A hint that a tool only reads makes nothing less careful: it is the server's own word."""
    name = contract_name(definition.server, definition.tool)
    return Suggested(tool=definition.tool, permission=name, about=definition.description or definition.title or "")
