"""A run whose payment was approved in another state: asked again, as under another policy, and paid for once."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Ended, ProbeContext, Waiting
from placet.model.approval import ApprovalState
from tests.workflows.conftest import OpenShop, Shop
from tests.workflows.order import BOSS
from tests.workflows.test_edited import CHEAPER, EDITOR, asked, edited

pytestmark = pytest.mark.case("E12")


class Balance:
    """What the payment is bound to; while `is_gone`, nobody can read it."""

    def __init__(self) -> None:
        self.version = 12
        self.is_gone = False

    async def look(self, asked: ProbeContext) -> Any:
        if self.is_gone:
            raise ConnectionError
        return {"version": self.version}


@pytest.fixture
def balance() -> Balance:
    return Balance()


async def opened(open_shop: OpenShop, balance: Balance, **more: Any) -> Shop:
    shop = await open_shop(pay={"precondition": balance.look}, **more)
    await shop.start()
    return shop


@pytest.mark.parametrize("where", ["memory", "sqlite"], indirect=True)
async def test_a_run_is_asked_again_where_the_state_has_changed(
    open_shop: OpenShop, balance: Balance, where: str
) -> None:
    shop = await opened(open_shop, balance, store=where)
    first = await shop.drive()
    await shop.approve(first)

    balance.version = 13
    again = await shop.drive()

    assert isinstance(first, Waiting) and isinstance(again, Waiting)
    assert (again.code, shop.payments.calls) == ("approval_required", [])
    assert set(again.approvals).isdisjoint(first.approvals)
    assert await asked(shop) == [ApprovalState.PENDING, ApprovalState.REVOKED]
    await shop.approve(again)
    ended = await shop.drive()
    assert isinstance(ended, Ended)
    assert (ended.status, shop.payments.calls) == ("done", [("book", 3)])


async def test_a_run_waits_while_the_state_cannot_be_read(open_shop: OpenShop, balance: Balance) -> None:
    shop = await opened(open_shop, balance)
    await shop.approve(await shop.drive())

    balance.is_gone = True
    waits = await shop.drive()

    assert isinstance(waits, Waiting)
    assert (waits.code, waits.approvals, shop.payments.calls) == ("precondition_unavailable", (), [])
    balance.is_gone = False
    shop.world.clock.advance(120.0)
    ended = await shop.drive()
    assert isinstance(ended, Ended)
    assert (ended.status, shop.payments.calls) == ("done", [("book", 3)])


async def test_what_a_person_made_of_it_is_asked_again_and_not_what_it_was(
    open_shop: OpenShop, balance: Balance
) -> None:
    shop = await opened(open_shop, balance)
    made = await edited(shop, await shop.drive())
    await shop.approve(await shop.drive())

    balance.version = 13
    again = await shop.drive()

    assert isinstance(again, Waiting) and again.approvals != (made,)
    assert (await shop.drive()) == again, "one question, however often it is looked at"
    view = await shop.world.gate.desk.show(again.approvals[0], by=BOSS)
    assert (view.arguments, view.edited_by, view.state) == (CHEAPER, EDITOR.subject, ApprovalState.PENDING)
    assert "state_changed" in view.reasons
    own = await shop.world.gate.desk.show(again.approvals[0], by=EDITOR)
    assert own.why_not == "own_edit"
    await shop.approve(again)
    ended = await shop.drive()
    assert isinstance(ended, Ended)
    assert (ended.status, shop.payments.calls) == ("done", [("book", 2)])
