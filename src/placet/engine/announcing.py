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
from datetime import timedelta
from typing import Final

from placet.engine.announced import AnnouncingReport, Reading
from placet.engine.chronicle import NOBODY, Chronicle
from placet.engine.evidence import Evidence, Proven, Unproven
from placet.engine.faults import told
from placet.errors import ConfigurationError
from placet.model.audit import AuditEvent, EventKind
from placet.model.destinations import Announcements, Destination
from placet.model.identifiers import Token
from placet.model.ledger import Place
from placet.model.notices import (
    Delivery,
    DeliveryState,
    Ended,
    Notice,
    NoticeKind,
)
from placet.ports.clock import IdSource
from placet.ports.meter import Meter
from placet.ports.notifier import Delivered, Gone, NotDelivered, Notifier, Sent
from placet.ports.store import Store
from placet.rules.announcements import (
    MOST_ATTEMPTS,
    delay_seconds,
    id_of_a_test,
    message_id_of,
    url_of,
    wanted_kind,
)
from placet.rules.chains import Linker

__all__ = ["LEASE_SECONDS", "Announcer", "AnnouncingReport"]

_log = logging.getLogger("placet.announcing")

_MOST_RETRIED: Final = 10_000
_TAKEN_AT_ONCE: Final = 20
_SENT_AT_ONCE: Final = 5
_SENT_A_ROUND: Final = 200
LEASE_SECONDS: Final = 180.0
"""Longer than it takes to send what is taken at once, five at a time, each within its time."""
_KEPT: Final = {DeliveryState.DELIVERED: timedelta(days=1), DeliveryState.DEAD: timedelta(days=30)}
_FORGOTTEN_AT_ONCE: Final = 1_000


class Announcer:
    """Announces for one store. Any number may work on it, each for the destinations that it knows."""

    def __init__(
        self,
        *,
        store: Store,
        linker: Linker,
        chronicle: Chronicle,
        ids: IdSource,
        meter: Meter,
        announcements: Announcements,
        notifiers: Mapping[str, Notifier],
    ) -> None:
        self._store = store
        self._chronicle = chronicle
        self._ids = ids
        self._meter = meter
        self._destinations = announcements.destinations
        self._notifiers = notifiers
        self._console_url = announcements.console_url
        self._reading = Reading(store)
        self._evidence = Evidence(store, linker)

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """Each is served by itself, so that a slow one holds up no other."""
        return self._destinations

    async def round(self) -> AnnouncingReport:
        """Serve every destination, side by side, and tidy up: for whoever does it once.

        Raises:
            StoreError: of the first destination that met one; the others were served all the same.
        """
        if not self._destinations:
            return AnnouncingReport()
        done = await asyncio.gather(*map(self.serve, self._destinations), return_exceptions=True)
        await self.tidy()
        return _sum(done)

    async def serve(self, destination: Destination) -> AnnouncingReport:
        """Read and send for one destination."""
        read = await self._reading.round(destination)
        return read + await self._send(destination)

    async def tidy(self) -> None:
        """Forget what ended long ago, and say what waits."""
        await self._forget()
        await self._measure()

    async def test(self, name: str) -> Sent:
        """Send a message that says it is a test, now and once, whether the destination is closed or not.

        Raises:
            ConfigurationError: no destination has this name.
        """
        if name not in self._notifiers:
            raise ConfigurationError(f"No destination has the name {name!r}.", code="no_such_destination")
        notice = Notice(
            message_id=id_of_a_test(self._ids.new_id("test")),
            kind=NoticeKind.TEST,
            at=await self._store.now(),
            event=None,
            url=url_of(NoticeKind.TEST, None, self._console_url),
        )
        return await self._sent(self._notifiers[name], notice)

    async def close(self, name: str, *, by: str) -> bool:
        """Send nothing there any more, until `retry` opens it; what waits for it is kept. False if it is closed.

        Args:
            by: who says so, by the operating system's word.

        Raises:
            ConfigurationError: no worker has begun to announce to a destination of this name.
        """
        if name not in {each.name for each in await self._store.known_destinations()}:
            raise ConfigurationError(f"Nothing was ever announced to {name!r}.", code="no_such_destination")
        closed = self._event(EventKind.DESTINATION_CLOSED, name, detail="by_hand", by=by)
        return await self._store.close_destination(name, events=(closed,))

    async def retry(self, name: str, place: Place | None, *, by: str) -> int:
        """Send what was given up, one or all of it, and open the destination if it is closed; how many."""
        opened = self._event(EventKind.DESTINATION_OPENED, name, by=by)
        return await self._store.retry_deliveries(name, place, limit=_MOST_RETRIED, opened=(opened,))

    def _event(
        self, kind: EventKind, name: str, *, detail: str | None = None, by: str | None = None, **more: object
    ) -> AuditEvent:
        facts = self._chronicle.of_store(by or NOBODY)
        reasons = (f"destination:{name}",)
        return self._chronicle.event(
            kind, facts, reasons=reasons, detail=detail, decided_by=by, model_suggested=False, **more
        )

    # ------------------------------------------------------------ one destination

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
                lost=(self._event(EventKind.DELIVERY_GIVEN_UP, destination.name, detail="sender_lost"),),
            )
            lost = [each for each in taken if each.state is DeliveryState.DEAD]
            for each in lost:
                self._lost(destination, each)
            came = _sum(
                await asyncio.gather(
                    *(self._deliver(destination, each, turn) for each in taken if each not in lost),
                    return_exceptions=True,
                )
            )
            came += AnnouncingReport(dead=len(lost))
            total += came
            if not came.delivered:
                break
        return total

    def _lost(self, destination: Destination, delivery: Delivery) -> None:
        """Nobody said what came of its last attempt; it was given up when it was to be taken again."""
        self._meter.announced(destination=destination.kind.value, outcome=_OUTCOMES[DeliveryState.DEAD])
        self._say(
            destination, delivery, Ended(state=DeliveryState.DEAD, code=delivery.code or DeliveryState.DEAD.value)
        )

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
        is_ours = await self._store.end_delivery(delivery, ended, events=self._given_up(delivery, ended))
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

    def _given_up(self, delivery: Delivery, ended: Ended) -> tuple[AuditEvent, ...]:
        """That nobody heard of something is on record, as everything else that ends is."""
        if ended.state is not DeliveryState.DEAD:
            return ()
        return (self._event(EventKind.DELIVERY_GIVEN_UP, delivery.destination, detail=ended.code),)

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
        closed = self._event(EventKind.DESTINATION_CLOSED, destination.name, detail=answer.code)
        if await self._store.close_destination(destination.name, events=(closed,)):
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
