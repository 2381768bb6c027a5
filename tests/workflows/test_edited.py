"""A person changes, or takes back, the question that a run waits for: the run goes on with what was made of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet import (
    AskRule,
    AskRules,
    Ended,
    Fail,
    Matrix,
    Move,
    Next,
    NotSent,
    Principal,
    RequirementKind,
    RunLimits,
    RunStatus,
    StepContext,
    Waiting,
)
from placet.engine import following
from placet.errors import DecisionRefused
from placet.model.approval import ApprovalState
from placet.model.identifiers import PolicyVersion, RunId
from placet.model.outcome import Outcome
from tests.engine.conftest import SCOPE
from tests.workflows.conftest import OpenShop, Shop
from tests.workflows.order import AGENT, BOSS, Order, with_step

EDITOR = Principal.person("edith", tenant="acme", roles=("operator",), scopes=("approvals.decide", SCOPE))
OTHER_EDITOR = replace(EDITOR, subject="edgar")
CHEAPER = {"word": "book", "count": 2}


class Told:
    """The order, whose payment keeps what it was answered."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    async def pay(self, inputs: Order, context: StepContext) -> Move:
        outcome = await context.call("pay", {"word": inputs.order, "count": inputs.amount}, name="payment")
        self.outcomes.append(outcome)
        return Next("SHIP", inputs) if outcome.is_success else Next("SHIP", replace(inputs, amount=0))


async def edited(shop: Shop, waits: Any, arguments: dict[str, Any] = CHEAPER, by: Principal = EDITOR) -> str:
    view = await shop.world.gate.desk.show(waits.approvals[-1], by=by)
    made = await shop.world.gate.desk.edit(waits.approvals[-1], digest=view.digest, arguments=arguments, by=by)
    return made.approval_id


async def asked(shop: Shop) -> list[ApprovalState]:
    found = await shop.world.gate.store.approvals_of_run("acme", RunId("r1"), limit=99)
    return [each.state for each in found]


@pytest.mark.case("E13")
@pytest.mark.parametrize("where", ["memory", "sqlite"], indirect=True)
async def test_a_run_waits_for_the_edited_question_and_does_what_it_became(open_shop: OpenShop, where: str) -> None:
    told = Told()
    shop = await open_shop(with_step("PAY", told.pay), store=where)
    await shop.start()
    first = await edited(shop, await shop.drive())

    waits = await shop.drive()
    assert isinstance(waits, Waiting)
    assert (waits.state, waits.code, waits.approvals) == ("CONFIRM", "approval_required", (first,))
    second = await edited(shop, waits, {"word": "book", "count": 1}, by=OTHER_EDITOR)  # an edit of an edit
    waits = await shop.drive()
    assert isinstance(waits, Waiting)
    assert (waits.approvals, shop.payments.count) == ((second,), 0)

    await shop.approve(waits)
    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.status, shop.payments.calls) == ("done", [("book", 1)])
    (outcome,) = told.outcomes
    assert (outcome.code, outcome.edited_arguments) == ("succeeded", {"word": "book", "count": 1})
    assert outcome.as_data()["edited_arguments"] == {"word": "book", "count": 1}


@pytest.mark.case("E13")
@pytest.mark.parametrize("key", [None, "pay:{word}:{count}"], ids=["named by the run", "named by its arguments"])
async def test_what_was_done_as_edited_is_answered_from_the_ledger_ever_after(
    open_shop: OpenShop, key: str | None
) -> None:
    """The process dies between the payment and its checkpoint: the step proposes the first arguments again."""
    told = Told()
    shop = await open_shop(with_step("PAY", told.pay), pay={"operation_key": key})
    await shop.start()
    await edited(shop, await shop.drive())
    await shop.approve(await shop.drive())
    await shop.workflows.advance("acme", "r1")  # into PAY
    tables: Any = shop.world.gate.store
    before = dict(tables._tables.checkpoints)
    await shop.workflows.advance("acme", "r1")
    tables._tables.checkpoints.update(before)

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert [each.code for each in told.outcomes] == ["succeeded", "replayed"]
    assert {each.edited_arguments == CHEAPER for each in told.outcomes} == {True}
    assert shop.payments.calls == [("book", 2)]


