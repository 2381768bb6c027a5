"""A workflow runs step by step, waits for people, and does each thing once, whoever drives it and how often."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import placet
from placet import (
    Busy,
    Ended,
    Fail,
    Matrix,
    Move,
    Next,
    Principal,
    Ready,
    RunLimits,
    RunStatus,
    StepContext,
    Unserved,
    Waiting,
    Workflow,
    Workflows,
)
from placet.errors import MisuseError, NotFound, RunConflict
from placet.model.approval import ApprovalState
from placet.model.identifiers import PolicyVersion
from placet.model.outcome import Refused
from placet.model.progress import progress_of
from placet.model.workflow import Resting
from tests.workflows.conftest import OpenShop, Shop
from tests.workflows.order import AGENT, BOSS, ORDER, Order, with_step


@pytest.mark.req("X003", "C049")
@pytest.mark.parametrize("where", ["memory", "sqlite"], indirect=True)
async def test_a_run_goes_from_state_to_state_and_waits_for_a_person(open_shop: OpenShop, where: str) -> None:
    shop = await open_shop(store=where)

    begun = await shop.start()
    waits = await shop.drive()

    assert isinstance(begun, Ready)
    assert (begun.state, begun.visit) == ("CHECK", 1)
    assert isinstance(waits, Waiting)
    assert (waits.state, waits.code, len(waits.approvals)) == ("CONFIRM", "approval_required", 1)
    assert waits.check_after_seconds == 86_400.0
    assert (shop.looks.count, shop.payments.count) == (1, 0)
    assert progress_of(waits.as_data()) == waits

    again = await shop.drive()
    assert isinstance(again, Waiting)
    assert (again.approvals, again.state) == (waits.approvals, "CONFIRM")

    await shop.approve(waits)
    assert await shop.workflows.due() == (("acme", "r1"),)
    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.state, ended.status, ended.code) == ("DONE", "done", None)
    assert shop.payments.calls == [("book", 3)]
    assert shop.shipments.calls == [("book", 1), ("book", 2)]
    assert await shop.states() == ["CONFIRM", "PAY", "SHIP", "DONE"]
    assert await shop.drive() == ended


async def test_what_was_done_is_done_once_however_often_it_is_driven(open_shop: OpenShop) -> None:
    shop = await open_shop()
    await shop.start()
    waits = await shop.drive()
    await shop.approve(waits)

    found = await asyncio.gather(*(shop.workflows.advance("acme", "r1") for _ in range(5)))
    while not isinstance(last := await shop.drive(), Ended):
        assert isinstance(last, Busy)

    assert {type(each) for each in found} <= {Ready, Busy}
    assert (shop.payments.count, shop.shipments.count) == (1, 2)


@pytest.mark.case("G08")
@pytest.mark.parametrize("where", ["memory", "sqlite"], indirect=True)
async def test_a_run_that_is_started_by_five_at_once_is_one(open_shop: OpenShop, where: str) -> None:
    shop = await open_shop(store=where)

    found = await asyncio.gather(*(shop.start() for _ in range(5)))

    assert len(set(found)) == 1
    assert len(shop.world.events("run_begun")) == 1
    assert await shop.start() == found[0]
    for other in ({"inputs": Order(order="pen", amount=3)}, {"limits": RunLimits(max_steps=7)}):
        with pytest.raises(RunConflict):
            await shop.start(**other)
    with pytest.raises(RunConflict):
        await shop.start(principal=replace(AGENT, subject="other"))
    with pytest.raises(MisuseError):
        await shop.start(run="r2", inputs={"order": "book", "amount": "3"})
    await shop.world.submit("ship", {"word": "x"}, run="by-proposal")
    with pytest.raises(RunConflict):
        await shop.start(run="by-proposal")


async def test_a_person_who_says_no_leads_to_the_failure_exit(open_shop: OpenShop) -> None:
    shop = await open_shop()
    await shop.start()
    await shop.decide(await shop.drive(), "deny")

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.state, ended.status, ended.code) == ("FAILED", "failed", "not_paid")
    assert (shop.payments.count, shop.shipments.count) == (0, 0)


async def test_a_question_that_runs_out_is_asked_anew_by_the_next_look(open_shop: OpenShop) -> None:
    shop = await open_shop()
    await shop.start()
    first = await shop.drive()
    shop.world.clock.advance(86_400)
    assert await shop.workflows.due() == (("acme", "r1"),)

    second = await shop.drive()

    assert isinstance(first, Waiting)
    assert isinstance(second, Waiting)
    assert second.state == "PAY"
    assert second.approvals != first.approvals
    await shop.approve(second)
    assert isinstance(await shop.drive(), Ended)
    assert shop.payments.count == 1


class Newer(Matrix):
    @property
    def version(self) -> PolicyVersion:
        return PolicyVersion("newer")


@pytest.mark.req("X002")
@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_under_another_policy_what_waits_is_asked_anew(open_shop: OpenShop, where: str) -> None:
    before = await open_shop(store=where)
    await before.start()
    first = await before.drive()
    after = await open_shop(store=where, policy=Newer(), clock=before.world.clock, spies=before, seed=1)

    assert await placet.InlineDriver(after.workflows).catch_up() == 1
    second = await after.workflows.look("acme", "r1")

    assert isinstance(first, Waiting)
    assert isinstance(second, Waiting)
    assert (second.state, second.approvals == first.approvals) == ("CONFIRM", False)
    await after.approve(second)
    assert isinstance(await after.drive(), Ended)
    assert after.payments.count == 1


@pytest.mark.case("J05")
@pytest.mark.parametrize(
    ("limits", "codes"),
    [
        (RunLimits(per_tool={"ship": 1}), ["run_tool_exhausted"]),
        (RunLimits(max_cost=5, costs={"ship": 3}), ["run_cost_exhausted"]),
        (RunLimits(max_attempts=3), ["run_attempts_exhausted"]),
        (RunLimits(max_steps=3), ["budget_exhausted"]),
    ],
    ids=["per tool", "cost", "attempts", "steps"],
)
async def test_a_budget_that_is_spent_ends_the_run_by_its_failure_exit(
    open_shop: OpenShop, limits: RunLimits, codes: list[str]
) -> None:
    shop = await open_shop()
    await shop.start(limits=limits)
    await shop.approve(await shop.drive())

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.state, ended.status) == ("REFUNDED", "failed")
    assert shop.shipments.count == 1
    refused = [event["detail"] for event in shop.world.events("completed") if event["outcome"] == "denied"]
    assert refused == codes * 2  # the second parcel, and the refund


async def test_a_run_past_its_deadline_is_woken_and_fails(open_shop: OpenShop) -> None:
    shop = await open_shop()
    deadline = shop.world.clock.now().replace(hour=12)
    await shop.start(limits=RunLimits(deadline=deadline))
    waits = await shop.drive()

    assert isinstance(waits, Waiting)
    assert waits.check_after_seconds == 12 * 3_600.0
    shop.world.clock.advance(12 * 3_600)
    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.state, ended.code) == ("FAILED", "deadline_passed")
    refused = await shop.world.submit("ship", {"word": "x"})
    assert refused.code == "run_over"


@pytest.mark.req("B189", "B196")
@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("goes to a state that exists elsewhere", "state_outside"),
        ("goes to what a model said", "state_outside"),
        ("calls a tool of another state", "tool_outside"),
        ("gives what the next state does not take", "input_broken"),
        ("raises", "step_raised"),
        ("says nothing", "step_broken"),
        ("fails with a word that is none", "step_broken"),
        ("fails", "out_of_stock"),
    ],
)
async def test_what_the_definition_does_not_allow_leads_to_the_failure_exit(
    open_shop: OpenShop, step: str, code: str
) -> None:
    async def bad(inputs: Order, context: StepContext) -> Any:
        match step:
            case "goes to a state that exists elsewhere":
                return Next("PAY", inputs)
            case "goes to what a model said":
                said = await context.call("stock.look", {"word": "REFUND"})
                return Next(str(said.unwrap()), inputs)
            case "calls a tool of another state":
                try:
                    await context.call("ship", {"word": "x"})
                except BaseException:  # even this does not let it go on
                    return Next("CONFIRM", inputs)
            case "gives what the next state does not take":
                return Next("CONFIRM", {"order": "book"})
            case "raises":
                raise ValueError("a secret text")
            case "fails with a word that is none":
                return Fail("A secret text")
            case "fails":
                return Fail("out_of_stock")
        return None

    shop = await open_shop(with_step("CHECK", bad))
    await shop.start()

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.state, ended.code) == ("FAILED", code)
    assert (shop.payments.count, shop.shipments.count) == (0, 0)


@pytest.mark.case("G02")
async def test_a_step_that_catches_everything_waits_all_the_same_and_acts_no_more(open_shop: OpenShop) -> None:
    async def catching(inputs: Order, context: StepContext) -> Move:
        for _ in range(3):  # as a wrapper that retries
            try:
                await context.call("pay", {"word": inputs.order, "count": 1})
            except BaseException:
                with_suppressed = await _caught(context)
        assert with_suppressed
        return Next("CONFIRM", inputs)

    async def _caught(context: StepContext) -> bool:
        try:
            await context.call("stock.look", {"word": "x"})
        except BaseException:
            return True
        return False

    shop = await open_shop(with_step("CHECK", catching, tools=("stock.look", "pay")))
    await shop.start()

    waits = await shop.drive()

    assert isinstance(waits, Waiting)
    assert (waits.state, len(waits.approvals)) == ("CHECK", 1)
    assert (shop.looks.count, shop.payments.count) == (0, 0)


async def test_a_step_that_is_run_again_reads_again_and_writes_once(open_shop: OpenShop) -> None:
    async def looking(inputs: Order, context: StepContext) -> Move:
        await context.call("stock.look", {"word": inputs.order})
        first = await context.call("ship", {"word": inputs.order})
        await context.call("pay", {"word": inputs.order, "count": 1})
        return Next("CONFIRM", inputs) if first.is_success else Fail("not_shipped")

    shop = await open_shop(with_step("CHECK", looking, tools=("stock.look", "pay", "ship")))
    await shop.start()
    await shop.approve(await shop.drive())

    second = await shop.drive()

    assert isinstance(second, Waiting)
    assert second.state == "CONFIRM"
    assert (shop.looks.count, shop.shipments.count, shop.payments.calls) == (2, 1, [("book", 1)])


async def test_a_step_that_is_run_again_and_wants_something_else_acts_no_second_time(open_shop: OpenShop) -> None:
    wanted = iter(("book", "pen"))

    async def fickle(inputs: Order, context: StepContext) -> Move:
        outcome = await context.call("ship", {"word": next(wanted)})
        if outcome.code == "operation_conflict":
            return Fail("changed_its_mind")
        await context.call("pay", {"word": inputs.order, "count": 1})
        return Next("CONFIRM", inputs)

    shop = await open_shop(with_step("CHECK", fickle, tools=("pay", "ship")))
    await shop.start()
    await shop.approve(await shop.drive())

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.code, shop.shipments.calls) == ("changed_its_mind", [("book", 1)])


async def test_two_calls_of_a_step_that_say_the_same_are_two(open_shop: OpenShop) -> None:
    asked: list[str] = []

    async def twice(inputs: Order, context: StepContext) -> Move:
        for _ in range(2):
            outcome = await context.propose("pay", {"word": inputs.order, "count": 1})
            asked.append(getattr(outcome, "approval_id", outcome.code))
        return Fail("enough")

    shop = await open_shop(with_step("CHECK", twice, tools=("pay",)))
    await shop.start()
    await shop.drive()

    assert len(set(asked)) == 2


async def test_a_run_that_enters_too_many_states_leaves_by_the_failure_exit(open_shop: OpenShop) -> None:
    async def round_and_round(inputs: Order, context: StepContext) -> Move:
        return Next("CHECK", inputs)

    workflow = replace(with_step("CHECK", round_and_round, next=("CHECK", "CONFIRM")), max_entries=5)
    shop = await open_shop(workflow)
    await shop.start()

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.state, ended.code) == ("FAILED", "too_many_states")
    assert await shop.states() == ["CHECK"] * 4 + ["FAILED"]


@pytest.mark.parametrize("where", ["memory", "sqlite"], indirect=True)
async def test_a_cancelled_run_asks_nobody_and_does_nothing_any_more(open_shop: OpenShop, where: str) -> None:
    shop = await open_shop(store=where)
    await shop.start()
    waits = await shop.drive()
    await shop.start("r2")
    await shop.approve(await shop.drive("r2"))
    assert isinstance(waits, Waiting)

    report = await shop.world.gate.runs.cancel("r1", by=BOSS, reason="wrong book")
    other = await shop.world.gate.runs.cancel("r2", by=AGENT)

    assert (report.status, report.is_news, report.withdrawn, report.running) == (RunStatus.CANCELLED, True, 1, ())
    assert other.withdrawn == 1  # an approval that nobody had used
    ended = await shop.drive()
    assert isinstance(ended, Ended)
    assert (ended.state, ended.status) == ("CONFIRM", "cancelled")
    assert isinstance(await shop.drive("r2"), Ended)
    question = await shop.world.gate.questions.show(waits.approvals[0], by=AGENT)
    assert question.state is ApprovalState.WITHDRAWN
    refused = await shop.world.submit("ship", {"word": "x"}, call_id="c9")
    assert (type(refused), refused.code) == (Refused, "run_cancelled")
    assert (shop.payments.count, shop.shipments.count) == (0, 0)
    shown = await shop.world.gate.runs.show("r1", by=BOSS)
    assert (shown.status, shown.changed_by, shown.reason) == (RunStatus.CANCELLED, "paula", "wrong book")
    again = await shop.world.gate.runs.cancel("r1", by=BOSS)
    assert (again.is_news, again.withdrawn) == (False, 0)
    assert await shop.workflows.due() == ()


async def test_a_paused_run_rests_until_it_is_resumed_and_counts_on(open_shop: OpenShop) -> None:
    shop = await open_shop()
    await shop.start(limits=RunLimits(per_tool={"ship": 1}))
    waits = await shop.drive()
    await shop.world.gate.runs.pause("r1", by=BOSS)
    await shop.approve(waits)

    paused = await shop.drive()
    assert isinstance(paused, Unserved)
    assert (paused.code, shop.payments.count) == ("paused", 0)
    assert await shop.workflows.due() == ()
    assert (await shop.world.submit("ship", {"word": "x"}, call_id="c9")).code == "run_paused"

    await shop.world.gate.runs.resume("r1", by=BOSS, limits=RunLimits(per_tool={"ship": 2}))
    assert await shop.workflows.due() == (("acme", "r1"),)
    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert ended.status == "done"
    assert shop.shipments.count == 2
    with pytest.raises(placet.PlacetError, match="Only a person"):
        await shop.world.gate.runs.pause("r1", by=AGENT)


@pytest.mark.case("G08")
@pytest.mark.req("H049")
@pytest.mark.parametrize("where", ["memory", "sqlite"], indirect=True)
async def test_a_driver_that_lost_its_run_writes_nothing_and_is_counted(open_shop: OpenShop, where: str) -> None:
    shops: list[Shop] = []

    async def slow(inputs: Order, context: StepContext) -> Move:
        await context.call("ship", {"word": inputs.order})
        if len(shops) == 1:
            shop = shops[0]
            shops.append(shop)
            shop.world.clock.advance(31)  # the lease is over, and somebody else goes on
            assert isinstance(await shop.workflows.advance("acme", "r1"), Ready)
        return Next("CONFIRM", inputs)

    metrics = CollectorRegistry()
    shops.append(await open_shop(with_step("CHECK", slow, tools=("ship",)), store=where, metrics=metrics))
    shop = shops[0]
    await shop.start()
    assert metrics.get_sample_value("placet_stale_run_writes_total") == 0

    progress = await shop.workflows.advance("acme", "r1")

    assert isinstance(progress, Ready)
    assert metrics.get_sample_value("placet_stale_run_writes_total") == 1
    assert (progress.state, progress.state_version) == ("CONFIRM", 2)
    assert shop.shipments.count == 1
    assert await shop.states() == ["CONFIRM"]
    shown = await shop.world.gate.runs.show("r1", by=BOSS)
    assert shown.rests is not None
    assert shown.rests.stale_writes == 1


async def test_a_step_that_was_done_is_not_done_for_who_expects_the_one_before(open_shop: OpenShop) -> None:
    shop = await open_shop()
    begun = await shop.start()
    assert isinstance(begun, Ready)

    first = await shop.workflows.advance("acme", "r1", expecting=begun.state_version)
    again = await shop.workflows.advance("acme", "r1", expecting=begun.state_version)

    assert isinstance(first, Ready)
    assert first.state == "CONFIRM"
    assert again == first


def _nowhere(rest: Resting) -> Resting:
    return Resting(state="NOWHERE", inputs=None)


@pytest.mark.case("G04")
@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_a_deploy_in_between_leaves_what_it_does_not_know_alone(open_shop: OpenShop, where: str) -> None:
    before = await open_shop(store=where)
    await before.start()
    waits = await before.drive()

    async def later(workflow: Workflow, seed: int) -> Shop:
        return await open_shop(workflow, store=where, clock=before.world.clock, spies=before, seed=seed)

    changed = with_step("SHIP", ORDER.states[3].step, next=("DONE", "CHECK"))  # type: ignore[union-attr]
    for seed, (workflow, code) in enumerate(
        [
            (replace(ORDER, version="2"), "workflow_version"),
            (changed, "workflow_changed"),
            (replace(ORDER, name="other"), "workflow_unknown"),
            (
                replace(ORDER, version="2", accepts={"1": _nowhere}),
                "upgrade_broken",
            ),
        ],
        start=1,
    ):
        other = await later(workflow, seed)
        left = await other.drive()
        assert isinstance(left, Unserved)
        assert (left.code, left.state, left.state_version) == (code, "CONFIRM", waits.state_version)

    await before.approve(waits)
    upgraded = await later(replace(ORDER, version="2", accepts={"1": lambda rest: rest}), 9)
    ended = await upgraded.drive()

    assert isinstance(ended, Ended)
    assert (ended.version, ended.status, before.payments.count) == ("2", "done", 1)


@pytest.mark.req("H050")
async def test_a_run_keeps_its_principal_who_may_be_gone_by_now(open_shop: OpenShop) -> None:
    known: list[Principal | None] = [AGENT]

    async def principal_of(principal: Principal) -> Principal | None:
        assert principal == AGENT
        return known[0]

    shop = await open_shop(principal_of=principal_of)
    await shop.start()
    waits = await shop.drive()
    await shop.approve(waits)
    known[0] = None

    progress = await shop.drive()

    assert isinstance(progress, Waiting)
    assert (progress.code, shop.payments.count) == ("principal_gone", 0)
    known[0] = AGENT
    assert isinstance(await shop.drive(), Ended)


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_nothing_of_an_input_stands_in_the_store_or_its_audit(open_shop: OpenShop, where: str) -> None:
    shop = await open_shop(store=where)
    await shop.start(inputs=Order(order="a-secret-order", amount=987_654_321))
    await shop.approve(await shop.drive())
    assert isinstance(await shop.drive(), Ended)

    for file in Path(where).parent.iterdir():
        written = file.read_bytes()
        assert b"a-secret-order" not in written, file
        assert b"987654321" not in written, file


async def test_what_is_no_run_of_a_workflow_is_not_found(open_shop: OpenShop) -> None:
    shop = await open_shop()
    await shop.world.submit("ship", {"word": "x"})

    for name in ("r1", "nowhere"):
        with pytest.raises(NotFound):
            await shop.workflows.advance("acme", name)
        with pytest.raises(NotFound):
            await shop.workflows.look("acme", name)
    await shop.start("r2")
    with pytest.raises(NotFound):
        await shop.workflows.look("globex", "r2")
    with pytest.raises(MisuseError):
        Workflows(shop.world.gate, (ORDER, ORDER))
