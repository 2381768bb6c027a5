"""`placet stop`: halt a tool, an upstream, a tenant, a run or everything, or show it. `placet resume` lifts it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from placet.cli.failing import UsageProblem, scope_hint
from placet.cli.project import ask, checked, is_text
from placet.cli.remote import told_if_cut
from placet.cli.screen import Column, instant_data, shown, time_left
from placet.cli.session import Session, epilog, new_app, with_served_list_session
from placet.cli.switches import Switch, Wanted, known_tools, operator, switch_of
from placet.cli.table import Exit
from placet.engine.switch import MAX_REASON_CHARACTERS, RunningEffect, StopReport, StopView
from placet.errors import DecisionRefused, MisuseError, PlacetError
from placet.model.principal import Principal
from placet.model.stopping import StopKind, StopScope
from placet.rules.stopping import STOP_ALL_SCOPE, STOP_SCOPE, scope_of_words

app = new_app("stop")

SCOPE_HELP = "all, tenant, tool:NAME, upstream:NAME or run:ID of your tenant, or tenant:NAME."
ALL_TENANTS_HELP = "With tool:NAME or upstream:NAME: it for every tenant, not only for yours."
_LINES_SHOWN = 20


@app.command(epilog=epilog())
@with_served_list_session
def stop(
    session: Session,
    scope: Annotated[str | None, typer.Argument(metavar="SCOPE", help=SCOPE_HELP)] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="For those who may lift it; kept encrypted.")
    ] = "",
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help=ALL_TENANTS_HELP)] = False,
    unknown_tool: Annotated[
        bool,
        typer.Option(
            "--unknown-tool", help="Stop tool:NAME or upstream:NAME without looking whether this project has one."
        ),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show what is stopped, and stop nothing.")] = False,
) -> Exit:
    """Halt SCOPE until `placet resume SCOPE`. When this returns nothing of it is dispatched any more.

    What was claimed before goes on and is listed. Asking, approving, refusing, reconciling and looking go on. Your own
    tenant, and what is in it, needs the scope ops.stop; everything else ops.stop.all.
    """
    if list_:
        if scope is not None or reason or all_tenants or unknown_tool:
            raise UsageProblem("--list stands alone")
        return _list(session)
    if scope is None:
        raise UsageProblem("Say what to stop: all, tenant, tool:NAME, upstream:NAME, run:ID or tenant:NAME")
    checked(reason, f"--reason is text of at most {MAX_REASON_CHARACTERS} characters", _is_reason)
    by = operator(session)
    wanted = read_scope(scope, by, all_tenants=all_tenants)
    if wanted.scope.kind is StopKind.TOOL:
        name = str(wanted.scope.name)
        _meant(session, name) if unknown_tool else _look_up(session, name, by)
    if wanted.scope.kind is StopKind.UPSTREAM and session.server is None and not unknown_tool:
        _declared(session, str(wanted.scope.name))
    with changing(session, wanted, by):
        report, before = ask(switch_of(session, by), lambda switch: _stopped(switch, wanted, reason))
    _show(session, report, before, by)
    return Exit.OK


# ---------------------------------------------------------------- shared with resume


def read_scope(words: str, by: Principal, *, all_tenants: bool) -> Wanted:
    """What the words mean.

    Raises:
        UsageProblem: nothing that can be stopped.
    """
    try:
        scope = scope_of_words(words, by)
    except MisuseError as error:
        problem = UsageProblem(str(error))
    else:
        if not all_tenants:
            return Wanted(scope=scope, words=words, all_tenants=False)
        if scope.kind is StopKind.TOOL:
            return Wanted(scope=StopScope.of_tool(str(scope.name)), words=words, all_tenants=True)
        if scope.kind is StopKind.UPSTREAM:
            return Wanted(scope=StopScope.of_upstream(str(scope.name)), words=words, all_tenants=True)
        problem = UsageProblem("--all-tenants goes with tool:NAME and upstream:NAME")
    raise problem


@contextmanager
def changing(session: Session, wanted: Wanted, by: Principal) -> Iterator[None]:
    """What goes wrong in here is told with a next step; so is what may have been done though nobody heard of it."""
    try:
        with told_if_cut(session.screen, session.server, f"placet stop --list{session.there}"):
            yield
    except DecisionRefused as error:
        if error.code == "scope_missing":
            error.hint = scope_hint(STOP_SCOPE if wanted.scope.tenant == by.tenant else STOP_ALL_SCOPE)
        elif error.code == "stopped_with_more_leave":
            error.hint = scope_hint(STOP_ALL_SCOPE)
        raise


def scope_text(scope: StopScope, *, tenant: str | None = None) -> str:
    """As it is said on the command line, with the tenant where it is not this one."""
    own = scope.tenant == tenant
    match scope.kind:
        case StopKind.TENANT:
            return "tenant" if own else f"tenant:{shown(scope.tenant)}"
        case StopKind.TOOL | StopKind.UPSTREAM if scope.tenant is None:
            return f"{scope.kind.value}:{shown(scope.name)} --all-tenants"
        case StopKind.TOOL | StopKind.UPSTREAM | StopKind.RUN:
            return f"{scope.kind.value}:{shown(scope.name)}" + ("" if own else f" of {shown(scope.tenant)}")
        case _:
            return "all"


def scope_data(scope: StopScope) -> dict[str, Any]:
    return {"kind": scope.kind.value, "tenant": scope.tenant, "name": scope.name}


# ---------------------------------------------------------------- within


def _is_reason(said: str) -> bool:
    return is_text(said) and len(said) <= MAX_REASON_CHARACTERS


def _meant(session: Session, name: str) -> None:
    session.screen.warn(f"placet: the tools are not looked at; what is stopped is the very name {name!r}")


def _look_up(session: Session, name: str, by: Principal) -> None:
    """Whether a tool has the name: a stop of a name that was mistyped halts nothing, and would be believed to.

    Where the tools cannot be looked at soon the stop goes on: whoever halts something must not first mend a module.

    Raises:
        UsageProblem: no tool of the project has it; nothing was stopped.
    """
    known = known_tools(session, by)
    if known is None:
        session.screen.warn(f"placet: the tools cannot be looked at, so whether there is a tool {name!r} is not known")
        return
    if name in known:
        return
    near = get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    of, other = (
        ("of this project", "For a tool of another service in the same store")
        if session.server is None
        else ("that you may see there", "For one that you may not see, or of another service")
    )
    raise UsageProblem(
        f"No tool {of} is named {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""),
        hint=f"placet tools list{session.there} names them. {other}: --unknown-tool",
    )


def _declared(session: Session, name: str) -> None:
    """Whether the project declares such an upstream, for the same reason.

    Raises:
        UsageProblem: it does not; nothing was stopped.
    """
    names = [each.name for each in session.settings.upstreams]
    if name in names:
        return
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    raise UsageProblem(
        f"No upstream of this project is named {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""),
        hint="placet mcp list names them. For one of another service in the same store: --unknown-tool",
    )


async def _stopped(switch: Switch, wanted: Wanted, reason: str) -> tuple[StopReport, StopView | None]:
    """What it left running; and the stop that was there already, if this one did not put its words in its place."""
    report = await switch.stop(wanted, reason)
    try:
        views = await switch.stops()  # looked at afterwards: nothing goes before a stop
    except PlacetError:  # it is stopped, and whoever stops has to hear that
        return report, None
    kept = [view for view in views if view.scope == report.scope and reason and view.reason != reason]
    return report, kept[0] if kept else None


def _show(session: Session, report: StopReport, before: StopView | None, by: Principal) -> None:
    screen = session.screen
    if before is not None:
        since = screen.instant(before.stopped_at) or "before"
        screen.warn(f"placet: it was stopped already, since {since}, and stays so; the reason was not changed")
    if not screen.is_text:
        body = {
            "scope": scope_data(report.scope),
            "running_count": report.running_count,
            "running": [_running_data(each) for each in report.running],
        }
        screen.document("stop/1", body)
        return
    said = scope_text(report.scope, tenant=by.tenant)
    screen.line(f"stopped  {said}")
    screen.line(f"still running  {report.running_count}")
    _show_running(session, report.running)
    screen.talk(f"Nothing of it is dispatched any more. To lift it: placet resume {said}{session.there}")


def _show_running(session: Session, running: Sequence[RunningEffect]) -> None:
    screen = session.screen
    for each in running[:_LINES_SHOWN]:
        age = time_left(each.age_seconds)
        screen.line(f"  {shown(each.tool)}  run {shown(each.run_id)}  tenant {shown(each.tenant)}  for {age}")
    if len(running) > _LINES_SHOWN:
        screen.talk(f"  and {len(running) - _LINES_SHOWN} more: placet effects list --state dispatched{session.there}")


def _running_data(each: RunningEffect) -> dict[str, Any]:
    return {"tenant": each.tenant, "tool": each.tool, "run_id": each.run_id, "age_seconds": each.age_seconds}


def _list(session: Session) -> Exit:
    by = operator(session)
    views = ask(switch_of(session, by), lambda switch: switch.stops())
    session.screen.listing(
        "stops",
        views,
        as_data=_data,
        columns=[
            Column(title="scope", cell=lambda v: scope_text(v.scope, tenant=by.tenant)),
            Column(title="since", cell=lambda v: session.screen.instant(v.stopped_at) or ""),
            Column(title="by", cell=lambda v: v.stopped_by or "-"),
            Column(title="you may lift it", cell=lambda v: "yes" if v.may_lift else "no"),
            Column(title="reason", cell=lambda v: v.reason or "-"),
        ],
        item_schema="stopped/1",
        nothing="Nothing is stopped.",
    )
    return Exit.OK


def _data(view: StopView) -> dict[str, Any]:
    return {
        "scope": scope_data(view.scope),
        "stopped_at": instant_data(view.stopped_at),
        "stopped_by": view.stopped_by,
        "reason": view.reason,
        "lifted_with": STOP_SCOPE if view.lifted_with.value == "tenant" else STOP_ALL_SCOPE,
        "may_lift": view.may_lift,
    }
