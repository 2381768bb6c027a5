"""`placet notifications`: where what happens is announced, what was given up, and trying again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from placet.bootstrap.announcing import PublicKey, open_announcer, public_keys
from placet.cli.failing import ConfigProblem, UsageProblem
from placet.cli.project import finish, require_store, user_name
from placet.cli.screen import Column, instant_data, shown
from placet.cli.session import Session, epilog, new_app, with_list_session, with_session
from placet.cli.table import COMMANDS, Exit
from placet.engine.announcing import Announcer
from placet.model.destinations import Destination
from placet.model.identifiers import WriterId
from placet.model.ledger import Place
from placet.model.notices import Delivery, DeliveryState
from placet.ports.notifier import Delivered, Gone, NotDelivered, Sent
from placet.ports.store import Store

app = new_app("notifications")
_verbs = COMMANDS["notifications"].verbs

_NAMED = "A destination that was announced to, also one that placet.toml names no more."
_Name = Annotated[str, typer.Argument(metavar="NAME", help="A destination of placet.toml.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One destination as `list` shows it."""

    destination: Destination
    state: str
    begun_at: datetime | None
    pending: int
    oldest_at: datetime | None
    dead: int


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_list_session
def list_destinations(session: Session) -> Exit:
    rows = finish(_rows(session))
    session.screen.listing(
        "destinations",
        rows,
        as_data=_data_of_row,
        columns=[
            Column(title="name", cell=lambda r: r.destination.name),
            Column(title="kind", cell=lambda r: r.destination.kind.value),
            Column(title="state", cell=lambda r: r.state),
            Column(title="pending", cell=lambda r: str(r.pending)),
            Column(title="oldest", cell=lambda r: session.screen.instant(r.oldest_at) or ""),
            Column(title="dead", cell=lambda r: str(r.dead)),
        ],
        item_schema="destination/1",
        nothing="placet.toml names no destination: [[notify]].",
    )
    return Exit.OK


@app.command("dead", help=_verbs["dead"], epilog=epilog())
@with_list_session
def list_dead(
    session: Session,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1_000, help="How many, at most.")] = 100,
) -> Exit:
    found = finish(_dead(session, limit))
    session.screen.listing(
        "deliveries",
        found,
        as_data=_data_of_delivery,
        columns=[
            Column(title="destination", cell=lambda d: d.destination),
            Column(title="about", cell=lambda d: d.kind.value),
            Column(title="since", cell=lambda d: session.screen.instant(d.made_at) or ""),
            Column(title="attempts", cell=lambda d: str(d.attempts)),
            Column(title="why", cell=lambda d: d.code or ""),
            Column(title="delivery", cell=lambda d: _id(d.place)),
        ],
        item_schema="delivery/1",
        nothing="Nothing was given up.",
    )
    return Exit.OK


@app.command("retry", help=_verbs["retry"], epilog=epilog())
@with_session
def retry(
    session: Session,
    name: _Name,
    delivery: Annotated[
        str | None, typer.Option("--delivery", metavar="ID", help="This one alone; placet notifications dead names it.")
    ] = None,
) -> Exit:
    _destination(session, name)
    place = None if delivery is None else _place(delivery)
    count = finish(_retried(session, name, place, user_name()))
    if session.screen.is_text:
        session.screen.line(f"{count} will be sent again to {shown(name)}")
    else:
        session.screen.document("deliveries-retried/1", {"destination": name, "count": count})
    return Exit.OK


@app.command("close", help=_verbs["close"], epilog=epilog())
@with_session
def close(session: Session, name: Annotated[str, typer.Argument(metavar="NAME", help=_NAMED)]) -> Exit:
    is_new = finish(_closed(session, name, user_name()))
    if session.screen.is_text:
        session.screen.line(f"{'closed' if is_new else 'closed already'}  {shown(name)}")
    else:
        session.screen.document("destination-closed/1", {"destination": name, "is_new": is_new})
    return Exit.OK


@app.command("test", help=_verbs["test"], epilog=epilog())
@with_session
def test(session: Session, name: _Name) -> Exit:
    destination = _destination(session, name)
    sent = finish(_tested(session, name))
    has_arrived, code = isinstance(sent, Delivered), _code(sent)
    if session.screen.is_text:
        session.screen.line(f"{'delivered' if has_arrived else 'not delivered'}  {shown(name)}  {code}")
    else:
        kind = destination.kind.value
        session.screen.document(
            "notification-test/1", {"destination": name, "kind": kind, "is_delivered": has_arrived, "code": code}
        )
    return Exit.OK if has_arrived else Exit.FAILED


