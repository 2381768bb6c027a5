"""What waits for a person, the nearest deadline or the gravest first; and what has been decided, for good."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from starlette.responses import Response

from placet.console.gists import gists_of
from placet.console.pages.standing import seconds_left
from placet.console.visit import Visit
from placet.engine.desk import ApprovalView
from placet.engine.entitling import UNCERTAIN
from placet.model.approval import ApprovalState
from placet.model.contract import Risk
from placet.model.listing import Mark
from placet.rules.urgency import gravity

EXPIRING_SECONDS = 300.0
MOST_ROWS = 500
"""Rows of one page."""
MOST_WAITING = 5_000
"""Waiting questions that one page looks through."""
_CLOSED = (ApprovalState.EXPIRED, ApprovalState.WITHDRAWN, ApprovalState.REVOKED)
_MOST_UNKNOWN = 100
_MOST_NAMED = 50
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


class Sort(StrEnum):
    """deadline: what is over soonest first. risk: the gravest first, and of these what is over soonest."""

    DEADLINE = "deadline"
    RISK = "risk"


SORT_WORDS = {Sort.DEADLINE: "nearest deadline first", Sort.RISK: "gravest first"}
_WAITING = frozenset({Tab.MINE, Tab.PENDING, Tab.EXPIRING})
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
        gist: what would run, cut to a line, what is different from others like it first; all of it is on its own page.
        seconds_left: until its own deadline; None where none runs.
    """

    view: ApprovalView
    gist: str
    age_seconds: float
    seconds_left: float | None

    @property
    def is_uncertain(self) -> bool:
        """Whether nobody can tell now if this person may decide it: it may be theirs, so it is not hidden from them."""
        return self.view.why_not in UNCERTAIN

    @property
    def may_be_chosen(self) -> bool:
        """Whether this person may decide it, alone or with others, and has not."""
        is_open = self.view.state is ApprovalState.PENDING and self.view.why_not is None
        return is_open and self.view.own_vote != "approve"


async def inbox(visit: Visit) -> Response:
    tab, words = _tab(visit.asked("tab")), visit.asked("q").strip()
    sort = _sort(visit.asked("sort"))
    pending, now = await _pending(visit)
    waiting = _rows(sorted(pending, key=_urgency) if sort is Sort.RISK else pending, now)
    rows = waiting if tab in _WAITING else _rows(await _closed(visit, tab), now)
    found = [row for row in rows if _belongs(row, tab) and _matches(row, words)]
    unknown = await visit.gate.reconciler.waiting(by=visit.by, limit=_MOST_UNKNOWN)
    return visit.page(
        "inbox.html.jinja",
        rows=found[:MOST_ROWS],
        found_count=len(found),
        tab=tab,
        tabs=[(each, TAB_WORDS[each], _count(each, waiting)) for each in Tab],
        words_asked=words,
        sort=sort,
        sorts=tuple(SORT_WORDS.items()),
        risks=_risks(waiting, tab) if tab in _WAITING else (),
        unknown=unknown,
        unknown_count=f"{len(unknown)}{'+' if len(unknown) == _MOST_UNKNOWN else ''}",
        now=now,
        most_read=MOST_WAITING if tab in _WAITING else MOST_ROWS,
        is_cut=len(rows) >= (MOST_WAITING if tab in _WAITING else MOST_ROWS),
        seen=_seen(waiting, [row for row in waiting if _belongs(row, tab)]) if tab in _WAITING else None,
    )


async def news(visit: Visit) -> Response:
    """How many belong on the list, or off it, since it was made: said, and never pushed under somebody's cursor."""
    fresh, gone = await _news(visit, _tab(visit.asked("tab")), visit.asked("seen"))
    return visit.page("news.html.jinja", fresh=fresh, gone=gone)


# ---------------------------------------------------------------- within


def _rows(views: Sequence[ApprovalView], now: datetime) -> list[Row]:
    return [
        Row(
            view=view,
            gist=gist,
            age_seconds=(now - view.asked_at).total_seconds(),
            seconds_left=seconds_left(view, now),
        )
        for view, gist in zip(views, gists_of(views), strict=True)
    ]


async def _pending(visit: Visit) -> tuple[list[ApprovalView], datetime]:
    """What waits, the nearest deadline first: all of it, or of a flood the newest `MOST_WAITING`."""
    found: list[ApprovalView] = []
    after: Mark | None = None
    while len(found) < MOST_WAITING:
        page = await visit.gate.desk.page(by=visit.by, states=(ApprovalState.PENDING,), limit=MOST_ROWS, after=after)
        found += page.rows
        after = page.after
        if after is None:
            break
    now = await visit.gate.store.now()
    waiting = [view for view in found if view.state is ApprovalState.PENDING]
    return sorted(waiting, key=lambda view: view.decide_by), now


async def _closed(visit: Visit, tab: Tab) -> tuple[ApprovalView, ...]:
    states = _DECIDED if tab is Tab.DECIDED else (ApprovalState.PENDING, ApprovalState.APPROVED, *_CLOSED)
    return await visit.gate.desk.listed(by=visit.by, states=states, limit=MOST_ROWS)


def _belongs(row: Row, tab: Tab) -> bool:
    match tab:
        case Tab.MINE:
            return row.view.why_not is None or row.is_uncertain
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


def _urgency(view: ApprovalView) -> tuple[int, datetime, str]:
    """As the order by risk is everywhere else."""
    return -gravity(_risk(view.risk)), view.decide_by, view.approval_id


def _risks(waiting: list[Row], tab: Tab) -> tuple[tuple[str, int], ...]:
    """How many of each risk are on the list, the gravest first."""
    counted = Counter(row.view.risk for row in waiting if _belongs(row, tab))
    return tuple(sorted(counted.items(), key=lambda each: -gravity(_risk(each[0]))))


def _risk(word: str) -> Risk | None:
    return Risk(word) if word in tuple(Risk) else None


def _sort(word: str) -> Sort:
    return Sort(word) if word in tuple(Sort) else Sort.DEADLINE


def _tab(word: str) -> Tab:
    return Tab(word) if word in tuple(Tab) else Tab.MINE


def _short(view: ApprovalView) -> str:
    return view.approval_id[-8:]


def _seen(waiting: list[Row], rows: list[Row]) -> str:
    """What a page knows: how many wait, and, of a list that an address can hold, which are on it."""
    names = [f"~{_short(row.view)}" for row in rows] if len(rows) <= _MOST_NAMED else ["all"]
    return ".".join((str(len(waiting)), *names))


async def _news(visit: Visit, tab: Tab, seen: str) -> tuple[int, int]:
    """How many have come, and how many have gone; where not all could be named, by how many more or fewer wait."""
    known, *names = seen.split(".")
    count = int(known) if known.isdecimal() else 0
    glance = await visit.gate.desk.watching.glance(by=visit.by, limit=MOST_WAITING)
    if names == ["all"] or len(glance.marks) > MOST_ROWS:
        return max(0, len(glance.marks) - count), max(0, count - len(glance.marks))
    pending, now = await _pending(visit)
    current = {f"~{_short(row.view)}" for row in _rows(pending, now) if _belongs(row, tab)}
    return len(current - set(names)), len(set(names) - current)
