"""Where a run rests, and what is said of it: the rules that a driver relies on and never looks at."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from placet import (
    AwaitingApproval,
    Ended,
    Fail,
    Failure,
    InlineDriver,
    Move,
    Next,
    Ready,
    RunLimits,
    StepContext,
    Unserved,
    Wait,
    Waiting,
)
from placet.engine import checkpoints
from placet.model.identifiers import RunId
from placet.model.workflow import Resting
from tests.workflows.conftest import OpenShop
from tests.workflows.order import BOSS, ORDER, Order, with_step


@pytest.mark.req("B189")
async def test_what_is_to_follow_an_answer_is_a_state_that_may_follow(open_shop: OpenShop) -> None:
    async def confirm(inputs: Order, context: StepContext) -> Move:
        asked = await context.propose("pay", {"word": inputs.order, "count": 1}, name="payment")
        assert isinstance(asked, AwaitingApproval)
        return Wait(asked, Next("SHIP", inputs))  # past PAY

    shop = await open_shop(with_step("CONFIRM", confirm))
    await shop.start()

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.state, ended.code, shop.shipments.count) == ("FAILED", "state_outside", 0)


async def test_a_run_that_fails_in_its_last_entry_says_why_it_failed(open_shop: OpenShop) -> None:
    async def fails(inputs: Order, context: StepContext) -> Move:
        return Fail("out_of_stock")

    shop = await open_shop(replace(with_step("CONFIRM", fails), max_entries=2))
    await shop.start()

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.state, ended.code) == ("FAILED", "out_of_stock")


@pytest.mark.case("G07")
async def test_a_failure_exit_that_waits_past_the_deadline_is_looked_at_now_and_then(open_shop: OpenShop) -> None:
    """It waits for what nobody knows, and each look says so once at most."""

    async def fails(inputs: Order, context: StepContext) -> Move:
        return Fail("enough")

    async def down() -> None:
        raise ConnectionError("down")

    shop = await open_shop(with_step("SHIP", fails))
    shop.shipments.meanwhile = down  # type: ignore[attr-defined]
    deadline = shop.world.clock.now() + timedelta(hours=1)
    await shop.start(limits=RunLimits(deadline=deadline))
    await shop.approve(await shop.drive())
    first = await shop.drive()
    shop.world.clock.advance(7_200)

    pauses = []
    for _ in range(4):
        waits = await shop.drive()
        assert isinstance(waits, Waiting)
        assert (waits.state, waits.code) == ("REFUND", "effect_unknown")
        pauses.append(waits.check_after_seconds)
        shop.world.clock.advance(waits.check_after_seconds)

    assert isinstance(first, Waiting)
    assert pauses == [2.0, 4.0, 8.0, 16.0]
    said = [event["detail"] for event in shop.world.events("run_waits")]
    assert said == ["approval_required", "effect_unknown"]


@pytest.mark.case("G04")
@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_an_upgrade_into_another_state_enters_it_once_more(open_shop: OpenShop, where: str) -> None:
    """So its calls have ids of their own, and are not answered with what the first visit did."""
    before = await open_shop(store=where)
    await before.start()
    await before.drive()

    def back(rest: Resting) -> Resting:
        return Resting(state="CHECK", inputs=rest.inputs)

    later = await open_shop(
        replace(ORDER, version="2", accepts={"1": back}), store=where, clock=before.world.clock, spies=before, seed=1
    )
    await before.world.gate.runs.pause("r1", by=BOSS)
    await before.world.gate.runs.resume("r1", by=BOSS)  # due

    moved = await later.workflows.advance("acme", "r1")

    assert isinstance(moved, Ready)
    assert (moved.state, moved.visit, moved.version) == ("CHECK", 2, "2")
    assert isinstance(await later.drive(), Waiting)
    assert later.looks.count == 2


async def test_a_checkpoint_of_a_form_that_is_not_known_is_left_alone(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await open_shop()
    with monkeypatch.context() as newer:
        newer.setattr(checkpoints, "SCHEMA", checkpoints.SCHEMA + 1)
        await shop.start()

    left = await shop.drive()

    assert isinstance(left, Unserved)
    assert (left.code, shop.looks.count) == ("checkpoint_unreadable", 0)


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_a_run_that_went_on_meanwhile_is_not_postponed(open_shop: OpenShop, where: str) -> None:
    shop = await open_shop(store=where)
    await shop.start()
    other = await open_shop(replace(ORDER, version="2"), store=where, clock=shop.world.clock, spies=shop, seed=1)
    seen = await other.workflows.advance("acme", "r1")
    assert isinstance(seen, Unserved)
    await shop.workflows.advance("acme", "r1")
    row = await shop.world.gate.store.run_checkpoint("acme", RunId("r1"))

    await other.workflows.postpone(seen)

    assert await shop.world.gate.store.run_checkpoint("acme", RunId("r1")) == row


async def test_serving_that_is_cancelled_has_ended_its_steps_when_it_returns(open_shop: OpenShop) -> None:
    at_it, never, ended = asyncio.Event(), asyncio.Event(), list[str]()

    async def confirm(inputs: Order, context: StepContext) -> Move:
        at_it.set()
        try:
            await never.wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            ended.append("step")
        return Fail("enough")

    shop = await open_shop(with_step("CONFIRM", confirm))
    await shop.start()
    serving = asyncio.ensure_future(InlineDriver(shop.workflows, look_seconds=0.01).serve())
    await at_it.wait()

    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving

    assert ended == ["step"]


# ---------------------------------------------------------------- what a run may still do


async def test_nobody_is_asked_about_what_the_run_cannot_pay_for(open_shop: OpenShop) -> None:
    told: list[str] = []

    async def asks_twice(inputs: Order, context: StepContext) -> Move:
        await context.call("pay", {"word": inputs.order, "count": 1}, name="first")
        second = await context.propose("pay", {"word": inputs.order, "count": 2}, name="second")
        told.append(second.code)
        return Fail("enough")

    shop = await open_shop(with_step("CHECK", asks_twice, tools=("pay",)))
    await shop.start(limits=RunLimits(per_tool={"pay": 1}))
    await shop.approve(await shop.drive())

    assert isinstance(await shop.drive(), Ended)
    assert told == ["run_tool_exhausted"]
    assert len(await shop.world.gate.store.approvals_of_run("acme", RunId("r1"), limit=9)) == 1


async def test_cancelling_lists_the_calls_of_the_run_that_go_on(open_shop: OpenShop) -> None:
    reports: list[Any] = []

    async def refund(inputs: Failure, context: StepContext) -> Move:
        return Next("REFUNDED", inputs)

    shop = await open_shop(with_step("REFUND", refund))

    async def meanwhile() -> None:
        if shop.shipments.count == 2:  # the first has been done, the second goes on
            reports.append(await shop.world.gate.runs.cancel("r1", by=BOSS))
            reports.append(await shop.world.gate.runs.pause("r2", by=BOSS))

    await shop.start("r2")
    await shop.drive("r2")
    shop.shipments.meanwhile = meanwhile  # type: ignore[attr-defined]
    await shop.start()
    await shop.approve(await shop.drive())
    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert ended.status == "cancelled"
    assert [[(call.call_id, call.tool) for call in report.running] for report in reports] == [
        [("SHIP.1.2", "ship")], []
    ]  # fmt: skip


@pytest.mark.parametrize("change", ["cancel", "pause"])
async def test_a_step_during_which_its_run_is_paused_or_cancelled_is_no_stale_write(
    open_shop: OpenShop, change: str
) -> None:
    metrics = CollectorRegistry()
    shop = await open_shop(metrics=metrics)

    async def meanwhile() -> None:
        await getattr(shop.world.gate.runs, change)("r1", by=BOSS)

    await shop.start()
    await shop.approve(await shop.drive())
    shop.shipments.meanwhile = meanwhile  # type: ignore[attr-defined]
    progress = await shop.drive()

    assert isinstance(progress, Ended if change == "cancel" else Unserved)
    assert (progress.state, shop.shipments.count) == ("SHIP", 1)  # it was not laid down
    assert metrics.get_sample_value("placet_stale_run_writes_total") == 0
