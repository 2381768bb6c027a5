"""Stores that break their word, so that the table can be seen to tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from placet.model.ledger import Claim, ClaimAnswer, MoveAnswer, Settlement
from placet.ports.store import Store
from placet.proof.chaos.plan import Sabotage
from placet.rules.transitions import apply_claim


class ForgetfulStore:
    """Acknowledges every claim and writes none; in all else the store it wraps."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, claim: Claim) -> ClaimAnswer:
        return apply_claim(None, claim, now=await self._store.now())


class SilentStore:
    """Settles, and writes another event in the place of the completed one; in all else the store it wraps."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def settle(self, settlement: Settlement) -> MoveAnswer:
        return await self._store.settle(replace(settlement, events=settlement.late_events))


def sabotaged(store: Store, sabotage: Sabotage | None) -> Store:
    broken: Any = store
    match sabotage:
        case Sabotage.FORGETFUL_STORE:
            broken = ForgetfulStore(store)
        case Sabotage.SILENT_STORE:
            broken = SilentStore(store)
        case Sabotage.LATE_REMOTE | Sabotage.NO_GUARD | None:
            pass
    kept: Store = broken
    return kept
