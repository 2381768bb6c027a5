"""A small workflow of every kind of step, on gates that a test opens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from placet import InlineDriver, Progress, Waiting, Workflow, Workflows
from tests.engine.conftest import OpenWorld, Spy, World, open_world, spy, where
from tests.workflows.order import AGENT, BOSS, ORDER, Order, tools

__all__ = ["OpenShop", "Shop", "open_shop", "open_world", "spy", "where"]


@dataclass
class Shop:
    """One open gate with the order's tools, and what they did."""

    world: World
    workflows: Workflows
    looks: Spy
    payments: Spy
    shipments: Spy

    async def start(self, run: str = "r1", **more: Any) -> Progress:
        return await self.workflows.start(
            "order", **{"run": run, "inputs": Order(order="book", amount=3), "principal": AGENT, **more}
        )

    async def drive(self, run: str = "r1") -> Progress:
        return await InlineDriver(self.workflows).drive("acme", run)

    async def approve(self, progress: Progress) -> None:
        await self.decide(progress, "approve")

    async def decide(self, progress: Progress, verb: str) -> None:
        assert isinstance(progress, Waiting)
        for approval in progress.approvals:
            shown = await self.world.gate.desk.show(approval, by=BOSS)
            await getattr(self.world.gate.desk, verb)(approval, by=BOSS, digest=shown.digest)

    async def states(self, run: str = "r1") -> list[str]:
        return [event["detail"] for event in self.world.events("run_moved") if event["run_id"] == run]


OpenShop = Callable[..., Awaitable[Shop]]


@pytest.fixture
def open_shop(open_world: OpenWorld) -> OpenShop:
    async def opened(workflow: Workflow = ORDER, *, spies: Shop | None = None, **more: Any) -> Shop:
        looks, payments, shipments = (
            (spies.looks, spies.payments, spies.shipments) if spies is not None else (Spy(), Spy(), Spy())
        )
        principal_of = more.pop("principal_of", None)
        world = await open_world(
            *tools(looks, payments, shipments, pay=more.pop("pay", None), ship=more.pop("ship", None)), **more
        )
        return Shop(
            world=world,
            workflows=Workflows(world.gate, (workflow,), principal_of=principal_of),
            looks=looks,
            payments=payments,
            shipments=shipments,
        )

    return opened