async def test_an_edited_question_that_is_denied_refuses_the_call(open_shop: OpenShop) -> None:
    told = Told()
    shop = await open_shop(with_step("PAY", told.pay))
    await shop.start()
    await edited(shop, await shop.drive())

    await shop.decide(await shop.drive(), "deny")
    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert [each.code for each in told.outcomes] == ["approval_denied"]
    assert (shop.payments.count, await asked(shop)) == (0, [ApprovalState.DENIED, ApprovalState.WITHDRAWN])


@pytest.mark.parametrize("is_edited", [False, True], ids=["as it was asked", "as it was edited"])
async def test_a_question_that_was_taken_back_refuses_the_call_and_is_not_asked_anew(
    open_shop: OpenShop, is_edited: bool
) -> None:
    told = Told()
    shop = await open_shop(with_step("PAY", told.pay))
    await shop.start()
    waits = await shop.drive()
    if is_edited:
        await edited(shop, waits)
        waits = await shop.drive()
    assert isinstance(waits, Waiting)

    await shop.world.gate.desk.withdraw(waits.approvals[0], by=BOSS)
    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert [each.code for each in told.outcomes] == ["approval_withdrawn"]
    assert (shop.payments.count, set(await asked(shop))) == (0, {ApprovalState.WITHDRAWN})
    assert len(await asked(shop)) == 1 + is_edited
    (refused,) = [event for event in shop.world.events("completed") if event.get("detail") == "approval_withdrawn"]
    assert refused["outcome"] == "denied"


async def test_a_question_about_a_second_attempt_that_was_taken_back_is_not_asked_anew(open_shop: OpenShop) -> None:
    """The first attempt was not sent, so the call may be made once more; of that the person said no more."""
    shop = await open_shop(ship={"approval": "always"})

    async def not_sent() -> None:
        raise NotSent

    async def again() -> Outcome:
        step = {"call_id": "sending", "tool": "ship", "arguments": {"word": "book"}}
        return await shop.world.gate.submit_followed(step, principal=AGENT, run="r9", idempotency_key="k")

    shop.shipments.meanwhile = not_sent  # type: ignore[attr-defined]
    first: Any = await again()
    shown = await shop.world.gate.desk.show(first.approval_id, by=BOSS)
    await shop.world.gate.desk.approve(first.approval_id, by=BOSS, digest=shown.digest)
    failed, sent = await again(), shop.shipments.count
    second: Any = await again()
    await shop.world.gate.desk.withdraw(second.approval_id, by=BOSS)

    outcome = await again()

    assert ([first.code, failed.code, second.code], outcome.code) == (
        ["approval_required", "not_sent", "approval_required"], "approval_withdrawn"
    )  # fmt: skip
    assert shop.shipments.count == sent


class Sending:
    """One call to send, whose first dispatch was as somebody edited it, was approved, and was not sent."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    async def again(self) -> Any:
        step = {"call_id": "sending", "tool": "ship", "arguments": {"word": "book", "count": 5}}
        return await self._shop.world.gate.submit_followed(step, principal=AGENT, run="r9", idempotency_key=None)

    async def edited(self, waits: Any, count: int, by: Principal = OTHER_EDITOR) -> str:
        """By another one than the first edit: what is asked anew about that is still its editor's."""
        view = await self._shop.world.gate.desk.show(waits.approval_id, by=by)
        made = await self._shop.world.gate.desk.edit(
            waits.approval_id, digest=view.digest, arguments={"word": "book", "count": count}, by=by
        )
        return made.approval_id

    async def decided(self, approval_id: str, verb: str) -> None:
        view = await self._shop.world.gate.desk.show(approval_id, by=BOSS)
        more = {} if verb == "withdraw" else {"digest": view.digest}
        await getattr(self._shop.world.gate.desk, verb)(approval_id, by=BOSS, **more)

    async def tried(self) -> Any:
        """Where the question about the second attempt stands."""

        async def not_sent() -> None:
            raise NotSent

        shipments: Any = self._shop.shipments
        shipments.meanwhile = not_sent
        await self.decided(await self.edited(await self.again(), 4, EDITOR), "approve")
        assert (await self.again()).code == "not_sent"
        shipments.meanwhile, shipments.calls[:] = None, []
        return await self.again()


