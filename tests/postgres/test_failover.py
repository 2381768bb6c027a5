"""The primary dies or falls silent and its standby is promoted: callers learn the truth, or that nobody knows it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import orjson
import pytest

import placet
from placet.adapters.clock import SystemClock
from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.stores.postgres import PostgresStore, address_of, connection
from placet.adapters.telemetry.quiet import QuietMeter
from placet.engine.auditing import verify_store
from placet.errors import StoreInDoubt, StoreUnavailable, StoreWentBack
from placet.model.effect import EffectState
from placet.model.identifiers import OperationKey, WriterId
from placet.model.ledger import Claimed, Moved, Recorded
from placet.ports.store import nobody
from placet.testing.conformance import a_claim, a_settlement, a_step, an_event, fault_of
from tests.postgres.fixtures import Cluster, Database, folder_of
from tests.postgres.server import Server
from tests.postgres.standby import Standby, both, followed, frozen

pytestmark = pytest.mark.slow
KEYS = KeyRing({"k-1": b"1" * 32}, current="k-1")
EVERY = tuple(EffectState)


@dataclass
class Pair:
    """A primary with a store in it, and its standby."""

    primary: Server
    standby: Standby
    database: Database

    @property
    def url(self) -> str:
        return both(self.primary, self.standby, self.database.name)

    def standby_has_all(self) -> None:
        """Wait until nothing is on its way to it."""
        behind = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"
        until = time.monotonic() + 30
        while not self.database.fetch(behind):
            assert time.monotonic() < until
            time.sleep(0.02)


@pytest.fixture
def pair(cluster: Cluster) -> Iterator[Callable[..., Pair]]:
    if cluster.server is None:
        pytest.fail("a server that a test may stop is one of its own")
    made: list[Server | Cluster] = []

    def make(*, is_synchronous: bool) -> Pair:
        primary = Server(folder_of(cluster.version), fsync=True)
        mine = Cluster(cluster.version, primary.url(), primary)
        made.append(mine)
        database = mine.database()
        standby = Standby(folder_of(cluster.version), primary)
        made.append(standby)
        followed(primary, is_synchronous=is_synchronous)
        return Pair(primary, standby, database)

    yield make
    for each in made[::-1]:
        each.remove() if isinstance(each, Server) else each.close()


@pytest.fixture
async def open_at() -> AsyncIterator[Callable[..., PostgresStore]]:
    opened: list[PostgresStore] = []
    writers = count(1)

    def open_it(url: str, *, patience_seconds: float = 30.0) -> PostgresStore:
        opened.append(
            PostgresStore(
                address_of(url, patience_seconds=patience_seconds),
                keys=KEYS, clock=SystemClock(), writer=WriterId(f"w-{next(writers)}"), meter=QuietMeter(), heard=nobody,
            )
        )  # fmt: skip
        return opened[-1]

    yield open_it
    for store in opened:
        await store.close()


async def test_a_primary_that_dies_under_load_with_a_synchronous_standby_loses_and_repeats_nothing(
    pair: Callable[..., Pair], open_at: Callable[..., PostgresStore]
) -> None:
    here = await asyncio.to_thread(pair, is_synchronous=True)
    store = await asyncio.to_thread(open_at, here.url)
    confirmed: list[str] = []

    async def write(number: int) -> None:
        key = f"key-{number}"
        claim = a_claim(key, token=f"t-{number}", step=a_step(f"call-{number}", max_steps=100_000))
        answer = await persisted(lambda: store.claim(claim))
        assert isinstance(answer, Claimed), answer
        settlement = a_settlement(answer.effect)
        assert isinstance(await persisted(lambda: store.settle(settlement)), Moved)
        confirmed.append(key)

    async def load() -> None:
        for start in range(0, 240, 16):
            await asyncio.gather(*(write(number) for number in range(start, start + 16)))

    loading = asyncio.ensure_future(load())
    while len(confirmed) < 60 and not loading.done():
        await asyncio.sleep(0.001)
    await asyncio.to_thread(here.primary.kill)
    await asyncio.to_thread(here.standby.promote)
    await loading

    rows = await store.effects(tenant="acme", states=EVERY, limit=1_000)
    assert (len(confirmed), len(rows)) == (240, 240)
    assert {(row.state, row.fence, row.attempts) for row in rows} == {(EffectState.COMMITTED, 1, 1)}  # type: ignore[union-attr]
    report = await verify_store(store, ChainLinker(KEYS))
    kinds = Counter([orjson.loads(event.body)["kind"] async for event in store.chained()])
    assert (report.breaks, kinds) == ((), {"started": 240, "completed": 240})


async def persisted(ask: Callable[[], object]) -> object:
    """As the engine does: the same again, with the same token."""
    while True:
        with suppress(StoreInDoubt, StoreUnavailable):
            return await ask()  # type: ignore[misc]


async def test_every_effect_of_gates_whose_primary_dies_happens_once(pair: Callable[..., Pair], tmp_path: Path) -> None:
    """The whole way: what was done is counted where it is done."""
    here = await asyncio.to_thread(pair, is_synchronous=True)
    done: Counter[str] = Counter()

    @placet.tool(effect="write", risk="low", permission="ops.write", operation_key="pay:{order}")
    async def pay(order: str) -> str:
        done[order] += 1
        await asyncio.sleep(0)
        return f"paid {order}"

    who = placet.Principal.agent("agent-1", tenant="acme", roles=("operator",), scopes=("ops.write",))
    told: Counter[str] = Counter()
    async with placet.open(tools=[pay], store=here.url, key=tmp_path / "key") as gate:

        async def ask(number: int) -> None:
            proposal = {"call_id": f"c-{number}", "tool": "pay", "arguments": {"order": f"o-{number}"}}
            while True:
                outcome = await gate.submit(proposal, principal=who, run=f"r-{number}")
                told[outcome.code] += 1
                if outcome.code != "boundary_unavailable":
                    assert outcome.is_success or outcome.may_have_acted, outcome
                    return

        asking = [asyncio.ensure_future(ask(number)) for number in range(64)]
        while len(done) < 8:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(here.primary.kill)
        await asyncio.to_thread(here.standby.promote)
        await asyncio.gather(*asking)

        rows = await gate.store.effects(tenant="acme", states=EVERY, limit=1_000)
    assert len(rows) == 64 and set(done.values()) == {1} and len(done) == 64, told


async def test_a_primary_that_falls_silent_is_not_waited_for_where_another_takes_changes(
    pair: Callable[..., Pair], open_at: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_COMMAND_SECONDS", 1.0)
    here = await asyncio.to_thread(pair, is_synchronous=False)
    store = await asyncio.to_thread(open_at, here.url, patience_seconds=20.0)
    assert isinstance(await store.claim(a_claim("key-1")), Claimed)
    await asyncio.to_thread(here.standby_has_all)
    frozen(here.primary)
    await asyncio.to_thread(here.standby.promote)

    claimed = await persisted(lambda: store.claim(a_claim("key-2", token="t-2", step=a_step("c-2"))))

    assert isinstance(claimed, Claimed)
    assert await store.effect("acme", OperationKey("key-1")) is not None
    await asyncio.to_thread(here.primary.kill)


async def test_while_there_is_no_primary_a_store_waits_for_one_and_says_so(
    pair: Callable[..., Pair], open_at: Callable[..., PostgresStore]
) -> None:
    here = await asyncio.to_thread(pair, is_synchronous=True)
    store = await asyncio.to_thread(open_at, here.url, patience_seconds=2.0)
    await asyncio.to_thread(here.primary.kill)

    with pytest.raises(StoreUnavailable) as refused:
        await asyncio.to_thread(open_at, here.url, patience_seconds=2.0)
    assert "standby" in str(refused.value) and "primary" in (refused.value.hint or "")
    fault = await fault_of(store.record((an_event(),)))
    assert type(fault) is StoreUnavailable
    again = asyncio.ensure_future(persisted(lambda: store.record((an_event(),))))
    await asyncio.to_thread(here.standby.promote)

    assert isinstance(await again, Recorded)


async def test_an_asynchronous_standby_without_acknowledged_commits_is_found_out_and_not_written_to(
    pair: Callable[..., Pair], open_at: Callable[..., PostgresStore]
) -> None:
    """What was lost cannot be known from here; that something was can, and is told until people have looked."""
    here = await asyncio.to_thread(pair, is_synchronous=False)
    store = await asyncio.to_thread(open_at, here.url)
    assert isinstance(await store.claim(a_claim("key-1")), Claimed)
    await asyncio.to_thread(here.standby_has_all)
    await asyncio.to_thread(here.standby.terminate)
    lost = await store.claim(a_claim("key-2", token="t-2", step=a_step("c-2")))
    assert isinstance(lost, Claimed), "acknowledged, and on one disk only"
    await asyncio.to_thread(here.primary.kill)
    await asyncio.to_thread(here.standby.start)
    await asyncio.to_thread(here.standby.promote)

    faults = [await fault_of(store.settle(a_settlement(lost.effect))) for _ in range(2)]

    assert [type(fault) for fault in faults] == [StoreWentBack] * 2
    looks = (store.effect("acme", OperationKey("key-2")), store.pending_count(), anext(store.chained()))
    assert [type(await fault_of(look)) for look in looks] == [StoreWentBack] * 3, "nor is the shorter ledger shown"
    new = await asyncio.to_thread(open_at, here.url)
    rows = await new.effects(tenant="acme", states=EVERY, limit=9)
    assert [row.operation_key for row in rows] == ["key-1"]
    assert isinstance(await new.record((an_event(),)), Recorded), "a gate that is opened anew begins where the store is"


@pytest.mark.parametrize("first", ["a write", "a look", "a list", "an export"])
async def test_a_gate_of_whose_opening_the_promoted_standby_knows_nothing_is_told_of_the_loss(
    pair: Callable[..., Pair], open_at: Callable[..., PostgresStore], first: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its writer has no row there at all: all that it did is lost. Whatever it does first finds that out."""
    here = await asyncio.to_thread(pair, is_synchronous=False)
    await asyncio.to_thread(here.standby_has_all)
    await asyncio.to_thread(here.standby.terminate)
    store = await asyncio.to_thread(open_at, here.url)
    lost = await store.claim(a_claim("key-1"))
    assert isinstance(lost, Claimed)
    await asyncio.to_thread(here.primary.kill)
    await asyncio.to_thread(here.standby.start)
    await asyncio.to_thread(here.standby.promote)
    asks: dict[str, Callable[[], object]] = {
        "a write": lambda: store.settle(a_settlement(lost.effect)),
        "a look": lambda: store.effect("acme", OperationKey("key-1")),
        "a list": store.pending_count,
        "an export": lambda: anext(store.chained()),
    }

    faults = [await fault_of(ask()) for ask in (asks[first], *asks.values())]  # type: ignore[arg-type]

    assert [type(fault) for fault in faults] == [StoreWentBack] * 5
    assert all(fault and fault.may_have_acted and not fault.retryable and "remote" in fault.hint for fault in faults)
    assert [getattr(record, "code", "") for record in caplog.records if record.levelname == "ERROR"] == [
        "store_went_back"
    ]
