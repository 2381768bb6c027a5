"""What is shown at the door."""

from __future__ import annotations

from datetime import datetime, timedelta

from placet.adapters.stores.verbs.tables import Tables
from placet.model.approval import Mac
from placet.model.audit import AuditEvent
from placet.model.credentials import CredentialChange, CredentialKind, StoredCredential


def put_credentials(tables: Tables, change: CredentialChange, events: tuple[AuditEvent, ...]) -> bool:
    """All of it, or nothing if any of it is not as it was seen."""
    seen = (*((row, was) for row, was in change.changed), *((row, row.mac) for row in change.dropped))
    if any(tables.credential(row.kind, row.name) is not None for row in change.added):
        return False
    if any(_mac_of(tables.credential(row.kind, row.name)) != was for row, was in seen):
        return False
    for row in change.added:
        tables.add_credential(row)
    for row, _ in change.changed:
        tables.change_credential(row)
    for row in change.dropped:
        tables.drop_credential(row.kind, row.name)
    tables.append(events)
    return True


def credential_used(tables: Tables, kind: CredentialKind, name: str, every_seconds: float, now: datetime) -> None:
    row = tables.credential(kind, name)
    if row is not None and (row.used_at is None or row.used_at <= now - timedelta(seconds=every_seconds)):
        tables.touch_credential(row, now)


def _mac_of(row: StoredCredential | None) -> Mac | None:
    return None if row is None else row.mac