@pytest.mark.parametrize(
    ("verb", "code", "sent"),
    [("approve", "succeeded", [("book", 3)]), ("deny", "approval_denied", []), ("withdraw", "approval_withdrawn", [])],
)
async def test_an_edit_of_what_is_asked_anew_about_an_edited_call_is_followed_too(
    open_shop: OpenShop, verb: str, code: str, sent: list[Any]
) -> None:
    shop = await open_shop(ship={"approval": "always", "operation_key": "ship:{word}:{count}"})
    sending = Sending(shop)
    made = await sending.edited(await sending.tried(), 3)

    waits = await sending.again()
    assert (waits.code, waits.approval_id) == ("approval_required", made)
    await sending.decided(made, verb)
    outcome = await sending.again()

    assert (outcome.code, outcome.edited_arguments) == (code, {"word": "book", "count": 3})
    assert shop.shipments.calls == sent
    assert (await sending.again()).code == ("replayed" if sent else code)
    assert shop.shipments.calls == sent


async def test_an_edit_that_runs_out_has_the_call_asked_anew_that_it_was_made_of(open_shop: OpenShop) -> None:
    shop = await open_shop(ship={"approval": "always", "operation_key": "ship:{word}:{count}"})
    sending = Sending(shop)
    await sending.edited(await sending.tried(), 3)
    shop.world.clock.advance(86_400)

    waits = await sending.again()

    assert (waits.code, waits.edited_arguments) == ("approval_required", {"word": "book", "count": 4})


async def test_another_call_that_says_what_a_closed_edit_said_is_a_call_of_its_own(open_shop: OpenShop) -> None:
    """It is the editor's not to approve; for the rest nothing was made of anything."""
    shop = await open_shop()
    desk = shop.world.gate.desk

    async def proposed(call_id: str, count: int) -> Any:
        step = {"call_id": call_id, "tool": "pay", "arguments": {"word": "book", "count": count}}
        shop.world.clock.advance(1)
        return await shop.world.gate.submit_followed(step, principal=AGENT, run="r9", idempotency_key=call_id)

    first = await proposed("first", 3)
    view = await desk.show(first.approval_id, by=EDITOR)
    made = await desk.edit(first.approval_id, digest=view.digest, arguments={"word": "book", "count": 2}, by=EDITOR)
    await desk.withdraw(made.approval_id, by=BOSS)

    second = await proposed("second", 2)
    assert (second.code, second.edited_arguments) == ("approval_required", None)
    assert (await desk.show(second.approval_id, by=EDITOR)).why_not == "own_edit"
    await desk.withdraw(second.approval_id, by=BOSS)

    outcome = await proposed("second", 2)
    assert (outcome.code, outcome.edited_arguments) == ("approval_withdrawn", None)


@pytest.mark.parametrize("key", [None, "ship:{word}"], ids=["named by the run", "named by what stays"])
async def test_an_operation_that_was_tried_with_other_arguments_is_not_edited(
    open_shop: OpenShop, key: str | None
) -> None:
    """The ledger keeps it under those arguments: nobody could do what the edit says, however often it was approved."""
    shop = await open_shop(ship={"approval": "always", "operation_key": key})
    sending = Sending(shop)
    waits = await sending.tried()

    with pytest.raises(DecisionRefused) as refused:
        await sending.edited(waits, 3)

    assert refused.value.code == "operation_conflict"
    assert (await sending.again()).approval_id == waits.approval_id
    await sending.decided(waits.approval_id, "approve")
    assert ((await sending.again()).code, shop.shipments.calls) == ("succeeded", [("book", 4)])


async def test_an_edited_question_that_runs_out_has_the_first_asked_anew(open_shop: OpenShop) -> None:
    told = Told()
    shop = await open_shop(with_step("PAY", told.pay))
    await shop.start()
    await edited(shop, await shop.drive())
    await shop.drive()
    shop.world.clock.advance(86_400)

    waits = await shop.drive()
    assert isinstance(waits, Waiting)
    view = await shop.world.gate.desk.show(waits.approvals[0], by=BOSS)

    assert (waits.state, view.arguments, view.edited_by) == ("PAY", {"word": "book", "count": 3}, None)


