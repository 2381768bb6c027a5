"""`placet audit`: the newest events, and whether nothing was altered."""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from placet.bootstrap import open_existing_store, verify_audit
from placet.cli.failing import UsageProblem
from placet.cli.project import finish, person, require_store
from placet.cli.screen import Column, instant_data, shown
from placet.cli.session import Session, epilog, new_app, with_list_session, with_session
from placet.cli.settings import Settings
from placet.cli.table import COMMANDS, Exit
from placet.errors import InvalidArguments
from placet.model.audit import ChainedEvent, ChainHead
from placet.rules.audit import ChainReport
from placet.rules.decoding import DecodingLimits, decode_object

app = new_app("audit")
_verbs = COMMANDS["audit"].verbs

_LINK = re.compile(r"[0-9a-f]{64}")
_ANCHOR_LIMITS = DecodingLimits(max_bytes=64 * 1024 * 1024, max_members=4_000_000)
_HEADS_SHOWN = 20
Anchors = dict[str, tuple[int, str]]


@app.command("tail", help=_verbs["tail"], epilog=epilog())
@with_list_session
def tail(
    session: Session,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=10_000, help="How many events.")] = 20,
) -> Exit:
    settings = session.settings
    require_store(settings)
    tenant = person(settings).tenant
    events = [_event_data(event) for event in finish(_newest(settings, tenant, count))]
    session.screen.listing(
        "audit",
        events,
        as_data=lambda data: data,
        columns=[
            Column(title="at", cell=lambda d: _at(session, d)),
            Column(title="kind", cell=lambda d: _word(d, "kind")),
            Column(title="tool", cell=lambda d: _word(d, "tool")),
            Column(title="outcome", cell=lambda d: _word(d, "outcome")),
            Column(title="detail", cell=lambda d: _word(d, "detail")),
            Column(title="subject", cell=lambda d: _word(d, "subject")),
            Column(title="decider", cell=lambda d: _word(d, "decided_by")),
            Column(title="run", cell=lambda d: _word(d, "run_id")),
            Column(title="call", cell=lambda d: _word(d, "call_id")),
        ],
        item_schema="audit-event/1",
        nothing="No event of your tenant is on record.",
    )
    return Exit.OK


async def _newest(settings: Settings, tenant: str, count: int) -> list[ChainedEvent]:
    _, store = open_existing_store(settings.store, key=settings.key)
    try:
        return list(store.chained(tenant=tenant, newest=count))
    finally:
        await store.close()


def _event_data(event: ChainedEvent) -> dict[str, Any]:
    place = {"writer": event.writer, "sequence": event.sequence}
    try:
        body: object = json.loads(event.body)
    except ValueError:
        body = None
    if type(body) is not dict:
        return {**place, "unreadable": True}
    body["event_schema"] = body.pop("schema", None)
    return {**place, **body}


def _at(session: Session, data: dict[str, Any]) -> str:
    try:
        return session.screen.instant(datetime.fromisoformat(data["at"])) or ""
    except (KeyError, TypeError, ValueError):
        return "unreadable"


def _word(data: dict[str, Any], name: str) -> str:
    return str(data.get(name, "-"))


# ---------------------------------------------------------------- verify


@app.command("verify", help=_verbs["verify"], epilog=epilog())
@with_session
def verify(
    session: Session,
    anchor: Annotated[
        str | None, typer.Option("--anchor", metavar="FILE", help="Heads that were kept outside the store.")
    ] = None,
    print_anchor: Annotated[
        bool, typer.Option("--print-anchor", help="Print only the heads, as JSON, to keep outside; none if broken.")
    ] = False,
    with_heads: Annotated[bool, typer.Option("--heads", help="List the newest heads as well.")] = False,
) -> Exit:
    anchors = _read_anchor(Path(anchor)) if anchor is not None else None
    settings = session.settings
    require_store(settings)
    report, heads, at = finish(_verified(settings, anchors))
    screen = session.screen
    if print_anchor and report.holds:
        screen.document("anchor/1", {"at": instant_data(at), "heads": _heads_data(heads)})
    elif not screen.is_text:
        screen.document("audit-report/1", _report_data(report, heads))
    else:
        screen.fields(
            [
                ("audit", "holds" if report.holds else "BROKEN"),
                ("events", str(report.events)),
                ("writers", str(report.writers)),
                ("unpaired", str(report.unpaired)),
                ("anchor", None if anchors is None else f"{len(anchors)} heads held against it"),
            ]
        )
        for each in report.breaks:
            screen.line(f"break  {shown(each.writer)}  {each.sequence}  {each.problem}")
        if with_heads:
            for head in heads[-_HEADS_SHOWN:]:
                screen.line(f"head  {shown(head.writer)}  {head.sequence}  {shown(head.link)}")
            if len(heads) > _HEADS_SHOWN:
                screen.talk(f"... and {len(heads) - _HEADS_SHOWN} more heads")
    if not report.holds:
        sys.stdout.flush()  # what is broken comes before what to do about it
        screen.warn("placet: the audit does not hold. Stop all writers, keep the file, compare with a kept anchor.")
        return Exit.AUDIT_BROKEN
    if not print_anchor:
        screen.talk("Keep the heads outside: placet audit verify --print-anchor > anchor.json")
    return Exit.OK


async def _verified(settings: Settings, anchors: Anchors | None) -> tuple[ChainReport, tuple[ChainHead, ...], datetime]:
    keys, store = open_existing_store(settings.store, key=settings.key)
    try:
        return verify_audit(store, keys, anchors=anchors), store.heads(), await store.now()
    finally:
        await store.close()


def _report_data(report: ChainReport, heads: tuple[ChainHead, ...]) -> dict[str, Any]:
    return {
        "holds": report.holds,
        "events": report.events,
        "writers": report.writers,
        "unpaired": report.unpaired,
        "breaks": [{"writer": b.writer, "sequence": b.sequence, "problem": b.problem} for b in report.breaks],
        "heads": _heads_data(heads),
    }


def _heads_data(heads: tuple[ChainHead, ...]) -> dict[str, Any]:
    return {head.writer: {"sequence": head.sequence, "link": head.link} for head in heads}


def _read_anchor(path: Path) -> Anchors:
    """An anchor as `--print-anchor` wrote it, and nothing else: a check against half of it would prove nothing."""
    try:
        document: Any = decode_object(path.read_bytes(), limits=_ANCHOR_LIMITS)
        if document["schema"] == "anchor/1" and set(document) == {"schema", "at", "heads"}:
            return {str(writer): _head(head) for writer, head in document["heads"].items()}
    except (InvalidArguments, OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise UsageProblem(
        f"--anchor: this is not an anchor that --print-anchor wrote: {path}",
        hint="While the audit holds, make one: placet audit verify --print-anchor > anchor.json",
    )


def _head(head: Any) -> tuple[int, str]:
    sequence, link = head["sequence"], head["link"]
    if set(head) != {"sequence", "link"} or type(sequence) is not int or _LINK.fullmatch(link) is None:
        raise ValueError
    return sequence, link
