"""A tool whose server describes it otherwise than it was accepted is refused from then on, by every process.

A quarantine is a stop of the store, of the tool as it was accepted under one pin, so that each claim, each further
attempt and each read that begins looks for it in its own transaction. It ends when the very same definition is
accepted anew; accepted otherwise, the tool is another one, and what it was is refused.
"""

from __future__ import annotations

from collections import Counter

from placet.engine.chronicle import NOBODY, Chronicle
from placet.model.audit import AuditEvent, EventKind
from placet.model.contract import Contract
from placet.model.identifiers import Digest
from placet.model.ledger import Stopped
from placet.model.pins import Definition, Drift, SpoiltPin
from placet.model.stopping import StopNote, StopScope
from placet.ports.store import Store

SCHEMA_DRIFT = "schema_drift"
BY_HAND = "by_hand"
REPLACED = "replaced"
_SHOWN_OF_DIGEST = 16


class Quarantine:
    """Begins quarantines, each once, however many processes see the same at once."""

    def __init__(self, *, store: Store, chronicle: Chronicle) -> None:
        self._store = store
        self._chronicle = chronicle
        self._suspected: set[tuple[str, str, str]] = set()
        self._described: dict[str, Definition] = {}
        self._beginning: Counter[str] = Counter()

    async def drifted(self, drift: Drift) -> bool:
        """Refuse the tool of this pin everywhere; durable on return. Whether it was not refused before.

        Raises:
            StoreError: it may not be refused yet; begin it again.
        """
        if drift.described is not None:
            self._described[StopScope.quarantine(drift.name, drift.pin).key] = drift.described
        seen = f"seen:{shown_digest(drift.seen)}"
        key = StopScope.quarantine(drift.name, drift.pin).key
        self._beginning[key] += 1
        try:
            return await self.begin(drift.name, drift.pin, server=drift.server, why=SCHEMA_DRIFT, reasons=(seen,))
        finally:
            self._beginning -= Counter((key,))

    def described(self, tool: str, pin: Digest) -> Definition | None:
        """What the server said otherwise, where this process has seen it."""
        return self._described.get(StopScope.quarantine(tool, pin).key)

    async def begin(
        self,
        tool: str,
        pin: Digest,
        *,
        server: str,
        why: str,
        reasons: tuple[str, ...] = (),
        by: str = NOBODY,
        note: StopNote | None = None,
    ) -> bool:
        """The same for any reason; whether it was not refused before.

        Raises:
            StoreError: it may not be refused yet; begin it again.
        """
        if await self.is_in_force(tool, pin):
            return False
        scope = StopScope.quarantine(tool, pin).key
        await self._store.stop(scope, (self._event(tool, pin, server, why, reasons, by),), note=note)
        return True

    async def refusal(self, contract: Contract) -> Stopped | None:
        """Why nobody is to be asked about a call of it, as a claim would say; also while that is being written.

        Raises:
            StoreError: it cannot be told.
        """
        if (origin := contract.origin) is None:
            return None
        key = StopScope.quarantine(contract.name, origin.pin).key
        if key in self._beginning or await self.is_in_force(contract.name, origin.pin):
            return Stopped(scope=key)
        return None

    async def is_in_force(self, tool: str, pin: Digest) -> bool:
        """Whether a tool is refused, as it was accepted under this pin.

        Raises:
            StoreError: it cannot be told.
        """
        return StopScope.quarantine(tool, pin).key in await self._store.stops()

    async def suspect(self, spoilt: tuple[SpoiltPin, ...]) -> None:
        """Put on record that entries of the file of pins are not what was signed, each once in this process.

        One without a server is the whole file.

        Raises:
            StoreError: it may not be on record.
        """
        for each in spoilt:
            named = (each.server, each.tool, each.fault.value)
            if named in self._suspected:
                continue
            facts = self._chronicle.of_store(NOBODY)
            event = self._chronicle.event(
                EventKind.PIN_SUSPECT,
                facts,
                detail=each.fault.value,
                reasons=(f"upstream:{each.server}",) if each.server else (),
                model_suggested=False,
            )
            await self._store.record((event,))
            self._suspected.add(named)

    def _event(self, tool: str, pin: Digest, server: str, why: str, reasons: tuple[str, ...], by: str) -> AuditEvent:
        return self._chronicle.event(
            EventKind.TOOL_QUARANTINED,
            self._chronicle.of_store(by) | {"tool": tool},
            detail=why,
            reasons=(f"upstream:{server}", f"pin:{shown_digest(pin)}", *reasons),
            decided_by=None if by == NOBODY else by,
            model_suggested=False,
        )


def shown_digest(digest: Digest) -> str:
    """Enough of a digest to be looked up by."""
    return digest[:_SHOWN_OF_DIGEST]
