"""Where runs rest is changed under locks: of many that wait, in one transaction; of one run, one after the other."""

from __future__ import annotations

import asyncio

import pytest

from placet.adapters.stores.postgres.orders import How, Intake, Order
from placet.testing.conformance import an_event
from placet.testing.conformance.run_samples import a_rest, a_run, a_start, a_take
from tests.adapters.postgres.conftest import OpenStore


async def test_runs_that_are_taken_and_laid_down_at_once_share_their_commits(open_store: OpenStore) -> None:
    store = open_store()
    names = [f"run-{number}" for number in range(24)]
    for name in names:
        await store.begin_run(a_run(name), start=a_start(name), events=())
    before = store.commits
    taken = await asyncio.gather(*(store.take_run(a_take(f"driver-of-{name}", run_id=name)) for name in names))
    assert [each.driver for each in taken if each is not None] == [f"driver-of-{name}" for name in names]
    rests = [
        a_rest(each, driver=f"driver-of-{name}", state=f"AT-{name}")
        for name, each in zip(names, taken, strict=True)
        if each is not None
    ]
    laid_down = await asyncio.gather(*(store.rest_run(rest, events=(an_event(),)) for rest in rests))

    assert [each.state for each in laid_down if each is not None] == [f"AT-{name}" for name in names]
    assert store.commits - before <= 6, "two batches, and at most what came before the thread was awake"
    seen = [await store.run_checkpoint("acme", each.run_id) for each in laid_down if each is not None]
    assert seen == laid_down


async def test_of_those_who_want_one_run_at_once_one_has_it(open_store: OpenStore) -> None:
    store = open_store()
    await store.begin_run(a_run(), start=a_start(), events=())
    drivers = [f"driver-{number}" for number in range(8)]
    taken = await asyncio.gather(*(store.take_run(a_take(driver)) for driver in drivers))
    assert {each.driver for each in taken if each is not None} == {"driver-0"}
    assert {each.fence for each in taken if each is not None} == {1}


def an_order(loop: asyncio.AbstractEventLoop, how: How, about: str | None = None) -> Order:
    named = None if about is None else ("acme", about)
    return Order(work=None, loop=loop, future=None, how=how, about=named)


async def test_what_is_decided_under_locks_together_is_about_different_things_and_comes_in_their_order() -> None:
    loop = asyncio.get_running_loop()
    intake = Intake(loop)
    b, any_rows, a, again, free, late = (
        an_order(loop, How.LOCKED, "b"),
        an_order(loop, How.LOCKED),
        an_order(loop, How.LOCKED, "a"),
        an_order(loop, How.LOCKED, "b"),
        an_order(loop, How.TOGETHER, "c"),
        an_order(loop, How.LOCKED, "d"),
    )
    stop, after = an_order(loop, How.ALONE, "e"), an_order(loop, How.LOCKED, "f")
    for order in (b, any_rows, a, again, free, late, stop, after):
        intake.put(order)

    batches = [intake.take(3) for _ in range(6)]

    assert batches == [[a, b, late], [any_rows], [again], [free], [stop], [after]]


@pytest.mark.parametrize("most", [1, 2])
async def test_no_more_are_taken_than_are_asked_for(most: int) -> None:
    loop = asyncio.get_running_loop()
    intake = Intake(loop)
    orders = [an_order(loop, How.LOCKED, name) for name in "abc"]
    for order in orders:
        intake.put(order)
    assert intake.take(most) == orders[:most]
    assert intake.take(3) == orders[most:]
