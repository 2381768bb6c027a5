"""A process that serves drives whatever becomes due, and leaves alone what it cannot go on with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet import Ended, InlineDriver, Principal, Progress, Unserved, Waiting, Workflows
from placet.errors import MisuseError
from placet.model.identifiers import RunId
from tests.workflows.conftest import OpenShop, Shop
from tests.workflows.order import BOSS, ORDER

_MOST_TURNS = 20_000


async def until(shop: Shop, is_so: Callable[[Progress], bool]) -> Progress:
    """Let whoever serves go on until it is so; bounded by turns of the loop, not by time."""
    for _ in range(_MOST_TURNS):
        progress = await shop.workflows.look("acme", "r1")
        if is_so(progress):
            return progress
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


@pytest.mark.parametrize("where", ["memory", "sqlite"], indirect=True)
async def test_whoever_serves_drives_what_is_begun_and_what_is_answered(open_shop: OpenShop, where: str) -> None:
    shop = await open_shop(store=where)
    serving = asyncio.ensure_future(InlineDriver(shop.workflows, look_seconds=0.01).serve())

    await shop.start()
    waits = await until(shop, lambda progress: isinstance(progress, Waiting))
    await shop.approve(waits)
    ended = await until(shop, lambda progress: isinstance(progress, Ended))

    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    assert isinstance(ended, Ended)
    assert (ended.status, shop.payments.count, shop.shipments.count) == ("done", 1, 2)


async def test_many_runs_are_driven_each_once_and_some_at_once(open_shop: OpenShop) -> None:
    shop = await open_shop()
    for number in range(18):  # the store is asked for eight at a time
        await shop.start(f"r{number}")
    driver = InlineDriver(shop.workflows, at_once=2)

    assert [await driver.catch_up(), await driver.catch_up()] == [18, 0]
    assert len(await shop.workflows.waiting(limit=99)) == 18
    assert len(await shop.world.gate.desk.pending(by=BOSS)) == 18


@pytest.mark.parametrize(
    "fault",
    [asyncio.CancelledError("canary"), BaseExceptionGroup("canary", [SystemExit(0)])],
    ids=["cancelled", "group"],
)
async def test_whatever_one_run_meets_the_others_are_driven(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: BaseException
) -> None:
    shop = await open_shop()
    for run in ("r1", "r2", "r3"):
        await shop.start(run)
    kind = type(shop.world.gate.store)
    real = kind.take_run

    async def take_run(self: Any, take: Any) -> Any:
        if take.run_id == "r2":
            raise fault
        return await real(self, take)

    monkeypatch.setattr(kind, "take_run", take_run)

    assert await InlineDriver(shop.workflows).catch_up() == 2
    assert len(await shop.world.gate.desk.pending(by=BOSS)) == 2
    assert "canary" not in caplog.text


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_what_nobody_here_can_go_on_with_is_postponed_and_says_why(open_shop: OpenShop, where: str) -> None:
    before = await open_shop(store=where)
    await before.start()
    other = await open_shop(replace(ORDER, version="2"), store=where, clock=before.world.clock, spies=before, seed=1)
    driver = InlineDriver(other.workflows)

    assert [await driver.catch_up(), await driver.catch_up()] == [1, 0]
    shown = await other.world.gate.runs.show("r1", by=BOSS)
    assert shown.rests is not None
    assert (shown.rests.code, shown.rests.state) == ("workflow_version", "CHECK")
    assert shown.rests.look_at == before.world.clock.now() + timedelta(seconds=30)
    left = await other.workflows.advance("acme", "r1")
    assert isinstance(left, Unserved)

    before.world.clock.advance(30)
    assert await InlineDriver(before.workflows).catch_up() == 1
    assert isinstance(await before.workflows.look("acme", "r1"), Waiting)


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("another workflow", "workflow_unknown"),
        ("another version", "workflow_version"),
        ("a program that nobody here can ask", "principal_unavailable"),
    ],
)
async def test_what_others_go_on_with_is_not_kept_from_them(
    open_shop: OpenShop, where: str, change: str, code: str
) -> None:
    """Whoever looks first and cannot go on with it says so only once it has stayed as it is for a while."""

    async def as_it_was(principal: Principal) -> Principal:
        return principal

    is_unasked = change == "a program that nobody here can ask"
    mine = await open_shop(store=where, principal_of=as_it_was if is_unasked else None)
    renamed = {"another workflow": replace(ORDER, name="another"), "another version": replace(ORDER, version="2")}
    others = renamed.get(change, ORDER)
    another = await open_shop(others, store=where, clock=mine.world.clock, spies=mine, seed=1)
    clock, store = mine.world.clock, mine.world.gate.store
    await mine.start()
    await mine.approve(await mine.drive())
    answered, began = await store.run_checkpoint("acme", RunId("r1")), clock.monotonic()
    assert await mine.workflows.due() == (("acme", "r1"),)
    serving = asyncio.ensure_future(InlineDriver(another.workflows).serve())

    rests, left_for = answered, 0.0
    for _ in range(_MOST_TURNS):
        rests, looked_at = await store.run_checkpoint("acme", RunId("r1")), clock.monotonic() - began
        left_for = looked_at if rests == answered else left_for
        if rests is None or answered is None or rests.code != answered.code:
            break
        await asyncio.sleep(0)
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving

    assert rests is not None
    assert (rests.code, left_for >= 5.0) == (code, True)
    clock.advance(30)
    assert isinstance(await mine.drive(), Ended)


async def test_a_driver_takes_numbers_that_make_sense(open_shop: OpenShop) -> None:
    shop = await open_shop()

    for wrong in ({"at_once": 0}, {"at_once": True}, {"look_seconds": 0.0}, {"look_seconds": float("inf")}):
        with pytest.raises(MisuseError):
            InlineDriver(shop.workflows, **wrong)  # type: ignore[arg-type]
    assert isinstance(Workflows(shop.world.gate, ()), Workflows)
