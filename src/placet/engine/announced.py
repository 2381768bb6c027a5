"""Reads the audit past a destination's cursors, and moves them: each event that it hears of becomes one delivery."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from placet.model.audit import ChainedEvent
from placet.model.destinations import Destination
from placet.model.ledger import Place
from placet.model.notices import Announcing, CursorMove, NewDelivery, UnreadChain
from placet.ports.store import Store
from placet.rules.announcements import is_too_old, wanted_kind
from placet.rules.audit import event_of

_log = logging.getLogger("placet.announcing")

_CHAINS_AT_ONCE: Final = 200
_EVENTS_AT_ONCE: Final = 500
_EVENTS_A_ROUND: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncingReport:
    """What one round did, over all destinations.

    Attributes:
        found: deliveries that were made of events.
        passed_over: events that were cut, or too old, before anybody read them.
        postponed: attempts in vain that come again; `dead`: those that do not.
    """

    found: int = 0
    passed_over: int = 0
    delivered: int = 0
    postponed: int = 0
    dead: int = 0

    def __add__(self, other: AnnouncingReport) -> AnnouncingReport:
        return AnnouncingReport(
            found=self.found + other.found,
            passed_over=self.passed_over + other.passed_over,
            delivered=self.delivered + other.delivered,
            postponed=self.postponed + other.postponed,
            dead=self.dead + other.dead,
        )


class Reading:
    """Moves a destination's cursors to the ends of all chains."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def round(self, destination: Destination) -> AnnouncingReport:
        known = {each.name: each for each in await self._store.known_destinations()}
        if destination.name not in known:
            await self._begin(destination)
            return AnnouncingReport()
        if known[destination.name].closed_at is not None:
            return AnnouncingReport()
        total, read = AnnouncingReport(), 0
        while read < _EVENTS_A_ROUND:
            chains = await self._store.unread_chains(destination.name, limit=_CHAINS_AT_ONCE)
            if not chains:
                break
            part = await self._part(destination, chains)
            if not await self._store.announce(part.command):
                break  # another worker has read the same
            part.tell(destination)
            total += AnnouncingReport(found=len(part.command.found), passed_over=part.passed_over)
            read += part.read
        return total

    async def _begin(self, destination: Destination) -> None:
        """What was before is no news to anybody."""
        moves = tuple(CursorMove(writer=each.writer, was=None, now=each.sequence) for each in await self._store.heads())
        if await self._store.begin_destination(Announcing(destination=destination.name, moves=moves)):
            _log.info("announcing begins", extra={"destination": destination.name})

    async def _part(self, destination: Destination, chains: Sequence[UnreadChain]) -> _Part:
        """As many events, of one chain after the other, as one transaction takes."""
        part, now = _Part(destination.name), await self._store.now()
        for chain in chains:
            await self._chain(destination, chain, now, part)
            if part.read >= _EVENTS_AT_ONCE:
                break
        return part

    async def _chain(self, destination: Destination, chain: UnreadChain, now: datetime, part: _Part) -> None:
        cursor = chain.read or 0
        if chain.end < cursor:
            part.went_back += 1
            part.move(chain, chain.end)
            return
        begins = max(cursor, chain.first_kept - 1)
        part.passed_over += begins - cursor
        events = await self._store.events_of_chain(chain.writer, after=begins, limit=_EVENTS_AT_ONCE)
        for each in events:
            self._event(destination, each, now, part)
        part.read += len(events)
        part.move(chain, events[-1].sequence if events else chain.end)

    def _event(self, destination: Destination, chained: ChainedEvent, now: datetime, part: _Part) -> None:
        event = event_of(chained.body)
        kind = None if event is None else wanted_kind(destination, event)
        if event is None or kind is None:
            return
        if is_too_old(event, now=now):
            part.passed_over += 1
            return
        part.found.append(NewDelivery(place=Place(writer=chained.writer, sequence=chained.sequence), kind=kind))


class _Part:
    """What one transaction of reading writes, and what is to be said of it once it stands."""

    def __init__(self, destination: str) -> None:
        self._destination = destination
        self._moves: list[CursorMove] = []
        self.found: list[NewDelivery] = []
        self.passed_over = 0
        self.went_back = 0
        self.read = 0

    def move(self, chain: UnreadChain, now: int) -> None:
        self._moves.append(CursorMove(writer=chain.writer, was=chain.read, now=now))

    @property
    def command(self) -> Announcing:
        return Announcing(destination=self._destination, moves=tuple(self._moves), found=tuple(self.found))

    def tell(self, destination: Destination) -> None:
        if self.passed_over:
            _log.warning(
                "events were cut, or too old, before they were announced",
                extra={"destination": destination.name, "count": self.passed_over},
            )
        if self.went_back:
            _log.warning(
                "the audit is shorter than it was; what follows is announced from its end",
                extra={"destination": destination.name, "chains": self.went_back},
            )
