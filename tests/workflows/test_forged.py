"""Rows that somebody forged: no run takes a question's word that its MACs do not carry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet import Ended, Waiting
from placet.model.approval import Approval, ApprovalState, Edited
from placet.model.identifiers import PolicyVersion
from tests.workflows.conftest import OpenShop, Shop
from tests.workflows.order import Order
from tests.workflows.test_binding import Dear
from tests.workflows.test_edited import edited


class Laxer(Dear):
    """Asks about dear payments until it is turned into another policy, which asks about none."""

    is_lax = False

    @property
    def version(self) -> PolicyVersion:
        return PolicyVersion("lax" if self.is_lax else "dear")

    async def decide(self, call: Any) -> Any:
        return self.word(call.contract, call.principal) if self.is_lax else await super().decide(call)


def rows(shop: Shop) -> Any:
    store: Any = shop.world.gate.store
    return store._tables


def row(shop: Shop, approval_id: str) -> Approval:
    found: Approval = rows(shop).approvals["acme", approval_id]
    return found


def forge(shop: Shop, approval: Approval) -> None:
    rows(shop).approvals["acme", approval.question.approval_id] = approval


@pytest.mark.req("B044")
@pytest.mark.parametrize("asks", [True, False], ids=["policy asks", "policy asks nobody by now"])
async def test_a_mark_of_an_edit_that_nobody_made_changes_no_call(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """Another run's question, in this one's place: its arguments are sealed well, and its MAC says whose they are."""
    shop = await open_shop(policy=Laxer(), pay={"approval": "by_policy"})
    await shop.start()
    await shop.start("r2", inputs=Order("book", 9))
    waits, other = await shop.drive(), await shop.drive("r2")
    assert isinstance(waits, Waiting) and isinstance(other, Waiting)
    mine, theirs = row(shop, waits.approvals[0]), row(shop, other.approvals[0])
    mark = Edited(by="edith", from_id=mine.question.approval_id, from_digest=mine.question.argument_digest)
    moved = replace(theirs.question, run_id=mine.question.run_id, call_id=mine.question.call_id, edited=mark)
    state = ApprovalState.WITHDRAWN if asks else ApprovalState.SPENT
    forge(shop, replace(theirs, question=moved, state=state))
    if asks:
        await shop.approve(waits)
    else:
        monkeypatch.setattr(Laxer, "is_lax", True)

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.status, shop.payments.calls) == ("done", [("book", 3)])


@pytest.mark.req("B044")
async def test_a_state_that_nobody_gave_an_edited_question_does_not_have_it_done(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spent, as it would be after its call was done: by now policy would ask nobody about that call."""
    shop = await open_shop(policy=Laxer(), pay={"approval": "by_policy"})
    await shop.start()
    made = await edited(shop, await shop.drive(), {"word": "book", "count": 9})
    forge(shop, replace(row(shop, made), state=ApprovalState.SPENT))
    monkeypatch.setattr(Laxer, "is_lax", True)

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert shop.payments.calls == [("book", 3)]
