"""Several processes on one database: whoever is faster wins once, limits hold, and nobody is told what is not so."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.engine.auditing import verify_store
from placet.model.approval import ApprovalState
from placet.model.effect import EffectState
from placet.model.identifiers import CallId, OperationKey, OwnerId, RunId, Token
from placet.model.ledger import (
    Claimed,
    Held,
    Moved,
    NotUsable,
    NotYourRun,
    OverBudget,
    Recorded,
    Stopped,
    ToolClosed,
    Voided,
)
from placet.ports.store import Store
from placet.testing.conformance import (
    a_claim,
    a_question,
    a_settlement,
    a_spend,
    a_step,
    an_event,
    claimed,
    decided,
    fault_of,
    pending,
    the_same_ask,
)
from placet.testing.conformance.samples import A_MAC, Subject
from placet.testing.fakes import FakeClock
from tests.adapters.postgres.conftest import OpenStore
from tests.postgres.fixtures import Database

pytestmark = [pytest.mark.case("H05")]


async def subject(store: Store, ring: KeyRing) -> Subject:
    """For the samples: their instants are near the database's."""
    return Subject(store=store, clock=FakeClock(await store.now()), linker=ChainLinker(ring))


async def all_of(*work: Any) -> list[Any]:
    return list(await asyncio.gather(*work))


async def test_one_of_many_hosts_gets_an_operation(open_store: OpenStore, ring: KeyRing) -> None:
    stores = [open_store() for _ in range(4)]

    for number in range(12):
        key = f"key-{number}"
        claims = [
            store.claim(a_claim(key, token=f"t-{number}-{place}", step=a_step(f"call-{number}-{place}")))
            for place, store in enumerate(stores)
        ]
        kinds = Counter(type(answer) for answer in await all_of(*claims))
        assert kinds == {Claimed: 1, Held: 3}

    report = await verify_store(stores[0], ChainLinker(ring))
    assert (report.breaks, report.events) == ((), 12)


async def test_an_approval_is_spent_by_one_of_many_hosts(open_store: OpenStore, ring: KeyRing) -> None:
    stores = [open_store() for _ in range(4)]
    here = await subject(stores[0], ring)
    approval = await decided(here, await pending(here))
    for store in stores:  # each host remembers it as it was before anybody spent it
        assert await store.same_ask(the_same_ask(approval.question)) == (approval,)

    answers = await all_of(
        *(
            store.claim(a_claim(f"key-{place}", token=f"t-{place}", spend=a_spend(approval)))
            for place, store in enumerate(stores)
        )
    )

    assert Counter(map(type, answers)) == {Claimed: 1, NotUsable: 3}
    spent = await stores[1].approval("acme", approval.question.approval_id)
    assert spent is not None and spent.state is ApprovalState.SPENT
    assert (await here.told()).count("approval_spent") == 1


async def test_a_runs_steps_are_counted_over_all_hosts_and_never_beyond_their_limit(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(3)]

    answers = await all_of(
        *(
            store.record((an_event(),), step=a_step(f"call-{place}-{number}", max_steps=20))
            for number in range(12)
            for place, store in enumerate(stores)
        )
    )

    assert Counter(map(type, answers)) == {Recorded: 20, OverBudget: 16}


