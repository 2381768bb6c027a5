"""`placet holds`: legal holds. What is held is not purged, however old it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from placet.cli.commands.purge import with_hint
from placet.cli.failing import UsageProblem
from placet.cli.project import finish, is_text, open_project, person, require_store
from placet.cli.screen import Column, instant_data, shown
from placet.cli.session import Session, epilog, new_app, with_list_session, with_session
from placet.cli.table import COMMANDS, Exit
from placet.engine.purging import Purger
from placet.errors import DecisionRefused
from placet.model.principal import Principal
from placet.model.retention import Hold, is_hold_scope
from placet.rules.retention import HOLD_SCOPE

app = new_app("holds")
_verbs = COMMANDS["holds"].verbs

Answered = TypeVar("Answered")
_Scope = Annotated[str, typer.Argument(metavar="SCOPE", help="all, or tenant:NAME.")]


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_list_session
def list_holds(session: Session) -> Exit:
    holds = finish(_with_purger(session, lambda purger, by: purger.holds(by=by)))
    session.screen.listing(
        "holds",
        holds,
        as_data=_data,
        columns=[
            Column(title="scope", cell=lambda h: h.scope),
            Column(title="since", cell=lambda h: session.screen.instant(h.held_at) or ""),
            Column(title="by", cell=lambda h: h.held_by),
        ],
        item_schema="hold/1",
        nothing="Nothing is held.",
    )
    return Exit.OK


@app.command("set", help=_verbs["set"], epilog=epilog())
@with_session
def set_hold(session: Session, scope: _Scope) -> Exit:
    scope = _scope(scope)
    is_new = finish(_with_purger(session, lambda purger, by: purger.hold(scope, by=by)))
    _show(session, "hold/1", scope, "held" if is_new else "held already")
    return Exit.OK


@app.command("lift", help=_verbs["lift"], epilog=epilog())
@with_session
def lift_hold(session: Session, scope: _Scope) -> Exit:
    scope = _scope(scope)
    finish(_with_purger(session, lambda purger, by: purger.lift(scope, by=by)))
    _show(session, "hold-lifted/1", scope, "lifted")
    return Exit.OK


def _scope(said: str) -> str:
    if is_text(said) and is_hold_scope(said):
        return said
    raise UsageProblem("A hold is of all, or of tenant:NAME")


async def _with_purger(session: Session, work: Callable[[Purger, Principal], Awaitable[Answered]]) -> Answered:
    require_store(session.settings)
    by = person(session.settings)
    async with open_project(session.settings, ()) as gate:
        try:
            return await work(gate.purger, by)
        except DecisionRefused as error:
            refusal = with_hint(error, HOLD_SCOPE)
        raise refusal


def _show(session: Session, schema: str, scope: str, word: str) -> None:
    if session.screen.is_text:
        session.screen.line(f"{word}  {shown(scope)}")
    else:
        session.screen.document(schema, {"scope": scope, "is_new": word == "held"})


def _data(hold: Hold) -> dict[str, Any]:
    return {"scope": hold.scope, "held_by": hold.held_by, "held_at": instant_data(hold.held_at)}
