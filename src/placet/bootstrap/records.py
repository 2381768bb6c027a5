"""Keys and audit of a store: loaded, rotated, verified, exported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from heapq import nlargest
from pathlib import Path

from placet.adapters.clock import SystemClock
from placet.adapters.keys import KeyFile, KeyRing, load_key_file
from placet.adapters.stores.chain import ChainLinker
from placet.bootstrap.stores import key_path, open_existing_store
from placet.engine import auditor
from placet.engine.auditing import verify_store
from placet.engine.chronicle import Chronicle
from placet.engine.custody import Custody
from placet.model.audit import ChainedEvent
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.rules.audit import operation_of, place_in_time
from placet.rules.chain_check import ChainReport
from placet.rules.chains import Linker
from placet.rules.export_check import ExportReport, verify_export


def store_keys(key: Path) -> KeyRing:
    """The keys in a file.

    Raises:
        KeyMaterialError: the key file is absent, exposed or unreadable.
    """
    return load_key_file(key)


def chain_linker(keys: Keys) -> Linker:
    """What checks the links of an audit under these keys."""
    return ChainLinker(keys)


async def verify_audit(
    store: Store, keys: KeyRing, *, anchors: dict[str, tuple[int, str]] | None = None
) -> ChainReport:
    """Hold the whole audit of a store against its chains, heads and, if given, anchors kept outside."""
    return await verify_store(store, ChainLinker(keys), anchors=anchors)


async def events_of_operation(
    store: Store, keys: Keys, *, tenant: str, operation_key: str, newest: int
) -> tuple[ChainedEvent, ...]:
    """The newest events about one operation, oldest first, under whichever key they were written."""
    prints = Chronicle(keys=keys, clock=SystemClock()).fingerprints(tenant, operation_key)
    newest_events: list[ChainedEvent] = []
    async for event in store.chained(tenant=tenant):
        if operation_of(event) in prints:
            newest_events.append(event)
            if len(newest_events) > 2 * newest:  # a bounded heap in batches: most are not kept
                newest_events = nlargest(newest, newest_events, key=place_in_time)
    return tuple(sorted(nlargest(newest, newest_events, key=place_in_time), key=place_in_time))


@asynccontextmanager
async def audit_export(store: Store, keys: Keys, *, tenant: str | None) -> AsyncIterator[AsyncIterator[bytes]]:
    """The lines of an export of the whole audit, or of one tenant's part; see `rules.exports`."""
    async with auditor.audit_export(store, keys, ChainLinker(keys), tenant=tenant) as lines:
        yield lines


def check_export(
    lines: Iterable[bytes], key: Path, *, anchors: dict[str, tuple[int, str]] | None = None
) -> ExportReport:
    """Check an export by itself: of its store only the key file is needed.

    Raises:
        KeyMaterialError: the key file is absent, exposed or unreadable.
    """
    return verify_export(lines, ChainLinker(load_key_file(key)), anchors=anchors)


def open_custody(where: str | Path, *, key: Path | None = None) -> tuple[Custody, Store]:
    """The keys of an existing store, to be looked at and changed, and the store to be closed afterwards.

    Raises:
        StoreMissing, StoreError, KeyMaterialError: it is not there, or cannot be opened.
    """
    keys, store = open_existing_store(where, key=key)
    shelf = KeyFile(key or key_path(Path(where)))
    return Custody(shelf=shelf, keys=keys, store=store, chronicle=Chronicle(keys=keys, clock=SystemClock())), store
