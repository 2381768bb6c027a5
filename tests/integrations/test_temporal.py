"""Temporal: a server that is killed, workers of several builds, histories of before, what it must not do by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Replayer

from placet.engine.workflow import Workflows
from placet.errors import MisuseError, NotFound, StoreUnavailable
from placet.integrations.temporal import RunWorkflow, TemporalDriver, Ticket, names_only
from placet.integrations.temporal.carrying import RUN
from placet.model.progress import Ended, Progress
from tests.integrations.conftest import TemporalServer
from tests.integrations.shop import (
    Shop,
    begun,
    carrying,
    decided,
    is_asking,
    is_over,
    open_gate,
    serving,
    until,
    workflow,
)

ShopOf = Callable[[str], Shop]
HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


async def connected(shop: Shop) -> Client:
    return await Client.connect(shop.address, namespace="placet")


def handle_of(client: Client, shop: Shop) -> Any:
    return client.get_workflow_handle(f"placet/acme/{shop.run}")


# ---------------------------------------------------------------- the server


async def test_a_server_that_is_killed_and_comes_back_goes_on_with_what_was_decided_meanwhile(
    shop_of: ShopOf, temporal: TemporalServer
) -> None:
    shop = shop_of("temporal")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            await until(shop, workflows, is_asking)
            temporal.kill()
            try:
                await decided(gate)
            finally:
                await temporal.start()
            ended = await until(shop, workflows, is_over)
            assert await driver.result("acme", shop.run) == ended
    assert shop.acted() == {"refund": 1, "note": 1}


async def test_a_run_that_temporal_was_never_told_of_is_begun_once_it_is_back(
    shop_of: ShopOf, temporal: TemporalServer
) -> None:
    """The starter hears of it; whoever serves later begins with it."""
    shop = shop_of("temporal")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver:
            temporal.kill()
            starting = asyncio.ensure_future(begun(shop, driver))
            try:
                await in_the_store(shop, workflows)
                with pytest.raises((RPCError, TimeoutError)):
                    await asyncio.wait_for(starting, 2)
            finally:
                await temporal.start()
            async with serving(shop, driver):
                await until(shop, workflows, is_asking)


async def in_the_store(shop: Shop, workflows: Workflows) -> None:
    """The run is there, whoever else knows of it."""
    async with asyncio.timeout(60):
        while True:
            try:
                await workflows.look("acme", shop.run)
                return
            except NotFound:
                await asyncio.sleep(0.02)


# ---------------------------------------------------------------- what it does, and does not, by itself


async def test_a_step_is_one_activity_that_temporal_never_tries_again(shop_of: ShopOf) -> None:
    shop = shop_of("temporal")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            await until(shop, workflows, is_asking)
            await decided(gate)
            await driver.result("acme", shop.run)
        history = await handle_of(await connected(shop), shop).fetch_history()

    asked = [
        event.activity_task_scheduled_event_attributes
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    assert len(asked) >= 5
    assert {(each.activity_type.name, each.retry_policy.maximum_attempts) for each in asked} == {("placet.advance", 1)}
    assert all(each.heartbeat_timeout.ToSeconds() for each in asked)


class Failing:
    """Workflows whose store is gone for the first few times."""

    def __init__(self, workflows: Workflows, times: int) -> None:
        self._workflows = workflows
        self.times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workflows, name)

    async def advance(self, tenant: str, run: str, **more: Any) -> Progress:
        if self.times:
            self.times -= 1
            raise StoreUnavailable("the address of the store") if self.times % 2 else ValueError("its password")
        return await self._workflows.advance(tenant, run, **more)


async def test_a_step_that_fails_is_asked_again_and_its_words_are_in_no_history(shop_of: ShopOf) -> None:
    shop = shop_of("temporal")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        failing: Any = Failing(workflows, 2)
        async with carrying(shop, failing) as driver, serving(shop, driver):
            await begun(shop, driver)
            await until(shop, workflows, is_asking)
            history = (await handle_of(await connected(shop), shop).fetch_history()).to_json()
    assert failing.times == 0
    assert "password" not in history and "address of the store" not in history
    assert not any(word in history for word in ("activityTaskFailed", "stackTrace"))


async def test_cancelling_the_workflow_breaks_off_no_step_and_the_run_is_begun_again(shop_of: ShopOf) -> None:
    """Whoever may use Temporal's interface may cancel what carries a run; the run is not theirs to end."""
    shop = shop_of("temporal")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            await until(shop, workflows, is_asking)
            handle = handle_of(await connected(shop), shop)
            await handle.cancel()
            async with asyncio.timeout(60):
                while (await handle.describe()).status == WorkflowExecutionStatus.RUNNING:
                    await asyncio.sleep(0.05)
            await decided(gate)
            await until(shop, workflows, is_over)
    assert shop.acted() == {"refund": 1, "note": 1}


class Slow:
    """Workflows whose first step takes until Temporal wants it broken off."""

    def __init__(self, workflows: Workflows) -> None:
        self._workflows = workflows
        self.is_under_way = asyncio.Event()
        self.ended = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workflows, name)

    async def advance(self, tenant: str, run: str, **more: Any) -> Progress:
        self.is_under_way.set()
        while not activity.is_cancelled() and not self.ended.is_set():
            await asyncio.sleep(0.02)
        progress = await self._workflows.advance(tenant, run, **more)
        self.ended.set()
        return progress


