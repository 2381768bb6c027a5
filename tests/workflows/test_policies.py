"""Several processes, several policies, one store: the newer policy decides, and nobody is asked in turns."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from placet import AwaitingApproval, Busy, Ended, InlineDriver, Matrix, Move, Next, StepContext, Wait, Waiting
from placet.engine import inline, precedence
from placet.model.identifiers import OwnerId, PolicyVersion, RunId
from placet.model.run import RunTake
from tests.workflows.conftest import OpenShop, Shop
from tests.workflows.order import ORDER, Order, with_step


class Newer(Matrix):
    @property
    def version(self) -> PolicyVersion:
        return PolicyVersion("newer")


async def two(open_shop: OpenShop, where: str) -> tuple[Shop, Shop]:
    older = await open_shop(store=where)
    newer = await open_shop(store=where, policy=Newer(), clock=older.world.clock, spies=older, seed=1)
    return older, newer


async def asked(shop: Shop) -> list[str]:
    """Under which policies people were asked, one after the other."""
    found = await shop.world.gate.store.approvals_of_run("acme", RunId("r1"), limit=99)
    return [each.question.policy_version for each in reversed(found)]


@pytest.mark.req("X002")
@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_two_processes_with_two_policies_do_not_have_a_person_asked_in_turns(
    open_shop: OpenShop, where: str
) -> None:
    older, newer = await two(open_shop, where)
    drivers = InlineDriver(older.workflows), InlineDriver(newer.workflows)
    await older.start()

    for _ in range(20):  # ten minutes
        for driver in drivers:
            await driver.catch_up()
        older.world.clock.advance(31)

    assert len(await asked(older)) == 2
    (open_one,) = await newer.world.gate.store.open_approvals_of_run("acme", RunId("r1"), limit=9)
    assert open_one.question.policy_version == "newer"

    waits = await newer.workflows.look("acme", "r1")
    await newer.approve(waits)
    left = await older.drive()
    assert isinstance(left, Busy)
    assert (left.retry_after_seconds, older.payments.count) == (60.0, 0)
    ended = await newer.drive()
    assert isinstance(ended, Ended)
    assert (ended.status, older.payments.count, len(await asked(older))) == ("done", 1, 2)


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_after_a_rollback_the_older_policy_takes_the_run_back_after_a_while(
    open_shop: OpenShop, where: str
) -> None:
    older, newer = await two(open_shop, where)
    await older.start()
    await older.drive()
    older.world.clock.advance(1)
    await newer.drive()  # and then it is rolled back
    restarted = await open_shop(store=where, clock=older.world.clock, spies=older, seed=2)
    driver = InlineDriver(restarted.workflows)

    assert await driver.catch_up() == 0
    assert len(await asked(older)) == 2
    older.world.clock.advance(59)
    await driver.catch_up()
    assert len(await asked(older)) == 2
    older.world.clock.advance(4)
    await driver.catch_up()

    assert [each == "newer" for each in await asked(older)] == [False, True, False]
    waits = await restarted.workflows.look("acme", "r1")
    assert isinstance(waits, Waiting)
    await restarted.approve(waits)
    assert isinstance(await restarted.drive(), Ended)
    assert older.payments.count == 1


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_each_time_a_run_changes_its_policy_the_other_one_waits_longer(open_shop: OpenShop, where: str) -> None:
    shops = await two(open_shop, where)
    await shops[0].start()
    await shops[0].drive()
    await shops[1].drive()
    waited = []
    for turn in range(6):
        shop, other = shops[turn % 2], shops[1 - turn % 2]
        await other.approve(await other.workflows.look("acme", "r1"))  # it is due, and those who have asked are away
        left = await shop.drive()
        assert isinstance(left, Busy)
        waited.append(left.retry_after_seconds)
        shop.world.clock.advance(left.retry_after_seconds)
        assert isinstance(await shop.drive(), Waiting)

    assert waited == [60.0 * 2**turn for turn in range(6)]
    assert shops[0].payments.count == 0


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_who_learned_that_another_policy_is_newer_leaves_it_what_is_begun_under_it(
    open_shop: OpenShop, where: str
) -> None:
    older, newer = await two(open_shop, where)
    await older.start()
    await older.drive()
    await newer.drive()
    assert isinstance(await older.workflows.advance("acme", "r1"), Busy)  # it learns so
    await newer.start("r2")
    waits = await newer.drive("r2")
    await newer.approve(waits)

    assert isinstance(await older.drive("r2"), Busy)
    assert isinstance(await newer.drive("r2"), Ended)
    assert older.payments.count == 1


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_what_a_process_of_the_newer_policy_left_when_it_died_is_not_taken_by_an_older_one_at_once(
    open_shop: OpenShop, where: str
) -> None:
    """It is started again, or there are others of its kind: whoever waits for them has the run after a minute."""
    older, newer = await two(open_shop, where)
    await older.start()
    await older.drive()
    await newer.drive()
    died = RunTake(tenant="acme", run_id=RunId("r1"), driver=OwnerId("dead"), lease_seconds=30.0)
    await newer.world.gate.store.take_run(died)
    held = await older.drive()
    assert isinstance(held, Busy)
    older.world.clock.advance(31)

    left = await older.drive()

    assert isinstance(left, Busy)
    assert (held.retry_after_seconds, left.retry_after_seconds, len(await asked(older))) == (30.0, 60.0, 2)
    waits = await newer.drive()
    assert isinstance(waits, Waiting)
    assert len(await asked(older)) == 2


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_forged_wake_ups_of_what_waits_do_not_make_an_older_policy_ask(open_shop: OpenShop, where: str) -> None:
    older, newer = await two(open_shop, where)
    await older.start()
    await older.drive()
    await newer.drive()

    for _ in range(9):
        assert isinstance(await older.workflows.advance("acme", "r1"), Busy)
        older.world.clock.advance(3_600)

    assert len(await asked(older)) == 2


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_after_a_rollback_every_run_is_taken_back_however_many_there_are(
    open_shop: OpenShop, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a process remembers, and none of them in the way of what else falls due."""
    monkeypatch.setattr(precedence, "_MOST_SEEN", 2)
    monkeypatch.setattr(inline, "_MOST_ASIDE", 2)
    older, newer = await two(open_shop, where)
    runs = [f"run-{number:02}" for number in range(6)]
    for run in runs:
        await older.start(run)
        await older.drive(run)
    older.world.clock.advance(1)
    for run in runs:
        await newer.drive(run)  # and then it is rolled back
    restarted = await open_shop(store=where, clock=older.world.clock, spies=older, seed=2)
    driver = InlineDriver(restarted.workflows)

    assert await driver.catch_up() == 0
    await restarted.start("another")
    assert await driver.catch_up() == 1
    for _ in range(12):  # six minutes
        older.world.clock.advance(31)
        await driver.catch_up()

    left = {run: (await restarted.world.gate.store.run_checkpoint("acme", RunId(run))) for run in runs}
    mine = restarted.world.gate.policy_version
    assert [run for run, row in left.items() if row is None or row.policy_version != mine] == []


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_what_an_older_policy_asks_late_in_a_roll_out_is_asked_anew(open_shop: OpenShop, where: str) -> None:
    older, newer = await two(open_shop, where)
    driver = InlineDriver(newer.workflows)
    for _ in range(20):  # ten minutes side by side
        await driver.catch_up()
        older.world.clock.advance(30)
    await older.start()
    await older.drive()  # and then it is replaced

    for _ in range(3):
        older.world.clock.advance(31)
        await driver.catch_up()

    assert [each == "newer" for each in await asked(older)] == [False, True]


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
@pytest.mark.parametrize("change", ["another workflow", "another version"])
async def test_what_another_program_asked_under_its_own_policy_is_left_alone(
    open_shop: OpenShop, where: str, change: str
) -> None:
    """It cannot be gone on with here anyhow; each would cost two transactions a minute, for as long as both serve."""
    mine = await open_shop(store=where)
    others = replace(ORDER, name="another") if change == "another workflow" else replace(ORDER, version="2")
    another = await open_shop(others, store=where, policy=Newer(), clock=mine.world.clock, spies=mine, seed=1)
    await mine.start()
    waits = await mine.drive()
    rested = await mine.world.gate.store.run_checkpoint("acme", RunId("r1"))

    for _ in range(20):  # ten minutes
        for shop in (another, mine):
            await InlineDriver(shop.workflows).catch_up()
        mine.world.clock.advance(31)

    assert await mine.world.gate.store.run_checkpoint("acme", RunId("r1")) == rested
    assert isinstance(waits, Waiting)


