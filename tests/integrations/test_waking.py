"""Whom an engine is told of, how often, and what is found by one that was down."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from dataclasses import replace

from placet.errors import StoreUnavailable
from placet.integrations.waking import Waker
from placet.model.progress import Progress, Waiting
from placet.ports.wakeups import Wakeup, silence
from placet.testing import FakeClock

WAITS = Waiting(
    tenant="acme",
    run_id="run-1",
    workflow="refund",
    version="1",
    state="ASK",
    visit=1,
    state_version=3,
    code="approval_required",
    approvals=("apr-1",),
    check_after_seconds=60.0,
)


class Due:
    """Runs that are due, as a store says it; changed by the test."""

    def __init__(self, *runs: Progress) -> None:
        self.runs = list(runs)
        self.looks = 0
        self.looked_at = 0
        self.fails = 0

    async def due(self, *, limit: int) -> tuple[tuple[str, str], ...]:
        self.looks += 1
        if self.fails:
            self.fails -= 1
            raise StoreUnavailable("gone")
        return tuple((run.tenant, run.run_id) for run in self.runs[:limit])

    async def look(self, tenant: str, run: str) -> Progress:
        self.looked_at += 1
        return next(each for each in self.runs if (each.tenant, each.run_id) == (tenant, run))


class Engine:
    """What was told to it; it takes nothing while it is down."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_down = False

    async def wake(self, progress: Progress) -> None:
        if self.is_down:
            raise ConnectionError
        self.told.append(progress.run_id)


async def test_a_run_that_stays_as_it_is_is_told_of_ever_less() -> None:
    due, engine, clock = Due(WAITS), Engine(), FakeClock()
    waker = Waker(due, engine.wake, clock=clock)
    told_at: list[float] = []
    for _ in range(1_000):
        if await waker.once():
            told_at.append(clock.monotonic())
        clock.advance(1.0)

    assert told_at == [0.0, 15.0, 45.0, 105.0, 225.0, 465.0, 945.0]
    assert due.looked_at == 109  # one that nobody advances costs next to nothing


async def test_a_run_that_has_changed_is_news() -> None:
    due, engine = Due(WAITS), Engine()
    waker = Waker(due, engine.wake, clock=FakeClock())
    assert [await waker.once(), await waker.once()] == [1, 0]
    due.runs = [replace(WAITS, state_version=4)]
    assert [await waker.once(), await waker.once()] == [1, 0]


async def test_an_engine_that_was_down_is_told_at_the_next_look_and_the_others_at_once() -> None:
    due, engine = Due(WAITS, replace(WAITS, run_id="run-2")), Engine()
    waker = Waker(due, engine.wake, clock=FakeClock())
    engine.is_down = True
    assert await waker.once() == 0
    engine.is_down = False
    assert await waker.once() == 2
    assert engine.told == ["run-1", "run-2"]


async def test_what_nobody_advances_keeps_no_other_from_being_told_of() -> None:
    due, engine = Due(*(replace(WAITS, run_id=f"run-{n}") for n in range(350))), Engine()
    waker = Waker(due, engine.wake, clock=FakeClock())
    for _ in range(4):
        await waker.once()
    assert len(set(engine.told)) == len(engine.told) == 350


async def test_nothing_that_a_look_meets_ends_the_looking() -> None:
    due, engine, ending = Due(WAITS), Engine(), asyncio.Event()
    due.fails = 2

    async def wake(progress: Progress) -> None:
        await engine.wake(progress)
        ending.set()

    async with asyncio.timeout(30):
        await Waker(due, wake, clock=FakeClock()).run(ending)
    assert (due.looks, engine.told) == (3, ["run-1"])


async def test_a_run_that_cannot_be_looked_at_keeps_no_other_waiting() -> None:
    class Broken(Due):
        async def look(self, tenant: str, run: str) -> Progress:
            if run == "broken":
                raise StoreUnavailable("gone")
            return await super().look(tenant, run)

    engine = Engine()
    waker = Waker(Broken(replace(WAITS, run_id="broken"), WAITS), engine.wake, clock=FakeClock())
    assert await waker.once() == 1
    assert engine.told == ["run-1"]


async def test_one_whose_steps_take_long_keeps_no_other_waiting_and_is_told_to_its_end() -> None:
    due, go_on, told_of, ending = Due(WAITS), asyncio.Event(), asyncio.Queue[str](), asyncio.Event()

    async def wake(progress: Progress) -> None:
        await told_of.put(progress.run_id)
        if progress.run_id == "run-1":
            await go_on.wait()
            await told_of.put("run-1 is over")

    looking = asyncio.ensure_future(Waker(due, wake, clock=FakeClock()).run(ending))
    async with asyncio.timeout(30):
        assert await told_of.get() == "run-1"
        due.runs.append(replace(WAITS, run_id="run-2"))
        assert await told_of.get() == "run-2"
        ending.set()
        await asyncio.sleep(0)
        assert not looking.done()
        go_on.set()
        await looking
    assert told_of.get_nowait() == "run-1 is over"


async def test_once_it_is_ending_nobody_is_told_who_was_waiting_for_room() -> None:
    due = Due(*(replace(WAITS, run_id=f"run-{number}") for number in range(9)))
    told_of, go_on, ending = asyncio.Queue[str](), asyncio.Event(), asyncio.Event()

    async def wake(progress: Progress) -> None:
        await told_of.put(progress.run_id)
        await go_on.wait()

    looking = asyncio.ensure_future(Waker(due, wake, clock=FakeClock()).run(ending))
    async with asyncio.timeout(30):
        for _ in range(8):
            await told_of.get()
        ending.set()
        go_on.set()
        await looking
    assert told_of.empty()


async def test_ending_ends_a_pause() -> None:
    class Standing(FakeClock):
        async def sleep(self, seconds: float) -> None:
            ending.set()
            await asyncio.get_running_loop().create_future()

    ending = asyncio.Event()
    async with asyncio.timeout(30):
        await Waker(Due(), Engine().wake, clock=Standing()).run(ending)


class Between:
    """A watch over runs that are between two steps, or not."""

    def __init__(self, *runs: str) -> None:
        self.runs = set(runs)

    async def ask_anew(self) -> None:
        return

    async def is_between_steps(self, tenant: str, run: str) -> bool:
        return run in self.runs

    def heard(self) -> AbstractContextManager[Wakeup]:
        return silence()


async def test_a_run_between_two_steps_is_left_to_the_engine_that_has_it_until_it_stays_there() -> None:
    due, engine, clock = Due(WAITS, replace(WAITS, run_id="run-2")), Engine(), FakeClock()
    waker = Waker(due, engine.wake, clock=clock, look_seconds=2.0, watch=Between("run-1"))
    await waker.once()
    clock.advance(3.0)
    due.runs[0] = replace(WAITS, state_version=4)  # it went on
    await waker.once()
    clock.advance(3.0)
    await waker.once()
    assert engine.told == ["run-2"]
    clock.advance(1.0)
    await waker.once()
    assert engine.told == ["run-2", "run-1"]
