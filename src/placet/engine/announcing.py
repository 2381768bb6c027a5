"""Announces what is in the audit: reads it past each destination's cursors, and sends what that found.

    read     events past the cursors ── deliveries and moved cursors, one transaction
    send     due deliveries, taken under a lease ── the event, its link checked ── notifier ── what came of it

At least once, in no promised order, and beside everything else: a decision never waits for a message. Whatever dies on
the way, the cursor or the lease brings back; only the answer of the other side can be lost, and then it hears the same
message, under the same id, once more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from placet.engine.faults import told
from placet.errors import ConfigurationError
from placet.model.audit import AuditEvent, ChainedEvent
from placet.model.destinations import Announcements, Destination
from placet.model.identifiers import Token
from placet.model.ledger import Place
from placet.model.notices import (
    Announcing,
    CursorMove,
    Delivery,
    DeliveryState,
    Ended,
    NewDelivery,
    Notice,
    NoticeKind,
    UnreadChain,
)
from placet.ports.clock import IdSource
from placet.ports.meter import Meter
from placet.ports.notifier import Delivered, Gone, NotDelivered, Notifier, Sent
from placet.ports.store import Store
from placet.rules.announcements import (
    MOST_ATTEMPTS,
    delay_seconds,
    is_linked,
    is_too_old,
    message_id_of,
    url_of,
    wanted_kind,
)
from placet.rules.audit import event_of
from placet.rules.chains import GENESIS, Linker, fault_of_mac

_log = logging.getLogger("placet.announcing")

_CHAINS_AT_ONCE: Final = 200
_EVENTS_AT_ONCE: Final = 500
_EVENTS_A_ROUND: Final = 10_000
_TAKEN_AT_ONCE: Final = 20
_SENT_AT_ONCE: Final = 5
_SENT_A_ROUND: Final = 200
LEASE_SECONDS: Final = 180.0
"""Longer than it takes to send what is taken at once, five at a time, each within its time."""
_KEPT: Final = {DeliveryState.DELIVERED: timedelta(days=1), DeliveryState.DEAD: timedelta(days=30)}
_FORGOTTEN_AT_ONCE: Final = 1_000


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


class Announcer:
    """Announces for one store. Any number may work on it, each for the destinations that it knows."""

    def __init__(
        self,
        *,
        store: Store,
        linker: Linker,
        ids: IdSource,
        meter: Meter,
        announcements: Announcements,
        notifiers: Mapping[str, Notifier],
    ) -> None:
        self._store = store
        self._ids = ids
        self._meter = meter
        self._destinations = announcements.destinations
        self._notifiers = notifiers
        self._console_url = announcements.console_url
        self._reading = _Reading(store)
        self._evidence = _Evidence(store, linker)

    async def round(self) -> AnnouncingReport:
        """Read and send for every destination, side by side; forget what ended long ago; say what waits.

        Raises:
            StoreError: of the first destination that met one; the others were served all the same.
        """
        if not self._destinations:
            return AnnouncingReport()
        done = await asyncio.gather(*map(self._serve, self._destinations), return_exceptions=True)
        await self._forget()
        await self._measure()
        return _sum(done)

    async def test(self, name: str) -> Sent:
        """Send a message that says it is a test, now and once, whether the destination is closed or not.

        Raises:
            ConfigurationError: no destination has this name.
        """
        if name not in self._notifiers:
            raise ConfigurationError(f"No destination has the name {name!r}.", code="no_such_destination")
        notice = Notice(
            message_id=self._ids.new_id("msg"),
            kind=NoticeKind.TEST,
            at=await self._store.now(),
            event=None,
            url=url_of(NoticeKind.TEST, None, self._console_url),
        )
        return await self._sent(self._notifiers[name], notice)

    # ------------------------------------------------------------ one destination

    async def _serve(self, destination: Destination) -> AnnouncingReport:
        read = await self._reading.round(destination)
        return read + await self._send(destination)

    async def _send(self, destination: Destination) -> AnnouncingReport:
        """What is due, until nothing is, or the destination takes nothing: then the rest waits for the next round."""
        total, token = AnnouncingReport(), Token(self._ids.new_id("d"))
        turn = asyncio.Semaphore(_SENT_AT_ONCE)
        for _ in range(_SENT_A_ROUND // _TAKEN_AT_ONCE):
            taken = await self._store.take_deliveries(
                destination.name,
                token,
                lease_seconds=LEASE_SECONDS,
                most_attempts=MOST_ATTEMPTS,
                limit=_TAKEN_AT_ONCE,
            )
            came = _sum(
                await asyncio.gather(
                    *(self._deliver(destination, each, turn) for each in taken), return_exceptions=True
                )
            )
            total += came
            if not came.delivered:
                break
        return total

    async def _deliver(self, destination: Destination, delivery: Delivery, turn: asyncio.Semaphore) -> AnnouncingReport:
        async with turn:
            found = await self._evidence.of(delivery.place)
            match found:
                case Unproven() if found.is_for_now:
                    answer: Sent | Unproven = NotDelivered(code=found.code)
                case Unproven():
                    answer = found
                case Proven() if (kind := wanted_kind(destination, found.event)) is not None:
                    notice = self._notice(destination, found, kind)
                    answer = await self._sent(self._notifiers[destination.name], notice)
                case Proven():
                    answer = Unproven(code="not_wanted")
            return await self._end(destination, delivery, answer)

    def _notice(self, destination: Destination, found: Proven, kind: NoticeKind) -> Notice:
        return Notice(
            message_id=message_id_of(destination.name, found.chained),
            kind=kind,
            at=found.event.at,
            event=found.event,
            url=url_of(kind, found.event, self._console_url),
        )

    async def _sent(self, notifier: Notifier, notice: Notice) -> Sent:
        """A fault of the notifier itself is one attempt in vain, and nothing else."""
        try:
            return await notifier.send(notice)
        except Exception as fault:
            _log.warning("a notifier failed", extra=told(fault))
        return NotDelivered(code="notifier_failed")

    async def _end(self, destination: Destination, delivery: Delivery, answer: Sent | Unproven) -> AnnouncingReport:
        if isinstance(answer, Gone):
            await self._close(destination, answer)
        ended = self._ended(delivery, answer)
        is_ours = await self._store.end_delivery(delivery, ended)
        if not is_ours:
            return AnnouncingReport()
        self._meter.announced(destination=destination.kind.value, outcome=_OUTCOMES[ended.state])
        if ended.state is not DeliveryState.DELIVERED:
            self._say(destination, delivery, ended)
        match ended.state:
            case DeliveryState.DELIVERED:
                return AnnouncingReport(delivered=1)
            case DeliveryState.PENDING:
                return AnnouncingReport(postponed=1)
            case DeliveryState.DEAD:
                return AnnouncingReport(dead=1)

    def _ended(self, delivery: Delivery, answer: Sent | Unproven) -> Ended:
        match answer:
            case Delivered(code=code):
                return Ended(state=DeliveryState.DELIVERED, code=code)
            case Unproven(code=code):
                return Ended(state=DeliveryState.DEAD, code=code)
            case NotDelivered(code=code) if delivery.attempts >= MOST_ATTEMPTS:
                return Ended(state=DeliveryState.DEAD, code=code)
            case NotDelivered(code=code, retry_after_seconds=wished):
                return self._postponed(delivery, code, wished)
            case Gone(code=code):
                return self._postponed(delivery, code, None)

    def _postponed(self, delivery: Delivery, code: str, wished: float | None) -> Ended:
        seconds = delay_seconds(delivery.attempts, fraction=self._ids.fraction(), retry_after_seconds=wished)
        return Ended(state=DeliveryState.PENDING, code=code, due_in_seconds=seconds)

    async def _close(self, destination: Destination, answer: Gone) -> None:
        """First, and durable: whatever happens next, nobody goes there any more."""
        if await self._store.close_destination(destination.name):
            self._meter.announced(destination=destination.kind.value, outcome="closed")
            _log.error(
                "a destination says that it is gone; nothing is sent there any more",
                extra={
                    "destination": destination.name,
                    "code": answer.code,
                    "hint": f"Mend it, then: placet notifications retry {destination.name}",
                },
            )

    def _say(self, destination: Destination, delivery: Delivery, ended: Ended) -> None:
        is_dead = ended.state is DeliveryState.DEAD
        _log.log(
            logging.ERROR if is_dead else logging.WARNING,
            "a message was given up" if is_dead else "a message was not delivered",
            extra={
                "destination": destination.name,
                "kind": delivery.kind.value,
                "code": ended.code,
                "attempts": delivery.attempts,
                "next_seconds": None if is_dead else round(ended.due_in_seconds, 1),
            },
        )

    # ------------------------------------------------------------ around

    async def _forget(self) -> None:
        now = await self._store.now()
        for state, age in _KEPT.items():
            await self._store.forget_deliveries(state, before=now - age, limit=_FORGOTTEN_AT_ONCE)

    async def _measure(self) -> None:
        """By kind of destination: their names are no closed set."""
        now, counts = await self._store.now(), {each.destination: each for each in await self._store.outbox_counts()}
        for kind in dict.fromkeys(each.kind for each in self._destinations):
            mine = [counts[each.name] for each in self._destinations if each.kind is kind and each.name in counts]
            ages = [(now - each.oldest_at).total_seconds() for each in mine if each.oldest_at is not None]
            self._meter.announcements_waiting(
                destination=kind.value,
                pending=sum(each.pending for each in mine),
                oldest_seconds=max(0.0, *ages, 0.0),
                dead=sum(each.dead for each in mine),
            )


def _sum(done: Sequence[AnnouncingReport | BaseException]) -> AnnouncingReport:
    """All together, once all have ended; or the first fault of them."""
    total = AnnouncingReport()
    for each in done:
        if isinstance(each, BaseException):
            raise each
        total += each
    return total


_OUTCOMES: Final = {
    DeliveryState.DELIVERED: "delivered",
    DeliveryState.PENDING: "postponed",
    DeliveryState.DEAD: "dead",
}


# ---------------------------------------------------------------- reading


class _Reading:
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


# ---------------------------------------------------------------- what is sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """An event that stands where its writer put it."""

    chained: ChainedEvent
    event: AuditEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproven:
    """Why nothing is sent of it.

    Attributes:
        is_for_now: whether it may be otherwise later.
    """

    code: str
    is_for_now: bool = False


class _Evidence:
    """Reads what a delivery names. A message carries our signature: nothing goes out on a row's word alone."""

    def __init__(self, store: Store, linker: Linker) -> None:
        self._store = store
        self._linker = linker

    async def of(self, place: Place) -> Proven | Unproven:
        beside = await self._store.events_of_chain(place.writer, after=place.sequence - 2, limit=2)
        by_sequence = {each.sequence: each for each in beside}
        chained = by_sequence.get(place.sequence)
        if chained is None:
            return Unproven(code="event_gone")
        before = by_sequence.get(place.sequence - 1)
        previous = before.link if before is not None else await self._cut_link(place)
        if previous is None or not is_linked(chained, previous, self._linker):
            code = fault_of_mac("event_altered", chained.key_id, self._linker)
            return Unproven(code=code, is_for_now=code != "event_altered")
        event = event_of(chained.body)
        return Unproven(code="event_altered") if event is None else Proven(chained=chained, event=event)

    async def _cut_link(self, place: Place) -> str | None:
        """The link before the first event that is there."""
        if place.sequence == 1:
            return GENESIS
        cuts = {each.writer: each for each in await self._store.tombstones()}
        cut = cuts.get(place.writer)
        return cut.link if cut is not None and cut.first_kept == place.sequence else None
