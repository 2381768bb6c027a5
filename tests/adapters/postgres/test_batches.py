"""One round trip and one commit for whatever waits, also where Python has to presume what it did not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from placet.model.effect import EffectState
from placet.model.identifiers import OperationKey, OwnerId, RunId
from placet.model.ledger import Claimed, Moved, OpenRead, Recorded
from placet.model.run import RunChange, RunLimits, RunNote, RunStatus
from placet.testing.conformance import (
    LEASE_SECONDS,
    a_claim,
    a_settlement,
    a_spend,
    a_step,
    a_turn,
    an_event,
    decided,
    pending,
)
from placet.testing.conformance.run_samples import a_run
from placet.testing.conformance.samples import Subject
from placet.testing.fakes import FakeClock
from tests.adapters.postgres.conftest import OpenStore
from tests.postgres.fixtures import Database, DatabaseClock


@pytest.fixture
def database(databases: Callable[..., Database]) -> Database:
    """Its time stands still: no batch is decided again because a busy machine took a quarter of a second to send it."""
    return databases(own_clock=True)


@pytest.fixture
def clock(database: Database) -> DatabaseClock:
    return DatabaseClock(database)


async def test_a_write_costs_two_commits_and_two_round_trips(open_store: OpenStore) -> None:
    store = open_store()
    await store.record((an_event(),))  # the first batch asks for the clock
    before, commits = store.counts.copy(), store.commits
    for number in range(20):
        step = a_step(f"call-{number}", max_steps=1_000)
        answer = await store.claim(a_claim(f"key-{number}", token=f"t-{number}", step=step))
        assert isinstance(answer, Claimed)
        assert isinstance(await store.settle(a_settlement(answer.effect)), Moved)

    assert store.commits - commits == 40
    assert store.counts - before == {"fast": 40, "round_trips": 40}


async def test_what_many_callers_wait_for_is_one_commit(open_store: OpenStore) -> None:
    store = open_store()
    await store.record((an_event(),))
    before, commits = store.counts.copy(), store.commits
    claims = [
        store.claim(a_claim(f"key-{n}", token=f"t-{n}", step=a_step(f"call-{n}", max_steps=1_000))) for n in range(64)
    ]
    answers = await asyncio.gather(*claims)
    effects = [answer.effect for answer in answers if isinstance(answer, Claimed)]
    assert len(effects) == 64
    await asyncio.gather(*(store.settle(a_settlement(effect)) for effect in effects))

    assert store.commits - commits <= 6, "two batches, and at most what came before the thread was awake"
    assert set(store.counts - before) == {"fast", "round_trips"}


async def test_every_kind_of_order_finds_its_rows_remembered(open_store: OpenStore) -> None:
    """Nothing is read for a batch, and nothing is decided twice."""
    store = open_store()
    here = Subject(store=store, clock=FakeClock(await store.now()), linker=None)  # type: ignore[arg-type]
    approval = await decided(here, await pending(here))
    same = await store.approval("acme", approval.question.approval_id)
    assert same == approval
    before = store.counts.copy()
    claimed = await store.claim(a_claim("key-1", spend=a_spend(approval)))
    assert isinstance(claimed, Claimed)
    turned = await store.turn(a_turn(claimed.effect))
    assert isinstance(turned, Moved)
    await store.settle(a_settlement(turned.effect))
    opens = OpenRead(owner=OwnerId("o-1"), lease_seconds=LEASE_SECONDS)
    started = await store.record((an_event(),), step=a_step("call-2"), starts_tool="look", opens=opens)
    assert isinstance(started, Recorded)
    await store.record((an_event(),), closes=started.place)

    assert store.counts - before == {"fast": 5, "round_trips": 5}


async def test_an_operation_that_was_looked_up_is_dispatched_again_without_reading(open_store: OpenStore) -> None:
    first, second = open_store(), open_store()
    claimed = await first.claim(a_claim("key-1"))
    assert isinstance(claimed, Claimed)
    await first.settle(a_settlement(claimed.effect, EffectState.FAILED))
    await second.record((an_event(),))
    before = second.counts.copy()
    row = await second.effect("acme", OperationKey("key-1"))
    assert row is not None
    again = await second.claim(a_claim("key-1", token="t-2", fence=row.fence, step=a_step("call-2")))

    assert isinstance(again, Claimed)
    assert second.counts - before == {"fast": 1, "round_trips": 1}


async def test_what_is_not_known_is_read_once_for_the_whole_batch(open_store: OpenStore) -> None:
    first, second = open_store(), open_store()
    claims = [
        first.claim(a_claim(f"key-{n}", token=f"t-{n}", step=a_step(f"call-{n}", max_steps=99))) for n in range(16)
    ]
    effects = [answer.effect for answer in await asyncio.gather(*claims) if isinstance(answer, Claimed)]
    await second.record((an_event(),))
    before = second.counts.copy()
    settled = await asyncio.gather(*(second.settle(a_settlement(effect)) for effect in effects))

    assert all(isinstance(answer, Moved) for answer in settled)
    grown = second.counts - before
    assert grown["locked"] == 0 and 1 <= grown["reads"] <= grown["fast"] <= 3


@pytest.mark.parametrize("is_presumed", [True, False])
async def test_a_look_up_costs_no_transaction_of_the_writer(
    database: Database, open_store: OpenStore, is_presumed: bool
) -> None:
    store = open_store()
    if is_presumed:
        await store.claim(a_claim("key-1"))
    before = store.counts.copy(), store.commits
    rows = await asyncio.gather(*(store.effect("acme", OperationKey("key-1")) for _ in range(32)))

    assert [row is not None for row in rows] == [is_presumed] * 32
    assert (store.counts, store.commits) == before


@pytest.mark.req("H054")
@pytest.mark.parametrize("changed", ["tally", "terms"])
async def test_what_orders_were_let_in_on_is_compared_though_another_of_their_batch_had_it_read_anew(
    open_store: OpenStore, changed: str
) -> None:
    """One order of the batch is refused on what is presumed, so the rows are read; the others were let in before."""
    mine, other = open_store(), open_store()
    for number in range(4):
        run_id = f"run-{number}"
        step = partial(a_step, run_id=run_id)
        limits = RunLimits(per_tool={"pay": 3})
        await mine.begin_run(a_run(run_id, limits=limits), None, events=(an_event(),))
        for name in ("a", "b"):  # this process remembers: open, 2 of 3 taken
            claim = a_claim(f"{run_id}-{name}", token=f"{run_id}-{name}", step=step(name))
            assert isinstance(await mine.claim(claim), Claimed)
        match changed:
            case "tally":
                claim = a_claim(f"{run_id}-c", token=f"{run_id}-c", step=step("c"))
                assert isinstance(await other.claim(claim), Claimed)
            case _:
                for status, follows in ((RunStatus.PAUSED, RunStatus.OPEN), (RunStatus.OPEN, RunStatus.PAUSED)):
                    change = RunChange(
                        tenant="acme",
                        run_id=RunId(run_id),
                        status=status,
                        follows=frozenset({follows}),
                        note=RunNote(changed_by=None, sealed_reason=None),
                        limits=replace(limits, allowed_tools=frozenset({"look"})),
                    )
                    await other.change_run(change, events=(an_event(),))
        claims = [
            a_claim(f"{run_id}-{name}", token=f"{run_id}-{name}", step=step(name)) for name in ("d", "e", "f", "g")
        ]
        answers = await asyncio.gather(*map(mine.claim, claims))

        assert not any(isinstance(answer, Claimed) for answer in answers)
        assert await mine.run_tallies("acme", RunId(run_id)) == {"tool:pay": 3 if changed == "tally" else 2}


@pytest.mark.req("H054")
async def test_what_is_presumed_to_be_nothing_is_compared_though_nothing_would_be_left_of_it(
    open_store: OpenStore,
) -> None:
    mine, other = open_store(), open_store()
    await other.begin_run(a_run(limits=RunLimits(per_tool={"pay": 3})), None, events=(an_event(),))
    claims = [a_claim(f"key-{name}", token=f"t-{name}", step=a_step(name)) for name in ("a", "b", "c")]
    claimed = [await other.claim(claim) for claim in claims]
    assert isinstance(claimed[0], Claimed)

    # this process knows of no tally; what it gives back of none is none
    unsent = a_settlement(claimed[0].effect, EffectState.FAILED, reason="not_sent")
    assert isinstance(await mine.settle(unsent), Moved)

    assert await mine.run_tallies("acme", RunId("run-1")) == {"tool:pay": 2}
