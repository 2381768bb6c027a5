"""Calls that a step makes at once, and those it does not wait for: none goes on after the step, and none is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from placet import Breaker, Ended, Fail, Move, Next, Ready, RetryPolicy, StepContext, StopScope, Waiting
from placet.engine import stepping
from tests.workflows.conftest import OpenShop
from tests.workflows.order import Order, with_step
from tests.workflows.test_surviving import OPERATOR


@pytest.mark.parametrize("ends", ["goes on", "raises"])
async def test_a_call_that_the_step_does_not_wait_for_has_ended_before_the_run_is_laid_down(
    open_shop: OpenShop, ends: str
) -> None:
    at_it, go_on = asyncio.Event(), asyncio.Event()
    background: list[asyncio.Task[Any]] = []

    async def meanwhile() -> None:
        at_it.set()
        await go_on.wait()

    async def leaves_it_alone(inputs: Order, context: StepContext) -> Move:
        background.append(asyncio.ensure_future(context.call("ship", {"word": inputs.order})))
        await at_it.wait()
        if ends == "raises":
            raise ValueError("a secret")
        return Fail("enough")

    shop = await open_shop(with_step("CHECK", leaves_it_alone, tools=("ship",)))
    shop.shipments.meanwhile = meanwhile  # type: ignore[attr-defined]
    await shop.start()
    advancing = asyncio.ensure_future(shop.workflows.advance("acme", "r1"))
    await at_it.wait()
    for _ in range(50):
        await asyncio.sleep(0)

    is_laid_down = advancing.done()
    go_on.set()
    ended = await advancing
    assert not is_laid_down, "the call goes on, so the run is not laid down"
    assert isinstance(ended, Ended)
    assert (await background[0]).code == "succeeded"
    assert ended.code == ("step_raised" if ends == "raises" else "enough")


async def test_a_call_that_begins_after_the_step_is_over_proposes_nothing(open_shop: OpenShop) -> None:
    later: list[StepContext] = []

    async def keeps_its_context(inputs: Order, context: StepContext) -> Move:
        later.append(context)
        return Next("CONFIRM", inputs)

    shop = await open_shop(with_step("CHECK", keeps_its_context, tools=("ship",)))
    await shop.start()
    assert isinstance(await shop.workflows.advance("acme", "r1"), Ready)

    with pytest.raises(BaseException) as raised:
        await later[0].call("ship", {"word": "x"})

    assert not isinstance(raised.value, Exception)
    assert (shop.shipments.count, len(await shop.world.effects())) == (0, 0)


async def test_the_first_call_that_has_to_be_waited_for_says_what_the_run_waits_for(open_shop: OpenShop) -> None:
    order: list[str] = []

    async def two_at_once(inputs: Order, context: StepContext) -> Move:
        async def one(tool: str, name: str) -> None:
            order.append(name)
            await context.call(tool, {"word": inputs.order, "count": 1}, name=name)

        await asyncio.gather(one("pay", "first"), one("ship", "second"))
        return Fail("enough")

    shop = await open_shop(with_step("CHECK", two_at_once, tools=("pay", "ship")))
    await shop.world.gate.switch.stop(StopScope.of_tool("ship"), by=OPERATOR)
    await shop.start()

    waits = await shop.drive()

    assert isinstance(waits, Waiting)
    assert order[0] == "first"
    assert (waits.code, len(waits.approvals)) == ("approval_required", 1)


async def test_a_call_that_is_answered_after_the_step_was_left_is_no_leave_to_go_on(open_shop: OpenShop) -> None:
    """The slow one succeeds after the other has left the step: its answer is not acted on, and is in the ledger."""
    asked, went_on = asyncio.Event(), list[str]()

    async def meanwhile() -> None:
        await asked.wait()

    async def two_at_once(inputs: Order, context: StepContext) -> Move:
        async def slow() -> None:
            await context.call("ship", {"word": inputs.order}, name="slow")
            went_on.append("slow")

        async def waits() -> None:
            try:
                await context.call("pay", {"word": inputs.order, "count": 1}, name="asks")
            finally:
                asked.set()

        await asyncio.gather(slow(), waits(), return_exceptions=True)
        return Next("CONFIRM", inputs)

    shop = await open_shop(with_step("CHECK", two_at_once, tools=("pay", "ship")))
    shop.shipments.meanwhile = meanwhile  # type: ignore[attr-defined]
    await shop.start()

    waits = await shop.drive()
    assert isinstance(waits, Waiting)
    assert (waits.state, went_on, shop.shipments.count) == ("CHECK", [], 1)

    await shop.approve(waits)
    assert isinstance(await shop.workflows.advance("acme", "r1"), Ready)
    assert (went_on, shop.shipments.count, shop.payments.count) == (["slow"], 1, 1)


async def test_what_a_refusal_says_of_when_to_ask_again_is_when_the_run_is_looked_at(open_shop: OpenShop) -> None:
    async def down() -> None:
        raise ConnectionError("down")

    async def sends_twice(inputs: Order, context: StepContext) -> Move:
        await context.call("ship", {"word": inputs.order}, name="first")
        await context.call("ship", {"word": inputs.order}, name="second")
        return Fail("enough")

    breaker = Breaker(faults=1, within_seconds=60.0, open_seconds=77.0)
    reads = {"breaker": breaker, "effect": "read", "retry": RetryPolicy(max_attempts=1)}
    shop = await open_shop(with_step("CHECK", sends_twice, tools=("ship",)), ship=reads)
    shop.shipments.meanwhile = down  # type: ignore[attr-defined]
    await shop.start()

    waits = await shop.drive()

    assert isinstance(waits, Waiting)
    assert (waits.code, waits.check_after_seconds) == ("circuit_open", 77.0)


async def _asks_on(inputs: Order, context: StepContext) -> Move:
    while True:
        with suppress(BaseException):
            outcome = await context.call("pay", {"word": inputs.order, "count": inputs.amount}, name="payment")
            return Next("SHIP", inputs) if outcome.is_success else Fail("not_paid")


async def _cleans_up_for_ever(inputs: Order, context: StepContext) -> Move:
    try:
        outcome = await context.call("pay", {"word": inputs.order, "count": inputs.amount}, name="payment")
    except BaseException:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
    return Next("SHIP", inputs) if outcome.is_success else Fail("not_paid")


@pytest.mark.parametrize("step", [_asks_on, _cleans_up_for_ever])
async def test_a_step_that_will_not_be_left_is_left_behind_and_its_run_goes_on(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch, step: Any
) -> None:
    monkeypatch.setattr(stepping, "_ENDS_WITHIN_SECONDS", 0.05)
    shop = await open_shop(with_step("PAY", step))
    await shop.start()

    waits = await shop.drive()
    assert isinstance(waits, Waiting) and waits.approvals
    await shop.approve(waits)

    ended = await shop.drive()
    assert isinstance(ended, Ended)
    assert (ended.status, shop.payments.count) == ("done", 1)
    for left_behind in tuple(stepping._left_behind):
        left_behind.cancel()
