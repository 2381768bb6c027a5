"""What a delivery names, read from the audit when it is sent. Nothing goes out on a row's word alone."""

from __future__ import annotations

from dataclasses import dataclass

from placet.model.audit import AuditEvent, ChainedEvent
from placet.model.ledger import Place
from placet.ports.store import Store
from placet.rules.announcements import is_linked
from placet.rules.audit import event_of
from placet.rules.chains import GENESIS, Linker, fault_of_mac


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


class Evidence:
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
