"""What may happen while a run waits, on each engine: lies, a cancel, another policy or version, a starter that died."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from placet.engine.workflow import Workflows
from placet.model.progress import Ended, Ready, Unserved, Waiting
from placet.model.run import RunLimits
from placet.model.workflow import Resting
from tests.integrations.conftest import TemporalServer
from tests.integrations.shop import (
    AGENT,
    CANARY,
    ORDER,
    PERSON,
    Order,
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
ENGINES = ["temporal", "dbos-sqlite", "langgraph-sqlite"]
on_each_engine = pytest.mark.parametrize("kind", ENGINES)
on_each_driver = pytest.mark.parametrize("kind", ["inline", *ENGINES])


async def lied_to(shop: Shop, driver: Any, waiting: Waiting) -> None:
    """Somebody with access to the engine says that it was approved, in every way there is."""
    name = f"placet/acme/{shop.run}"
    if shop.kind == "temporal":
        from temporalio.client import Client

        client = await Client.connect(shop.address, namespace="placet")
        for words in ([], ["approved"], [{"approved": True}], [{"args": "lie" * 200}, 2, None]):
            await client.get_workflow_handle(name).signal("placet.wake", args=words)
    elif shop.kind.startswith("dbos"):
        from dbos import DBOSClient

        def lie() -> None:
            client = DBOSClient(system_database_url=f"sqlite:///{shop.folder / 'dbos.db'}")  # it pickles
            for topic in (str(waiting.state_version), waiting.approvals[0], "fault"):
                client.send(name, {"approved": True}, topic=topic)
            client.destroy()

        await asyncio.to_thread(lie)
    else:
        from langgraph.types import Command

        config = driver.config("acme", shop.run)
        for words in ({"approved": True}, "approved", True):
            await driver.graph.ainvoke(Command(resume=words), config)


@on_each_engine
async def test_whoever_lies_to_the_engine_has_the_run_looked_at_and_nothing_else(shop_of: ShopOf, kind: str) -> None:
    shop = shop_of(kind)
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            asked = await until(shop, workflows, is_asking)
            assert isinstance(asked, Waiting)
            await lied_to(shop, driver, asked)
            seen = await workflows.look(
                "acme", shop.run
            )  # woken or not, it waits for the same question, and no step ran
            assert isinstance(seen, Waiting) and (seen.approvals, seen.state_version) == (
                asked.approvals,
                asked.state_version,
            )
            assert shop.acted() == {"refund": 0, "note": 0}
            await decided(gate)
            ended = await until(shop, workflows, is_over)
    assert isinstance(ended, Ended) and ended.status == "done"
    assert shop.acted() == {"refund": 1, "note": 1}


@on_each_engine
async def test_a_run_whose_starter_died_before_the_engine_heard_of_it_is_begun(shop_of: ShopOf, kind: str) -> None:
    shop = shop_of(kind)
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        await workflows.start("refund", run=shop.run, inputs=Order(order=ORDER, amount=5), principal=AGENT)
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await until(shop, workflows, is_asking)


@on_each_engine
@pytest.mark.case("G08")
async def test_started_five_times_at_once_it_is_one_run_and_acts_once(shop_of: ShopOf, kind: str) -> None:
    shop = shop_of(kind)
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await asyncio.gather(*(begun(shop, driver) for _ in range(5)))
            await until(shop, workflows, is_asking)
            await decided(gate)
            await until(shop, workflows, is_over)
    assert shop.acted() == {"refund": 1, "note": 1}


@on_each_engine
async def test_a_cancelled_run_ends_and_nothing_of_it_runs(shop_of: ShopOf, kind: str) -> None:
    shop = shop_of(kind)
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            await until(shop, workflows, is_asking)
            report = await gate.runs.cancel(shop.run, by=AGENT)
            ended = await until(shop, workflows, is_over)
            assert await gate.desk.pending(by=PERSON) == ()
            await driver.wake(ended)  # or the engine finds out when its rest is over
            if shop.kind == "temporal":
                assert await driver.result("acme", shop.run) == ended
    assert (report.withdrawn, isinstance(ended, Ended) and ended.status) == (1, "cancelled")
    assert shop.acted() == {"refund": 0, "note": 0}


@on_each_driver
@pytest.mark.req("X003", "C049")
@pytest.mark.parametrize("approves", [True, False], ids=["approved", "denied"])
async def test_what_is_decided_while_no_worker_is_there_is_found_by_the_next(
    shop_of: ShopOf, kind: str, approves: bool
) -> None:
    shop = shop_of(kind)
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            await until(shop, workflows, is_asking)
    async with open_gate(shop) as gate:  # nobody serves
        await decided(gate, approves=approves)
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            ended = await until(shop, workflows, is_over)
    assert isinstance(ended, Ended)
    assert (ended.status, ended.code) == (("done", None) if approves else ("failed", "approval_denied"))
    assert shop.acted() == dict.fromkeys(("refund", "note"), int(approves))


@on_each_driver
async def test_a_budget_that_is_spent_ends_it_as_its_step_says_and_what_was_done_is_done(
    shop_of: ShopOf, kind: str
) -> None:
    """Two proposals: the look, and the refund in two states. The note would be the third."""
    shop = shop_of(kind)
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver, limits=RunLimits(max_steps=2))
            await until(shop, workflows, is_asking)
            await decided(gate)
            ended = await until(shop, workflows, is_over)
    assert isinstance(ended, Ended)
    assert (ended.status, ended.code) == ("failed", "budget_exhausted")
    assert shop.acted() == {"refund": 1, "note": 0}


@on_each_driver
@pytest.mark.req("X002")
async def test_under_another_policy_it_is_asked_anew_and_the_difference_is_shown(
    shop_of: ShopOf, kind: str, tmp_path: Path
) -> None:
    shop = shop_of(kind)
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            before = await until(shop, workflows, is_asking)

    other = tmp_path / "policy.toml"
    other.write_text(OTHER_POLICY, "utf-8")
    async with open_gate(shop, policy=other) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            after = await until(
                shop,
                workflows,
                lambda now: is_asking(now) and now.approvals != before.approvals,  # type: ignore[union-attr]
            )
            assert isinstance(after, Waiting)
            shown = await gate.desk.show(after.approvals[0], by=PERSON)
            told = {each.name: (each.was, each.now) for each in shown.differences}
            assert told["rule"] == (None, "refunds") and told["policy_version"][1] == shown.policy_version
            await decided(gate)
            await until(shop, workflows, is_over)
    assert shop.acted() == {"refund": 1, "note": 1}


OTHER_POLICY = """\
[[ask]]
name = "refunds"
tools = ["refund"]
needs = "review"
"""


@on_each_driver
async def test_a_question_that_nobody_answers_runs_out_and_silence_is_no_answer(
    shop_of: ShopOf, kind: str, tmp_path: Path
) -> None:
    """The engine's own pause is over, and nothing was received: it is asked anew, and nothing ran."""
    shop, policy = shop_of(kind), tmp_path / "policy.toml"
    policy.write_text(OTHER_POLICY + 'decide_within = "1s"\n', "utf-8")
    async with open_gate(shop, policy=policy) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            before = await until(shop, workflows, is_asking)
            await until(
                shop,
                workflows,
                lambda now: is_asking(now) and now.approvals != before.approvals,  # type: ignore[union-attr]
            )
    assert shop.acted() == {"refund": 0, "note": 0}


