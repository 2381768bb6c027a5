"""The page of a call whose approval is bound to a state: that it is, and nothing of the state."""

from __future__ import annotations

import re

import pytest

import placet
from tests.console.shop import MEI, open_shop
from tests.console.test_pages import page, text_of


@pytest.mark.case("E12")
async def test_the_page_says_that_the_call_is_bound_to_a_state_and_shows_no_value_of_it() -> None:
    balances = {"a-1": "canary-12"}

    async def balance_of(asked: placet.ProbeContext) -> str:
        return balances["a-1"]

    @placet.tool(effect="write", risk="low", permission="shop.write", approval="always", precondition=balance_of)
    def close(account: str) -> str:
        """Close an account."""
        return account

    async with open_shop(tools=[close]) as shop:
        outcome = await shop.ask("close", call="c-1", account="a-1")
        assert isinstance(outcome, placet.AwaitingApproval)
        view = await shop.gate.desk.show(outcome.approval_id, by=MEI)
        first = await page(shop, f"/approvals/{outcome.approval_id}")
        await shop.gate.desk.approve(outcome.approval_id, digest=view.digest, by=MEI)
        balances["a-1"] = "canary-13"
        anew = await shop.ask("close", call="c-1", account="a-1")
        assert isinstance(anew, placet.AwaitingApproval)
        second = await page(shop, f"/approvals/{anew.approval_id}")

    assert view.state_digest is not None and re.fullmatch("[0-9a-f]{12}", view.state_digest)
    assert f"Bound to the state of the world when it was asked, {view.state_digest}" in text_of(first).replace(
        " :", ":"
    )
    assert "the state that approval was bound to has changed since state_changed" in text_of(second)
    assert view.state_digest not in second
    assert "canary" not in first + second
