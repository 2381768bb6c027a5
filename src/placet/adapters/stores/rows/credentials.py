"""What is shown at the door, as rows."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

from placet.adapters.stores.rows.instants import EPOCH, instant, microseconds
from placet.model.approval import Mac
from placet.model.credentials import CredentialKind, StoredCredential


def credential_row(row: StoredCredential) -> tuple[Any, ...]:
    """All columns of `credentials`, in order."""
    return (
        row.kind.value,
        row.name,
        row.tenant,
        row.subject,
        row.body.decode(),
        row.mac.key_id,
        row.mac.value,
        microseconds(row.made_at),
        microseconds(row.ends_at),
        microseconds(row.used_at),
    )


def credential_from(row: tuple[Any, ...]) -> StoredCredential:
    """Whatever a row says; one that was altered by hand, or moved, has a MAC that does not hold."""
    return StoredCredential(
        kind=CredentialKind(row[0]),
        name=row[1],
        tenant=row[2],
        subject=row[3],
        body=row[4].encode(),
        mac=Mac(key_id=row[5], value=row[6]),
        made_at=_told_at(row[7]) or EPOCH,
        ends_at=_told_at(row[8]) or EPOCH,
        used_at=_told_at(row[9]),
    )


def _told_at(value: int | None) -> datetime | None:
    """None also for one beyond what any clock says."""
    with suppress(OverflowError):
        return instant(value)
    return None
