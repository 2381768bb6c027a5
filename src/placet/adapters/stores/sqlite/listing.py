"""Lists of effects in which a row that somebody changed by hand stands as broken, and hides no other."""

from __future__ import annotations

from typing import Any

import apsw

from placet.adapters.stores import rows
from placet.model.effect import BrokenEffect, Effect
from placet.model.identifiers import OperationKey


def effects(
    connection: apsw.Connection, statement: str, bindings: tuple[Any, ...]
) -> tuple[Effect | BrokenEffect, ...]:
    """What the statement selects from `effects`, in its order, as of one moment."""
    connection.execute("BEGIN")
    try:
        return in_transaction(connection, statement, bindings)
    finally:
        connection.execute("ROLLBACK")


def in_transaction(
    connection: apsw.Connection, statement: str, bindings: tuple[Any, ...]
) -> tuple[Effect | BrokenEffect, ...]:
    """The same, as of the moment of a transaction that is open already."""
    found = _readable(connection.execute(statement, bindings))
    if None not in found:
        return tuple(effect for effect in found if effect is not None)
    named = _names(connection, statement, bindings)
    return tuple(effect or broken for effect, broken in zip(found, named, strict=True))


def _readable(cursor: apsw.Cursor) -> list[Effect | BrokenEffect | None]:
    """The rows in order; None for one whose text is no text, which cannot even be fetched."""
    found: list[Effect | BrokenEffect | None] = []
    while True:
        try:
            found.append(rows.effect_or_broken(next(cursor)))
        except StopIteration:
            return found
        except UnicodeDecodeError:
            found.append(None)


def _names(connection: apsw.Connection, statement: str, bindings: tuple[Any, ...]) -> list[BrokenEffect]:
    inner = statement.rstrip("; \n")
    query = f"SELECT CAST(tenant AS BLOB), CAST(operation_key AS BLOB) FROM ({inner})"  # noqa: S608  our own statement
    return [
        BrokenEffect(
            tenant=tenant.decode("utf-8", "replace"), operation_key=OperationKey(key.decode("utf-8", "replace"))
        )
        for tenant, key in connection.execute(query, bindings)
    ]
