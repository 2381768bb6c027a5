"""`placet resume`: lift a stop."""

from __future__ import annotations

from typing import Annotated

import typer

from placet.cli.commands.stop import ALL_TENANTS_HELP, SCOPE_HELP, changing, read_scope, scope_data, scope_text
from placet.cli.project import ask
from placet.cli.session import Session, epilog, new_app, with_served_session
from placet.cli.switches import operator, switch_of
from placet.cli.table import Exit

app = new_app("resume")


@app.command(epilog=epilog())
@with_served_session
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
    with changing(session, wanted, by):
        ask(switch_of(session, by), lambda switch: switch.resume(wanted))
    if session.screen.is_text:
        session.screen.line(f"resumed  {scope_text(wanted.scope, tenant=by.tenant)}")
    else:
        session.screen.document("resume/1", {"scope": scope_data(wanted.scope)})
    return Exit.OK
