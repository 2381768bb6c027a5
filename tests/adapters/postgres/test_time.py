"""One clock for all hosts, the database's: whatever a host's own clock says, and however long it slept."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.adapters.clock import SystemClock
from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import OperationKey
from placet.model.ledger import Claimed, Moved, NotMoved, NotUsable
from placet.testing.conformance import (
    LEASE_SECONDS,
    a_claim,
    a_reconciliation,
    a_settlement,
    a_spend,
    an_event,
    decided,
    pending,
)
from placet.testing.conformance.samples import Subject
from placet.testing.fakes import FakeClock
from tests.adapters.postgres.conftest import OpenStore
from tests.postgres.fixtures import Database, DatabaseClock


class WrongClock(SystemClock):
    """A host whose calendar is wrong; its seconds are as long as everybody's."""

    def __init__(self, minutes: float) -> None:
        super().__init__()
        self._wrong_by = timedelta(minutes=minutes)

    def now(self) -> datetime:
        return super().now() + self._wrong_by


@pytest.mark.req("B113")
@pytest.mark.parametrize("minutes", [-47.0, 47.0])
async def test_a_host_whose_clock_is_wrong_takes_nothing_early_and_holds_nothing_long(
    database: Database, open_store: OpenStore, minutes: float
) -> None:
    right, wrong = open_store(), open_store(clock=WrongClock(minutes))

    answer = await wrong.claim(a_claim("key-1", lease_seconds=LEASE_SECONDS))
    assert isinstance(answer, Claimed)
    ((at,),) = database.fetch("SELECT placet.clock_now()")
    until = answer.effect.lease_until - timedelta(seconds=LEASE_SECONDS)
    assert abs(until - datetime(1970, 1, 1, tzinfo=UTC) - timedelta(microseconds=int(str(at)))) < timedelta(seconds=20)
    assert await wrong.stranded(limit=9) == () == await right.stranded(limit=9)
    assert isinstance(await wrong.take_over(answer.effect, (an_event(),)), NotMoved)
    assert abs(await wrong.now() - await right.now()) < timedelta(seconds=20)


@pytest.fixture
def own_clock(databases: Callable[..., Database]) -> tuple[Database, DatabaseClock]:
    database = databases(own_clock=True)
    return database, DatabaseClock(database)


async def subject(store: Any, ring: KeyRing, clock: FakeClock) -> Subject:
    return Subject(store=store, clock=clock, linker=ChainLinker(ring))


@pytest.mark.parametrize("seconds", [-3_600.0, -1.0, 1.0, 3_600.0])
async def test_a_database_whose_clock_was_set_is_believed_at_once(
    own_clock: tuple[Database, DatabaseClock], open_store: OpenStore, seconds: float
) -> None:
    """The host's own seconds did not jump: what it makes of them is compared, and decided again."""
    database, clock = own_clock
    still = FakeClock()
    store = open_store(database.address(), clock=still)
    before = await store.claim(a_claim("key-1"))
    clock.advance(seconds)

    after = await store.claim(a_claim("key-2", token="t-2"))

    assert isinstance(before, Claimed) and isinstance(after, Claimed)
    assert (after.effect.created_at - before.effect.created_at).total_seconds() == seconds
    assert store.counts["locked"] == 1
    settled = await store.settle(a_settlement(after.effect))
    assert settled.effect.updated_at == after.effect.created_at
    assert store.counts["locked"] == 1, "what was decided again is remembered"


async def test_an_approval_is_not_spent_in_the_instant_of_its_expiry_however_slow_the_hosts_clock(
    own_clock: tuple[Database, DatabaseClock], open_store: OpenStore, ring: KeyRing
) -> None:
    """A quarter of a second is within what two clocks may differ; an expiry is compared by the database itself."""
    database, clock = own_clock
    still = FakeClock()
    store = open_store(database.address(), clock=still)
    here = await subject(store, ring, clock)
    approval = await decided(here, await pending(here))
    assert approval.answer is not None
    lifetime = (approval.answer.expires_at - clock.now()).total_seconds()
    clock.advance(lifetime - 0.1)
    await store.record((an_event(),))
    clock.advance(0.1)

    answer = await store.claim(a_claim("key-1", spend=a_spend(approval)))

    assert isinstance(answer, NotUsable)


