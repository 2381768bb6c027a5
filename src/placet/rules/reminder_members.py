"""What a policy file says of questions that wait: who is told again, when, and who else may decide then."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Final

from placet.model.decision import RequirementKind
from placet.model.reminders import MOST_REMINDERS
from placet.rules.asking import ANYBODY, Approvers, AskReminders

REMINDERS: Final = "reminders"
OF_REMINDERS: Final = ("remind_after", "escalate_after", "escalate_to")
OF_APPROVERS: Final = ("roles", "scopes", "subjects")
SPANS: Final = 'Like "45s", "5m", "4h" or "2d", at most 366 days.'
_MAY_DECIDE: Final = "may_decide"


class ReminderMembers(ABC):
    """The part of reading a policy file that is about waiting."""

    _lines: list[str]
    _document: dict[str, Any]
    _within: tuple[int, int] | None
    mistakes: list[Any]

    @abstractmethod
    def _wrong(self, line: int | None, message: str, hint: str) -> None: ...

    @abstractmethod
    def _wrong_in(self, member: str, message: str, hint: str) -> None: ...

    @abstractmethod
    def _line_of(self, member: str, start: int, end: int) -> int | None: ...

    @abstractmethod
    def _people(self, said: dict[str, Any], member: str, known: Sequence[str]) -> Approvers: ...

    @abstractmethod
    def _span(self, table: dict[str, Any], name: str, default: float) -> float: ...

    @abstractmethod
    def _seconds(self, said: object) -> float | None: ...

    def reminders(self) -> AskReminders | None:
        """Those of the file's own table."""
        table = self._document.get(REMINDERS)
        if table is None:
            return None
        line = self._line_of(REMINDERS, 0, len(self._lines))
        self._within = (line or 1, len(self._lines))
        if type(table) is not dict:
            self._wrong(line, f"{REMINDERS!r} is no table", 'It begins with [reminders]: remind_after = "4h".')
            return None
        count = len(self.mistakes)
        for name in table:
            if name not in OF_REMINDERS:
                self._wrong_in(name, *unknown(name, OF_REMINDERS, "reminders"))
        found = self._reminders(table)
        if found is None and len(self.mistakes) == count:
            self._wrong(
                line, "'reminders' say nothing", 'remind_after = "4h", escalate_after = "8h", or leave them out.'
            )
        if found is not None and found.widens:
            self._wrong_in("escalate_to", "only a rule widens who may decide", "Say it in the [[ask]] that names them.")
        return found

    def _reminders(self, table: dict[str, Any]) -> AskReminders | None:
        """What a table says of them, or None where it says nothing, or with its mistakes noted."""
        if not any(name in table for name in OF_REMINDERS):
            return None
        count = len(self.mistakes)
        after = self._spans(table, "remind_after")
        escalates = self._span(table, "escalate_after", 0.0) or None
        told, widens = self._escalate_to(table)
        if "escalate_to" in table and "escalate_after" not in table:
            self._wrong_in("escalate_to", "nothing says when it is escalated", 'escalate_after = "4h".')
        if len(self.mistakes) > count:
            return None
        return AskReminders(
            remind_after_seconds=after, escalate_after_seconds=escalates, escalate_to=told, widens=widens
        )

    def _spans(self, table: dict[str, Any], name: str) -> tuple[float, ...]:
        """One span, or several of which each is longer than the one before."""
        said = table.get(name)
        if said is None:
            return ()
        each = said if type(said) is list else [said]
        found = tuple(self._seconds(one) for one in each)
        spans = tuple(seconds for seconds in found if seconds is not None)
        is_rising = all(sooner < later for sooner, later in pairwise(spans))
        if not each or None in found or not is_rising:
            self._wrong_in(name, f"{name!r} is no rising list of spans of time", f"{SPANS} The shortest comes first.")
        elif len(spans) > MOST_REMINDERS:
            self._wrong_in(name, f"{name!r} has {len(spans)} spans", f"There may be {MOST_REMINDERS}.")
        return spans

    def _escalate_to(self, table: dict[str, Any]) -> tuple[Approvers, bool]:
        said = table.get("escalate_to")
        if said is None:
            return ANYBODY, False
        if type(said) is not dict:
            hint = 'escalate_to = { roles = ["admin"] }, with roles, scopes, subjects and may_decide as needed.'
            self._wrong_in("escalate_to", "'escalate_to' is no table", hint)
            return ANYBODY, False
        widens = said.get(_MAY_DECIDE, False)
        if type(widens) is not bool:
            self._wrong_in(
                "escalate_to", "'may_decide' is neither true nor false", "may_decide = true, or leave it out."
            )
        return self._people(said, "escalate_to", (*OF_APPROVERS, _MAY_DECIDE)), widens is True

    def _note_useless(self, reminders: AskReminders | None, found: dict[str, Any]) -> None:
        """What never happens says something else than whoever wrote it believes."""
        if reminders is None:
            return
        longest, hint = (
            found["decide_within_seconds"],
            "Put it before decide_within, which is 24h where nothing is said.",
        )
        if reminders.remind_after_seconds and reminders.remind_after_seconds[-1] >= longest:
            self._wrong_in("remind_after", "the question is over before it reminds", hint)
        if (reminders.escalate_after_seconds or 0.0) >= longest:
            self._wrong_in("escalate_after", "the question is over before it is escalated", hint)
        if reminders.widens and found["needs"] is RequirementKind.CONFIRM:
            hint = "Leave may_decide out, or ask for a review."
            self._wrong_in("escalate_to", "only the requesting user confirms, however long it waits", hint)
        elif reminders.widens and found["approvers"] == ANYBODY:
            hint = "Leave may_decide out, or say approvers."
            self._wrong_in("escalate_to", "all who are entitled may decide anyway", hint)


def unknown(name: str, known: Sequence[str], where: str) -> tuple[str, str]:
    return f"an unknown member {name!r} at {where}", meant(name, known)


def meant(said: object, known: Sequence[str]) -> str:
    nearest = get_close_matches(said, known, n=1, cutoff=0.5) if type(said) is str else []
    return f"Did you mean {nearest[0]!r}?" if nearest else f"Known: {', '.join(known)}."