@app.command("keys", help=_verbs["keys"], epilog=epilog())
@with_session
def show_keys(session: Session, name: _Name) -> Exit:
    found = public_keys(_destination(session, name))
    session.screen.listing(
        "keys",
        found,
        as_data=lambda each: {"secret": _place_of(each), "public_key": each.key},
        columns=[Column(title="secret", cell=_place_of), Column(title="public key", cell=lambda each: each.key)],
        item_schema="notification-key/1",
        nothing="It signs with secrets that the receiver has, too: no whsk_ is among them.",
    )
    return Exit.OK


def _place_of(found: PublicKey) -> str:
    return f"{found.where.place.value}:{found.where.name}"


def _code(sent: Sent) -> str:
    match sent:
        case Delivered(code=code) | NotDelivered(code=code) | Gone(code=code):
            return code


def _destination(session: Session, name: str) -> Destination:
    """
    Raises:
        ConfigProblem: placet.toml names no such destination.
    """
    known = {each.name: each for each in session.settings.announcements.destinations}
    if name in known:
        return known[name]
    names = ", ".join(known) or "none"
    raise ConfigProblem(
        f"placet.toml names no destination {shown(name)!r}",
        code="no_such_destination",
        hint=f"[[notify]] names these: {names}",
    )


def _id(place: Place) -> str:
    return f"{place.writer}/{place.sequence}"


def _place(text: str) -> Place:
    writer, separator, sequence = text.rpartition("/")
    if separator and writer and sequence.isascii() and sequence.isdigit() and len(sequence) <= 18:
        return Place(writer=WriterId(writer), sequence=int(sequence))
    raise UsageProblem("--delivery is what `placet notifications dead` names it by, WRITER/NUMBER")


@asynccontextmanager
async def _opened(session: Session) -> AsyncIterator[tuple[Announcer, Store]]:
    settings = session.settings
    announcer, store = open_announcer(require_store(settings), settings.announcements, key=settings.key)
    try:
        yield announcer, store
    finally:
        await store.close()


async def _rows(session: Session) -> list[_Row]:
    destinations = session.settings.announcements.destinations
    if not destinations:
        return []
    async with _opened(session) as (_, store):
        known = {each.name: each for each in await store.known_destinations()}
        counts = {each.destination: each for each in await store.outbox_counts()}
    rows: list[_Row] = []
    for each in destinations:
        seen, count = known.get(each.name), counts.get(each.name)
        state = "not begun" if seen is None else "open" if seen.closed_at is None else "closed"
        rows.append(
            _Row(
                destination=each,
                state=state,
                begun_at=None if seen is None else seen.begun_at,
                pending=0 if count is None else count.pending,
                oldest_at=None if count is None else count.oldest_at,
                dead=0 if count is None else count.dead,
            )
        )
    return rows


async def _dead(session: Session, limit: int) -> tuple[Delivery, ...]:
    async with _opened(session) as (_, store):
        return await store.deliveries(destination=None, states=(DeliveryState.DEAD,), limit=limit)


async def _retried(session: Session, name: str, place: Place | None, by: str) -> int:
    async with _opened(session) as (announcer, _):
        return await announcer.retry(name, place, by=by)


async def _closed(session: Session, name: str, by: str) -> bool:
    async with _opened(session) as (announcer, _):
        return await announcer.close(name, by=by)


async def _tested(session: Session, name: str) -> Sent:
    async with _opened(session) as (announcer, _):
        return await announcer.test(name)


def _data_of_row(row: _Row) -> dict[str, Any]:
    return {
        "name": row.destination.name,
        "kind": row.destination.kind.value,
        "events": sorted(kind.value for kind in row.destination.kinds),
        "tenants": sorted(row.destination.tenants),
        "state": row.state.replace(" ", "_"),
        "begun_at": None if row.begun_at is None else instant_data(row.begun_at),
        "pending": row.pending,
        "oldest_at": None if row.oldest_at is None else instant_data(row.oldest_at),
        "dead": row.dead,
    }


def _data_of_delivery(delivery: Delivery) -> dict[str, Any]:
    return {
        "delivery": _id(delivery.place),
        "destination": delivery.destination,
        "kind": delivery.kind.value,
        "made_at": instant_data(delivery.made_at),
        "ended_at": None if delivery.ended_at is None else instant_data(delivery.ended_at),
        "attempts": delivery.attempts,
        "code": delivery.code,
    }
