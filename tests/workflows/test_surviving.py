"""Whatever one run does, or its row holds: it ends no other, starves none, and is not said to have failed where nobody
knows."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from placet import (
    AwaitingApproval,
    Ended,
    Fail,
    InlineDriver,
    Move,
    Next,
    Principal,
    Progress,
    RunLimits,
    StepContext,
    StopScope,
    Unserved,
    Wait,
    Waiting,
)
from placet.errors import MisuseError, RunConflict
from placet.model.identifiers import OwnerId, RunId
from placet.model.run import RunTake
from placet.rules.workflows import call_key
from tests.workflows.conftest import OpenShop, Shop
from tests.workflows.order import AGENT, BOSS, Order, with_step
from tests.workflows.test_serving import until

HELD = "a-secret"
OPERATOR = Principal.person("root", tenant="operators", scopes=("ops.stop.all",))


def _payment(inputs: Order) -> dict[str, Any]:
    return {"word": inputs.order, "count": inputs.amount}


async def _in_a_group(inputs: Order, context: StepContext) -> Move:
    async with asyncio.TaskGroup() as group:
        group.create_task(context.call("pay", _payment(inputs), name="payment"))
    return Next("PAY", inputs)


@pytest.mark.case("G02")
async def test_a_step_that_is_left_inside_a_group_of_tasks_waits_like_any_other(open_shop: OpenShop) -> None:
    shop = await open_shop(with_step("CONFIRM", _in_a_group))
    await shop.start()

    waits = await shop.drive()
    await shop.approve(waits)

    assert isinstance(waits, Waiting)
    assert isinstance(await shop.drive(), Ended)
    assert shop.payments.count == 1


@pytest.mark.parametrize(
    "fault",
    [
        SystemExit(HELD),
        asyncio.CancelledError(HELD),
        BaseExceptionGroup(HELD, [KeyboardInterrupt()]),
        GeneratorExit(HELD),
        RuntimeError(HELD),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_whatever_a_step_raises_is_its_own_and_the_other_runs_go_on(
    open_shop: OpenShop, fault: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def confirm(inputs: Order, context: StepContext) -> Move:
        if inputs.order == "bad":
            raise fault
        return Next("PAY", inputs)

    shop = await open_shop(with_step("CONFIRM", confirm))
    await shop.start("r0", inputs=Order(order="bad", amount=1))
    await shop.start("r1")
    serving = asyncio.ensure_future(InlineDriver(shop.workflows, look_seconds=0.01).serve())

    await until(shop, lambda progress: isinstance(progress, Waiting))
    bad = await shop.workflows.look("acme", "r0")

    assert isinstance(bad, Ended)
    assert (bad.status, bad.code, serving.done()) == ("failed", "step_raised", False)
    assert HELD not in caplog.text
    await _end(serving)


async def test_a_directory_that_is_down_ends_nobody_and_its_runs_wait(
    open_shop: OpenShop, caplog: pytest.LogCaptureFixture
) -> None:
    async def principal_of(principal: Principal) -> Principal | None:
        raise ConnectionError(HELD)

    shop = await open_shop(principal_of=principal_of)
    await shop.start()

    progress = await shop.drive()

    assert isinstance(progress, Waiting)
    assert (progress.code, shop.looks.count) == ("principal_unavailable", 0)
    assert HELD not in caplog.text


@pytest.mark.case("G07")
async def test_a_gate_that_is_closed_in_the_middle_of_a_step_fails_no_run(open_shop: OpenShop) -> None:
    at_it, go_on = asyncio.Event(), asyncio.Event()

    async def confirm(inputs: Order, context: StepContext) -> Move:
        at_it.set()
        await go_on.wait()
        outcome = await context.propose("pay", _payment(inputs), name="payment")
        return Next("PAY", inputs) if outcome.is_success else Fail("not_paid")

    shop = await open_shop(with_step("CONFIRM", confirm))
    await shop.start()
    driving = asyncio.ensure_future(shop.drive())
    await at_it.wait()
    submissions: Any = shop.world.gate._submissions
    submissions.is_closed = True  # as the first line of closing does
    go_on.set()

    progress = await driving

    assert isinstance(progress, Waiting)
    assert progress.code == "draining"


# ---------------------------------------------------------------- what is due, and to whom


@pytest.mark.parametrize("where", ["memory", "sqlite"], indirect=True)
@pytest.mark.parametrize("verb", ["pause", "cancel"])
async def test_a_run_that_was_halted_during_a_step_is_due_for_nobody(
    open_shop: OpenShop, where: str, verb: str
) -> None:
    shop = await open_shop(store=where)
    store = shop.world.gate.store
    await shop.start()
    take = _take()
    taken = await store.take_run(take)
    assert taken is not None

    await getattr(shop.world.gate.runs, verb)("r1", by=BOSS)
    kept = await store.keep_run(take, taken.fence)
    shop.world.clock.advance(86_400)

    assert kept
    assert await shop.workflows.due() == ()
    driver = InlineDriver(shop.workflows)
    assert [await driver.catch_up(), await driver.catch_up()] == [0, 0]


async def test_a_run_that_was_paused_and_resumed_during_a_step_is_due_when_its_lease_is_over(
    open_shop: OpenShop,
) -> None:
    shop = await open_shop()
    await shop.start()
    await shop.world.gate.store.take_run(_take())

    await shop.world.gate.runs.pause("r1", by=BOSS)
    await shop.world.gate.runs.resume("r1", by=BOSS)

    assert await shop.workflows.due() == ()
    shop.world.clock.advance(30)
    assert await shop.workflows.due() == (("acme", "r1"),)


async def test_rows_that_nobody_can_go_on_with_starve_no_other(open_shop: OpenShop) -> None:
    shop = await open_shop()
    tables: Any = shop.world.gate.store
    for number in range(40):
        await shop.start(f"p{number:02}")
    for key, row in tables._tables.checkpoints.items():
        tables._tables.checkpoints[key] = replace(row, waits=None)  # what reading it raises ends the look at it
    await shop.start()
    driver = InlineDriver(shop.workflows)

    moved = [await driver.catch_up() for _ in range(4)]

    assert isinstance(await shop.workflows.look("acme", "r1"), Waiting)
    assert sum(moved) >= 1


async def test_a_slow_run_keeps_no_other_waiting(open_shop: OpenShop) -> None:
    never = asyncio.Event()

    async def confirm(inputs: Order, context: StepContext) -> Move:
        if inputs.order == "slow":
            await never.wait()
        return Next("PAY", inputs)

    shop = await open_shop(with_step("CONFIRM", confirm))
    await shop.start("r0", inputs=Order(order="slow", amount=1))
    serving = asyncio.ensure_future(InlineDriver(shop.workflows, at_once=2, look_seconds=0.01).serve())
    await shop.start("r1")

    assert isinstance(await until(shop, lambda progress: isinstance(progress, Waiting)), Waiting)
    await _end(serving)


@pytest.mark.case("G07")
async def test_ending_lets_steps_under_way_come_to_their_end(open_shop: OpenShop) -> None:
    at_it, go_on = asyncio.Event(), asyncio.Event()

    async def confirm(inputs: Order, context: StepContext) -> Move:
        at_it.set()
        await go_on.wait()
        return Next("PAY", inputs)

    shop = await open_shop(with_step("CONFIRM", confirm))
    await shop.start()
    ending = asyncio.Event()
    serving = asyncio.ensure_future(InlineDriver(shop.workflows, look_seconds=0.01).serve(ending))
    await at_it.wait()
    ending.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not serving.done()
    go_on.set()
    await serving

    assert await shop.states() == ["CONFIRM", "PAY"]


# ---------------------------------------------------------------- what is not known


async def test_what_a_changed_policy_left_waiting_is_not_gone_past(open_shop: OpenShop) -> None:
    """The question of before is nobody's any more, so neither is what was to follow it."""

    async def confirm(inputs: Order, context: StepContext) -> Move:
        await context.call("stock.look", {"word": "again"})
        outcome = await context.propose("pay", _payment(inputs), name="payment")
        then = Next("PAY", inputs)
        return Wait(outcome, then) if isinstance(outcome, AwaitingApproval) else then

    shop = await open_shop(with_step("CONFIRM", confirm, tools=("pay", "stock.look")))
    await shop.start()
    waits = await shop.drive()
    assert isinstance(waits, Waiting)
    row = await shop.world.gate.store.run_checkpoint("acme", RunId("r1"))
    assert row is not None
    tables: Any = shop.world.gate.store
    tables._tables.checkpoints[("acme", RunId("r1"))] = replace(row, policy_version="older")
    await shop.world.gate.switch.stop(StopScope.of_tool("stock.look"), by=OPERATOR)

    stopped = await shop.drive()
    shop.world.clock.advance(600)
    again = await shop.drive()

    assert (stopped.code, again.code) == ("stopped", "stopped")  # type: ignore[union-attr]
    assert await shop.states() == ["CONFIRM"]