async def test_a_step_under_way_is_not_broken_off_by_who_cancels_its_workflow(shop_of: ShopOf) -> None:
    shop = shop_of("temporal")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        slow: Any = Slow(workflows)
        async with carrying(shop, slow) as driver, serving(shop, driver), asyncio.timeout(60):
            await begun(shop, driver)
            await slow.is_under_way.wait()
            handle = handle_of(await connected(shop), shop)
            await handle.cancel()
            with pytest.raises(WorkflowFailureError):
                await handle.result()
            assert not slow.ended.is_set()
            await slow.ended.wait()
            await until(shop, workflows, is_asking)


async def test_a_workflow_begun_by_somebody_else_with_something_else_ends_and_does_nothing(shop_of: ShopOf) -> None:
    shop = shop_of("temporal")
    client = await connected(shop)
    async with (
        open_gate(shop) as gate,
        carrying(shop, Workflows(gate, (workflow(),))) as driver,
        serving(shop, driver),
    ):
        strange = await client.start_workflow(RUN, {"tenant": "x"}, id=f"x-{shop.run}", task_queue=shop.run)
        with pytest.raises(WorkflowFailureError):
            async with asyncio.timeout(60):
                await strange.result()


# ---------------------------------------------------------------- deploys


async def test_a_run_goes_on_with_the_build_of_today(shop_of: ShopOf) -> None:
    """Versioned workers: the build that began the run is gone when the answer comes."""
    shop = shop_of("temporal")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        client = await connected(shop)

        def of_build(build: str) -> TemporalDriver:
            return TemporalDriver(
                workflows,
                client=client,
                task_queue=shop.run,
                look_seconds=0.1,
                heartbeat_seconds=1.0,
                build=(shop.run, build),
            )

        old = of_build("1.0")
        async with serving(shop, old):
            await made_current(client, shop.run, "1.0")
            await begun(shop, old)
            await until(shop, workflows, is_asking)
        await decided(gate)
        new = of_build("2.0")
        async with serving(shop, new):
            await made_current(client, shop.run, "2.0")
            ended = await new.result("acme", shop.run)
        assert isinstance(ended, Ended) and ended.status == "done"
        told = await handle_of(client, shop).describe()
        assert told.raw_info.versioning_info.deployment_version.build_id == "2.0"
    assert shop.acted() == {"refund": 1, "note": 1}


async def made_current(client: Client, deployment: str, build: str) -> None:
    """Once a worker of the build has shown itself."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.workflow_service.set_worker_deployment_current_version(
                    SetWorkerDeploymentCurrentVersionRequest(
                        namespace="placet", deployment_name=deployment, build_id=build, ignore_missing_task_queues=True
                    )
                )
                return
            except RPCError:
                await asyncio.sleep(0.1)


def test_there_are_histories_of_before() -> None:
    assert [history.stem for history in HISTORIES] == ["one_question", "worker_lost"]


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.stem)
async def test_a_history_of_before_is_replayed_by_the_code_of_today(history: Path) -> None:
    """Recorded from real runs. A change that breaks one strands what waits: `workflow.patched` keeps both ways."""
    replayer = Replayer(workflows=[RunWorkflow], data_converter=names_only(DataConverter.default))
    await replayer.replay_workflow(WorkflowHistory.from_json("placet/acme/run-1", json.loads(history.read_text())))


# ---------------------------------------------------------------- arguments


async def test_a_driver_is_told_at_once_what_makes_no_sense(shop_of: ShopOf) -> None:
    shop = shop_of("temporal")
    async with open_gate(shop) as gate:
        workflows, client = Workflows(gate, (workflow(),)), await connected(shop)
        for wrong in ({"heartbeat_seconds": 0.0}, {"look_seconds": float("inf")}):
            with pytest.raises(MisuseError):
                TemporalDriver(workflows, client=client, **wrong)


def test_a_ticket_says_which_run_it_is() -> None:
    ticket = Ticket(tenant="a/b", run_id="c", heartbeat_seconds=30.0)
    assert ticket.workflow_id == "placet/a%2Fb/c"
    assert Ticket.of(ticket.as_data()) == ticket


@pytest.mark.parametrize(
    "forged",
    [
        {"heartbeat_seconds": "x"},
        {"heartbeat_seconds": float("nan")},
        {"heartbeat_seconds": 0},
        {"heartbeat_seconds": True},
        {"in_vain": "1"},
        {"in_vain": -1},
        {"tenant": 7},
        {"run_id": ""},
    ],
    ids=str,
)
def test_a_forged_ticket_ends_its_workflow_so_that_the_run_gets_another(forged: dict[str, Any]) -> None:
    """A fault of another kind would be tried again by Temporal for ever, under the name of the run's own carrier."""
    with pytest.raises(ApplicationError) as refused:
        Ticket.of({**Ticket(tenant="acme", run_id="r1", heartbeat_seconds=30.0).as_data(), **forged})
    assert refused.value.non_retryable
