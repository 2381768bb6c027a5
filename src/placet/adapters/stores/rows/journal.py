"""Runs, stops, audit and keys as rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from placet.adapters.stores.rows.instants import instant, sure
from placet.errors import StoreCorrupt
from placet.model.approval import Mac
from placet.model.audit import ChainedEvent, ChainHead, UnchainedEvent
from placet.model.custody import KeyUse
from placet.model.retention import BrokenRun, OldRun
from placet.model.run import Run, RunStatus
from placet.model.stopping import StopLeave, StopNote, StopRecord
from placet.rules.runs import limits_of


def mac_text(mac: Mac) -> str:
    return json.dumps([mac.key_id, mac.value])


def mac_from(text: str) -> Mac:
    """A stored MAC; one that is authentic for nothing if the text is no MAC."""
    try:
        key_id, value = json.loads(text)
        if type(key_id) is str and type(value) is str:
            return Mac(key_id=key_id, value=value)
    except (ValueError, TypeError, RecursionError):
        pass
    return Mac(key_id="", value="")


def key_uses_from(found: Iterable[tuple[str, bytes | None, int]]) -> tuple[KeyUse, ...]:
    """Counts by key id, whatever the rows say instead of one."""
    counts: dict[str, dict[str, int]] = {}
    for kind, key_id, count in found:
        counts.setdefault((key_id or b"").decode("ascii", "replace"), {})[kind] = count
    return tuple(KeyUse(key_id=key_id, **numbers) for key_id, numbers in sorted(counts.items()))


def run_from(row: tuple[Any, ...]) -> Run:
    """A run.

    Raises:
        StoreCorrupt: it cannot be read; somebody changed it by hand.
    """
    with suppress(OverflowError, ValueError):
        return Run(
            tenant=row[0],
            run_id=row[1],
            subject=row[2],
            policy_version=row[3],
            max_steps=row[4],
            steps=row[5],
            opened_at=sure(row[6]),
            stepped_at=instant(row[7]),
            status=RunStatus(row[8]),
            limits=None if row[9] is None else limits_of(row[9]),
            terms=row[10],
        )
    raise StoreCorrupt("A run cannot be read; somebody changed it by hand.")


def old_run_or_broken(row: tuple[Any, ...]) -> OldRun | BrokenRun:
    """A run for a list, in which one that cannot be read must not hide the others."""
    try:
        run = run_from(row)
    except StoreCorrupt:
        return BrokenRun(tenant=row[0], run_id=row[1])
    return OldRun(tenant=run.tenant, run_id=run.run_id, steps=run.steps)


def stop_record_from(row: tuple[Any, ...]) -> StopRecord:
    """A stop, and who set it.

    Raises:
        StoreCorrupt: it cannot be read; somebody changed it by hand.
    """
    scope, stopped_at, subject, tenant, leave, sealed_reason = row
    with suppress(OverflowError, ValueError):
        note = None
        if subject is not None:
            note = StopNote(subject=subject, tenant=tenant, leave=StopLeave(leave), sealed_reason=sealed_reason)
        return StopRecord(scope=scope, stopped_at=sure(stopped_at), note=note)
    raise StoreCorrupt("A stop cannot be read; somebody changed it by hand. It stops what it did.")


def event_from(row: tuple[Any, ...]) -> ChainedEvent:
    return ChainedEvent(writer=row[0], sequence=row[1], body=row[2].encode(), link=row[3], key_id=row[4])


def unchained_from(row: tuple[Any, ...]) -> UnchainedEvent:
    """An event that waits, whatever somebody put there; what is no MAC is authentic for nothing."""
    number, body, key_id, value = row
    mac = Mac(key_id=key_id.decode("ascii", "replace"), value=value.decode("ascii", "replace"))
    return UnchainedEvent(number=number, body=body, mac=mac)


def head_from(row: tuple[Any, ...]) -> ChainHead:
    return ChainHead(
        writer=row[0], sequence=row[1], link=row[2], opened_after=row[3].encode(), key_id=row[4], mac=row[5]
    )