async def test_a_deadline_makes_nothing_undone_that_was_done(open_shop: OpenShop) -> None:
    """The driver dies between the payment and its checkpoint, and the deadline passes: the ledger is asked first."""
    shop = await open_shop()
    deadline = shop.world.clock.now() + timedelta(hours=1)
    await shop.start(limits=RunLimits(deadline=deadline))
    await shop.approve(await shop.drive())
    await shop.workflows.advance("acme", "r1")  # into PAY
    paid = await shop.world.gate.submit(
        {"call_id": "payment", "tool": "pay", "arguments": {"word": "book", "count": 3}},
        principal=AGENT,
        run="r1",
        idempotency_key=call_key("r1", "payment"),
    )
    assert paid.is_success
    shop.world.clock.advance(2 * 3_600)

    progress = await shop.drive()

    assert isinstance(progress, Ended)
    assert "SHIP" in await shop.states(), "the payment is known, so the run went on from it"
    assert (progress.code, shop.payments.count, shop.shipments.count) == ("deadline_passed", 1, 0)


# ---------------------------------------------------------------- begun, and begun again


@dataclass(frozen=True)
class Larger:
    order: str
    amount: int
    colour: str


async def test_an_input_of_another_form_under_the_same_version_waits_for_whoever_knows_it(open_shop: OpenShop) -> None:
    shop = await open_shop()
    await shop.start()
    waits = await shop.drive()
    await shop.approve(waits)
    Larger.__name__ = "Order"
    changed = with_step("CONFIRM", _in_a_group, inputs=Larger)

    later = Shop(
        world=shop.world,
        workflows=type(shop.workflows)(shop.world.gate, (changed,)),
        looks=shop.looks,
        payments=shop.payments,
        shipments=shop.shipments,
    )
    progress = await later.drive()

    assert isinstance(progress, Unserved)
    assert (progress.code, progress.state_version) == ("workflow_changed", waits.state_version)
    assert isinstance(await shop.drive(), Ended)


