"""`placet mcp list | diff | accept | quarantine`: what servers say of their tools, and what of it was accepted.

A server's words reach nobody before a person has read and accepted them. What is accepted is exactly what was shown:
at a terminal the difference is asked about, elsewhere the digest of each definition has to be named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from placet.cli.answering import ask_yes
from placet.cli.failing import UsageProblem, scope_hint
from placet.cli.pinning import Look, looked_at, looks, pin_text, require_askable, state_text, upstream_named
from placet.cli.project import finish, is_text, open_project, person
from placet.cli.screen import Column, Screen, instant_data, shown
from placet.cli.session import Session
from placet.cli.table import Exit
from placet.engine.pinning import ACCEPT_SCOPE, MAX_REASON_CHARACTERS
from placet.errors import DecisionRefused
from placet.model.pins import Definition, Pin, PinState
from placet.model.principal import Principal
from placet.model.upstreams import OpenApiWay, Upstream
from placet.rules.pin_differences import Difference, differences
from placet.rules.pins import definition_digest
from placet.rules.promises import table_of
from placet.rules.standings import ToolStanding

_Offline = Annotated[bool, typer.Option("--offline", help="Ask no server; say what was accepted.")]
_Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        metavar="TENANT",
        help="Ask the server with this tenant's way in; the first one's that has its own if there is no other.",
    ),
]
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIFFERS = (PinState.NEW, PinState.CHANGED, PinState.GONE)
_SHOWN = (*_DIFFERS, PinState.QUARANTINED)


# ---------------------------------------------------------------- looking


def list_tools(
    session: Session,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One upstream; all of them if absent.")] = None,
    offline: _Offline = False,
    tenant: _Tenant = None,
) -> Exit:
    """Say how each tool of each upstream stands: accepted, new, changed, gone, quarantined, unfit.

    accepted: served. new: hidden until it is accepted. new, no terms: and until its manifest has a table for it.
    changed: refused until it is accepted. gone: its server has it no more. quarantined: refused until it is accepted
    anew, since a person wanted it (by whom), or since its server was seen to describe it otherwise. unfit: accepted
    once, and hidden since its texts have what nobody sees. no manifest entry: accepted, and hidden for want of terms.
    """
    settings = session.settings
    chosen = settings.upstreams if name is None else (upstream_named(settings, name),)
    found = finish(looked_at(settings, chosen, ask=not offline, tenant=tenant))
    by = {(look.upstream.name, tool): who for look in found for tool, who in look.quarantined_by.items()}

    def who(standing: ToolStanding) -> str | None:
        return by.get((standing.server, standing.tool))

    session.screen.listing(
        "upstream_tools",
        [standing for look in found for standing in look.standings],
        as_data=lambda s: _data(s, who(s)),
        columns=[
            Column(title="server", cell=lambda s: s.server),
            Column(title="tool", cell=lambda s: s.tool),
            Column(title="state", cell=lambda s: state_text(s, quarantined_by=who(s))),
            Column(title="risk", cell=lambda s: "-" if s.risk is None else s.risk.value),
            Column(title="effect", cell=lambda s: "-" if s.effect is None else s.effect.value),
            Column(title="pin", cell=lambda s: pin_text(s.pin)),
            Column(title="accepted by", cell=lambda s: "-" if s.pin is None else s.pin.accepted_by),
            Column(title="at", cell=lambda s: session.screen.instant(_accepted_at(s)) or "-"),
        ],
        item_schema="upstream_tool/1",
        nothing="No upstream has a tool." if chosen else "No upstream is declared: placet mcp add NAME -- COMMAND",
    )
    _warn(session.screen, found)
    return Exit.OK


def diff(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The upstream.")],
    tools: Annotated[
        list[str] | None, typer.Argument(metavar="[TOOL]...", help="By the server's own names; all that differ.")
    ] = None,
    tenant: _Tenant = None,
) -> Exit:
    """Show how what a server says of its tools differs from what was accepted.

    What is quarantined and described as it was accepted is shown too, with its digest, and differs in nothing. Ends
    with 0 if nothing differs, and with 1 if something does, or if the server cannot be asked.
    """
    (look,) = finish(looked_at(session.settings, (upstream_named(session.settings, name),), ask=True, tenant=tenant))
    if look.fault is not None:
        raise look.fault
    chosen = [each for each in _chosen(look, tools) if each.state in _SHOWN]
    differs = any(each.state in _DIFFERS for each in chosen)
    _warn(session.screen, (look,))
    if session.screen.is_text:
        for standing in chosen:
            _show(session.screen, standing, look)
        if not differs:
            session.screen.talk("Nothing differs from what was accepted.")
        _say_how_it_ends(session.screen, chosen)
    else:
        body = [
            _data(each, look.quarantined_by.get(each.tool)) | {"differences": [_as_data(d) for d in _differences(each)]}
            for each in chosen
        ]
        session.screen.document("upstream_differences/1", {"upstream": name, "tools": body})
    return Exit.FAILED if differs else Exit.OK


# ---------------------------------------------------------------- deciding


def accept(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The upstream.")],
    tools: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOOL]...", help="By the server's own names; all that are new or changed if absent."),
    ] = None,
    digest: Annotated[
        list[str] | None,
        typer.Option(
            "--digest",
            metavar="DIGEST",
            help="All 64 hex digits that `placet mcp diff` printed; repeated, one for each tool.",
        ),
    ] = None,
    tenant: _Tenant = None,
) -> Exit:
    """Accept what a server says of its tools now, after showing how it differs.

    It needs the scope upstreams.accept. What is accepted is served by a process that is started after that. A tool that
    was quarantined, and whose server describes it as it was accepted, has to be named.
    """
    digests = digest or []
    if not all(map(_DIGEST.fullmatch, digests)):
        raise UsageProblem("--digest is all 64 hex digits, as placet mcp diff prints them")
    by, upstream = person(session.settings), _of_a_server(upstream_named(session.settings, name))
    with _scope_named():
        look, chosen = finish(_acceptable(session, upstream, tools, tenant, by=by))
        if not chosen:
            session.screen.talk("Nothing differs from what was accepted.")
            return Exit.OK
        _consent(session, look, chosen, digests)
        pins = finish(_accepted(session, chosen, by))
    _report(session.screen, pins, chosen, upstream=upstream)
    return Exit.OK


def quarantine(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The upstream.")],
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="By the server's own name.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="For the record; kept encrypted.")] = "",
) -> Exit:
    """Refuse a tool of a server, everywhere, until it is accepted anew.

    In every process, and for every tenant. It needs the scope upstreams.accept.
    """
    if not is_text(reason) or len(reason) > MAX_REASON_CHARACTERS:
        raise UsageProblem(f"--reason is text of at most {MAX_REASON_CHARACTERS} characters")
    by, upstream = person(session.settings), _of_a_server(upstream_named(session.settings, name))

    async def begun() -> bool:
        async with open_project(session.settings, ()) as gate:
            return await gate.pins.quarantine(upstream.name, tool, by=by, reason=reason)

    with _scope_named():
        is_new = finish(begun())
    if session.screen.is_text:
        session.screen.line(f"quarantined  {shown(name)} {shown(tool)}")
    else:
        session.screen.document("upstream_quarantine/1", {"upstream": name, "tool": tool, "was_already": not is_new})
    if not is_new:
        session.screen.talk("It was quarantined before.")
    session.screen.talk(f"To end it: placet mcp accept {shown(name)} {shown(tool)}")
    return Exit.OK


# ---------------------------------------------------------------- within


@contextmanager
def _scope_named() -> Iterator[None]:
    """Whoever lacks the scope is told where it is given."""
    try:
        yield
    except DecisionRefused as error:
        if error.code == "scope_missing":
            error.hint = scope_hint(ACCEPT_SCOPE)
        raise


def _of_a_server(upstream: Upstream) -> Upstream:
    if isinstance(upstream.way, OpenApiWay):
        raise UsageProblem(
            f"{upstream.name!r} is described by a document of this project, which is reviewed with it.",
            hint="There is nothing to accept. To hide an operation, take it out of the manifest; to halt it at once: "
            "placet stop tool:NAME",
        )
    return upstream


def _chosen(look: Look, tools: Sequence[str] | None) -> list[ToolStanding]:
    if not tools:
        return list(look.standings)
    known = {each.tool: each for each in look.standings}
    unknown = [tool for tool in tools if tool not in known]
    if unknown:
        raise UsageProblem(
            f"{look.upstream.name!r} has no tool '{shown(unknown[0])}'", hint=f"placet mcp list {look.upstream.name}"
        )
    return [known[tool] for tool in dict.fromkeys(tools)]


async def _acceptable(
    session: Session, upstream: Upstream, tools: Sequence[str] | None, tenant: str | None, *, by: Principal
) -> tuple[Look, list[ToolStanding]]:
    """What may be accepted of what was named, or of all that is new or changed.

    Raises:
        DecisionRefused: this person may accept nothing; no server was asked.
        PlacetError: the server could not be asked.
        UsageProblem: it describes nothing, or a named tool cannot be accepted.
    """
    require_askable((upstream,))
    async with open_project(session.settings, ()) as gate:
        await gate.pins.require_leave(by)
        (look,) = await looks(gate, (upstream,), ask=True, tenant=tenant)
    if look.fault is not None:
        raise look.fault
    if not any(each.seen is not None for each in look.standings):
        raise UsageProblem(
            "Nothing can be accepted: the server describes no tool", hint=f"placet mcp list {upstream.name}"
        )
    _warn(session.screen, (look,))
    chosen = _chosen(look, tools)
    if not tools:
        return look, [each for each in chosen if each.may_be_accepted]
    for each in chosen:
        if each.seen is None:
            raise UsageProblem(f"Its server describes no tool '{shown(each.tool)}' now, so it cannot be accepted.")
        if each.problem is not None:
            raise UsageProblem(f"'{shown(each.tool)}' cannot be accepted: {each.problem}")
    return look, chosen


def _consent(session: Session, look: Look, chosen: Sequence[ToolStanding], digests: Sequence[str]) -> None:
    """Have a person agree. A digest counts whole: a server makes two definitions that begin alike in a minute.

    Raises:
        UsageProblem: nobody can be asked, and not every definition's digest was named; nothing was accepted.
        Declined: the answer was no.
    """
    if digests:
        unnamed = [each for each in chosen if _digest(each) not in digests]
        if unnamed:
            raise UsageProblem(
                f"What is described now of '{shown(unnamed[0].tool)}' has another digest; nothing was accepted.",
                hint=f"Look first: placet mcp diff {unnamed[0].server} '{shown(unnamed[0].tool)}'",
            )
        return
    if not session.screen.can_ask:
        raise UsageProblem(
            "Nobody can be asked here, so nothing was accepted.",
            hint=_where_digests_are(look, chosen),
        )
    for standing in chosen:
        _show(session.screen, standing, look)
    ask_yes(
        session.screen,
        f"Accept {'this' if len(chosen) == 1 else f'these {len(chosen)}'}, for every tenant?",
        hint=f"placet mcp diff {chosen[0].server}",
        otherwise="Nothing was accepted",
    )


async def _accepted(session: Session, chosen: Sequence[ToolStanding], by: Any) -> tuple[Pin, ...]:
    """The very definitions that were shown; the server is not asked again."""
    definitions = [each.seen for each in chosen if each.seen is not None]
    async with open_project(session.settings, ()) as gate:
        return await gate.pins.accept(definitions, by=by)


def _where_digests_are(look: Look, chosen: Sequence[ToolStanding]) -> str:
    """Which command prints what has to be named: of a tool that differs in nothing, only one that names it."""
    server = look.upstream.name
    if all(each.state in _SHOWN for each in chosen):
        named = "".join(f" {shown(each.tool)}" for each in chosen) if len(chosen) == 1 else ""
        its = "its digest; name it" if len(chosen) == 1 else "digests; name each"
        return f"placet mcp diff {server}{named} prints {its} with --digest."
    return f"placet mcp list {server} --json has the digest of each as `described`; name each with --digest."


def _report(screen: Screen, pins: Sequence[Pin], chosen: Sequence[ToolStanding], *, upstream: Upstream) -> None:
    without_terms = [each for each in chosen if each.effect is None]
    before = {each.tool: each.pin.digest for each in chosen if each.pin is not None}
    anew = [pin for pin in pins if before.get(pin.definition.tool) != pin.digest]
    if screen.is_text:
        for pin in pins:
            screen.line(f"accepted  {shown(pin.definition.server)} {shown(pin.definition.tool)}  {pin.digest[:12]}")
    else:
        screen.document(
            "upstream_acceptance/1",
            {
                "accepted": [
                    {"upstream": pin.definition.server, "tool": pin.definition.tool, "digest": pin.digest}
                    for pin in pins
                ]
            },
        )
    if len(without_terms) < len(pins):
        screen.talk(
            "Served by processes of placet that start from now on; what was accepted before is refused."
            if anew
            else "It is as it was accepted before: processes that run serve it too."
        )
    for each in without_terms:
        screen.talk(
            f"{shown(each.tool)} stays hidden: there is no [{shown(table_of(each.tool))}] in {shown(upstream.manifest)}"
        )


# ---------------------------------------------------------------- words


def _warn(screen: Screen, found: Sequence[Look]) -> None:
    for look in found:
        for problem in look.problems:
            screen.warn(f"placet: {look.upstream.name}: {shown(problem)}")
        for standing in look.standings:
            if standing.problem is not None:
                screen.warn(f"placet: {look.upstream.name}: '{shown(standing.tool)}': {shown(standing.problem)}")
            if standing.fault is not None:
                fault = standing.fault.value.replace("_", " ")
                screen.warn(f"placet: {look.upstream.name}: '{shown(standing.tool)}': its pin is not believed: {fault}")


def _say_how_it_ends(screen: Screen, chosen: Sequence[ToolStanding]) -> None:
    """Of each tool that is quarantined and described as it was accepted."""
    for each in chosen:
        if each.state is PinState.QUARANTINED and each.seen is not None:
            named = f"{shown(each.server)} {shown(each.tool)} --digest {_digest(each)}"
            screen.talk(f"To end the quarantine: placet mcp accept {named}")


def _show(screen: Screen, standing: ToolStanding, look: Look) -> None:
    digest = "" if standing.seen is None else f"  {_digest(standing)}"
    state = state_text(standing, quarantined_by=look.quarantined_by.get(standing.tool))
    screen.line(f"{shown(standing.server)} {shown(standing.tool)}  {state}{digest}")
    if standing.risk is not None and standing.effect is not None:
        raised = ", raised by its server's hints" if standing.is_raised else ""
        screen.line(f"  terms: {standing.effect.value}, risk {standing.risk.value}{raised}")
    for each in _differences(standing):
        screen.line(f"  {each.place}")
        for line in each.removed:
            screen.line(f"    - {line}")
        for line in each.added:
            screen.line(f"    + {line}")


def _differences(standing: ToolStanding) -> tuple[Difference, ...]:
    before: Definition | None = None if standing.pin is None else standing.pin.definition
    return differences(before, standing.seen)


def _digest(standing: ToolStanding) -> str:
    return "" if standing.seen is None else definition_digest(standing.seen)


def _accepted_at(standing: ToolStanding) -> Any:
    """A document's operations were accepted with it, whenever that was."""
    return None if standing.pin is None or not standing.pin.mac else standing.pin.accepted_at


def _as_data(each: Difference) -> dict[str, Any]:
    return {"place": each.place, "removed": list(each.removed), "added": list(each.added)}


def _data(standing: ToolStanding, quarantined_by: str | None) -> dict[str, Any]:
    pin = standing.pin
    return {
        "server": standing.server,
        "tool": standing.tool,
        "name": standing.name,
        "state": standing.state.value,
        "quarantined_by": quarantined_by,
        "effect": None if standing.effect is None else standing.effect.value,
        "risk": None if standing.risk is None else standing.risk.value,
        "permission": standing.permission,
        "has_terms": standing.effect is not None,
        "pin": None if pin is None else pin.digest,
        "described": _digest(standing) or None,
        "accepted_by": None if pin is None else pin.accepted_by,
        "accepted_at": instant_data(_accepted_at(standing)),
        "problem": standing.problem,
        "fault": None if standing.fault is None else standing.fault.value,
    }
