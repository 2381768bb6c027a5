"""Two verbs in two transactions: a handler's own, which settles its effect, and a writer's, which chains what it said.

    the handler's    lock the row ── rule ── row and event, unchained ── commit or rollback, by the handler
    any writer's     event ── made by us, and not in the audit yet? ── chained, or an alarm

The handler's transaction cannot put its event into a chain: the chain's end is its writer's, in whatever process that
is. So the event waits in the database with a MAC of its own. Between the two commits the row tells the truth already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Protocol

from placet.adapters.stores.chain import ChainWriter
from placet.model.approval import Mac
from placet.model.audit import AuditEvent, EventKind, UnchainedEvent
from placet.model.effect import Effect
from placet.model.identifiers import OperationKey
from placet.model.ledger import CoCommitted, Moved, NotMoved, NotSettled, Place, Settlement
from placet.rules import transitions

MOST_AT_ONCE = 256
NOT_OURS = "unchained_event_altered"
REPEATED = "unchained_event_repeated"
_NOBODY = "unknown"


class SettlingTables(Protocol):
    """Rows, read and written inside the handler's transaction."""

    def lock_effect(self, tenant: str, operation_key: OperationKey) -> Effect | None:
        """The row as it is once nobody else can change it before this transaction ends."""
        ...

    def change_effect(self, effect: Effect, *, was: Effect) -> None: ...
    def add_waiting(self, body: bytes, mac: Mac) -> None: ...


class WaitingTables(Protocol):
    """Rows, read and written inside a writer's transaction."""

    def waiting(self, limit: int) -> Sequence[UnchainedEvent]:
        """Events that wait to be chained, the oldest first."""
        ...

    def is_chained(self, body: bytes) -> bool: ...
    def append_waiting(self, waiting: UnchainedEvent) -> None: ...
    def drop_waiting(self, waiting: UnchainedEvent) -> None: ...
    def refuse_waiting(self, waiting: UnchainedEvent) -> None:
        """Keep it as evidence, and do not look at it again."""
        ...

    def append(self, events: Iterable[AuditEvent]) -> Place: ...


def co_commit(
    tables: SettlingTables, chain: ChainWriter, settlement: Settlement, now: datetime
) -> CoCommitted | NotSettled:
    """Settle inside the handler's transaction; unless it is settled, nothing was written."""
    effect = tables.lock_effect(settlement.tenant, settlement.operation_key)
    if effect is None:
        return NotSettled(reason="taken_over")
    match transitions.apply_co_commit(effect, settlement, now=now):
        case NotMoved(reason=reason):
            return NotSettled(reason=reason)
        case Moved(effect=settled):
            waiting = [chain.unchained(event) for event in settlement.events]
            tables.change_effect(settled, was=effect)
            for body, mac in waiting:
                tables.add_waiting(body, mac)
            return CoCommitted()


def chain_waiting(tables: WaitingTables, chain: ChainWriter, now: Callable[[], datetime]) -> int:
    """Chain what waits. The time is asked for only where there is an alarm to be told."""
    found = tables.waiting(MOST_AT_ONCE)
    for waiting in found:
        fault = _fault_of(waiting, tables, chain)
        if fault is None:
            tables.append_waiting(waiting)
            tables.drop_waiting(waiting)
        else:
            tables.append((_alarm(fault, chain.key_id, now()),))
            tables.refuse_waiting(waiting)
    return len(found)


def _fault_of(waiting: UnchainedEvent, tables: WaitingTables, chain: ChainWriter) -> str | None:
    if not chain.is_ours(waiting):
        return NOT_OURS
    return REPEATED if tables.is_chained(waiting.body) else None


def _alarm(fault: str, key_id: str, at: datetime) -> AuditEvent:
    """Of what the row says nothing is repeated, nor whose it says that it is."""
    return AuditEvent(
        kind=EventKind.RECORD_ALTERED,
        at=at,
        tenant=_NOBODY,
        subject=_NOBODY,
        key_id=key_id,
        detail=fault,
        model_suggested=False,
    )
