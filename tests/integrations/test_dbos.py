"""DBOS: executors that die or share a name, what is pinned, and what it leaves of the gate's event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from dbos import DBOS
from dbos._event_loop import BackgroundEventLoop
from sqlalchemy.pool import NullPool

from placet.engine.workflow import Workflows
from placet.errors import MisuseError, StoreUnavailable
from placet.integrations.dbos import DbosDriver, ExecutorTaken
from placet.integrations.dbos.presence import Presence
from placet.model.progress import Ended
from placet.testing import FakeClock
from tests.integrations.shop import (
    SURVIVED,
    Shop,
    begun,
    carry,
    carrying,
    decided,
    is_asking,
    is_over,
    one_after_the_other,
    open_gate,
    serving,
    until,
    workflow,
)
from tests.kill_points.actors import ended, start

ShopOf = Callable[[str], Shop]
ALIVE_SECONDS = 600.0
"""Nobody is taken for dead here, however long the machine keeps it waiting."""


@pytest.mark.parametrize("kind", ["dbos-sqlite", "dbos-postgresql"])
async def test_what_a_dead_executor_left_is_taken_over_by_one_of_another_name(shop_of: ShopOf, kind: str) -> None:
    shop = shop_of(kind)
    plan = [{"starts": True, "dies_at": "ASK?", "executor": "worker-1"}, None]
    assert ended(start(one_after_the_other, shop, plan, shop.folder / "report.json"), within=120.0) == SURVIVED

    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows, executor="worker-2") as driver, serving(shop, driver):
            await until(shop, workflows, is_over)
            status = await asyncio.to_thread(DBOS.get_workflow_status, f"placet/acme/{shop.run}")
    assert status is not None and status.executor_id == "worker-2"
    assert shop.acted() == {"refund": 1, "note": 1}


async def test_two_executors_act_once(shop_of: ShopOf) -> None:
    shop = shop_of("dbos-postgresql")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with (
            carrying(shop, workflows, executor="worker-1", dead_after_seconds=ALIVE_SECONDS) as driver,
            serving(shop, driver),
        ):
            await begun(shop, driver)
            await until(shop, workflows, is_asking)
            other = start(_carry_as_another, shop)
            await decided(gate)
            await until(shop, workflows, is_over)
            assert await asyncio.to_thread(lambda: ended(other, within=90.0)) == SURVIVED
    assert shop.acted() == {"refund": 1, "note": 1}


def _carry_as_another(shop: Shop) -> None:
    carry(shop, executor="worker-2", dead_after_seconds=ALIVE_SECONDS)


# ---------------------------------------------------------------- names


def driver_of(shop: Shop, workflows: Any, **more: Any) -> DbosDriver:
    return DbosDriver(workflows, **{"database": f"sqlite:///{shop.folder / 'dbos.db'}", "executor": "worker-1", **more})


async def test_a_second_process_under_a_name_that_is_taken_is_refused(shop_of: ShopOf) -> None:
    shop = shop_of("dbos-sqlite")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with driver_of(shop, workflows, dead_after_seconds=3_600.0):
            second = driver_of(shop, workflows, dead_after_seconds=3_600.0, clock=FakeClock())
            with pytest.raises(ExecutorTaken) as refused:
                await second.__aenter__()
    assert (refused.value.code, bool(refused.value.hint)) == ("executor_taken", True)


async def test_one_whose_name_was_taken_meanwhile_stops_serving(shop_of: ShopOf) -> None:
    """It stood still for too long; whoever has the name now does its steps."""
    shop = shop_of("dbos-sqlite")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with driver_of(shop, workflows, dead_after_seconds=1.0) as driver:
            url = f"sqlite:///{shop.folder / 'dbos.db'}"
            other = Presence(url, executor="worker-1", token="other", dead_after_seconds=-60.0)
            assert await asyncio.to_thread(other.takes_name)
            with pytest.raises(ExecutorTaken):
                async with asyncio.timeout(60):
                    await driver.serve(asyncio.Event())


async def test_one_that_cannot_say_that_it_lives_tries_again_and_then_gives_up_in_our_words(shop_of: ShopOf) -> None:
    shop = shop_of("dbos-sqlite")
    url = f"sqlite:///{shop.folder / 'dbos.db'}"
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        clock = FakeClock()
        async with driver_of(shop, workflows, dead_after_seconds=100.0, clock=clock) as driver:
            engine, since = sa.create_engine(url, poolclass=NullPool), clock.monotonic()
            with engine.begin() as connection:
                connection.execute(sa.text("ALTER TABLE placet_executors RENAME TO hidden"))
            with pytest.raises(StoreUnavailable) as told:
                async with asyncio.timeout(60):
                    await driver.serve(asyncio.Event())
            assert clock.monotonic() - since > 100.0
            assert (bool(told.value.hint), told.value.__cause__, told.value.__context__) == (True, None, None)


async def test_a_launch_that_fails_leaves_the_name_free(shop_of: ShopOf) -> None:
    shop = shop_of("dbos-sqlite")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        engine = sa.create_engine(f"sqlite:///{shop.folder / 'dbos.db'}", poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE dbos_migrations (other TEXT)"))  # no schema of DBOS's
        with pytest.raises(sa.exc.SQLAlchemyError):
            await driver_of(shop, workflows, dead_after_seconds=3_600.0).__aenter__()
        with engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE dbos_migrations"))
        clock = FakeClock()
        async with driver_of(shop, workflows, dead_after_seconds=3_600.0, clock=clock):
            assert clock.monotonic() == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"executor": "local"},
        {"executor": ""},
        {"dead_after_seconds": 0.0},
        {"listens_seconds": 0.0},
        {"look_seconds": float("nan")},
    ],
    ids=str,
)
async def test_a_driver_is_told_at_once_what_makes_no_sense(shop_of: ShopOf, wrong: dict[str, Any]) -> None:
    shop = shop_of("dbos-sqlite")
    async with open_gate(shop) as gate:
        with pytest.raises(MisuseError):
            driver_of(shop, Workflows(gate, (workflow(),)), **wrong)


async def test_it_is_entered_before_it_is_used(shop_of: ShopOf) -> None:
    shop = shop_of("dbos-sqlite")
    async with open_gate(shop) as gate:
        driver = driver_of(shop, Workflows(gate, (workflow(),)))
        with pytest.raises(MisuseError, match="Enter the driver first"):
            await begun(shop, driver)
        with pytest.raises(MisuseError, match="Enter the driver first"):
            await driver.serve(asyncio.Event())


# ---------------------------------------------------------------- what is pinned, what is left


async def test_version_serializer_and_database_are_the_drivers_to_say_and_the_gates_loop_stays_whole(
    shop_of: ShopOf,
) -> None:
    """A deploy changes the source's hash and never the version, or what waits would be stranded."""
    shop = shop_of("dbos-sqlite")
    said = {"application_version": "mine", "executor_id": "local", "serializer": None, "name": "shop"}
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with driver_of(shop, workflows, options=said):
            assert (DBOS.application_version, DBOS.executor_id) == ("placet-1", "worker-1")
        assert await asyncio.to_thread(lambda: "threads are there") == "threads are there"


async def test_a_run_that_was_about_to_be_begun_as_its_executor_left_is_begun_by_the_next(
    shop_of: ShopOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DBOS ends the loop of its workflows before the thread that begins them there. The coroutine that this leaves is
    the one warning that no test is failed for: it may come to light in any later one.
    """
    shop, is_about_to = shop_of("dbos-sqlite"), threading.Event()
    submit = BackgroundEventLoop.submit_coroutine

    def too_late(loop: BackgroundEventLoop, work: Any) -> Any:
        if work.__qualname__.endswith("start_workflow_task"):
            is_about_to.set()
            while loop._running:
                time.sleep(0.01)
        return submit(loop, work)

    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        with monkeypatch.context() as patch:
            patch.setattr(BackgroundEventLoop, "submit_coroutine", too_late)
            async with carrying(shop, workflows) as driver:
                await begun(shop, driver)
                assert await asyncio.to_thread(is_about_to.wait, 60)
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await until(shop, workflows, is_asking)
    gc.collect()


# ---------------------------------------------------------------- what waits for long


async def test_a_run_that_waits_for_long_is_let_go_of_and_begun_with_again_when_it_is_answered(shop_of: ShopOf) -> None:
    """DBOS has nothing of it to look after meanwhile, however often it is looked at; and it is the same run."""
    shop = shop_of("dbos-sqlite")
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with driver_of(shop, workflows, listens_seconds=0.05, look_seconds=0.1) as driver:
            await begun(shop, driver)
            asking = await until(shop, workflows, is_asking)
            for name in (f"placet/acme/{shop.run}", f"placet/acme/{shop.run}/1", f"placet/acme/{shop.run}/2"):
                await let_go_of(name)
                assert is_asking(seen := await workflows.look("acme", shop.run))
                assert (seen.approvals, seen.state_version) == (asking.approvals, asking.state_version)  # type: ignore[union-attr]
                await driver.wake(asking)  # somebody wakes it though nothing has happened
            assert await asyncio.to_thread(DBOS.get_workflow_status, f"placet/acme/{shop.run}/4") is None
            async with serving(shop, driver):
                await decided(gate)
                ended = await until(shop, workflows, is_over)
    assert isinstance(ended, Ended) and ended.status == "done"
    assert shop.acted() == {"refund": 1, "note": 1}


async def let_go_of(name: str) -> None:
    async with asyncio.timeout(60):
        while (status := await asyncio.to_thread(DBOS.get_workflow_status, name)) is None or status.status != "SUCCESS":
            await asyncio.sleep(0.02)