class Newer(Matrix):
    @property
    def version(self) -> PolicyVersion:
        return PolicyVersion("newer")


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_under_another_policy_neither_an_edit_nor_a_withdrawal_binds(open_shop: OpenShop, where: str) -> None:
    """What a person said of it was said of a question that would not be asked so any more."""
    shop = await open_shop(store=where)
    for run in ("r1", "r2"):
        await shop.start(run)
    await edited(shop, await shop.drive("r1"))
    waits = await shop.drive("r2")
    assert isinstance(waits, Waiting)
    await shop.world.gate.desk.withdraw(waits.approvals[0], by=BOSS)
    later = await open_shop(store=where, policy=Newer(), clock=shop.world.clock, spies=shop, seed=1)

    for run in ("r1", "r2"):
        waits = await later.drive(run)
        assert isinstance(waits, Waiting), waits
        view = await later.world.gate.desk.show(waits.approvals[0], by=BOSS)
        assert (view.arguments, view.edited_by) == ({"word": "book", "count": 3}, None)


@pytest.mark.case("E13")
@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
@pytest.mark.parametrize("verb", [None, "approve", "deny", "withdraw"])
async def test_an_edit_binds_again_once_its_policy_is_back(open_shop: OpenShop, where: str, verb: str | None) -> None:
    """Rolled out and rolled back, while a person looks at what was made of the question, and answers it."""
    older = await open_shop(store=where)
    newer = await open_shop(store=where, policy=Newer(), clock=older.world.clock, spies=older, seed=1)
    step = {"call_id": "payment", "tool": "pay", "arguments": {"word": "book", "count": 3}}

    async def again(shop: Shop) -> Any:
        older.world.clock.advance(1)
        return await shop.world.gate.submit_followed(step, principal=AGENT, run="r9", idempotency_key="k")

    first = await again(older)
    view = await older.world.gate.desk.show(first.approval_id, by=EDITOR)
    made = await older.world.gate.desk.edit(view.approval_id, digest=view.digest, arguments=CHEAPER, by=EDITOR)
    anew = await again(newer)
    assert (anew.code, anew.edited_arguments) == ("approval_required", None)

    waits = await again(older)
    assert (waits.code, waits.approval_id, waits.edited_arguments) == ("approval_required", made.approval_id, CHEAPER)
    assert (await again(newer)).approval_id == anew.approval_id
    if verb is None:
        return
    more = {} if verb == "withdraw" else {"digest": made.digest}
    await getattr(older.world.gate.desk, verb)(made.approval_id, by=BOSS, **more)

    outcome = await again(older)
    codes = {"approve": "succeeded", "deny": "approval_denied", "withdraw": "approval_withdrawn"}
    assert (outcome.code, outcome.edited_arguments) == (codes[verb], CHEAPER)
    assert older.payments.calls == ([("book", 2)] if verb == "approve" else [])
    if verb == "approve":  # and what was done stays done, whatever policy there is then
        assert [(await again(shop)).code for shop in (newer, older, newer)] == ["replayed"] * 3


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_edits_to_and_fro_under_policies_to_and_fro_are_each_looked_at_once(
    open_shop: OpenShop, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ways from one to the next would be more than anybody can go."""
    older = await open_shop(store=where)
    newer = await open_shop(store=where, policy=Newer(), clock=older.world.clock, spies=older, seed=1)
    counts = (3, 2)
    for turn in range(16):
        shop, count = (older, newer)[turn // 2 % 2], counts[turn % 2]
        older.world.clock.advance(86_400)  # nobody answers what was made of the one before
        step = {"call_id": "payment", "tool": "pay", "arguments": {"word": "book", "count": count}}
        waits: Any = await shop.world.gate.submit(step, principal=AGENT, run="r9", idempotency_key="k")
        by = (EDITOR, OTHER_EDITOR)[turn % 2]  # what is asked anew is still the other one's
        view = await shop.world.gate.desk.show(waits.approval_id, by=by)
        arguments = {"word": "book", "count": counts[1 - turn % 2]}
        await shop.world.gate.desk.edit(view.approval_id, digest=view.digest, arguments=arguments, by=by)
    looked_at: list[int] = []
    real = following._edits_of

    def edits_of(*args: Any) -> Any:
        found = real(*args)
        looked_at.append(len(found))
        return found

    monkeypatch.setattr(following, "_edits_of", edits_of)
    step = {"call_id": "payment", "tool": "pay", "arguments": {"word": "book", "count": 3}}
    outcome = await older.world.gate.submit_followed(step, principal=AGENT, run="r9", idempotency_key="k")

    assert (outcome.code, looked_at) == ("approval_required", [16])


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
@pytest.mark.parametrize("key", [None, "pay:{word}:{count}"], ids=["named by the run", "named by its arguments"])
async def test_what_was_done_as_proposed_is_not_done_again_as_edited(
    open_shop: OpenShop, where: str, key: str | None
) -> None:
    """Edited and approved under one policy, asked anew and done under another, which is rolled back then."""
    pay = {"operation_key": key}
    older = await open_shop(store=where, pay=pay)
    newer = await open_shop(store=where, policy=Newer(), clock=older.world.clock, spies=older, seed=1, pay=pay)
    step = {"call_id": "payment", "tool": "pay", "arguments": {"word": "book", "count": 3}}

    async def again(shop: Shop) -> Any:
        older.world.clock.advance(1)
        more = {} if key is not None else {"idempotency_key": "k"}
        return await shop.world.gate.submit_followed(step, principal=AGENT, run="r9", **more)

    async def approved(shop: Shop, approval_id: str) -> None:
        view = await shop.world.gate.desk.show(approval_id, by=BOSS)
        await shop.world.gate.desk.approve(approval_id, digest=view.digest, by=BOSS)

    first = await again(older)
    view = await older.world.gate.desk.show(first.approval_id, by=EDITOR)
    made = await older.world.gate.desk.edit(view.approval_id, digest=view.digest, arguments=CHEAPER, by=EDITOR)
    await approved(newer, (await again(newer)).approval_id)
    assert (await again(newer)).code == "succeeded"
    await approved(older, made.approval_id)

    outcome = await again(older)

    assert (outcome.code, outcome.edited_arguments, older.payments.calls) == ("replayed", None, [("book", 3)])


async def test_the_editors_own_word_does_not_set_the_run_going(open_shop: OpenShop) -> None:
    rule = AskRule(name="all", needs=RequirementKind.REVIEW)
    shop = await open_shop(policy=Matrix(asks=AskRules(rules=(rule,))))
    await shop.start()
    await edited(shop, await shop.drive())
    waits = await shop.drive()
    assert isinstance(waits, Waiting)
    view = await shop.world.gate.desk.show(waits.approvals[0], by=EDITOR)

    assert view.why_not == "own_edit"
    assert isinstance(await shop.drive(), Waiting)
    assert shop.payments.count == 0


async def test_a_step_that_wants_something_else_under_the_name_of_an_edited_call_meets_a_conflict(
    open_shop: OpenShop,
) -> None:
    wanted = iter((3, 9))

    async def fickle(inputs: Order, context: StepContext) -> Move:
        outcome = await context.call("pay", {"word": inputs.order, "count": next(wanted)}, name="payment")
        return Fail(outcome.code)

    shop = await open_shop(with_step("PAY", fickle))
    await shop.start()
    await edited(shop, await shop.drive())
    await shop.approve(await shop.drive())
    await shop.workflows.advance("acme", "r1")  # into PAY
    tables: Any = shop.world.gate.store
    before = dict(tables._tables.checkpoints)
    await shop.workflows.advance("acme", "r1")
    tables._tables.checkpoints.update(before)
    tables._tables.runs["acme", RunId("r1")] = replace(tables._tables.runs["acme", RunId("r1")], status=RunStatus.OPEN)

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.code, shop.payments.calls) == ("operation_conflict", [("book", 2)])


# ---------------------------------------------------------------- what nobody waits for any more


async def _asks_and_goes(inputs: Order, context: StepContext) -> Move:
    await context.propose("pay", {"word": inputs.order, "count": inputs.amount}, name="payment")
    return Fail("enough") if inputs.order == "pen" else Next("DONE", inputs)


@pytest.mark.parametrize("where", ["memory", "sqlite"], indirect=True)
@pytest.mark.parametrize("order", ["pen", "book"], ids=["failed", "done"])
async def test_a_run_that_ends_takes_its_open_questions_back(open_shop: OpenShop, where: str, order: str) -> None:
    workflow = with_step("CHECK", _asks_and_goes, next=("DONE", "CONFIRM"), tools=("stock.look", "pay"))
    shop = await open_shop(workflow, store=where)
    await shop.start("r2")  # another run, whose question stays
    await shop.workflows.advance("acme", "r2")
    await shop.start(inputs=Order(order=order, amount=3))

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert await asked(shop) == [ApprovalState.WITHDRAWN]
    assert ("acme", "r1") not in await shop.workflows.due()
    details = [event["detail"] for event in shop.world.events("approval_withdrawn") if event["run_id"] == "r1"]
    assert details == ["run_over"]


async def test_a_run_that_fails_at_its_deadline_takes_its_question_back(open_shop: OpenShop) -> None:
    shop = await open_shop()
    deadline = shop.world.clock.now() + timedelta(hours=1)
    await shop.start(limits=RunLimits(deadline=deadline))
    await shop.drive()
    shop.world.clock.advance(3_600)

    assert isinstance(await shop.drive(), Ended)
    assert await asked(shop) == [ApprovalState.WITHDRAWN]
    assert await shop.world.gate.desk.pending(by=BOSS) == ()


async def test_what_a_crash_left_open_of_a_run_that_is_over_is_taken_back_by_whoever_looks_next(
    open_shop: OpenShop,
) -> None:
    shop = await open_shop()
    for run in ("r1", "r2"):
        await shop.start(run)
        await shop.drive(run)
        tables: Any = shop.world.gate.store
        tables._tables.runs["acme", RunId(run)] = replace(
            tables._tables.runs["acme", RunId(run)], status=RunStatus.FAILED
        )

    await shop.workflows.advance("acme", "r1")
    report = await shop.world.gate.runs.cancel("r2", by=BOSS)

    assert (report.status, report.is_news, report.withdrawn) == (RunStatus.FAILED, False, 1)
    assert await shop.world.gate.desk.pending(by=BOSS) == ()


async def test_more_questions_than_are_listed_at_once_are_taken_back_too(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.engine.runs.MOST_LISTED", 2)
    shop = await open_shop()
    for count in range(5):
        await shop.world.gate.submit(
            {"call_id": f"c{count}", "tool": "pay", "arguments": {"word": "book", "count": count}},
            principal=AGENT,
            run="r1",
        )

    report = await shop.world.gate.runs.cancel("r1", by=BOSS)

    assert (report.withdrawn, set(await asked(shop))) == (5, {ApprovalState.WITHDRAWN})


@pytest.mark.parametrize("verb", ["edit", "approve"])
async def test_what_a_person_does_while_the_run_is_cancelled_leaves_no_question_open(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    shop = await open_shop()
    await shop.start()
    waits = await shop.drive()
    kind = type(shop.world.gate.store)
    real, said = kind.open_approvals_of_run, []

    async def listed(self: Any, *args: Any, **more: Any) -> Any:
        found = await real(self, *args, **more)
        if not said:
            said.append(verb)
            await (edited(shop, waits) if verb == "edit" else shop.approve(waits))
        return found

    monkeypatch.setattr(kind, "open_approvals_of_run", listed)
    await shop.world.gate.runs.cancel("r1", by=BOSS)

    closed = [ApprovalState.WITHDRAWN] * 2 if verb == "edit" else [ApprovalState.REVOKED]
    assert (said, await asked(shop)) == ([verb], closed)


async def test_another_call_that_says_the_same_does_not_become_the_edited_one(open_shop: OpenShop) -> None:
    codes: list[str] = []

    async def twice(inputs: Order, context: StepContext) -> Move:
        for name in ("one", "two"):
            outcome = await context.call("pay", {"word": inputs.order, "count": 3}, name=name)
            codes.append(outcome.code)
        return Fail("enough")

    shop = await open_shop(with_step("CHECK", twice, tools=("pay",)))
    await shop.start()
    await edited(shop, await shop.drive())
    await shop.approve(await shop.drive())

    assert isinstance(await shop.drive(), Ended)
    assert (codes, shop.payments.calls) == (["succeeded", "edited_by_person"], [("book", 2)])


async def test_what_a_contract_hides_from_the_editor_is_done_as_it_was_asked(open_shop: OpenShop) -> None:
    shop = await open_shop(pay={"redact": ("word",)})
    await shop.start()
    waits = await shop.drive()
    await edited(shop, waits, {"word": "whatever stands there", "count": 2})
    await shop.approve(await shop.drive())

    assert isinstance(await shop.drive(), Ended)
    assert shop.payments.calls == [("book", 2)]