async def test_a_lease_that_is_over_for_the_host_and_not_for_the_database_is_not_over(
    own_clock: tuple[Database, DatabaseClock], open_store: OpenStore, ring: KeyRing
) -> None:
    database, clock = own_clock
    fast = FakeClock()
    store = open_store(database.address(), clock=fast)
    answer = await store.claim(a_claim("key-1"))
    assert isinstance(answer, Claimed)
    clock.advance(LEASE_SECONDS - 0.05)
    fast.advance(LEASE_SECONDS + 0.05)  # within what a batch may be off: it is not decided in one

    assert isinstance(await store.take_over(answer.effect, (an_event(),)), NotMoved)
    clock.advance(0.05)
    assert isinstance(await store.take_over(answer.effect, (an_event(),)), Moved)


# ---------------------------------------------------------------- a process that is suspended

_HOST = """
import asyncio, sys
from pathlib import Path
from placet.adapters.keys import load_key_file
from placet.adapters.clock import SystemClock
from placet.adapters.stores.postgres import PostgresStore, address_of
from placet.adapters.telemetry.quiet import QuietMeter
from placet.model.identifiers import WriterId
from placet.ports.store import nobody
from placet.testing.conformance import a_claim, a_settlement, a_step

async def host(url, key):
    store = PostgresStore(address_of(url), keys=load_key_file(Path(key)), clock=SystemClock(),
                          writer=WriterId("w-host"), meter=QuietMeter(), heard=nobody)
    claimed = await store.claim(a_claim("key-1", lease_seconds=0.5))
    print("claimed", flush=True)
    sys.stdin.readline()
    settled = await store.settle(a_settlement(claimed.effect))
    again = await store.claim(a_claim("key-2", token="t-2", step=a_step("call-2")))
    print(type(settled).__name__, getattr(settled, "reason", settled.effect.state.value), flush=True)
    print(again.effect.created_at.timestamp(), flush=True)
    await store.close()

asyncio.run(host(*sys.argv[1:]))
"""


async def test_a_host_that_slept_beyond_its_lease_is_refused_by_its_fence_and_knows_the_time_again(
    database: Database, open_store: OpenStore, tmp_path: Path
) -> None:
    from placet.adapters.keys import create_key_file

    ring = create_key_file(tmp_path / "key", at=None)
    recovery = open_store(keys=ring)
    program = tmp_path / "host.py"
    program.write_text(_HOST, "utf-8")
    host = await asyncio.create_subprocess_exec(
        sys.executable, str(program), database.url, str(tmp_path / "key"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert host.stdin is not None and host.stdout is not None
        assert await host.stdout.readline() == b"claimed\n"
        os.kill(host.pid, signal.SIGSTOP)
        effect = await lost(recovery)
        assert isinstance(await recovery.take_over(effect, (an_event(),)), Moved)
        unknown = await recovery.effect("acme", OperationKey("key-1"))
        assert unknown is not None and unknown.state is EffectState.UNKNOWN
        truth = a_reconciliation(unknown, looked_at=await recovery.now())
        assert isinstance(await recovery.reconcile(truth), Moved)
        os.kill(host.pid, signal.SIGCONT)
        host.stdin.write(b"go on\n")
        await host.stdin.drain()
        word = (await host.stdout.readline()).split()
        created_at = float(await host.stdout.readline())
        assert await host.wait() == 0
    finally:
        if host.returncode is None:
            host.kill()
            await host.wait()

    assert word[0] in (b"Moved", b"NotMoved")
    row = await recovery.effect("acme", OperationKey("key-1"))
    assert row is not None and row.state is EffectState.RECONCILED_COMMITTED
    assert abs(created_at - (await recovery.now()).timestamp()) < 20


async def lost(store: Any) -> Effect:
    """The effect whose lease is over, once it is."""
    while not (found := await store.stranded(limit=1)):
        await asyncio.sleep(0.02)
    effect: Effect = found[0]
    return effect
