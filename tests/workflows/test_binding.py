"""What people said of a run's question binds its step, whatever else there is to say, and nobody else's word does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from placet import Ended, Matrix, RunLimits, Waiting
from placet.errors import StoreUnavailable
from placet.model.approval import ApprovalState
from placet.model.call import Call
from placet.model.decision import Allow, Ask, Decision
from placet.model.identifiers import PolicyVersion, RunId
from placet.model.outcome import Outcome
from placet.model.reminders import Reminders
from placet.rules.workflows import call_key
from tests.workflows.conftest import OpenShop, Shop
from tests.workflows.order import AGENT, BOSS, with_step
from tests.workflows.test_edited import CHEAPER, EDITOR, OTHER_EDITOR, Told, asked, edited

KEY = call_key("r1", "payment")


class Dear(Matrix):
    """Asks about payments of more than two, and about no others."""

    @property
    def version(self) -> PolicyVersion:
        return PolicyVersion("dear")

    async def decide(self, call: Call) -> Decision:
        word = self.word(call.contract, call.principal)
        if isinstance(word, Allow) and call.contract.name == "pay" and call.arguments["count"] > 2:  # type: ignore[operator]
            return Ask(reasons=("dear",), policy_version=self.version, requirement=self.requirement)
        return word


class Newer(Matrix):
    @property
    def version(self) -> PolicyVersion:
        return PolicyVersion("newer")


# ---------------------------------------------------------------- an edit that policy would not ask about


@pytest.mark.case("E13")
@pytest.mark.parametrize(
    ("then", "code", "paid"),
    [("approve", "succeeded", [("book", 2)]), ("deny", "approval_denied", []), ("withdraw", "approval_withdrawn", [])],
)
async def test_an_edited_question_is_waited_for_although_policy_asks_nobody_about_the_edited_call(
    open_shop: OpenShop, then: str, code: str, paid: list[Any]
) -> None:
    told = Told()
    shop = await open_shop(with_step("PAY", told.pay), policy=Dear(), pay={"approval": "by_policy"})
    await shop.start()
    made = await edited(shop, await shop.drive())

    waits = await shop.drive()
    assert isinstance(waits, Waiting)
    assert (waits.code, waits.approvals, shop.payments.calls) == ("approval_required", (made,), [])
    if then == "withdraw":
        await shop.world.gate.desk.withdraw(made, by=BOSS)
    else:
        await shop.decide(waits, then)
    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert ([each.code for each in told.outcomes], shop.payments.calls) == ([code], paid)
    assert len(await asked(shop)) == 2


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_an_edit_of_a_question_about_another_contract_binds_nobody(open_shop: OpenShop, where: str) -> None:
    shop = await open_shop(store=where)
    await shop.start()
    await edited(shop, await shop.drive())
    later = await open_shop(store=where, clock=shop.world.clock, spies=shop, seed=1, pay={"version": "2"})
    step = {"call_id": "payment", "tool": "pay", "arguments": {"word": "book", "count": 3}}

    outcome = await later.world.gate.submit_followed(step, principal=AGENT, run="r1", idempotency_key=KEY)

    assert (outcome.code, outcome.edited_arguments) == ("approval_required", None)


async def test_a_call_that_policy_allows_waits_for_its_edited_question_without_anybody_waiting(
    open_shop: OpenShop,
) -> None:
    shop = await open_shop(policy=Dear(), pay={"approval": "by_policy"})
    first = await _again(shop)
    view = await shop.world.gate.desk.show(first.approval_id, by=EDITOR)  # type: ignore[union-attr]
    made = await shop.world.gate.desk.edit(view.approval_id, digest=view.digest, arguments=CHEAPER, by=EDITOR)

    outcome = await _again(shop)

    assert (outcome.code, shop.payments.calls) == ("approval_required", [])
    assert outcome.approval_id == made.approval_id  # type: ignore[union-attr]


# ---------------------------------------------------------------- what nobody said


@contextmanager
def nothing_can_be_asked(shop: Shop) -> Iterator[None]:
    """As when the process dies, or the store goes, before its own question is there."""

    async def gone(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("gone")

    kind = type(shop.world.gate.store)
    real, kind.ask = kind.ask, gone  # type: ignore[method-assign]
    try:
        yield
    finally:
        kind.ask = real  # type: ignore[method-assign]


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
@pytest.mark.parametrize("change", ["policy", "contract"])
async def test_a_question_that_another_policy_was_about_to_ask_anew_was_taken_back_by_nobody(
    open_shop: OpenShop, where: str, change: str
) -> None:
    older = await open_shop(store=where)
    await older.start()
    first = await older.drive()
    assert isinstance(first, Waiting)
    more: dict[str, Any] = {"policy": Newer()} if change == "policy" else {"pay": {"version": "2"}}
    newer = await open_shop(store=where, clock=older.world.clock, spies=older, seed=1, **more)
    step = {"call_id": "payment", "tool": "pay", "arguments": {"word": "book", "count": 3}}

    with nothing_can_be_asked(newer):
        refused = await newer.world.gate.submit_followed(step, principal=AGENT, run="r1", idempotency_key=KEY)
    assert (refused.code, await asked(older)) == (
        "boundary_unavailable",
        [ApprovalState.PENDING],
    )  # and it is rolled back

    waits = await older.drive()
    assert isinstance(waits, Waiting)
    assert waits.approvals == first.approvals
    await older.approve(waits)
    assert isinstance(await older.drive(), Ended)
    assert older.payments.count == 1


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
@pytest.mark.parametrize("change", ["policy", "contract"])
async def test_a_question_is_closed_with_the_one_that_takes_its_place(
    open_shop: OpenShop, where: str, change: str
) -> None:
    older = await open_shop(store=where)
    await older.start()
    await older.drive()
    more: dict[str, Any] = {"policy": Newer()} if change == "policy" else {"pay": {"version": "2"}}
    newer = await open_shop(store=where, clock=older.world.clock, spies=older, seed=1, **more)
    step = {"call_id": "payment", "tool": "pay", "arguments": {"word": "book", "count": 3}}

    outcome = await newer.world.gate.submit_followed(step, principal=AGENT, run="r1", idempotency_key=KEY)

    assert outcome.code == "approval_required"
    assert sorted(await asked(older)) == [ApprovalState.PENDING, ApprovalState.WITHDRAWN]


# ---------------------------------------------------------------- the end of a run


@pytest.mark.parametrize("where", ["memory", "sqlite"], indirect=True)
async def test_a_run_ends_and_its_questions_close_in_one_transaction(
    open_shop: OpenShop, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever comes after the end is written: a process that dies, a store that is gone."""
    shop = await open_shop(store=where)
    deadline = shop.world.clock.now() + timedelta(hours=1)
    await shop.start(limits=RunLimits(deadline=deadline))
    await shop.drive()
    shop.world.clock.advance(3_600)

    async def gone(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(type(shop.world.gate.store), "retire", gone)
    monkeypatch.setattr(type(shop.world.gate.runs), "withdraw_questions", gone)
    with pytest.raises(StoreUnavailable):
        await shop.drive()

    run = await shop.world.gate.store.run("acme", RunId("r1"))
    assert run is not None
    assert (run.status.value, await asked(shop)) == ("failed", [ApprovalState.WITHDRAWN])
    details = [event["detail"] for event in shop.world.events("approval_withdrawn")]
    assert details == ["run_over"]


# ---------------------------------------------------------------- said while the step looks


async def _again(shop: Shop) -> Outcome:
    step = {"call_id": "payment", "tool": "pay", "arguments": {"word": "book", "count": 3}}
    return await shop.world.gate.submit_followed(step, principal=AGENT, run="r9", idempotency_key="k")


async def _meanwhile(shop: Shop, monkeypatch: pytest.MonkeyPatch, act: Any) -> Outcome:
    """A person does something between the look at the rows and the path's own."""
    kind = type(shop.world.gate.store)
    real, done = kind.approvals_of_tool, []

    async def looked(*args: Any, **more: Any) -> Any:
        found = await real(*args, **more)
        if not done:
            done.append(1)
            await act()
        return found

    monkeypatch.setattr(kind, "approvals_of_tool", looked)
    return await _again(shop)


async def test_an_edit_that_comes_while_the_step_looks_is_waited_for(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await open_shop()
    first = await _again(shop)

    async def edit() -> None:
        view = await shop.world.gate.desk.show(first.approval_id, by=EDITOR)  # type: ignore[union-attr]
        await shop.world.gate.desk.edit(view.approval_id, digest=view.digest, arguments=CHEAPER, by=EDITOR)

    outcome = await _meanwhile(shop, monkeypatch, edit)

    assert (outcome.code, outcome.edited_arguments) == ("approval_required", CHEAPER)


async def test_a_question_that_is_taken_back_while_the_step_looks_stays_taken_back(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await open_shop()
    first = await _again(shop)

    async def withdraw() -> None:
        await shop.world.gate.desk.withdraw(first.approval_id, by=BOSS)  # type: ignore[union-attr]

    outcome = await _meanwhile(shop, monkeypatch, withdraw)

    assert (outcome.code, (await _again(shop)).code) == ("approval_withdrawn", "approval_withdrawn")
    assert await shop.world.gate.desk.pending(by=BOSS) == ()


@pytest.mark.parametrize("verb", ["withdraw", "edit"])
async def test_what_is_made_of_another_operation_that_says_the_same_is_nothing_to_the_step(
    open_shop: OpenShop, verb: str
) -> None:
    """The agent asks the same by hand, in the run and under the call's very id; a person makes away with the double."""
    shop = await open_shop()
    first = await _again(shop)
    by_hand = {"call_id": "payment", "tool": "pay", "arguments": {"word": "book", "count": 3}}
    shop.world.clock.advance(1)
    double: Any = await shop.world.gate.submit(by_hand, principal=AGENT, run="r9", idempotency_key="another")
    assert double.approval_id != first.approval_id  # type: ignore[union-attr]
    if verb == "withdraw":
        await shop.world.gate.desk.withdraw(double.approval_id, by=BOSS)
    else:
        view = await shop.world.gate.desk.show(double.approval_id, by=EDITOR)
        await shop.world.gate.desk.edit(view.approval_id, digest=view.digest, arguments=CHEAPER, by=EDITOR)

    outcome = await _again(shop)

    assert (outcome.code, outcome.edited_arguments) == ("approval_required", None)
    assert outcome.approval_id == first.approval_id  # type: ignore[union-attr]


class Reminds(Matrix):
    """Reminds otherwise from one call to the next, under one version."""

    after: ClassVar[list[float]] = [60.0]

    async def decide(self, call: Call) -> Decision:
        self.after[0] += 60.0
        reminders = Reminders(remind_after_seconds=tuple(self.after))
        requirement = replace(self.requirement, reminders=reminders)
        return Ask(reasons=("asked",), policy_version=self.version, requirement=requirement)


async def test_a_question_that_is_asked_otherwise_from_now_on_was_taken_back_by_nobody(open_shop: OpenShop) -> None:
    shop = await open_shop(policy=Reminds(), pay={"approval": "by_policy"})

    first, second = await _again(shop), await _again(shop)

    assert (first.code, second.code) == ("approval_required", "approval_required")
    assert [view.approval_id for view in await shop.world.gate.desk.pending(by=BOSS)] == [second.approval_id]  # type: ignore[union-attr]


async def test_a_store_that_raises_whatever_it_likes_is_a_refusal(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await open_shop()

    async def raises(*_: Any, **__: Any) -> Any:
        raise ValueError("canary-4711")

    monkeypatch.setattr(type(shop.world.gate.store), "approvals_of_tool", raises)
    outcome = await _again(shop)

    assert (outcome.code, outcome.reasons) == ("boundary_unavailable", ("internal_fault",))
    (refused,) = shop.world.events("completed")
    assert (refused["detail"], "canary-4711" in str(shop.world.events())) == ("boundary_unavailable", False)


async def test_a_wait_goes_on_however_often_its_question_was_edited(open_shop: OpenShop) -> None:
    shop = await open_shop()
    await shop.start()
    last: Any = await shop.drive()
    for number in range(9):
        by = (EDITOR, OTHER_EDITOR)[number % 2]
        made = await edited(shop, last, {"word": "book", "count": 10 + number}, by=by)
        last = Waits(made)

    waits = await shop.workflows.advance("acme", "r1")

    assert isinstance(waits, Waiting)
    assert (waits.state, waits.approvals) == ("CONFIRM", last.approvals)


class Waits:
    def __init__(self, approval: str) -> None:
        self.approvals = (approval,)
