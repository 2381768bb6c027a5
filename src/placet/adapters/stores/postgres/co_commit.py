"""Settling an effect in the transaction that its handler has open, on an asyncpg connection of its own.

One statement, one round trip. It locks the row until the transaction ends, compares, and writes; the comparisons are
in the database, as the handler's role need not see the ledger.

A refusal is an error of the statement, after which PostgreSQL commits nothing of the transaction, whatever the handler
does; except that a savepoint would take the error back with what was written since, and the rest could commit. So the
handler's own connection is closed, which ends all of its transaction, wherever a savepoint may be around: after a
refusal for that reason, and after faults of which it cannot be told.
"""

from __future__ import annotations

from typing import Final

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.postgres.connection import FAULTS, Address
from placet.errors import StoreUnavailable
from placet.model.ledger import CoCommitAnswer, CoCommitted, NotCovered, NotSettled, Settlement

NOT_SETTLED: Final = "PL423"
IN_A_SAVEPOINT: Final = "PL424"
_REASONS: Final = ("taken_over", "already_settled", "other_attempt")
_IN_A_SAVEPOINT: Final = NotSettled(reason="in_a_savepoint")
_NO_SUCH_STORE: Final = frozenset({"3F000", "42883", "42P01"})
_NO_RIGHT: Final = "42501"
_SERIALIZATION: Final = "40001"
"""Comes of a row that was waited for, outside of savepoints therefore, or dooms the transaction by itself."""


async def co_commit(
    connection: object, settlement: Settlement, *, address: Address, chain: ChainWriter
) -> CoCommitAnswer:
    """Settle inside the open transaction of a connection to the database of the store.

    The connection is closed where the answer is `NotSettled` for a savepoint; its owner has to open another.

    Raises:
        StoreUnavailable: the database did not take it; nothing of the transaction can commit any more. Unless that was
            for the isolation of the transaction, the connection is closed.
    """
    if not isinstance(connection, asyncpg.Connection | PoolConnectionProxy):
        return NotCovered(reason="not_an_asyncpg_connection")
    waiting = [chain.unchained(event) for event in settlement.events]
    fault: BaseException
    try:
        if not connection.is_in_transaction():
            return NotCovered(reason="no_transaction")
        await connection.execute(
            f'SELECT "{address.schema}".co_commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)',
            settlement.tenant,
            settlement.operation_key,
            settlement.fence,
            settlement.token,
            settlement.attempt,
            settlement.reason,
            settlement.attempt_has_ended,
            settlement.sealed_result,
            settlement.result_digest,
            settlement.external_reference,
            [body.decode() for body, _ in waiting],
            [mac.key_id for _, mac in waiting],
            [mac.value for _, mac in waiting],
        )
        return CoCommitted()
    except FAULTS as raised:
        fault = raised
    answer = _refusal(fault)
    if answer == _IN_A_SAVEPOINT or (answer is None and getattr(fault, "sqlstate", None) != _SERIALIZATION):
        connection.terminate()
    if answer is None:
        raise StoreUnavailable("The transaction could not settle its effect.")
    return answer


def _refusal(fault: BaseException) -> NotSettled | NotCovered | None:
    """What the database's error says of it; None if only that nothing of the transaction can commit."""
    code = getattr(fault, "sqlstate", None)
    if code == NOT_SETTLED:
        said = str(getattr(fault, "message", ""))
        return NotSettled(reason=said if said in _REASONS else "taken_over")
    if code == IN_A_SAVEPOINT:
        return _IN_A_SAVEPOINT
    if code in _NO_SUCH_STORE:
        return NotCovered(reason="another_database")
    if code == _NO_RIGHT:
        return NotCovered(reason="no_right_to_co_commit")
    return NotCovered(reason="no_connection") if isinstance(fault, asyncpg.InterfaceError) else None