async def test_a_run_belongs_to_whoever_opened_it_on_any_host(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(2)]
    for number in range(8):
        steps = [a_step(f"call-{place}", run_id=RunId(f"run-{number}"), subject=f"agent-{place}") for place in range(2)]
        answers = await all_of(
            *(store.record((an_event(),), step=step) for store, step in zip(stores, steps, strict=True))
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["NotYourRun", "Recorded"]


async def test_refusals_of_a_tool_are_counted_over_all_hosts(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(3)]

    answers = await all_of(
        *(
            store.record((an_event(),), step=a_step(f"call-{place}-{number}", max_denials=5), denies_tool="pay")
            for number in range(4)
            for place, store in enumerate(stores)
        )
    )

    assert Counter(map(type, answers)) == {Recorded: 5, ToolClosed: 7}


async def test_a_question_asked_by_many_hosts_at_once_is_one(open_store: OpenStore) -> None:
    """Also where the operation's own names differ, as those of calls do."""
    stores = [open_store() for _ in range(4)]
    now = await stores[0].now()
    questions = [
        a_question(
            f"apr-{place}", asked_at=now, call_id=CallId(f"call-{place}"), operation_key=OperationKey(f"op-{place}")
        )
        for place in range(4)
    ]
    asks = [replace(the_same_ask(each), operation_key=None) for each in questions]

    answers = await all_of(
        *(
            store.ask(question, A_MAC, same, step=a_step(f"call-{place}"), events=(an_event(),))
            for place, (store, question, same) in enumerate(zip(stores, questions, asks, strict=True))
        )
    )

    assert len({answer.question.approval_id for answer in answers}) == 1
    assert await stores[0].pending_count() == 1


@pytest.mark.req("B112")
async def test_nothing_of_a_stopped_scope_is_claimed_once_stop_has_returned(open_store: OpenStore) -> None:
    busy, stopping = open_store(), open_store()
    returned = asyncio.Event()
    claimed_after: list[str] = []

    async def claim(number: int) -> None:
        is_after = returned.is_set()
        answer = await busy.claim(
            a_claim(f"key-{number}", token=f"t-{number}", step=a_step(f"call-{number}", max_steps=10_000))
        )
        assert isinstance(answer, (Claimed, Stopped))
        if is_after and isinstance(answer, Claimed):
            claimed_after.append(f"key-{number}")

    async def keep_claiming() -> int:
        number = 0
        while number < 400 and not (returned.is_set() and number % 40 == 0):
            await all_of(*(claim(each) for each in range(number, number + 20)))
            number += 20
        return number

    claiming = asyncio.ensure_future(keep_claiming())
    while not await stopping.effects(tenant="acme", states=(EffectState.DISPATCHED,), limit=1):
        await asyncio.sleep(0)
    running = await stopping.stop("tenant:acme", (an_event(),))
    returned.set()
    dispatched = await stopping.effects(tenant="acme", states=(EffectState.DISPATCHED,), limit=1_000)
    await claiming

    assert (claimed_after, running) == ([], len(dispatched)), (
        "what was claimed before is counted, and nothing came after"
    )
    later = await busy.effects(tenant="acme", states=(EffectState.DISPATCHED,), limit=1_000)
    assert len(later) == running
    assert isinstance(await busy.claim(a_claim("late", token="t-late")), Stopped)
    assert await stopping.resume("tenant:acme", (an_event(),))
    assert isinstance(await busy.claim(a_claim("late", token="t-later")), Claimed)


async def test_a_voided_token_never_lands_and_a_landed_one_is_not_voided(open_store: OpenStore) -> None:
    claiming, voiding = open_store(), open_store()
    for number in range(20):
        key, token = OperationKey(f"key-{number}"), Token(f"t-{number}")
        claim = a_claim(key, token=token, step=a_step(f"call-{number}"))
        answer, is_void = await all_of(claiming.claim(claim), voiding.void("acme", key, token))
        assert (type(answer), is_void) in ((Claimed, False), (Voided, True))
        assert isinstance(await claiming.claim(claim), Voided if is_void else Claimed)


async def test_a_settle_and_a_take_over_at_once_leave_one_completed_event(open_store: OpenStore, ring: KeyRing) -> None:
    owner, recovery = open_store(), open_store()
    for number in range(10):
        here = await subject(owner, ring)
        effect = await claimed(
            here, f"key-{number}", token=f"t-{number}", lease_seconds=0.0, step=a_step(f"c-{number}")
        )
        settled, taken = await all_of(owner.settle(a_settlement(effect)), recovery.take_over(effect, (an_event(),)))
        assert isinstance(settled, Moved), "its own word counts before, or late"
        row = await owner.effect("acme", effect.operation_key)
        assert row is not None and row.state.is_committed
        assert (row.state is EffectState.RECONCILED_COMMITTED) == isinstance(taken, Moved)


async def test_rows_that_another_host_changed_are_decided_again_and_not_presumed(open_store: OpenStore) -> None:
    """Each host remembers rows that the other has changed since."""
    first, second = open_store(), open_store()
    claim = a_claim("key-1")
    answer = await first.claim(claim)
    assert isinstance(answer, Claimed)
    await second.effect("acme", OperationKey("key-1"))
    await first.heartbeat(OwnerId(claim.owner), lease_seconds=90.0)
    settled = await second.settle(a_settlement(answer.effect, EffectState.FAILED))
    assert isinstance(settled, Moved) and second.counts["locked"] == 1

    again = await first.claim(a_claim("key-1", token="t-2", fence=1, step=a_step("call-2")))
    assert isinstance(again, Claimed) and (again.effect.fence, again.effect.attempts) == (2, 2)
    stale = await second.settle(a_settlement(answer.effect))
    assert not isinstance(stale, Moved)


async def test_hosts_that_write_rows_of_each_other_in_any_order_never_fail(open_store: OpenStore) -> None:
    """Batches of many rows in many orders: what would be a deadlock is decided again."""
    stores = [open_store() for _ in range(3)]
    keys = [f"key-{number}" for number in range(8)]
    for round_ in range(6):
        work = [
            store.claim(
                a_claim(key, token=f"t-{round_}-{place}-{key}", fence=round_, step=a_step(f"c-{round_}-{place}-{key}"))
            )
            for place, store in enumerate(stores)
            for key in (keys if place % 2 else keys[::-1])
        ]
        answers = await all_of(*work)
        winners = [answer.effect for answer in answers if isinstance(answer, Claimed)]
        assert len(winners) == len(keys)
        await all_of(
            *(
                stores[number % 3].settle(a_settlement(effect, EffectState.FAILED))
                for number, effect in enumerate(winners)
            )
        )


async def test_one_callers_values_that_no_database_takes_are_nobody_elses_fault(
    open_store: OpenStore, ring: KeyRing
) -> None:
    store = open_store()
    good = [store.record((an_event(),), step=a_step(f"call-{number}")) for number in range(20)]
    bad = [
        fault_of(store.claim(a_claim("a\0b", token="t-nul"))),
        fault_of(store.claim(a_claim("a\ud800b", token="t-surrogate"))),
    ]

    answers = await all_of(*good[:10], *bad, *good[10:])

    faults = answers[10:12]
    assert [type(answer) for answer in answers[:10] + answers[12:]] == [Recorded] * 20
    assert all(fault is not None and fault.code == "store_unavailable" for fault in faults)
    report = await verify_store(store, ChainLinker(ring))
    assert (report.breaks, report.events) == ((), 20)


async def test_a_run_that_somebody_else_is_opening_right_now_is_theirs(
    database: Database, open_store: OpenStore
) -> None:
    """Nothing of it can be read yet when the batch compares; the statement that counts the step waits, and sees."""
    store = open_store()
    hog = await asyncpg.connect(database.url)
    await hog.execute("BEGIN")
    await hog.execute(
        "INSERT INTO placet.runs (tenant, run_id, subject, policy_version, max_steps, steps, opened_at) "
        "VALUES ('acme', 'run-9', 'somebody', 'p', 9, 1, 1)"
    )
    recording = asyncio.ensure_future(store.record((an_event(),), step=a_step("call-1", run_id=RunId("run-9"))))
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while not await hog.fetchval(waits):
        await asyncio.sleep(0.005)
    await hog.execute("COMMIT")
    await hog.close()

    assert isinstance(await recording, NotYourRun)


async def test_what_is_refused_rests_on_rows_as_they_are_and_not_as_they_are_remembered(open_store: OpenStore) -> None:
    """The second host remembers an operation on its way; meanwhile the first says that it failed."""
    first, second = open_store(), open_store()
    answer = await first.claim(a_claim("key-1"))
    assert isinstance(answer, Claimed)
    assert await second.effect("acme", OperationKey("key-1")) == answer.effect
    await first.settle(a_settlement(answer.effect, EffectState.FAILED))

    again = await second.claim(a_claim("key-1", token="t-2", fence=1, step=a_step("call-2")))

    assert isinstance(again, Claimed) and again.effect.fence == 2


async def test_a_tool_that_another_host_saw_refused_too_often_is_closed_here(open_store: OpenStore) -> None:
    """The second host remembers that nothing was refused."""
    first, second = open_store(), open_store()
    assert isinstance(await second.claim(a_claim("key-0", token="t-0", step=a_step("call-0"))), Claimed)
    for number in range(3):
        await first.record((an_event(),), step=a_step(f"no-{number}", max_denials=3), denies_tool="pay")

    refused = await second.claim(a_claim("key-1", step=a_step("call-1", max_denials=3)))

    assert isinstance(refused, ToolClosed)


async def test_a_question_that_another_host_answered_is_answered_with_its_answer(
    open_store: OpenStore, ring: KeyRing
) -> None:
    """The second host remembers it as pending."""
    first, second = open_store(), open_store()
    here = await subject(first, ring)
    asked = await pending(here)
    assert await second.same_ask(the_same_ask(asked.question)) == (asked,)
    approved = await decided(here, asked)

    late = await decided(await subject(second, ring), asked)

    assert late == approved
    assert (await here.told()).count("approval_approved") == 1


async def test_a_void_waits_for_a_claim_that_has_looked_and_not_written_yet(
    database: Database, open_store: OpenStore
) -> None:
    claiming, voiding = open_store(), open_store()
    database.execute(
        "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NEW; END'",
        "CREATE TRIGGER slow BEFORE INSERT ON placet.effects FOR EACH ROW EXECUTE FUNCTION slowly()",
    )
    claim = asyncio.ensure_future(claiming.claim(a_claim("key-1", token="t-1")))
    sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    while database.fetch(sleeps) == [(0,)]:
        await asyncio.sleep(0.005)

    assert await voiding.void("acme", OperationKey("key-1"), Token("t-1")) is False
    assert isinstance(await claim, Claimed)