async def test_starting_again_is_the_same_run_whatever_its_limits_are_by_now(open_shop: OpenShop) -> None:
    shop = await open_shop()
    await shop.start(limits=RunLimits(max_steps=20))
    await shop.world.gate.runs.pause("r1", by=BOSS)
    await shop.world.gate.runs.resume("r1", by=BOSS, limits=RunLimits(max_steps=99))

    again: Progress = await shop.start(limits=RunLimits(max_steps=20))

    assert again.run_id == "r1"
    run = await shop.world.gate.store.run("acme", RunId("r1"))
    assert run is not None and run.limits is not None
    assert run.limits.tools == {"stock.look", "pay", "ship"}, "a new budget lets no other tool in"
    with pytest.raises(RunConflict):
        await shop.start(limits=RunLimits(max_steps=21))


async def test_an_input_is_bounded(open_shop: OpenShop) -> None:
    shop = await open_shop()
    with pytest.raises(MisuseError):
        await shop.start(inputs=Order(order="x" * 300_000, amount=1))


def _take() -> RunTake:
    return RunTake(tenant="acme", run_id=RunId("r1"), driver=OwnerId("d"), lease_seconds=30.0, expecting=None)


async def _end(serving: asyncio.Task[None]) -> None:
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def test_waking_a_run_whose_question_is_open_costs_no_step(open_shop: OpenShop) -> None:
    """A wake-up may be forged, and as often as somebody likes: what the step reads is counted when it is read."""
    shop = await open_shop()
    await shop.start()
    waits = await shop.drive()
    run = await shop.world.gate.store.run("acme", RunId("r1"))
    looks, events = shop.looks.count, len(shop.world.events())

    for _ in range(12):
        assert await shop.workflows.advance("acme", "r1") == waits

    assert await shop.world.gate.store.run("acme", RunId("r1")) == run
    assert (shop.looks.count, len(shop.world.events())) == (looks, events)


async def test_a_principal_of_another_tenant_is_not_the_runs(open_shop: OpenShop) -> None:
    async def principal_of(principal: Principal) -> Principal:
        return replace(principal, tenant="globex")

    shop = await open_shop(principal_of=principal_of)
    await shop.start()

    progress = await shop.drive()

    assert isinstance(progress, Waiting)
    assert (progress.code, shop.looks.count) == ("principal_gone", 0)
