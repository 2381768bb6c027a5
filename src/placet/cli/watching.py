"""Follows what waits for a person: looks now and then, and tells what changed. It decides nothing.

The store is looked at through one open gate, a server through one client. A store that is locked, or a server that does
not answer, is asked again, for a while; a store that is gone, or that another one took the place of, ends the watching.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placet.bootstrap.surroundings import system_clock
from placet.cli.desks import Desk
from placet.cli.project import Place, require_store
from placet.cli.screen import Form, instant_data, shown
from placet.cli.seen import Seen, countdown, details, seconds_left
from placet.cli.session import Session
from placet.errors import DecisionRefused, NotFound, PlacetError, StoreMissing
from placet.model.approval import ApprovalState
from placet.ports.wakeups import pause

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

EXPIRING_SECONDS = 60.0
PATIENT_LOOKS = 30
"""How many looks in a row may fail before watching ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that happened between two looks: `new`, `expiring`, a state it went to, `suspect` or `gone`.

    Attributes:
        seen: how it is now; as it was seen last where it cannot be shown any more.
    """

    word: str
    seen: Seen


def appeared(before: Mapping[str, Seen], now: Sequence[Seen]) -> Iterator[Change]:
    """What waits and did not before, oldest first, and what is about to expire and was not before."""
    for seen in reversed(now):
        was = before.get(seen.view.approval_id)
        if was is None:
            yield Change(word="new", seen=seen)
        if _is_expiring(seen) and not (was is not None and _is_expiring(was)):
            yield Change(word="expiring", seen=seen)


def _is_expiring(seen: Seen) -> bool:
    left = seconds_left(seen)
    return left is not None and left <= EXPIRING_SECONDS


async def watched(session: Session, place: Place[Desk], *, interval_seconds: float, limit: int) -> None:
    """Watch until cancelled.

    Raises:
        StoreMissing: the store's file is gone, or another file has its name now.
        PlacetError: it has not served for too many looks in a row, or will not serve by itself again.
    """
    clock = system_clock()
    store = require_store(session.settings) if session.server is None else None
    file = os.stat(store) if isinstance(store, Path) else None
    async with place() as desk:
        with _display(session) as display, desk.woken() as wakeup:
            before: dict[str, Seen] = {}
            failed = 0
            while True:
                if isinstance(store, Path) and file is not None:
                    _require_same(store, file)
                try:
                    now = await _waiting(desk, limit)
                    changes = [*appeared(before, now), *await _vanished(desk, before, now)]
                except PlacetError as error:
                    failed += 1
                    if not error.retryable or failed >= PATIENT_LOOKS:
                        raise
                    display.trouble(desk.trouble)
                else:
                    failed = 0
                    display.show(now, changes, is_all=len(now) < limit)
                    before = {seen.view.approval_id: seen for seen in now}
                await pause(wakeup, seconds=interval_seconds, clock=clock)


def _require_same(path: os.PathLike[str], file: os.stat_result) -> None:
    try:
        if os.path.samestat(os.stat(path), file):
            return
    except OSError:
        pass
    raise StoreMissing(
        f"The store was taken away while it was watched: {path}", hint="Look what became of it, then watch again."
    )


async def _waiting(desk: Desk, limit: int) -> list[Seen]:
    found = await desk.listed((ApprovalState.PENDING,), limit)
    return [seen for seen in found if seen.view.state is ApprovalState.PENDING]


async def _vanished(desk: Desk, before: Mapping[str, Seen], now: Sequence[Seen]) -> list[Change]:
    """What became of those that wait no more. Older ones than the list is long may still wait; they are not told."""
    waiting = {seen.view.approval_id for seen in now}
    changes: list[Change] = []
    for approval_id, was in before.items():
        if approval_id in waiting:
            continue
        try:
            seen = await desk.show(approval_id)
        except NotFound:
            changes.append(Change(word="gone", seen=was))
        except DecisionRefused as refusal:
            changes.append(Change(word="void" if refusal.code == "key_retired" else "suspect", seen=was))
        else:
            if seen.view.state is not ApprovalState.PENDING:
                changes.append(Change(word=seen.view.state.value, seen=seen))
    return changes


# ---------------------------------------------------------------- showing


class _Lines:
    """One line for each change, or one document."""

    def __init__(self, session: Session) -> None:
        self._screen = session.screen
        self._is_troubled = False

    def show(self, now: Sequence[Seen], changes: Sequence[Change], *, is_all: bool) -> None:
        self._is_troubled = False
        for change in changes:
            if self._screen.form is Form.LINES:
                self._screen.document("approval-change/1", _data(change))
            else:
                self._screen.line(self._line(change))
        self._screen.flush()

    def trouble(self, words: str) -> None:
        if not self._is_troubled:
            self._screen.warn(f"placet: {words}")
        self._is_troubled = True

    def _line(self, change: Change) -> str:
        view = change.seen.view
        words = [
            self._screen.instant(change.seen.now) or "",
            change.word,
            view.approval_id,
            view.tool,
            view.risk,
            f"for {view.requested_by}",
            f"digest {view.digest}",
            f"left {countdown(change.seen)}" if view.state is ApprovalState.PENDING else f"by {view.decided_by or '-'}",
        ]
        return "  ".join(shown(word) for word in words)


class _Table:
    """A table that is drawn again at every look, in place."""

    def __init__(self, session: Session, live: Live) -> None:
        self._screen = session.screen
        self._there = session.there
        self._live = live
        self._last = ""

    def show(self, now: Sequence[Seen], changes: Sequence[Change], *, is_all: bool) -> None:
        if changes:
            change = changes[-1]
            self._last = f"last: {change.word}  {shown(change.seen.view.approval_id)}  {shown(change.seen.view.tool)}"
        rows = [
            [
                seen.view.approval_id,
                seen.view.tool,
                seen.view.risk,
                seen.view.requested_by,
                countdown(seen),
                seen.view.digest[:12],
            ]
            for seen in now
        ]
        below = [
            self._last,
            "" if is_all else "... there may be more",
            f"placet approvals show ID{self._there}; Ctrl-C ends this",
        ]
        self._draw(rows, [line for line in below if line])

    def trouble(self, words: str) -> None:
        self._draw([], [words])

    def _draw(self, rows: list[list[str]], below: list[str]) -> None:
        from rich.console import Group
        from rich.text import Text

        titles = ["id", "tool", "risk", "asked by", "time left", "digest"]
        cells = [[shown(cell) for cell in row] for row in rows]
        top: RenderableType = self._screen.rich_table(titles, cells) if rows else Text("Nothing waits for you.")
        self._live.update(Group(top, *(Text(line, style="dim") for line in below)), refresh=True)


@contextmanager
def _display(session: Session) -> Iterator[_Lines | _Table]:
    screen = session.screen
    if not (screen.is_text and screen.is_terminal):
        yield _Lines(session)
        return
    from rich.live import Live

    console = screen.console()
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        yield _Table(session, live)


def _data(change: Change) -> dict[str, Any]:
    return {"change": change.word, "at": instant_data(change.seen.now), "approval": details(change.seen)}
