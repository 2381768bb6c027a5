"""Keeps N workers alive, and sees to it that none lives long.

Each slot has one life after the other. A life ends at its named step, or at a moment that chance chose; some are
suspended on the way, beyond their lease, and woken late. What a life was asking for when that happened is disturbed by
it: that is the row of the table in which an operation is counted, once and for all.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from itertools import cycle
from pathlib import Path

from placet.proof.chaos.database import Database, Takedown
from placet.proof.chaos.herd import ChaosFailed, Herd, Worker
from placet.proof.chaos.plan import AT_RANDOM, NAMED_STEPS, STOOD_STILL, ChaosPlan, Inside, Life, Sabotage, Steps
from placet.proof.chaos.slots import Load, Slot
from placet.proof.private_server import NoServer

KILLED = -int(signal.SIGKILL)
_LONGEST_TAKEN_UP = 6
_PATIENCE_SECONDS = 4.0
_TRIES_PER_DEATH = 8
_SUSPENDED_SHARE = 0.06
_MOST_FAULTS_IN_A_ROW = 10
_LOOK_SECONDS = 0.02
_FREQUENT = ("claim", "settle", "record")
"""Steps that every life comes to often, so that chance may choose which time is the last."""


def _wanted(plan: ChaosPlan) -> list[str]:
    """The named steps that want deaths, in the order they are tried in."""
    if plan.sabotage is Sabotage.NO_GUARD:  # the others take over and look meanwhile
        return [Inside.STANDS_STILL.value] * max(1, plan.workers // 2)
    steps = NAMED_STEPS if plan.steps is Steps.ALL else ()
    return [step.name for _ in range(plan.per_step) for step in steps]


class Supervisor:
    """Runs the load of one plan."""

    def __init__(self, plan: ChaosPlan, *, port: int, folder: Path) -> None:
        self._plan = plan
        self._port = port
        self._chance = random.Random(plan.seed)
        self._slots = [Slot(number=n, journal=folder / f"slot-{n}.jsonl") for n in range(plan.workers)]
        self._load = Load()
        self._is_quiet = asyncio.Event()
        self._is_down = False
        self._faults_in_a_row = 0
        self._unready_in_a_row = 0
        self._until = 0.0
        self._wanted = _wanted(plan)
        self._tries: Counter[str] = Counter()

    async def run(self) -> Load:
        """The load, from the first birth to the last death.

        Raises:
            ChaosFailed: workers cannot be started, or do nothing but fail; the database stayed away.
        """
        began = time.monotonic()
        self._until = began + self._plan.seconds
        async with Herd() as herd:
            outages = asyncio.create_task(self._outages_now_and_then())
            lives = [asyncio.create_task(self._keep_alive(herd, slot)) for slot in self._slots]
            try:
                await asyncio.gather(*lives)
            finally:
                self._is_quiet.set()
                for task in lives:
                    task.cancel()
                await asyncio.gather(*lives, return_exceptions=True)
                await outages  # which leaves the database as it has to be afterwards: there
        load = self._load
        load.open = {operation: None for slot in self._slots for operation in slot.open}
        load.unreached = tuple(sorted({name for name in self._wanted if not load.times[name]}))
        load.seconds = time.monotonic() - began
        return load

    # ------------------------------------------------------------ lives

    @property
    def _is_over(self) -> bool:
        load, plan = self._load, self._plan
        is_done = load.kills >= plan.kills and len(load.begun) >= plan.operations
        if plan.sabotage is Sabotage.NO_GUARD:  # it shows where one has stood still, and another has looked
            is_done = is_done and load.times[Inside.STANDS_STILL] >= plan.workers // 2
        if plan.database is not None:  # workers may be through before it has been taken down once
            is_done = is_done and bool(load.outages)
        return is_done or time.monotonic() >= self._until

    async def _keep_alive(self, herd: Herd, slot: Slot) -> None:
        while not self._is_over:
            step = self._next_step()
            worker = await herd.start(self._life_of(slot, step))
            if step == Inside.STANDS_STILL:
                await self._left_standing(worker, slot)
            elif not step and self._chance.random() < _SUSPENDED_SHARE:
                await self._suspended(worker, slot)
            is_shot = not await self._ends_by_itself(worker, self._patience_seconds if step else self._moment())
            self._bury(slot, step, await worker.ended, is_shot=is_shot)

    def _next_step(self) -> str:
        """A named step that still wants a death; empty if none does, which leaves the moment to chance."""
        for index, name in enumerate(self._wanted):
            if self._tries[name] < _TRIES_PER_DEATH * self._plan.per_step:
                self._tries[name] += 1
                return self._wanted.pop(index)
        return ""

    def _life_of(self, slot: Slot, step: str) -> Life:
        plan = self._plan
        self._load.lives += 1
        taken_up = tuple(slot.open)[:_LONGEST_TAKEN_UP]
        slot.asking = set(taken_up)
        return Life(
            slot=slot.number,
            number=self._load.lives,
            seed=plan.seed,
            store=plan.store,
            key=plan.key,
            port=self._port,
            journal=str(slot.journal),
            open=taken_up,
            first=slot.next,
            step=step,
            nth=self._chance.randint(1, 3) if step.endswith(_FREQUENT) else 1,
            sabotage=plan.sabotage.value if plan.sabotage is not None else "",
            timing=asdict(plan.bounds),
        )

    def _moment(self) -> float:
        """How long chance lets a worker live: it dies while it opens its gate, or after some work.

        On a machine so busy that none gets its gate open in time, longer and longer.
        """
        longest = (2.0 * self._ready_seconds + 0.4) * 1.2 ** min(self._unready_in_a_row, 20)
        return self._chance.uniform(0.0, longest)

    @property
    def _ready_seconds(self) -> float:
        """How long gates take to open, of late."""
        recent = self._load.ready_seconds[-20:]
        return sum(recent) / len(recent) if recent else 0.3

    @property
    def _patience_seconds(self) -> float:
        """How long a worker may take to come to its step."""
        return _PATIENCE_SECONDS + 3.0 * self._ready_seconds

    async def _ends_by_itself(self, worker: Worker, within_seconds: float) -> bool:
        """Whether it ended on its own within the time; otherwise it has been killed."""
        await asyncio.wait([worker.ended], timeout=min(within_seconds, max(0.0, self._until - time.monotonic())))
        if worker.ended.done():
            return True
        worker.kill()
        return False

    def _bury(self, slot: Slot, step: str, end: int, *, is_shot: bool) -> None:
        said = slot.take_in(self._load)
        self._unready_in_a_row = 0 if "ready" in said else self._unready_in_a_row + 1
        if "ready" in said or self._is_down:
            self._faults_in_a_row = 0
        else:
            self._faults_in_a_row += "fault" in said
        if self._faults_in_a_row > _MOST_FAULTS_IN_A_ROW:
            raise ChaosFailed(f"Workers only fail: {', '.join(sorted(self._load.faults))}.")
        if end == KILLED:
            self._load.kills += 1
            name = AT_RANDOM if is_shot or step == Inside.STANDS_STILL else step or AT_RANDOM
            self._load.disturb(slot.asking, name)
        if step and not self._load.times[step]:
            self._wanted.append(step)

    # ------------------------------------------------------------ standing still, and the database

    async def _suspended(self, worker: Worker, slot: Slot) -> None:
        if await self._is_over_before(worker, self._moment()):
            return
        worker.stop()
        await asyncio.sleep(_LOOK_SECONDS)  # it may be writing a line
        slot.take_in(self._load)
        self._load.disturb(slot.asking, STOOD_STILL)
        await asyncio.sleep(self._chance.uniform(*self._plan.bounds.still_seconds))
        worker.wake()

    async def _left_standing(self, worker: Worker, slot: Slot) -> None:
        """It stops itself right before its guard; wake it when every bound of an attempt is over."""
        until = time.monotonic() + self._patience_seconds
        while "still" not in slot.take_in(self._load):
            if time.monotonic() >= until or await self._is_over_before(worker, _LOOK_SECONDS):
                return
        self._load.disturb(slot.asking, Inside.STANDS_STILL)
        await asyncio.sleep(self._chance.uniform(*self._plan.bounds.standing_seconds))
        worker.wake()

    async def _is_over_before(self, worker: Worker, seconds: float) -> bool:
        await asyncio.wait([worker.ended], timeout=seconds)
        return worker.ended.done()

    async def _outages_now_and_then(self) -> None:
        """One of each kind after the other, until the load is over; the last one is seen through."""
        database = self._plan.database
        if database is None:
            return
        for takedown in cycle(database.takedowns):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_quiet.wait(), self._plan.restart_every_seconds)
                return
            self._is_down = True
            for slot in self._slots:
                slot.take_in(self._load)
            asking = [operation for slot in self._slots for operation in slot.asking]
            try:
                has_suffered = await self._came_back(database, takedown)
            except ChaosFailed:
                self._until = 0.0  # without a database nothing is left to be seen
                raise
            finally:
                self._is_down = False
            if has_suffered:
                self._load.outages[takedown.value] += 1
                self._load.disturb(asking, takedown.value)

    async def _came_back(self, database: Database, takedown: Takedown) -> bool:
        try:
            return await database.suffer(takedown)
        except NoServer:
            fault = ChaosFailed("The database did not come back after an outage.")
        raise fault
