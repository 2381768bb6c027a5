"""Runs: how each stands, and one of them call by call, as short or as whole as somebody wants it."""

from __future__ import annotations

from enum import StrEnum

from starlette.responses import Response

from placet.console import refusals
from placet.console.doors import text_of
from placet.console.entries import MOST_READ, Entry, read_entries
from placet.console.timelines import STANDING_WORDS, RunSeen, run_seen
from placet.console.visit import Visit
from placet.engine.run_views import RunDetails
from placet.engine.runs import MAX_REASON_CHARACTERS
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.principal import Standing as PersonOrAgent
from placet.model.principal import identity_of
from placet.model.run import RunStatus
from placet.model.wanted_events import WantedEvents
from placet.rules.run_leave import refusal_of

_MOST_SHOWN = 300
_MOST_QUESTIONS = 500
_WORD = "cancel"
"""What has to be typed before a run is cancelled: it is for good."""


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
    return await _page(visit, visit.asked("run"))


async def change(visit: Visit) -> Response:
    """Pause, resume or cancel, with a reason for those who may see the run."""
    run_id, verb = visit.form.get("run", ""), visit.form.get("verb", "")
    reason = text_of(dict(visit.form), "reason", most=MAX_REASON_CHARACTERS)
    runs = visit.gate.runs
    change = {"pause": runs.pause, "resume": runs.resume, "cancel": runs.cancel}.get(verb)
    if change is None:
        return await _page(visit, run_id, conflict="Say what to do with the run. Nothing was changed.", status=422)
    if verb == "cancel" and visit.form.get("typed", "") != _WORD:
        said = f"Type the word {_WORD} to cancel the run for good. Nothing was changed."
        return await _page(visit, run_id, conflict=said, status=422)
    try:
        report = await change(run_id, by=visit.by, reason=reason)
    except MisuseError as misuse:
        conflict, status = str(misuse), 422
    except NotFound as absent:
        conflict, status = str(absent), 404
    except DecisionRefused as refusal:
        conflict, status = refusals.words_of(refusal), refusals.status_of(refusal)
    else:
        return visit.go("/run", run=run_id, done=f"run_{report.status.value}", running=str(len(report.running)))
    return await _page(visit, run_id, conflict=conflict, status=status)


async def _page(visit: Visit, run_id: str, *, conflict: str = "", status: int = 200) -> Response:
    length = _length(visit.asked("view"))
    try:
        seen = await _seen(visit, run_id)
    except DecisionRefused:  # who may not read the audit is told why the run was not changed, all the same
        if not conflict:
            raise
        seen = None
    details = await _details(visit, run_id)
    return visit.page(
        "run.html.jinja",
        run_id=run_id,
        details=details,
        verbs=_verbs_of(visit, details),
        word=_WORD,
        conflict=conflict,
        running=visit.asked("running") if visit.asked("running").isdigit() else "",
        seen=seen,
        length=length,
        lengths=LENGTH_WORDS,
        standing_words=STANDING_WORDS,
        most=MOST_READ,
        status=status if seen is not None or details is not None or status != 200 else 404,
    )


async def run_news(visit: Visit) -> Response:
    """How many events of the run are not on the page yet: said, and never pushed under somebody's cursor."""
    known = visit.asked("seen")
    events = await read_entries(visit, WantedEvents(run_id=visit.asked("run")))
    return visit.page("run_news.html.jinja", fresh=max(0, len(events) - int(known)) if known.isdecimal() else 0)


# ---------------------------------------------------------------- within


async def _details(visit: Visit, run_id: str) -> RunDetails | None:
    try:
        return await visit.gate.runs.show(run_id, by=visit.by, limit=1)
    except NotFound:
        return None


def _verbs_of(visit: Visit, details: RunDetails | None) -> tuple[str, ...]:
    """What this person may do with the run as it is."""
    if details is None or details.status.is_over:
        return ()
    opener = identity_of(details.requested_by, environment=visit.by.environment)
    is_paused = details.status is RunStatus.PAUSED
    verbs = {
        "resume" if is_paused else "pause": RunStatus.OPEN if is_paused else RunStatus.PAUSED,
        "cancel": RunStatus.CANCELLED,
    }
    return tuple(verb for verb, status in verbs.items() if refusal_of(visit.by, opener, status) is None)


async def _seen(visit: Visit, run_id: str) -> RunSeen | None:
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
