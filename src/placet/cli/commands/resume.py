"""`placet resume`: lift a stop."""

from __future__ import annotations

from typing import Annotated

import typer

from placet.cli.commands.stop import (
    ALL_TENANTS_HELP,
    SCOPE_HELP,
    operator,
    read_scope,
    scope_data,
    scope_text,
    with_hint,
)
from placet.cli.project import finish, open_project
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.table import Exit
from placet.errors import DecisionRefused
from placet.model.principal import Principal
from placet.model.stopping import StopScope

app = new_app("resume")


@app.command(epilog=epilog())
@with_session
def resume(
    session: Session,
    scope: Annotated[str, typer.Argument(metavar="SCOPE", help=SCOPE_HELP)],
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help=ALL_TENANTS_HELP)] = False,
) -> Exit:
    """Lift the stop of SCOPE, and only that one: another that halts the same calls stays.

    It needs no less than it was stopped with: ops.stop where somebody of the tenant stopped it, otherwise ops.stop.all.
    """
    by = operator(session)
    wanted = read_scope(scope, by, all_tenants=all_tenants)
    finish(_resumed(session, wanted, by))
    if session.screen.is_text:
        session.screen.line(f"resumed  {scope_text(wanted, tenant=by.tenant)}")
    else:
        session.screen.document("resume/1", {"scope": scope_data(wanted)})
    return Exit.OK


async def _resumed(session: Session, scope: StopScope, by: Principal) -> None:
    async with open_project(session.settings, ()) as gate:
        try:
            await gate.switch.resume(scope, by=by)
            return
        except DecisionRefused as error:
            refusal = with_hint(error, scope, by)
        raise refusal