@on_each_driver
@pytest.mark.case("G04")
async def test_a_run_that_waits_goes_on_with_the_version_of_today_if_that_says_how(shop_of: ShopOf, kind: str) -> None:
    """First the new version does not know the old one's rest: it stays as it is. The next one does."""
    shop = shop_of(kind)
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            before = await until(shop, workflows, is_asking)
        await decided(gate)

        strange = Workflows(gate, (workflow("2"),))
        async with carrying(shop, strange) as driver, serving(shop, driver):
            assert isinstance(await strange.advance("acme", shop.run), Unserved)
            if kind != "inline":
                await driver.look()
        kept = await strange.look("acme", shop.run)
        assert isinstance(kept, Ready | Waiting) and kept.state == before.state

        after = Workflows(gate, (workflow("3", accepts={"1": _same}),))
        async with carrying(shop, after) as driver, serving(shop, driver):
            ended = await until(shop, after, is_over)
    assert isinstance(ended, Ended) and (ended.status, ended.version) == ("done", "3")
    assert shop.acted() == {"refund": 1, "note": 1}


def _same(resting: Resting) -> Resting:
    return resting


@pytest.mark.parametrize("kind", ["temporal", "langgraph-sqlite"])
async def test_two_workers_at_once_act_once(shop_of: ShopOf, kind: str) -> None:
    """Two gates on one store. DBOS is one per process; its two workers are in test_dbos.py."""
    shop = shop_of(kind)
    async with AsyncExitStack() as stack:
        drivers: list[Any] = []
        for _ in range(2):
            gate = await stack.enter_async_context(open_gate(shop))
            workflows = Workflows(gate, (workflow(),))
            drivers.append(await stack.enter_async_context(carrying(shop, workflows)))
            await stack.enter_async_context(serving(shop, drivers[-1]))
        await asyncio.gather(*(begun(shop, driver) for driver in drivers))
        await until(shop, workflows, is_asking)
        await decided(gate)
        await until(shop, workflows, is_over)
    assert shop.acted() == {"refund": 1, "note": 1}


@on_each_engine
async def test_nothing_of_what_a_run_is_about_is_in_the_engine(
    shop_of: ShopOf, temporal: TemporalServer, kind: str
) -> None:
    """The engine's whole database, byte by byte; the run's name is there, so it is the right file."""
    shop = shop_of(kind)
    async with open_gate(shop) as gate:
        workflows = Workflows(gate, (workflow(),))
        async with carrying(shop, workflows) as driver, serving(shop, driver):
            await begun(shop, driver)
            await until(shop, workflows, is_asking)
            await decided(gate)
            await until(shop, workflows, is_over)
            files = [*temporal.folder.glob("temporal.db*")] if kind == "temporal" else [*shop.folder.glob("[dg]*.db*")]
            kept = b"".join(file.read_bytes() for file in files)
    assert shop.run.encode() in kept
    assert CANARY.encode() not in kept
