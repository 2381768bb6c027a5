"""What waits for a person, the nearest deadline first; and what has been decided, for good."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from starlette.responses import Response

from placet.console.values import one_line
from placet.console.visit import Visit
from placet.engine.desk import ApprovalView
from placet.model.approval import ApprovalState

EXPIRING_SECONDS = 300.0
MOST_ROWS = 500
_CLOSED = (ApprovalState.EXPIRED, ApprovalState.WITHDRAWN, ApprovalState.REVOKED)
_DECIDED = (ApprovalState.APPROVED, ApprovalState.SPENT, ApprovalState.DENIED)


class Tab(StrEnum):
    """mine: what this person may decide. pending: all that waits. expiring: of these, what waits minutes at most.
    decided: approved, used or denied. closed: expired, withdrawn or revoked.
    """

    MINE = "mine"
    PENDING = "pending"
    EXPIRING = "expiring"
    DECIDED = "decided"
    CLOSED = "closed"


TAB_WORDS = {
    Tab.MINE: "For me",
    Tab.PENDING: "All waiting",
    Tab.EXPIRING: "Within 5 minutes",
    Tab.DECIDED: "Decided",
    Tab.CLOSED: "Expired",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One approval in the list.

    Attributes:
        gist: what it is about, cut to a line; the whole of it is on its own page.
        seconds_left: until its own deadline; None where none runs.
    """

    view: ApprovalView
    gist: str
    age_seconds: float
    seconds_left: float | None


async def inbox(visit: Visit) -> Response:
    tab, words = _tab(visit.asked("tab")), visit.asked("q").strip()
    pending, now = await _pending(visit)
    views = pending if tab in (Tab.MINE, Tab.PENDING, Tab.EXPIRING) else await _closed(visit, tab)
    rows = [row_of(view, now) for view in views]
    shown = [row for row in rows if _belongs(row, tab) and _matches(row, words)]
    unknown = await visit.gate.reconciler.waiting(by=visit.by, limit=100)
    waiting = [row_of(view, now) for view in pending]
    return visit.page(
        "inbox.html.jinja",
        rows=shown,
        tab=tab,
        tabs=[(each, TAB_WORDS[each], _count(each, waiting)) for each in Tab],
        words_asked=words,
        unknown_count=len(unknown),
        now=now,
        is_cut=len(views) == MOST_ROWS,
        seen=_fingerprint(pending),
    )


async def news(visit: Visit) -> Response:
    """How many wait that were not on the page yet: said, and never pushed under somebody's cursor."""
    known = frozenset(visit.asked("seen").split("."))
    pending, _ = await _pending(visit)
    fresh = sum(_short(view) not in known for view in pending)
    gone = len(known - {_short(view) for view in pending} - {""})
    return visit.page("news.html.jinja", fresh=fresh, gone=gone)


def row_of(view: ApprovalView, now: datetime) -> Row:
    gist = view.resource or (one_line(json.dumps(view.arguments, ensure_ascii=False)) if view.arguments else "")
    return Row(
        view=view,
        gist=gist,
        age_seconds=(now - view.asked_at).total_seconds(),
        seconds_left=seconds_left(view, now),
    )


def seconds_left(view: ApprovalView, now: datetime) -> float | None:
    """Until nobody can decide it any more, or until its approval cannot be used any more."""
    match view.state:
        case ApprovalState.PENDING:
            return (view.decide_by - now).total_seconds()
        case ApprovalState.APPROVED if view.expires_at is not None:
            return (view.expires_at - now).total_seconds()
        case _:
            return None


# ---------------------------------------------------------------- within


async def _pending(visit: Visit) -> tuple[list[ApprovalView], datetime]:
    """What waits, the nearest deadline first."""
    found = await visit.gate.desk.pending(by=visit.by, limit=MOST_ROWS)
    now = await visit.gate.store.now()
    waiting = [view for view in found if view.state is ApprovalState.PENDING]
    return sorted(waiting, key=lambda view: view.decide_by), now


async def _closed(visit: Visit, tab: Tab) -> tuple[ApprovalView, ...]:
    states = _DECIDED if tab is Tab.DECIDED else (ApprovalState.PENDING, ApprovalState.APPROVED, *_CLOSED)
    return await visit.gate.desk.listed(by=visit.by, states=states, limit=MOST_ROWS)


def _belongs(row: Row, tab: Tab) -> bool:
    match tab:
        case Tab.MINE:
            return row.view.why_not is None
        case Tab.PENDING:
            return True
        case Tab.EXPIRING:
            return row.seconds_left is not None and row.seconds_left <= EXPIRING_SECONDS
        case Tab.DECIDED:
            return row.view.state in _DECIDED
        case Tab.CLOSED:
            return row.view.state in _CLOSED


def _count(tab: Tab, waiting: list[Row]) -> int | None:
    if tab in (Tab.DECIDED, Tab.CLOSED):
        return None
    return sum(_belongs(row, tab) for row in waiting)


def _matches(row: Row, words: str) -> bool:
    """Every word somewhere: in the tool, the people, the run, the resource, the digest or the arguments as shown."""
    if not words:
        return True
    view = row.view
    held = " ".join(
        (
            view.tool,
            view.risk,
            view.state.value,
            view.requested_by,
            view.on_behalf_of or "",
            view.decided_by or "",
            view.run_id,
            view.resource or "",
            view.digest,
            view.approval_id,
            json.dumps(view.arguments, ensure_ascii=False),
        )
    ).casefold()
    return all(word in held for word in words.casefold().split())


def _tab(word: str) -> Tab:
    return Tab(word) if word in tuple(Tab) else Tab.MINE


def _short(view: ApprovalView) -> str:
    return view.approval_id[-8:]


def _fingerprint(pending: list[ApprovalView]) -> str:
    """Which ones a page knows; as many as an address holds."""
    return ".".join(_short(view) for view in pending[:50])
