"""Who decided what, and what was done: the tenant's audit, its chains, and a timeline of one run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from placet.console.visit import Visit
from placet.model.audit import ALARMS, ChainedEvent, EventKind
from placet.model.listing import Mark

_MOST_READ = 10_000
_PAGE = 1_000
_MOST_SHOWN = 300
_FILTERS = ("kind", "tool", "person", "run", "approval", "outcome", "detail")
_STEPS = {
    "approval_asked": "asked for approval",
    "approval_approved": "approved",
    "approval_denied": "denied",
    "approval_expired": "expired",
    "approval_withdrawn": "taken back",
    "approval_spent": "approval used",
    "started": "started",
    "completed": "ended",
    "effect_reconciled": "settled by a look",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event, as it stands in the store. `facts` is empty where it cannot be read."""

    writer: str
    sequence: int
    facts: Mapping[str, Any]

    @property
    def at(self) -> datetime | None:
        try:
            return datetime.fromisoformat(self.facts["at"])
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def is_alarm(self) -> bool:
        return not self.facts or self.facts.get("kind") in ALARMS

    def word(self, name: str) -> str:
        value = self.facts.get(name)
        return "" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """A run, as the newest events tell of it."""

    run_id: str
    first_at: datetime | None
    last_at: datetime | None
    calls: int
    steps: int
    tools: tuple[str, ...]
    is_open: bool


async def audit(visit: Visit) -> Response:
    wanted = _wanted(visit)
    found = [entry for entry in await _entries(visit) if _fits(entry, wanted)]
    return visit.page(
        "audit.html.jinja",
        entries=found[::-1][:_MOST_SHOWN],
        total=len(found),
        wanted=wanted,
        filters=_FILTERS,
        kinds=tuple(EventKind),
        query=urlencode(wanted),
        heads=len(await visit.gate.audit_heads()),
        most=_MOST_READ,
    )


async def verify(visit: Visit) -> Response:
    """Hold the whole audit against its chains, now. A look: nothing is changed or recorded."""
    report = await visit.gate.auditor.verify(by=visit.by)
    template = "audit_state.html.jinja" if visit.is_part else "audit_verified.html.jinja"
    return visit.page(template, report=report, now=await visit.gate.store.now())


async def export(visit: Visit) -> Response:
    """Exactly the filtered events, one JSON object a line. For reading on; what proves something is `audit export`."""
    wanted = _wanted(visit)
    found = [entry for entry in await _entries(visit) if _fits(entry, wanted)]
    headers = {"Content-Disposition": 'attachment; filename="audit-events.jsonl"'}
    return Response(b"".join(map(_line, found)), media_type="application/x-ndjson", headers=headers)


async def runs(visit: Visit) -> Response:
    seen: dict[str, list[Entry]] = {}
    for entry in await _entries(visit):
        if run_id := entry.word("run_id"):
            seen.setdefault(run_id, []).append(entry)
    found = [_run(run_id, entries) for run_id, entries in seen.items()]
    return visit.page("runs.html.jinja", runs=found[::-1][:_MOST_SHOWN], most=_MOST_READ)


async def run(visit: Visit) -> Response:
    run_id = visit.asked("run")
    entries = await _entries(visit, run_id=run_id)
    calls: dict[str, list[Entry]] = {}
    for entry in entries:
        calls.setdefault(entry.word("call_id"), []).append(entry)
    return visit.page(
        "run.html.jinja",
        run_id=run_id,
        seen=_run(run_id, entries) if entries else None,
        calls=[(call_id, _timeline(those)) for call_id, those in calls.items()],
        most=_MOST_READ,
        status=200 if entries else 404,
    )


# ---------------------------------------------------------------- within


async def _entries(visit: Visit, *, run_id: str | None = None) -> list[Entry]:
    """The tenant's newest events, or those of a run among them, the oldest first.

    Raises:
        DecisionRefused: without leave to read the audit.
    """
    found: list[Entry] = []
    after: Mark | None = None
    for _ in range(_MOST_READ // _PAGE):
        page = await visit.gate.auditor.page(by=visit.by, run_id=run_id, limit=_PAGE, after=after)
        found += [entry_of(event) for event in page.rows]
        after = page.after
        if after is None:
            break
    return sorted(found, key=lambda entry: (entry.word("at"), entry.writer, entry.sequence))


def entry_of(event: ChainedEvent) -> Entry:
    try:
        facts = json.loads(event.body)
    except ValueError:
        facts = None
    return Entry(writer=event.writer, sequence=event.sequence, facts=facts if type(facts) is dict else {})


def _wanted(visit: Visit) -> dict[str, str]:
    return {name: word for name in _FILTERS if (word := visit.asked(name).strip())}


_MEMBERS = {"run": "run_id", "approval": "approval_id"}


def _fits(entry: Entry, wanted: Mapping[str, str]) -> bool:
    for name, word in wanted.items():
        if name == "person":
            if word not in (entry.word("subject"), entry.word("decided_by"), entry.word("on_behalf_of")):
                return False
        elif entry.word(_MEMBERS.get(name, name)) != word:
            return False
    return True


def _line(entry: Entry) -> bytes:
    place = {"writer": entry.writer, "sequence": entry.sequence}
    return json.dumps({**place, **entry.facts}, ensure_ascii=True).encode() + b"\n"


def _run(run_id: str, entries: list[Entry]) -> RunSeen:
    tools = tuple(dict.fromkeys(entry.word("tool") for entry in entries if entry.word("tool")))
    started = sum(entry.word("kind") == EventKind.STARTED for entry in entries)
    completed = sum(entry.word("kind") == EventKind.COMPLETED for entry in entries)
    return RunSeen(
        run_id=run_id,
        first_at=entries[0].at,
        last_at=entries[-1].at,
        calls=len({entry.word("call_id") for entry in entries if entry.word("call_id")}),
        steps=len(entries),
        tools=tools,
        is_open=started > completed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """What happened, when, and how long nothing had happened before."""

    entry: Entry
    words: str
    gap_seconds: float | None


def _timeline(entries: list[Entry]) -> list[TimelineStep]:
    steps: list[TimelineStep] = []
    before: datetime | None = None
    for entry in entries:
        at = entry.at
        gap = (at - before).total_seconds() if at is not None and before is not None else None
        kind = entry.word("kind")
        words = _STEPS.get(kind, kind.replace("_", " "))
        steps.append(TimelineStep(entry=entry, words=words, gap_seconds=gap if gap and gap >= 1 else None))
        before = at or before
    return steps
