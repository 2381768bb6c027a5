"""Events of the audit as pages read them: one that cannot be read is shown so, and is no fault of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from placet.console.visit import Visit
from placet.model.audit import ALARMS, ChainedEvent
from placet.model.wanted_events import WantedEvents
from placet.rules.audit import shown_body_of

MOST_READ = 10_000
"""Events that one page reads at most, the newest."""
EVERYTHING = WantedEvents()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event, as it stands in the store. `facts` is empty where it cannot be read."""

    writer: str
    sequence: int
    facts: Mapping[str, Any]

    @property
    def at(self) -> datetime | None:
        try:
            at = datetime.fromisoformat(self.facts["at"])
            return None if at.tzinfo is None else at.astimezone(UTC)
        except (KeyError, TypeError, ValueError, OverflowError):
            return None

    @property
    def is_alarm(self) -> bool:
        kind = self.facts.get("kind")
        return type(kind) is not str or kind in ALARMS

    def word(self, name: str) -> str:
        value = self.facts.get(name)
        return "" if value is None else str(value)

    def number(self, name: str) -> float:
        value = self.facts.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    def words(self, name: str) -> tuple[str, ...]:
        value = self.facts.get(name)
        return tuple(map(str, value)) if type(value) is list else ()


def entry_of(event: ChainedEvent) -> Entry:
    return Entry(writer=event.writer, sequence=event.sequence, facts=shown_body_of(event))


async def read_entries(visit: Visit, wanted: WantedEvents = EVERYTHING) -> list[Entry]:
    """Those that are wanted among the tenant's newest events, the oldest first.

    Raises:
        DecisionRefused: without leave to read the audit.
    """
    newest = visit.gate.auditor.newest(by=visit.by, wanted=wanted, most_read=MOST_READ)
    return [entry_of(event) async for event in newest][::-1]
