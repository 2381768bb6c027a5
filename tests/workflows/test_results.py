"""What a workflow came to is told to whoever asks for it, and only once it came to an end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placet import Failure, Workflows
from placet.errors import NotFound
from tests.workflows.conftest import OpenShop
from tests.workflows.order import ORDER, Order


async def test_a_run_that_has_ended_gives_what_its_end_was_given(open_shop: OpenShop) -> None:
    shop = await open_shop()
    await shop.start()
    await shop.approve(await shop.drive())
    for run in ("r1", "never-begun"):
        with pytest.raises(NotFound):
            await shop.workflows.result("acme", run)
    await shop.drive()
    await shop.start("r2")
    await shop.decide(await shop.drive("r2"), "deny")
    await shop.drive("r2")

    assert await shop.workflows.result("acme", "r1") == Order(order="book", amount=3)
    assert await shop.workflows.result("acme", "r2") == Failure(state="PAY", code="not_paid")
    with pytest.raises(NotFound):
        await shop.workflows.result("bravo", "r1")
    other = Workflows(shop.world.gate, (replace(ORDER, version="2"),))
    with pytest.raises(NotFound):
        await other.result("acme", "r1")
