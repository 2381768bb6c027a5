"""Rounds of a worker: what they do, that one part's fault keeps no other from being done, and how a worker ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet import ApprovalState, Principal
from placet.adapters.clock import SystemClock
from placet.engine.announcing import AnnouncingReport
from placet.engine.faults import told_of_round
from placet.engine.reconciler import RecoveryReport
from placet.errors import StoreError, StoreUnavailable
from placet.model.effect import EffectState
from placet.model.notices import DeliveryState
from placet.worker import Round, Worker
from tests.engine.announcing import Post, a_destination, a_post
from tests.engine.conftest import APPROVER, OPERATOR, STRANGER, OpenWorld, Spy, World, acting, written

DAY = timedelta(days=1).total_seconds()


def worker(world: World) -> Worker:
    return Worker(world.gate, clock=world.clock, pause_seconds=10.0)


async def vague() -> None:
    raise RuntimeError


async def found(context: placet.ProbeContext) -> placet.Found:
    return placet.Found(result={"done": "yes"})


async def test_a_round_recovers_probes_and_expires(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy, approval="always"), acting(vague, probe=found), store=where)
    for principal in (OPERATOR, STRANGER):
        await world.submit("write", {"word": "x"}, principal=principal)
    world.clock.advance(DAY)
    await world.submit("write", {"word": "later"}, call_id="c2")
    await world.submit("act", call_id="c3")

    done = await worker(world).once()
    again = await worker(world).once()

    recovery = RecoveryReport(taken_over=0, committed=1, absent=0, still_unknown=0)
    assert done == Round(recovery=recovery, expired=2, purged=0)
    assert again.expired == 0
    assert [event["tenant"] for event in world.events("approval_expired")] == ["acme", "globex"]
    (pending,) = await world.gate.desk.pending(by=APPROVER)
    assert pending.arguments == {"word": "later", "count": 1} or pending.arguments["word"] == "later"
    assert spy.count == 0


async def test_a_round_forgets_what_the_settings_say_is_old(open_world: OpenWorld, spy: Spy, where: str) -> None:
    tool = written(spy)
    settings = placet.GateSettings(retention_seconds=30 * DAY)
    world = await open_world(tool, store=where, settings=settings)
    await world.submit(tool, {"word": "x"})
    assert (await worker(world).once()).purged == 0
    world.clock.advance(31 * DAY)

    assert (await worker(world).once()).purged == 2, "the operation and its run"
    assert (await world.effect()).is_purged


async def test_an_approval_expires_at_its_very_instant_and_not_before(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy, approval="always"), store=where)
    waiting = await world.submit("write", {"word": "x"})
    world.clock.advance(DAY - 0.000001)
    assert await world.gate.desk.expire_overdue() == 0
    world.clock.advance(0.000001)

    assert await world.gate.desk.expire_overdue() == 1

    assert isinstance(waiting, placet.AwaitingApproval)
    assert (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).state is ApprovalState.EXPIRED
    asked = await world.submit("write", {"word": "x"}, call_id="c2")
    assert isinstance(asked, placet.AwaitingApproval) and asked.approval_id != waiting.approval_id


async def test_altered_questions_are_left_alone_and_keep_no_other_from_expiring(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store = tmp_path / "placet.db"
    world = await open_world(written(spy, approval="always"), store=str(store))
    for n in range(5):
        await world.submit("write", {"word": str(n)}, call_id=f"c{n}")
        world.clock.advance(1)
    hand = apsw.Connection(str(store))
    hand.execute("UPDATE approvals SET question_mac = 'x' WHERE rowid < 5")
    hand.execute("UPDATE approvals SET question = 'no json' WHERE rowid = 1")
    hand.close()
    world.clock.advance(DAY)

    assert await world.gate.desk.expire_overdue(limit=1) == 1

    (expired,) = world.events("approval_expired")
    assert expired["call_id"] == "c4", "the only one that still is as it was asked"


async def test_a_fault_of_recovery_keeps_nothing_from_expiring(
    open_world: OpenWorld, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await open_world(written(spy, approval="always"))
    await world.submit("write", {"word": "x"})
    world.clock.advance(DAY)

    async def down(*args: Any, **more: Any) -> Any:
        raise StoreUnavailable()

    monkeypatch.setattr(world.gate.store, "stranded", down)
    with pytest.raises(StoreUnavailable):
        await worker(world).once()

    assert len(world.events("approval_expired")) == 1


async def test_a_worker_goes_on_after_faults_and_ends_after_its_round(
    open_world: OpenWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="placet.worker")
    world = await open_world()
    ending, rounds = asyncio.Event(), 0

    async def stranded(*, limit: int) -> tuple[()]:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise OverflowError("secret")
        if rounds == 3:
            ending.set()
        return ()

    monkeypatch.setattr(world.gate.store, "stranded", stranded)
    async with asyncio.timeout(60):
        await worker(world).run(ending)

    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "placet.worker"]
    assert told == [("WARNING", "round failed"), ("INFO", "round done"), ("DEBUG", "round done")]
    assert "secret" not in caplog.text
    assert not hasattr(caplog.records[0], "hint"), "of what is not the store's there is no word"


class OfSomebodyElse(StoreError):
    """A class of their own; its texts may say anything."""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (StoreUnavailable("secret", hint="Look at the server."), ("store_unavailable", "Look at the server.")),
        (OfSomebodyElse("secret", code="secret", hint="secret"), (None, None)),
    ],
)
def test_of_a_stores_fault_a_round_tells_the_code_and_the_next_step(fault, said) -> None:
    told = told_of_round(fault)

    assert (told.get("code"), told.get("hint")) == said
    assert "secret" not in str(told)


async def test_a_worker_that_is_told_while_it_pauses_ends_at_once(open_world: OpenWorld) -> None:
    world = await open_world()
    ending = asyncio.Event()

    class Standing:
        def now(self) -> Any:
            return world.clock.now()

        def monotonic(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            ending.set()
            await asyncio.Event().wait()

    async with asyncio.timeout(60):
        await Worker(world.gate, clock=Standing(), pause_seconds=10.0).run(ending)


async def test_two_workers_at_once_look_at_each_row_once(open_world: OpenWorld, where: str) -> None:
    looks: list[str] = []
    both = asyncio.Barrier(2)

    async def counted(context: placet.ProbeContext) -> placet.CannotTell:
        looks.append(context.operation_key)
        await asyncio.sleep(0)
        return placet.CannotTell()

    tool = acting(vague, probe=counted)
    world = await open_world(tool, store=where)
    for n in range(6):
        await world.submit("act", call_id=f"c{n}")

    async def round_of_one() -> Round:
        await both.wait()
        return await worker(world).once()

    done = await asyncio.gather(round_of_one(), round_of_one())

    assert len(looks) == len(set(looks)) == 6
    assert sum(each.recovery.still_unknown for each in done) == 6


async def test_a_look_that_was_never_ended_is_due_again(open_world: OpenWorld, where: str) -> None:
    """The worker that had begun it is gone."""
    world = await open_world(acting(vague, probe=found), store=where)
    await world.submit("act")
    (effect,) = await world.gate.store.due_for_probe(limit=9)
    assert await world.gate.store.begin_probe(effect, seconds=40.0)
    assert (await worker(world).once()).recovery.committed == 0
    world.clock.advance(40)

    assert (await worker(world).once()).recovery.committed == 1


# ---------------------------------------------------------------- the queue for people

PAULA = Principal.person("paula", tenant="acme", scopes=("effects.reconcile",))


async def blind(context: placet.ProbeContext) -> placet.CannotTell:
    return placet.CannotTell()


async def test_the_queue_says_why_each_waits_longest_first(open_world: OpenWorld, where: str) -> None:
    settings = placet.GateSettings(grace_seconds=0.05, max_probes=2, pause_seconds=5.0)
    bound = placet.Remote(arrival_bound_seconds=7.0)
    tools = [
        acting(vague, name="lone", timeout_seconds=3.0),
        acting(vague, name="seen", timeout_seconds=3.0, probe=blind, remote=bound),
    ]
    world = await open_world(*tools, store=where, settings=settings)
    await world.submit("seen", call_id="a")
    world.clock.advance(1)
    await world.submit("lone", call_id="b")

    first = await world.gate.reconciler.waiting(by=PAULA)
    await world.gate.reconciler.recover()
    second = await world.gate.reconciler.waiting(by=PAULA)
    world.clock.advance(3600)
    await world.gate.reconciler.recover()
    third = await world.gate.reconciler.waiting(by=PAULA)

    assert [(w.effect.tool, w.reason.value, w.age_seconds) for w in first] == [
        ("seen", "not_probed", 1.0),
        ("lone", "no_probe", 0.0),
    ]
    assert [w.reason.value for w in second] == ["cannot_tell", "no_probe"]
    assert [w.reason.value for w in third] == ["gave_up", "no_probe"]
    seen, lone = first
    assert (seen.absence.value, lone.absence.value) == ("too_early", "too_early")
    assert seen.absent_after == seen.effect.send_by + timedelta(seconds=12)
    assert lone.absent_after == lone.effect.send_by + timedelta(seconds=5)
    assert (seen.may_act_twice, lone.may_act_twice) == (False, True)
    assert (seen.why_not_committed, seen.why_not_absent) == (None, "too_early_for_absent")
    assert [w.absence.value for w in third] == ["believable", "believable"]
    assert [(w.next_probe_at is None) for w in (*second, *third)] == [False, True, True, True]
    assert {w.why_not_absent for w in third} == {None}


async def test_the_queue_says_who_may_not_settle_it(open_world: OpenWorld) -> None:
    world = await open_world(acting(vague))
    requester = Principal.person("olaf", tenant="acme", roles=("operator",), scopes=("ops.write", "effects.reconcile"))
    await world.submit("act", principal=requester)
    world.clock.advance(3600)

    (own,) = await world.gate.reconciler.waiting(by=requester)
    (other,) = await world.gate.reconciler.waiting(by=PAULA)
    reader = Principal.person("rita", tenant="acme", scopes=("effects.read",))
    (read,) = await world.gate.reconciler.waiting(by=reader)
    agent = Principal.agent("bot", tenant="acme", scopes=("effects.read", "effects.reconcile"))
    (machine,) = await world.gate.reconciler.waiting(by=agent)
    stranger = Principal.person("s", tenant="globex", scopes=("effects.reconcile",))

    assert (own.requested_by, own.why_not_committed, own.why_not_absent) == (("olaf",), None, "own_request")
    assert (other.why_not_committed, other.why_not_absent) == (None, None)
    assert (read.why_not_committed, machine.why_not_absent) == ("scope_missing", "not_a_person")
    assert await world.gate.reconciler.waiting(by=stranger) == ()


async def test_what_the_queue_says_is_what_settling_answers(open_world: OpenWorld) -> None:
    world = await open_world(acting(vague, isolation="async"))
    await world.submit("act")
    (waiting,) = await world.gate.reconciler.waiting(by=PAULA)
    assert waiting.absent_after is not None

    with pytest.raises(placet.PlacetError) as caught:
        await world.gate.reconciler.settle_by_person(
            waiting.effect.operation_key, "absent", by=PAULA, looked_at=world.clock.now(), reason="seen"
        )
    assert caught.value.code == waiting.why_not_absent
    world.clock.advance((waiting.absent_after - world.clock.now()).total_seconds())
    (at_the_instant,) = await world.gate.reconciler.waiting(by=PAULA)
    assert at_the_instant.why_not_absent == "too_early_for_absent"
    world.clock.advance(0.000001)
    (later,) = await world.gate.reconciler.waiting(by=PAULA)
    assert later.why_not_absent is None
    settled = await world.gate.reconciler.settle_by_person(
        waiting.effect.operation_key, "absent", by=PAULA, looked_at=world.clock.now(), reason="seen"
    )
    assert settled.state is EffectState.RECONCILED_ABSENT


async def test_every_broken_row_is_found_however_old(open_world: OpenWorld, tmp_path: Path) -> None:
    store = tmp_path / "placet.db"
    world = await open_world(acting(vague), store=str(store))
    for n in range(6):
        await world.submit("act", call_id=f"c{n}")
        world.clock.advance(1)
    hand = apsw.Connection(str(store))
    hand.execute("DROP TRIGGER effects_move_legally")
    hand.execute("PRAGMA ignore_check_constraints = 1")
    hand.execute("UPDATE effects SET state = 'done' WHERE rowid = 1")
    hand.execute("UPDATE effects SET lease_until = 9223372036854775807 WHERE rowid = 3")
    hand.close()

    rows = await world.gate.reconciler.broken_effects(by=PAULA)
    newest = await world.gate.reconciler.broken_among(by=PAULA, limit=1)
    one = await world.gate.reconciler.broken_effects(by=PAULA, limit=1)
    stranger = Principal.person("s", tenant="globex", scopes=("effects.reconcile",))

    assert len({row.operation_key for row in rows}) == 2
    assert newest == () and one == rows[:1], "the newest one is sound"
    assert await world.gate.reconciler.broken_effects(by=stranger) == ()


async def test_a_round_announces_what_it_did_and_a_fault_of_it_keeps_nothing_else_from_being_done(
    open_world: OpenWorld, spy: Spy, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await open_world(written(spy, approval="always"), store=where)
    post = Post(world)
    working = Worker(world.gate, clock=world.clock, pause_seconds=10.0, announcer=post.announcer)
    assert (await working.once()).announcing == AnnouncingReport()
    await world.submit("write", {"word": "x"})
    world.clock.advance(DAY)

    done = await working.once()

    assert (done.expired, done.announcing) == (1, AnnouncingReport(found=2, delivered=2))
    assert post.inbox.kinds == ["approval.asked", "approval.expired"], "what the round itself did is told in it"

    async def down(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable

    await world.submit("write", {"word": "y"}, call_id="c2")
    world.clock.advance(DAY)
    monkeypatch.setattr(world.gate.store, "known_destinations", down)
    with pytest.raises(StoreUnavailable):
        await working.once()
    assert len(world.events("approval_expired")) == 2


async def test_a_message_that_hangs_holds_up_no_round_of_recovery(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy, approval="always"), store=where)
    begun, ending = asyncio.Event(), asyncio.Event()

    class Hanging:
        async def send(self, notice: Any) -> Any:
            begun.set()
            await asyncio.get_running_loop().create_future()

    post = await a_post(world, inbox=Hanging())  # type: ignore[arg-type]
    await world.submit("write", {"word": "x"})
    working = Worker(world.gate, clock=SystemClock(), pause_seconds=0.01, announcer=post.announcer)
    running = asyncio.ensure_future(working.run(ending))
    async with asyncio.timeout(30):
        await begun.wait()
        world.clock.advance(DAY)
        while not world.events("approval_expired"):
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (waits,) = await world.gate.store.deliveries(destination=None, states=(DeliveryState.PENDING,), limit=9)
    assert waits.attempts == 1, "whoever comes after its lease sends it"


async def test_a_destination_that_hangs_holds_up_no_other(open_world: OpenWorld, spy: Spy, where: str) -> None:
    """Round after round the other hears of what is new, while the first answer of the one is still waited for."""
    world = await open_world(written(spy, approval="always"), store=where)
    hangs, ending = asyncio.Event(), asyncio.Event()

    class Hanging:
        async def send(self, notice: Any) -> Any:
            hangs.set()
            await asyncio.get_running_loop().create_future()

    post = await a_post(world, a_destination("slow"), a_destination("quick"), inbox=Hanging())  # type: ignore[arg-type]
    quick = post.inboxes["quick"]
    post.meter.heard.clear()
    working = Worker(world.gate, clock=SystemClock(), pause_seconds=0.01, announcer=post.announcer)
    running = asyncio.ensure_future(working.run(ending))
    async with asyncio.timeout(30):
        for count in (1, 2, 3):
            await world.submit("write", {"word": str(count)}, call_id=f"c{count}")
            while len(quick.notices) < count:
                await asyncio.sleep(0.01)
            await hangs.wait()
        while not any(name == "announcements_waiting" for name, _ in post.meter.heard):
            await asyncio.sleep(0.01)  # what waits is counted all the while
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    waits = await world.gate.store.deliveries(destination="slow", states=(DeliveryState.PENDING,), limit=9)
    assert max(each.attempts for each in waits) == 1
