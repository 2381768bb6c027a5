"""The audit of a server as `placet audit` shows it: the tenant's events, an export of them, whether all of it holds.

Nothing of it can be checked without the key file. What the server says of itself is its word; an export is proof, to
whoever has the key.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from placet.cli.files import write_new_file
from placet.cli.project import finish
from placet.cli.remote import Server
from placet.cli.screen import shown
from placet.cli.session import Session
from placet.cli.streams import put_lines
from placet.cli.table import Exit

_PIECE = 65_536


def events_there(server: Server, count: int) -> list[dict[str, Any]]:
    """The newest events of the tenant, oldest first, as those of the store here are told."""
    with server.connect() as client:
        found = client.events(limit=count)
    return [_event(dict(event)) for event in reversed(found)]


def _event(body: dict[str, Any]) -> dict[str, Any]:
    if "schema" in body:
        body["event_schema"] = body.pop("schema")
    return body


def verify_there(session: Session, server: Server) -> Exit:
    """Have the server hold its whole audit against its chains, and tell its word."""
    screen = session.screen
    with server.connect() as client:
        word = client.verify_audit()
    if screen.is_text:
        screen.fields([("audit", "holds" if word.holds else "BROKEN")])
        for problem in word.problems:
            screen.line(f"break  {shown(problem)}")
    else:
        screen.document("audit-word/1", {"holds": word.holds, "problems": list(word.problems)})
    if not word.holds:
        screen.flush()
        screen.warn(
            "placet: the audit does not hold. Whoever runs the server has to stop all writers, and keep the store."
        )
        return Exit.AUDIT_BROKEN
    screen.talk("That is the server's word. Proof, to whoever has the key file:")
    screen.talk(f"  placet audit export --out FILE{session.there}")
    screen.talk("  placet audit verify --export FILE --key KEY")
    return Exit.OK


def export_there(server: Server, out: Path | None) -> tuple[str | None, int]:
    """Write the tenant's export to a new file, or to standard output, once all of it is here; whose it is, and how many
    events it tells.

    Raises:
        AnswerLost: it ended before its end; nothing was written.
    """
    with TemporaryFile() as draft:
        with server.connect() as client:
            client.export_audit(draft.write)
        draft.seek(0)
        whose, events = _manifest(draft.readline())
        draft.seek(0)
        finish(put_lines(_pieces(draft)) if out is None else write_new_file(out, _pieces(draft)))
    return whose, events


def _manifest(line: bytes) -> tuple[str | None, int]:
    """Whose events are told, and how many.

    Raises:
        AnswerUnreadable: the line is not how an export begins.
    """
    from placet.client import AnswerUnreadable

    try:
        manifest = json.loads(line)
        whose, events = manifest["tenant"], manifest["events"]
    except (ValueError, RecursionError, TypeError, KeyError):
        whose, events = None, None
    if type(events) is int and (whose is None or type(whose) is str):
        return whose, events
    raise AnswerUnreadable(only_looked=True)


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece
