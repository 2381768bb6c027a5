"""Who decided what, and what was done: the tenant's audit, and whether it holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.responses import Response

from placet.console.entries import MOST_READ, Entry, read_entries
from placet.console.visit import Visit
from placet.engine.auditing import EVENTS_A_TURN
from placet.model.audit import EventKind
from placet.model.wanted_events import WantedEvents
from placet.ports.waiting import one_turn

_MOST_SHOWN = 300
_MOST_PROBLEMS = 20
_FILTERS = ("kind", "tool", "person", "run", "approval", "outcome", "detail", "rule")


async def audit(visit: Visit) -> Response:
    wanted = _wanted(visit)
    found = await read_entries(visit, _events(wanted))
    return visit.page(
        "audit.html.jinja",
        entries=found[::-1][:_MOST_SHOWN],
        total=len(found),
        wanted=wanted,
        filters=_FILTERS,
        kinds=tuple(EventKind),
        query=urlencode(wanted),
        most=MOST_READ,
    )


async def verify(visit: Visit) -> Response:
    """Hold the whole audit against its chains, now. A look: nothing is changed or recorded.

    The chains hold events of every tenant, so whoever looks learns whether they hold, and no counts.
    """
    report = await visit.gate.auditor.verify(by=visit.by)
    template = "audit_state.html.jinja" if visit.is_part else "audit_verified.html.jinja"
    problems = Counter(each.problem for each in report.breaks).most_common(_MOST_PROBLEMS)
    return visit.page(template, report=report, problems=problems, now=await visit.gate.store.now())


async def export(visit: Visit) -> Response:
    """Exactly the filtered events, one JSON object a line. For reading on; what proves something is `audit export`."""
    wanted = _wanted(visit)
    found = await read_entries(visit, _events(wanted))
    headers = {"Content-Disposition": 'attachment; filename="audit-events.jsonl"'}
    lines: list[bytes] = []
    for entry in found:
        lines.append(_line(entry))
        if len(lines) % EVENTS_A_TURN == 0:
            await one_turn()
    return Response(b"".join(lines), media_type="application/x-ndjson", headers=headers)


# ---------------------------------------------------------------- within


def _wanted(visit: Visit) -> dict[str, str]:
    return {name: word for name in _FILTERS if (word := visit.asked(name).strip())}


_NAMES = {"run": "run_id", "approval": "approval_id"}


def _events(wanted: Mapping[str, str]) -> WantedEvents:
    words = {_NAMES.get(name, name): word for name, word in wanted.items()}
    kind = words.pop("kind", None)
    return WantedEvents(kinds=None if kind is None else frozenset({kind}), **words)


def _line(entry: Entry) -> bytes:
    place = {"writer": entry.writer, "sequence": entry.sequence}
    return json.dumps({**place, **entry.facts}, ensure_ascii=True).encode() + b"\n"
