"""Rotates and retires keys: the file first where a key is added, the record first where one is taken away.

A rotation that was interrupted after the file and before the record is finished by the next one. Rows written under
the old key at the very moment of its retirement lose what it opened: an approval is asked again, a repeated call is
told that it was performed and its result is gone. Nothing becomes new, and nothing becomes approved.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from placet.engine.chronicle import Chronicle
from placet.errors import KeyMaterialError, NotFound
from placet.model.audit import EventKind
from placet.model.custody import KeyUse
from placet.ports.keys import STORE_CHECK, KeyFact, KeyPurpose, Keys, KeyShelf, KeyState
from placet.ports.store import Store


class Loss(StrEnum):
    """What is lost with a retired key, in the words an operator says it with."""

    APPROVALS = "approvals"
    ARGUMENTS = "arguments"
    RESULTS = "results"
    API_KEYS = "api_keys"
    CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """One key, and what depends on it."""

    fact: KeyFact
    use: KeyUse

    def losses(self) -> dict[Loss, int]:
        """What its retirement would lose, without what would be nothing."""
        counts = {
            Loss.APPROVALS: self.use.approvals,
            Loss.ARGUMENTS: self.use.arguments,
            Loss.RESULTS: self.use.results,
            Loss.API_KEYS: self.use.api_keys,
            Loss.CHECKPOINTS: self.use.checkpoints,
        }
        return {loss: count for loss, count in counts.items() if count} if self.fact.state is KeyState.OLD else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What a rotation did. `was_finished`: it only put on record one that was interrupted before."""

    previous: str
    current: str
    was_finished: bool


class Custody:
    """The keys of one store. `by`, who changes them, is the operating system's word."""

    def __init__(self, *, shelf: KeyShelf, keys: Keys, store: Store, chronicle: Chronicle) -> None:
        self._shelf = shelf
        self._keys = keys
        self._store = store
        self._chronicle = chronicle

    async def listed(self) -> tuple[KeyRecord, ...]:
        """Every key there is, then every key id that rows name and nobody has."""
        self._keys.refresh()
        uses = {use.key_id: use for use in await self._store.key_uses()}
        facts = {fact.key_id: fact for fact in self._keys.facts()}
        for key_id in uses:
            if key_id not in facts:
                facts[key_id] = KeyFact(key_id=key_id, state=KeyState.UNKNOWN, created_at=None, retired_at=None)
        return tuple(
            KeyRecord(fact=fact, use=uses.get(key_id, KeyUse(key_id=key_id))) for key_id, fact in facts.items()
        )

    async def rotate(self, *, by: str) -> Rotation:
        """Add a key that signs from now on; every older key still verifies and opens.

        Raises:
            KeyMaterialError: the key file cannot be changed; nothing was.
        """
        with self._shelf.held():
            self._keys.refresh()
            previous = await self._store.adopted_key()
            was_finished = previous != self._keys.current
            if not was_finished:
                self._shelf.add_current(at=await self._store.now())
                self._keys.refresh()
            current = self._keys.current
            await self._adopt(EventKind.KEY_ROTATED, by, (f"from:{previous}", f"to:{current}"))
            return Rotation(previous=previous, current=current, was_finished=was_finished)

    async def retire(self, key_id: str, *, by: str, losing: Collection[Loss] = ()) -> KeyRecord:
        """Destroy an old key, except for what verifies and finds the audit that was written under it.

        Args:
            losing: what may be lost with it. Whatever else still needs the key keeps it.

        Raises:
            NotFound: no key of this id can be retired.
            KeyMaterialError: it is the current one (`key_in_use`), or still needed (`key_still_needed`).
        """
        with self._shelf.held():
            record = next((each for each in await self.listed() if each.fact.key_id == key_id), None)
            if record is None or record.fact.state in (KeyState.RETIRED, KeyState.UNKNOWN):
                raise NotFound("There is no such key to retire", hint="placet keys list")
            if record.fact.state is KeyState.CURRENT:
                raise KeyMaterialError(
                    "The current key signs; it is never retired.",
                    code="key_in_use",
                    hint="Rotate first: placet keys rotate",
                )
            still = {loss: count for loss, count in record.losses().items() if loss not in losing}
            if still:
                told = ", ".join(f"{count} {loss.value}" for loss, count in still.items())
                words = " ".join(f"--losing {loss.value}" for loss in record.losses())
                raise KeyMaterialError(
                    f"The key is still needed, by {told}; it was not retired.",
                    code="key_still_needed",
                    hint=f"Settle, decide or withdraw what needs it. To lose it for good, say so: {words}",
                )
            lost = tuple(f"lost_{loss.value}:{count}" for loss, count in record.losses().items())
            await self._adopt(EventKind.KEY_RETIRED, by, (f"retired:{key_id}", *lost))
            self._shelf.retire(key_id, at=await self._store.now())
            self._keys.refresh()
            return record

    async def _adopt(self, kind: EventKind, by: str, reasons: tuple[str, ...]) -> None:
        """On record, in one transaction with the check that opens the store: from here on under the current key."""
        check = self._keys.mac(KeyPurpose.STORE, STORE_CHECK)
        facts = self._chronicle.of_store(by)
        event = self._chronicle.event(kind, facts, reasons=reasons, decided_by=by, model_suggested=False)
        await self._store.adopt_key(check, events=(event,))
