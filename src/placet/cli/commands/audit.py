"""`placet audit`: the newest events, whether nothing was altered, and an export to check that elsewhere."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from placet.bootstrap.records import audit_export, check_export, events_of_operation, verify_audit
from placet.bootstrap.stores import open_existing_store
from placet.cli.audits import events_there, export_there, verify_there
from placet.cli.failing import UsageProblem
from placet.cli.files import write_new_file
from placet.cli.project import finish, person, require_store
from placet.cli.remote import here_only
from placet.cli.screen import Column, Screen, instant_data, shown
from placet.cli.session import Session, epilog, new_app, with_served_list_session, with_served_session
from placet.cli.settings import Settings
from placet.cli.streams import put_lines
from placet.cli.table import COMMANDS, Exit
from placet.errors import InvalidArguments
from placet.model.audit import ChainedEvent, ChainHead, ChainTombstone
from placet.rules.audit import shown_body_of
from placet.rules.chain_check import ChainReport
from placet.rules.decoding import DecodingLimits, decode_object
from placet.rules.export_check import ExportReport, is_like_ours, lines_of

app = new_app("audit")
_verbs = COMMANDS["audit"].verbs

_LINK = re.compile(r"[0-9a-f]{64}")
_ANCHOR_LIMITS = DecodingLimits(max_bytes=64 * 1024 * 1024, max_members=4_000_000)
_HEADS_SHOWN = 20
_CUTS_SHOWN = 20
_HOW_TO_EXPORT = "Write one: placet audit export --out FILE"
_HOW_TO_ANCHOR = "While the audit holds, make one: placet audit verify --print-anchor > anchor.json"
_NO_MANIFEST = ([(1, "line_unreadable")], [(1, "not_an_export")])
_OF_SERVERS = "Without the key file: placet audit export --out FILE, and placet audit verify --export where the key is."
Anchors = dict[str, tuple[int, str]]


@app.command("tail", help=_verbs["tail"], epilog=epilog())
@with_served_list_session
def tail(
    session: Session,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=10_000, help="How many events.")] = 20,
    operation: Annotated[
        str | None,
        typer.Option(
            "--operation",
            metavar="KEY",
            help="Only those about this operation, as `placet effects list` prints its key, over all rotations.",
        ),
    ] = None,
) -> Exit:
    if session.server is not None:
        here_only(None if operation is None else session.server, "--operation", _OF_SERVERS)
        events = events_there(session.server, count)
    else:
        events = _events_here(session.settings, count, operation)
    session.screen.listing(
        "audit",
        events,
        as_data=lambda data: data,
        columns=[
            Column(title="at", cell=lambda d: _at(session, d)),
            Column(title="kind", cell=lambda d: _word(d, "kind")),
            Column(title="tool", cell=lambda d: _word(d, "tool")),
            Column(title="outcome", cell=lambda d: _word(d, "outcome")),
            Column(title="decision", cell=_decision),
            Column(title="detail", cell=lambda d: _word(d, "detail")),
            Column(title="subject", cell=lambda d: _word(d, "subject")),
            Column(title="decider", cell=lambda d: _word(d, "decided_by")),
            Column(title="run", cell=lambda d: _word(d, "run_id")),
            Column(title="call", cell=lambda d: _word(d, "call_id")),
        ],
        item_schema="audit-event/1",
        nothing="No event of your tenant is on record."
        if operation is None
        else "No event of this operation is on record. next: placet effects list",
    )
    return Exit.OK


def _events_here(settings: Settings, count: int, operation: str | None) -> list[dict[str, Any]]:
    require_store(settings)
    tenant = person(settings).tenant
    return [_event_data(event) for event in finish(_newest(settings, tenant, count, operation))]


async def _newest(settings: Settings, tenant: str, count: int, operation: str | None) -> list[ChainedEvent]:
    keys, store = open_existing_store(settings.store, key=settings.key)
    try:
        if operation is None:
            return [event async for event in store.chained(tenant=tenant, newest=count)]
        return list(await events_of_operation(store, keys, tenant=tenant, operation_key=operation, newest=count))
    finally:
        await store.close()


def _event_data(event: ChainedEvent) -> dict[str, Any]:
    place = {"writer": event.writer, "sequence": event.sequence}
    body = shown_body_of(event)
    if not body:
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


def _decision(data: dict[str, Any]) -> str:
    """What was enforced, and what a policy in shadow would have answered instead."""
    said = data.get("shadow")
    if type(said) is not dict or (said.get("changes") is not True and said.get("would_be") != "error"):
        return _word(data, "decision")
    return f"{_word(data, 'decision')} (shadow: {said.get('would_be')})"


# ---------------------------------------------------------------- verify


@app.command("verify", epilog=epilog())
@with_served_session
def verify(
    session: Session,
    anchor: Annotated[
        str | None, typer.Option("--anchor", metavar="FILE", help="Heads that were kept outside the store.")
    ] = None,
    print_anchor: Annotated[
        bool, typer.Option("--print-anchor", help="Print only the heads, as JSON, to keep outside; none if broken.")
    ] = False,
    with_heads: Annotated[bool, typer.Option("--heads", help="List the newest heads as well.")] = False,
    export: Annotated[
        str | None,
        typer.Option(
            "--export", metavar="FILE", help="Check this export instead, without the store; - is standard input."
        ),
    ] = None,
) -> Exit:
    """Hold the whole audit, or an export of it, against its chains.

    Ends with 9 if anything was altered, removed, added or moved. An export is checked with the key file alone. With
    --server the server checks, and says whether it holds.
    """
    if session.server is not None:
        named = anchor is not None or print_anchor or with_heads or export is not None
        here_only(session.server if named else None, "What needs the key file or the heads", _OF_SERVERS)
        return verify_there(session, session.server)
    anchors = _read_anchor(Path(anchor)) if anchor is not None else None
    settings = session.settings
    if export is not None:
        if print_anchor or with_heads:
            raise UsageProblem("--print-anchor and --heads are about the store, not about an export")
        return _verify_export(session, export, anchors)
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
                ("anchor", None if anchors is None else f"{len(anchors)} heads held against it{_within(report)}"),
            ]
        )
        _show_cuts(screen, report.cuts)
        for each in report.breaks:
            screen.line(f"break  {shown(each.writer)}  {each.sequence}  {each.problem}")
        if with_heads:
            for head in heads[-_HEADS_SHOWN:]:
                screen.line(f"head  {shown(head.writer)}  {head.sequence}  {shown(head.link)}")
            if len(heads) > _HEADS_SHOWN:
                screen.talk(f"... and {len(heads) - _HEADS_SHOWN} more heads")
    if not report.holds:
        screen.flush()  # what is broken comes before what to do about it
        screen.warn("placet: the audit does not hold. Stop all writers, keep the file, compare with a kept anchor.")
        _warn_of_keys(screen, (each.problem for each in report.breaks))
        return Exit.AUDIT_BROKEN
    if not print_anchor:
        screen.talk("Keep the heads outside: placet audit verify --print-anchor > anchor.json")
    return Exit.OK


def _within(report: ChainReport) -> str:
    return f", {report.passed_over} places within what was cut" if report.passed_over else ""


def _show_cuts(screen: Screen, cuts: Sequence[ChainTombstone]) -> None:
    """What was removed on purpose, and on whose word."""
    for cut in cuts[:_CUTS_SHOWN]:
        when = screen.instant(cut.cut_at)
        screen.line(f"begins at  {cut.first_kept}  {shown(cut.writer)}  cut by {shown(cut.cut_by)} at {when}")
    if len(cuts) > _CUTS_SHOWN:
        screen.talk(f"... and {len(cuts) - _CUTS_SHOWN} more chains that were cut")


def _cuts_data(cuts: Sequence[ChainTombstone]) -> list[dict[str, Any]]:
    return [
        {
            "writer": cut.writer,
            "first_kept": cut.first_kept,
            "removed": cut.removed,
            "cut_by": cut.cut_by,
            "cut_at": instant_data(cut.cut_at),
        }
        for cut in cuts
    ]


def _verify_export(session: Session, said: str, anchors: Anchors | None) -> Exit:
    key = session.settings.key_file
    with _export_file(said) as file:
        lines = lines_of(file)
        first = next(lines, b"")
        report = check_export(chain((first,) if first else (), lines), key, anchors=anchors)
        if _began_otherwise(report) and not any(map(is_like_ours, chain((first,), lines))):
            raise UsageProblem(f"--export: this is not an export: {said}", hint=_HOW_TO_EXPORT)
    screen = session.screen
    if not screen.is_text:
        screen.document("export-report/1", _export_data(report))
    else:
        screen.fields(
            [
                ("export", "holds" if report.holds else "BROKEN"),
                ("of", "the whole store" if report.tenant is None else f"tenant {report.tenant}"),
                ("events", str(report.events)),
                ("others", None if report.tenant is None else str(report.others)),
                ("writers", str(report.heads)),
                ("unpaired", str(report.unpaired)),
                ("anchor", None if anchors is None else _anchor_words(anchors, report)),
            ]
        )
        _show_cuts(screen, report.cuts)
        for fault in report.faults:
            place = "" if fault.writer is None else f"  {shown(fault.writer)}  {fault.sequence}"
            screen.line(f"line {fault.line}  {fault.problem}{place}")
        if report.more:
            screen.talk(f"... and {report.more} more")
    if not report.holds:
        screen.flush()
        screen.warn("placet: the export does not hold. Keep it as it is, and ask for another one.")
        _warn_of_keys(screen, (fault.problem for fault in report.faults))
        return Exit.AUDIT_BROKEN
    for line in _proven(report):
        screen.talk(line)
    return Exit.OK


def _began_otherwise(report: ExportReport) -> bool:
    """Whether reading ended at the first line. A damaged export may begin so too; its other lines tell."""
    return [(each.line, each.problem) for each in report.faults] in _NO_MANIFEST


def _warn_of_keys(screen: Screen, problems: Iterable[str]) -> None:
    if "key_unknown" in set(problems):
        screen.warn(
            "  A key that is named is not in the key file. If that is an older copy, check again with the newest."
        )


def _anchor_words(anchors: Anchors, report: ExportReport) -> str:
    unseen = f", {report.unseen_anchors} of them at events of other tenants" if report.unseen_anchors else ""
    return f"{len(anchors)} heads held against it{unseen}"


def _proven(report: ExportReport) -> tuple[str, ...]:
    if report.tenant is None:
        return (
            "Every event that the store held is here, unaltered and in its place.",
            "That the store itself was not rolled back before shows only against an anchor: --anchor FILE",
        )
    return (
        "Every event here is this tenant's, unaltered and in its place in the store's chains.",
        "That none of its events is among those not shown is the signed word of whoever exported it.",
    )


def _export_data(report: ExportReport) -> dict[str, Any]:
    return {
        "holds": report.holds,
        "tenant": report.tenant,
        "lines": report.lines,
        "events": report.events,
        "others": report.others,
        "writers": report.heads,
        "unpaired": report.unpaired,
        "unseen_anchors": report.unseen_anchors,
        "cuts": _cuts_data(report.cuts),
        "complete_by": "chains" if report.tenant is None else "word_of_exporter",
        "faults": [
            {"line": each.line, "problem": each.problem, "writer": each.writer, "sequence": each.sequence}
            for each in report.faults
        ],
        "more": report.more,
    }


@contextmanager
def _export_file(said: str) -> Iterator[BinaryIO]:
    if said == "-":
        yield sys.stdin.buffer
        return
    with ExitStack() as opened:
        file: BinaryIO | None = None
        with suppress(OSError, ValueError):
            file = opened.enter_context(Path(said).open("rb"))
        if file is None:
            raise UsageProblem(f"--export: the file cannot be read: {said}", hint=_HOW_TO_EXPORT)
        yield file


# ---------------------------------------------------------------- export


@app.command("export", epilog=epilog())
@with_served_session
def export_audit(
    session: Session,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="A new file, of mode 0600; standard output if absent.")
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="NAME", help="Only this tenant's events; the whole store if absent."),
    ] = None,
) -> Exit:
    """Write the audit as lines that can be checked away from the store.

    That is: placet audit verify --export FILE --key FILE. Each line is a JSON document. Nothing else is in it than in
    the audit: no argument, no result. A tenant's export closes the places of other tenants' events by their links,
    which tells how many there are. The same audit gives the same bytes. With --server it is your tenant's part.
    """
    screen = session.screen
    if out is None and not screen.is_text:
        raise UsageProblem("--json tells about an export to a file: add --out FILE")
    if out is None and sys.stdout.isatty():
        raise UsageProblem("An export is not for a terminal: --out FILE, or redirect it")
    to = None if out is None else Path(out)
    if session.server is not None:
        here_only(
            None if tenant is None else session.server,
            "--tenant",
            "A server gives your own tenant's part: leave it out.",
        )
        tenant, events = export_there(session.server, to)
    else:
        require_store(session.settings)
        events = finish(_exported(session.settings, tenant, to))
    if not events and tenant is not None:
        screen.warn(
            f"placet: no event of a tenant {shown(tenant)} is in this store; the export says so. Is the name right?"
        )
    if out is None:
        return Exit.OK
    if screen.is_text:
        screen.line(f"written  {shown(out)}")
    else:
        screen.document("audit-exported/1", {"file": out, "tenant": tenant, "events": events})
    screen.talk("Whoever checks it needs the key file, which also signs: do not give that away with it.")
    return Exit.OK


async def _exported(settings: Settings, tenant: str | None, out: Path | None) -> int:
    """How many events were told."""
    keys, store = open_existing_store(settings.store, key=settings.key)
    try:
        async with audit_export(store, keys, tenant=tenant) as lines:
            manifest = await anext(lines)
            if out is None:
                await put_lines(_with_first(manifest, lines))
            else:
                await write_new_file(out, _with_first(manifest, lines))
        return int(json.loads(manifest)["events"])
    finally:
        await store.close()


async def _with_first(first: bytes, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for line in lines:
        yield line


# ---------------------------------------------------------------- verifying the store


async def _verified(settings: Settings, anchors: Anchors | None) -> tuple[ChainReport, tuple[ChainHead, ...], datetime]:
    keys, store = open_existing_store(settings.store, key=settings.key)
    try:
        return await verify_audit(store, keys, anchors=anchors), await store.heads(), await store.now()
    finally:
        await store.close()


def _report_data(report: ChainReport, heads: tuple[ChainHead, ...]) -> dict[str, Any]:
    return {
        "holds": report.holds,
        "events": report.events,
        "writers": report.writers,
        "unpaired": report.unpaired,
        "cuts": _cuts_data(report.cuts),
        "passed_over": report.passed_over,
        "breaks": [{"writer": b.writer, "sequence": b.sequence, "problem": b.problem} for b in report.breaks],
        "heads": _heads_data(heads),
    }


def _heads_data(heads: tuple[ChainHead, ...]) -> dict[str, Any]:
    return {head.writer: {"sequence": head.sequence, "link": head.link} for head in heads}


def _read_anchor(path: Path) -> Anchors:
    """An anchor as `--print-anchor` wrote it, and nothing else: a check against half of it would prove nothing."""
    raw = None
    with suppress(OSError, ValueError):
        raw = path.read_bytes()
    if raw is None:
        raise UsageProblem(f"--anchor: the file cannot be read: {path}", hint=_HOW_TO_ANCHOR)
    try:
        document: Any = decode_object(raw, limits=_ANCHOR_LIMITS)
        if document["schema"] == "anchor/1" and set(document) == {"schema", "at", "heads"}:
            return {str(writer): _head(head) for writer, head in document["heads"].items()}
    except (InvalidArguments, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise UsageProblem(
        f"--anchor: this is not an anchor that --print-anchor wrote: {path}",
        hint=_HOW_TO_ANCHOR,
    )


def _head(head: Any) -> tuple[int, str]:
    sequence, link = head["sequence"], head["link"]
    if set(head) != {"sequence", "link"} or type(sequence) is not int or _LINK.fullmatch(link) is None:
        raise ValueError
    return sequence, link
