"""A store that is closed while its audit is read: the reader hears that it is, and hangs never."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.postgres import bell
from placet.adapters.stores.postgres.connection import Address, connect
from placet.bootstrap.records import audit_export
from placet.errors import StoreUnavailable
from placet.model.waking import approvals_topic
from placet.testing.conformance import an_event
from tests.adapters.postgres.conftest import OpenStore
from tests.postgres.fixtures import Database

EVENTS = 1_200


@pytest.fixture
async def filled(open_store: OpenStore) -> None:
    store = open_store()
    for _ in range(EVENTS // 100):
        await store.record(tuple(an_event(call_id=f"call-{number}") for number in range(100)))
    await store.close()


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("filled")
async def test_an_export_that_its_store_leaves_ends_with_a_fault_and_without_its_last_line(
    open_store: OpenStore, ring: KeyRing
) -> None:
    store, lines = open_store(), list[bytes]()

    async with audit_export(store, ring, tenant=None) as export:
        with pytest.raises(StoreUnavailable, match="closed"):
            async for line in export:
                lines.append(line)
                if len(lines) == 50:
                    await store.close()

    assert 50 <= len(lines) < EVENTS
    assert not any(b'"record":"end"' in line for line in lines)


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("filled")
async def test_rows_that_are_on_their_way_when_the_store_closes_are_waited_for_by_nobody(
    database: Database, open_store: OpenStore
) -> None:
    """The server is made to keep the next rows to itself for longer than anybody would wait."""
    store = open_store()
    async with store.snapshot() as audit:
        read = [await anext(audit.events) for _ in range(500)]
        ((backend,),) = database.fetch(
            "SELECT pid FROM pg_stat_activity WHERE query LIKE '%FROM audit_events%' AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend' AND state = 'idle in transaction'"
        )
        os.kill(int(str(backend)), signal.SIGSTOP)
        try:
            waiting = asyncio.ensure_future(anext(audit.events))
            await asyncio.sleep(0)
            await store.close()
            with pytest.raises(StoreUnavailable):
                await waiting
        finally:
            os.kill(int(str(backend)), signal.SIGCONT)

    assert len(read) == 500


@pytest.mark.timeout(60)
async def test_closing_leaves_the_callers_loop_to_others_and_lets_no_stream_begin(open_store: OpenStore) -> None:
    """What is still carried in the store's thread ends only after something has run in the caller's loop."""
    store = open_store()
    ends = asyncio.Event()
    carried = asyncio.ensure_future(store._thread.carry(_wait(ends)))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(store.close())
    async with asyncio.timeout(30):
        while not store._thread._is_over:
            await asyncio.sleep(0.01)

    with pytest.raises(StoreUnavailable, match="closed"):
        await anext(store.chained())
    assert not closing.done()
    store._thread.loop.call_soon_threadsafe(ends.set)
    await asyncio.gather(closing, carried)


async def _wait(event: asyncio.Event) -> Any:
    await event.wait()


@pytest.mark.timeout(60)
async def test_a_cancellation_that_is_lost_on_the_way_keeps_no_store_open(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one is in a library that takes an answer and a cancellation at the same moment."""
    store, begun = open_store(), threading.Event()

    async def deaf(address: Address) -> asyncpg.Connection:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return await connect(address)

    monkeypatch.setattr(bell, "connect", deaf)
    with store.waiting_for(approvals_topic("acme")):
        await asyncio.to_thread(begun.wait)
        await store.close()

    assert store._ringing.cancelled()
