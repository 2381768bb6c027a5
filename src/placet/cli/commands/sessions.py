"""`placet sessions`: where people are signed in to the console, and ending that. One's own without a scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from placet.bootstrap.sign_in import open_sessions
from placet.cli.commands.purge import with_hint
from placet.cli.failing import UsageProblem
from placet.cli.project import finish, is_text, person, require_store
from placet.cli.screen import Column, instant_data
from placet.cli.session import Session, epilog, new_app, with_list_session, with_session
from placet.cli.table import COMMANDS, Exit
from placet.engine.person_sessions import MANAGE_SESSIONS_SCOPE, PersonSessions
from placet.errors import DecisionRefused, MisuseError
from placet.model.credentials import SessionView
from placet.model.principal import Principal

app = new_app("sessions")
_verbs = COMMANDS["sessions"].verbs

Answered = TypeVar("Answered")
_Person = Annotated[
    str | None, typer.Option("--person", metavar="NAME", help=f"Those of this person; needs {MANAGE_SESSIONS_SCOPE}.")
]


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_list_session
def list_sessions(
    session: Session,
    named: _Person = None,
    everybody: Annotated[
        bool, typer.Option("--everybody", help=f"Those of the whole tenant; needs {MANAGE_SESSIONS_SCOPE}.")
    ] = False,
) -> Exit:
    _require_one_of(named, everybody=everybody)

    async def work(sessions: PersonSessions, by: Principal) -> tuple[SessionView, ...]:
        if everybody or named is not None:
            return await sessions.of_tenant(by=by, subject=named)
        return await sessions.own(by=by)

    instant = session.screen.instant
    session.screen.listing(
        "sessions",
        finish(_with_sessions(session, work)),
        as_data=_data,
        columns=[
            Column(title="session", cell=lambda v: v.name),
            Column(title="person", cell=lambda v: v.subject),
            Column(title="began", cell=lambda v: instant(v.began_at) or "-"),
            Column(title="last used", cell=lambda v: instant(v.used_at) or "not since"),
            Column(title="over at the latest", cell=lambda v: instant(v.ends_at) or "-"),
            Column(title="through", cell=lambda v: v.through or "a link of this server"),
        ],
        item_schema="session/1",
        nothing="Nobody is signed in there." if everybody or named is not None else "You are signed in nowhere.",
    )
    return Exit.OK


@app.command("end", help=_verbs["end"], epilog=epilog())
@with_session
def end(
    session: Session,
    name: Annotated[str | None, typer.Argument(metavar="[SESSION]", help="The session, as `list` prints it.")] = None,
    named: _Person = None,
    mine: Annotated[bool, typer.Option("--mine", help="All of your own.")] = False,
    everybody: Annotated[
        bool, typer.Option("--everybody", help=f"The whole tenant's; needs {MANAGE_SESSIONS_SCOPE}.")
    ] = False,
) -> Exit:
    if [name is not None, named is not None, mine, everybody].count(True) != 1:
        raise UsageProblem("Say which: SESSION, --mine, --person NAME or --everybody", hint="placet sessions list")
    _require_one_of(named, everybody=everybody)

    async def work(sessions: PersonSessions, by: Principal) -> int:
        if name is not None:
            await sessions.end(name, by=by)
            return 1
        if named is not None:
            return await sessions.end_of(named, by=by)
        return await (sessions.end_every(by=by) if everybody else sessions.end_own(by=by))

    count = finish(_with_sessions(session, work))
    if session.screen.is_text:
        session.screen.line(f"ended  {count}")
    else:
        session.screen.document("sessions-ended/1", {"ended": count})
    return Exit.OK


def _require_one_of(named: str | None, *, everybody: bool) -> None:
    if named is not None and everybody:
        raise UsageProblem("--person or --everybody, and not both")
    if named is not None and not is_text(named):
        raise UsageProblem("A person's name is text")


async def _with_sessions(
    session: Session, work: Callable[[PersonSessions, Principal], Awaitable[Answered]]
) -> Answered:
    settings = session.settings
    where, by = require_store(settings), person(settings)
    sessions, store = open_sessions(where, key=settings.key, limits=settings.admission.sessions)
    try:
        return await work(sessions, by)
    except DecisionRefused as error:
        refusal: Exception = with_hint(error, MANAGE_SESSIONS_SCOPE)
    except MisuseError as misuse:
        refusal = UsageProblem(str(misuse), hint="placet sessions list")
    finally:
        await store.close()
    raise refusal


def _data(view: SessionView) -> dict[str, Any]:
    return {
        "session": view.name,
        "subject": view.subject,
        "began_at": instant_data(view.began_at),
        "used_at": instant_data(view.used_at),
        "ends_at": instant_data(view.ends_at),
        "through": view.through,
    }
