"""`placet api-keys`: what agents show at the front doors of a tenant. A key's text is printed once, and kept nowhere.

The text is data, so it goes to standard output, alone in its line; everything that is said of it goes elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from placet.bootstrap.sign_in import open_api_keys
from placet.cli.ages import age_seconds
from placet.cli.commands.purge import with_hint
from placet.cli.failing import UsageProblem
from placet.cli.project import finish, is_text, person, require_store
from placet.cli.screen import Column, instant_data, shown
from placet.cli.session import Session, epilog, new_app, with_list_session, with_session
from placet.cli.table import COMMANDS, Exit
from placet.engine.api_keys import (
    DEFAULT_LIFETIME_SECONDS,
    DEFAULT_OVERLAP_SECONDS,
    MANAGE_SCOPE,
    ApiKeys,
    ApiKeyState,
    ApiKeyView,
    NewApiKey,
)
from placet.errors import DecisionRefused
from placet.model.principal import DEFAULT_ENVIRONMENT, Principal

app = new_app("api-keys")
_verbs = COMMANDS["api-keys"].verbs

Answered = TypeVar("Answered")
_Key = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as `list` prints it; never its text.")]
_Lifetime = Annotated[
    str | None, typer.Option("--expires", metavar="AGE", help="How long it is good for: 90d if absent, 400d at most.")
]


@app.command("create", help=_verbs["create"], epilog=epilog())
@with_session
def create(
    session: Session,
    subject: Annotated[str, typer.Argument(metavar="AGENT", help="Who shows it: the agent's name in your tenant.")],
    role: Annotated[
        list[str] | None, typer.Option("--role", metavar="ROLE", help="viewer, operator or admin; repeatable.")
    ] = None,
    scope: Annotated[
        list[str] | None, typer.Option("--scope", metavar="SCOPE", help="Such as ops.ticket.create; repeatable.")
    ] = None,
    environment: Annotated[
        str, typer.Option("--environment", metavar="NAME", help="Where it acts.")
    ] = DEFAULT_ENVIRONMENT,
    expires: _Lifetime = None,
) -> Exit:
    if not all(map(is_text, (subject, environment, *(role or ()), *(scope or ())))):
        raise UsageProblem("An agent, a role and a scope are text")
    lifetime = _seconds(expires, "--expires", DEFAULT_LIFETIME_SECONDS)

    async def work(api_keys: ApiKeys, by: Principal) -> NewApiKey:
        return await api_keys.create(
            subject,
            by=by,
            roles=tuple(role or ()),
            scopes=tuple(scope or ()),
            environment=environment,
            lifetime_seconds=lifetime,
        )

    _hand_over(session, finish(_with_keys(session, work)))
    return Exit.OK


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_list_session
def list_keys(
    session: Session,
    is_all: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
) -> Exit:
    views = finish(_with_keys(session, lambda api_keys, by: api_keys.listed(by=by)))
    listed = [view for view in views if is_all or view.state not in (ApiKeyState.EXPIRED, ApiKeyState.REVOKED)]
    instant = session.screen.instant
    session.screen.listing(
        "api-keys",
        listed,
        as_data=_data,
        columns=[
            Column(title="id", cell=lambda v: v.api_key_id),
            Column(title="agent", cell=lambda v: v.key.principal.subject if v.key else "-"),
            Column(title="state", cell=lambda v: v.state.value.replace("_", " ")),
            Column(title="roles", cell=lambda v: _words(v, "roles")),
            Column(title="scopes", cell=lambda v: _words(v, "scopes")),
            Column(title="expires", cell=lambda v: (instant(v.key.expires_at) if v.key else None) or "-"),
            Column(title="last used", cell=lambda v: instant(v.used_at) or "never"),
        ],
        item_schema="api-key/1",
        nothing="Your tenant has no API key.",
    )
    if any(view.state is ApiKeyState.ALTERED for view in views):
        session.screen.warn("placet: somebody altered a key's row; it opens nothing. placet audit verify says more,")
        session.screen.warn("  and placet api-keys revoke removes it. Find out who can write the store.")
    return Exit.OK


@app.command("rotate", help=_verbs["rotate"], epilog=epilog())
@with_session
def rotate(
    session: Session,
    key: _Key,
    overlap: Annotated[
        str | None,
        typer.Option("--overlap", metavar="AGE", help="How long the old one goes on: 24h if absent; 0 ends it now."),
    ] = None,
    expires: _Lifetime = None,
) -> Exit:
    lifetime = _seconds(expires, "--expires", DEFAULT_LIFETIME_SECONDS)
    seconds = 0.0 if overlap == "0" else _seconds(overlap, "--overlap", DEFAULT_OVERLAP_SECONDS)

    async def work(api_keys: ApiKeys, by: Principal) -> NewApiKey:
        return await api_keys.rotate(key, by=by, overlap_seconds=seconds, lifetime_seconds=lifetime)

    _hand_over(session, finish(_with_keys(session, work)))
    return Exit.OK


@app.command("revoke", help=_verbs["revoke"], epilog=epilog())
@with_session
def revoke(session: Session, key: _Key) -> Exit:
    view = finish(_with_keys(session, lambda api_keys, by: api_keys.revoke(key, by=by)))
    if not session.screen.is_text:
        session.screen.document("api-key-revoked/1", _data(view))
    elif view.state is ApiKeyState.ALTERED:
        session.screen.line(f"removed  {shown(view.api_key_id)}")
    else:
        session.screen.line(f"revoked  {shown(view.api_key_id)}")
    rotated_to = view.key.rotated_to if view.key is not None else None
    if rotated_to is not None:
        session.screen.talk(f"The key that took its place goes on: {rotated_to}")
    return Exit.OK


async def _with_keys(session: Session, work: Callable[[ApiKeys, Principal], Awaitable[Answered]]) -> Answered:
    where, by = require_store(session.settings), person(session.settings)
    api_keys, store = open_api_keys(where, key=session.settings.key)
    try:
        return await work(api_keys, by)
    except DecisionRefused as error:
        refusal = with_hint(error, MANAGE_SCOPE)
    finally:
        await store.close()
    raise refusal


def _seconds(said: str | None, option: str, usual: float) -> float:
    seconds = usual if said is None else age_seconds(said)
    if seconds is None:
        raise UsageProblem(f"{option} is an age such as 90d, 12w or 36h")
    return seconds


def _hand_over(session: Session, made: NewApiKey) -> None:
    screen = session.screen
    if screen.is_text:
        screen.line(made.text)
    else:
        state = ApiKeyView(api_key_id=made.key.api_key_id, state=ApiKeyState.USABLE, key=made.key, used_at=None)
        screen.document("api-key-made/1", {"text": made.text, **_data(state)})
    screen.flush()
    screen.talk(f"This is the only time it is shown. Its id is {made.key.api_key_id}, and it is good until")
    screen.talk(f"{screen.instant(made.key.expires_at)}. Whoever has it is {shown(made.key.principal.subject)}.")


def _words(view: ApiKeyView, name: str) -> str:
    return ", ".join(_data(view)[name] or ()) or "-"


def _data(view: ApiKeyView) -> dict[str, Any]:
    key = view.key
    return {
        "api_key_id": view.api_key_id,
        "state": view.state.value,
        "subject": None if key is None else key.principal.subject,
        "tenant": None if key is None else key.principal.tenant,
        "environment": None if key is None else key.principal.environment,
        "roles": None if key is None else sorted(role.value for role in key.principal.roles),
        "scopes": None if key is None else sorted(key.principal.scopes),
        "created_by": None if key is None else key.created_by,
        "created_at": None if key is None else instant_data(key.created_at),
        "expires_at": None if key is None else instant_data(key.expires_at),
        "rotated_from": None if key is None else key.rotated_from,
        "rotated_to": None if key is None else key.rotated_to,
        "revoked_by": None if key is None else key.revoked_by,
        "revoked_at": None if key is None else instant_data(key.revoked_at),
        "used_at": instant_data(view.used_at),
    }
