"""Runs: how each stands, and one of them call by call, as short or as whole as somebody wants it."""

from __future__ import annotations

from enum import StrEnum

from starlette.responses import Response

from placet.console.entries import MOST_READ, Entry, read_entries
from placet.console.timelines import STANDING_WORDS, RunSeen, run_seen
from placet.console.visit import Visit
from placet.model.principal import Standing as PersonOrAgent
from placet.model.wanted_events import WantedEvents

_MOST_SHOWN = 300
_MOST_QUESTIONS = 500


class Length(StrEnum):
    """How much of a run is told: a line a call, the way of each call, or every event."""

    COMPACT = "compact"
    TIMELINE = "timeline"
    FULL = "full"


LENGTH_WORDS = {
    Length.COMPACT: "A line a call",
    Length.TIMELINE: "The way of each call",
    Length.FULL: "Every event",
}


async def runs(visit: Visit) -> Response:
    of_runs: dict[str, list[Entry]] = {}
    for entry in await read_entries(visit):
        if run_id := entry.word("run_id"):
            of_runs.setdefault(run_id, []).append(entry)
    found = [run_seen(run_id, entries) for run_id, entries in list(of_runs.items())[::-1][:_MOST_SHOWN]]
    return visit.page("runs.html.jinja", runs=found, most=MOST_READ, standing_words=STANDING_WORDS)


async def run(visit: Visit) -> Response:
    seen, length = await _seen(visit), _length(visit.asked("view"))
    return visit.page(
        "run.html.jinja",
        run_id=visit.asked("run"),
        seen=seen,
        length=length,
        lengths=LENGTH_WORDS,
        standing_words=STANDING_WORDS,
        most=MOST_READ,
        status=200 if seen is not None else 404,
    )


async def run_news(visit: Visit) -> Response:
    """How many events of the run are not on the page yet: said, and never pushed under somebody's cursor."""
    known = visit.asked("seen")
    events = await read_entries(visit, WantedEvents(run_id=visit.asked("run")))
    return visit.page("run_news.html.jinja", fresh=max(0, len(events) - int(known)) if known.isdecimal() else 0)


# ---------------------------------------------------------------- within


async def _seen(visit: Visit) -> RunSeen | None:
    run_id = visit.asked("run")
    entries = await read_entries(visit, WantedEvents(run_id=run_id))
    return run_seen(run_id, entries, await _targets(visit, run_id)) if entries else None


async def _targets(visit: Visit, run_id: str) -> dict[str, str]:
    """What calls of the run act on, as far as somebody was asked about them: events do not say."""
    if visit.by.standing is not PersonOrAgent.PERSON:
        return {}
    questions = await visit.gate.desk.listed(by=visit.by, limit=_MOST_QUESTIONS)
    return {view.call_id: view.resource for view in questions if view.run_id == run_id and view.resource}


def _length(word: str) -> Length:
    return Length(word) if word in tuple(Length) else Length.TIMELINE