class Flaps(Matrix):
    """Its version cannot be told now and then."""

    is_there: ClassVar[list[bool]] = [True]

    @property
    def version(self) -> PolicyVersion:
        if not self.is_there[-1]:
            raise RuntimeError("gone")
        return PolicyVersion("v1")


async def test_a_policy_that_cannot_be_told_for_a_moment_is_no_newer_one(open_shop: OpenShop) -> None:
    policy = Flaps()

    async def check(inputs: Order, context: StepContext) -> Move:
        policy.is_there.append(False)  # when the step is laid down
        return Next("CONFIRM", inputs)

    shop = await open_shop(with_step("CHECK", check), policy=policy)
    await shop.start()
    await shop.workflows.advance("acme", "r1")
    policy.is_there.append(True)

    assert isinstance(await shop.drive(), Waiting)


class Turns(Matrix):
    """Becomes another one while it is asked: one that is kept elsewhere."""

    now: ClassVar[list[str]] = ["v1"]

    @property
    def version(self) -> PolicyVersion:
        return PolicyVersion(self.now[-1])


async def test_a_question_whose_policy_changed_before_its_run_was_laid_down_is_asked_anew(open_shop: OpenShop) -> None:
    policy = Turns()

    async def confirmed(inputs: Order, context: StepContext) -> Move:
        outcome = await context.propose("pay", {"word": inputs.order, "count": inputs.amount}, name="payment")
        policy.now.append("v2")
        return Wait(outcome, Next("PAY", inputs)) if isinstance(outcome, AwaitingApproval) else Next("PAY", inputs)

    shop = await open_shop(with_step("CONFIRM", confirmed), policy=policy)
    await shop.start()
    await shop.drive()
    assert await asked(shop) == ["v1"]
    driver = InlineDriver(shop.workflows)

    for _ in range(3):
        await driver.catch_up()
        shop.world.clock.advance(31)

    assert await asked(shop) == ["v1", "v2"]
