"""`placet keys`: which keys there are, what depends on them, and changing them. Never their material.

Whoever can write the key file can change it by hand, so no scope is asked for; who it was is on record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer

from placet.bootstrap.records import open_custody
from placet.cli.failing import UsageProblem
from placet.cli.project import finish, require_store, user_name
from placet.cli.screen import Column, instant_data, shown
from placet.cli.session import Session, epilog, new_app, with_list_session, with_session
from placet.cli.settings import Settings
from placet.cli.table import COMMANDS, Exit
from placet.engine.custody import Custody, KeyRecord, Loss, Rotation
from placet.ports.keys import KeyState

app = new_app("keys")
_verbs = COMMANDS["keys"].verbs

Answered = TypeVar("Answered")


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_list_session
def list_keys(session: Session) -> Exit:
    records = finish(_with_custody(session.settings, lambda custody: custody.listed()))
    instant = session.screen.instant
    session.screen.listing(
        "keys",
        records,
        as_data=_data,
        columns=[
            Column(title="id", cell=lambda r: r.fact.key_id),
            Column(title="state", cell=lambda r: r.fact.state.value),
            Column(title="created at", cell=lambda r: instant(r.fact.created_at) or "-"),
            Column(title="retired at", cell=lambda r: instant(r.fact.retired_at) or "-"),
            Column(title="approvals", cell=lambda r: str(r.use.approvals)),
            Column(title="arguments", cell=lambda r: str(r.use.arguments)),
            Column(title="results", cell=lambda r: str(r.use.results)),
            Column(title="events", cell=lambda r: str(r.use.events)),
            Column(title="api keys", cell=lambda r: str(r.use.api_keys)),
            Column(title="runs", cell=lambda r: str(r.use.checkpoints)),
        ],
        item_schema="key/1",
        nothing="There is no key.",
    )
    if any(record.fact.state is KeyState.UNKNOWN for record in records):
        session.screen.warn("placet: rows name keys that are not in the key file: is it a copy from before a rotation?")
    return Exit.OK


@app.command("rotate", help=_verbs["rotate"], epilog=epilog())
@with_session
def rotate(session: Session) -> Exit:
    by = user_name()
    done = finish(_with_custody(session.settings, lambda custody: custody.rotate(by=by)))
    _report_rotation(session, done)
    return Exit.OK


@app.command("retire", help=_verbs["retire"], epilog=epilog())
@with_session
def retire(
    session: Session,
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as `list` prints it.")],
    losing: Annotated[
        list[str] | None,
        typer.Option(
            "--losing",
            metavar="WHAT",
            help="What may be lost for good with it: approvals, arguments, results, api_keys or "
            "checkpoints of runs; repeatable. "
            "Without it a key that is still needed stays.",
        ),
    ] = None,
) -> Exit:
    by, losses = user_name(), _losses(losing or ())
    done = finish(_with_custody(session.settings, lambda custody: custody.retire(key_id, by=by, losing=losses)))
    if session.screen.is_text:
        session.screen.line(f"retired  {shown(done.fact.key_id)}")
        for loss, count in done.losses().items():
            session.screen.line(f"lost  {count} {loss.value}")
    else:
        lost = {loss.value: count for loss, count in done.losses().items()}
        session.screen.document("retirement/1", {"key_id": done.fact.key_id, "lost": lost})
    session.screen.talk("Copies of the key file made before hold it still: destroy them, and keep a new one.")
    session.screen.talk(
        "If it fell into foreign hands, keep the heads: placet audit verify --print-anchor > anchor.json"
    )
    return Exit.OK


async def _with_custody(settings: Settings, work: Callable[[Custody], Awaitable[Answered]]) -> Answered:
    custody, store = open_custody(require_store(settings), key=settings.key)
    try:
        return await work(custody)
    finally:
        await store.close()


def _losses(said: Sequence[str]) -> frozenset[Loss]:
    try:
        return frozenset(Loss(word) for word in said)
    except ValueError:
        pass
    raise UsageProblem(f"--losing is one of {', '.join(Loss)}")


def _report_rotation(session: Session, done: Rotation) -> None:
    screen = session.screen
    if not screen.is_text:
        screen.document(
            "rotation/1", {"previous": done.previous, "current": done.current, "was_finished": done.was_finished}
        )
    else:
        screen.line(f"current  {done.current}")
        screen.line(f"old  {shown(done.previous)}")
    if done.was_finished:
        screen.talk("An earlier rotation was interrupted before it was on record; it is now. No other key was made.")
    key = session.settings.key_file
    screen.talk(f"Back up {shown(key)} now: with an older copy the store stays closed.")


def _data(record: KeyRecord) -> dict[str, Any]:
    return {
        "key_id": record.fact.key_id,
        "state": record.fact.state.value,
        "created_at": instant_data(record.fact.created_at),
        "retired_at": instant_data(record.fact.retired_at),
        "needed_by": {
            "approvals": record.use.approvals,
            "arguments": record.use.arguments,
            "results": record.use.results,
            "events": record.use.events,
            "api_keys": record.use.api_keys,
            "checkpoints": record.use.checkpoints,
        },
    }
