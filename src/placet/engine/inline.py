"""The driver that needs nothing but the store: runs go on in this process, from their own checkpoints.

Any number of processes on the same store may serve; each run is one process's for one step. A run that waits costs a
row: whoever answers its question makes it due, in the same transaction, and tells the processes that wait where the
store can. Where it cannot, a process that serves looks every so often, once for all runs together.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Mapping
from typing import Final

from placet.engine.faults import told
from placet.engine.workflow import Workflows
from placet.errors import MisuseError, NotFound, PlacetError
from placet.model.exact import MOST_LISTED, is_limit, is_seconds
from placet.model.progress import Busy, Progress, Ready, Unserved
from placet.model.waking import runs_topic
from placet.ports.waiting import owes_cancellation, paying
from placet.ports.wakeups import pause

_log = logging.getLogger("placet.workflow")
_AT_ONCE: Final = 8
_LOOK_SECONDS: Final = 1.0
_AFTER_FAULT_SECONDS: Final = 5.0
_LONGEST_ASIDE_SECONDS: Final = 60.0
_MOST_ASIDE: Final = 5_000
_LOOKS: Final = 4
"""Seven seconds: whoever can go on with a run has seen it due by then."""
_MOST_LEFT: Final = 200
Name = tuple[str, str]
"""Tenant and run."""


class InlineDriver:
    """Drives the runs of some workflows to where they wait, or end."""

    def __init__(self, workflows: Workflows, *, at_once: int = _AT_ONCE, look_seconds: float = _LOOK_SECONDS) -> None:
        """
        Args:
            at_once: runs of which steps are done at the same time.
            look_seconds: how long at most until it looks again, where nobody tells it that a run is due.

        Raises:
            MisuseError: a number is none that makes sense.
        """
        if not is_limit(at_once) or not is_seconds(look_seconds):
            raise MisuseError("at_once= is a whole number from 1, look_seconds= a number above zero.")
        self._workflows = workflows
        self._around = workflows.gate.runs.around
        self._at_once = at_once
        self._look_seconds = look_seconds
        self._aside: dict[Name, tuple[float, int]] = {}
        self._line: deque[Name] = deque()

    @paying
    async def drive(self, tenant: str, run: str) -> Progress:
        """Step after step, until the run waits, is over, or is not this process's to go on with.

        Raises: as `Workflows.advance`.
        """
        progress = await self._workflows.advance(tenant, run)
        while isinstance(progress, Ready):
            progress = await self._workflows.advance(tenant, run)
        return progress

    async def serve(self, ending: asyncio.Event | None = None) -> None:
        """Drive whatever becomes due, until `ending` is set: then steps under way come to their end, and none begins.

        Nothing that one run does, or that its row holds, ends it or keeps the others waiting. Cancelled, it cancels the
        steps under way as well; a write among them is unknown then.
        """
        ending = ending or asyncio.Event()
        under_way: dict[Name, asyncio.Task[None]] = {}
        over = asyncio.ensure_future(ending.wait())
        try:
            with self._around.store.waiting_for(runs_topic()) as wakeup:
                while not ending.is_set():
                    seconds = await self._filled(under_way)
                    pausing = asyncio.ensure_future(pause(wakeup, seconds=seconds, clock=self._around.clock))
                    try:
                        await asyncio.wait((pausing, over, *under_way.values()), return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        pausing.cancel()
            await _all_ended(under_way)
        finally:
            over.cancel()
            for each in under_way.values():
                each.cancel()
            await _all_ended(under_way)

    async def catch_up(self) -> int:
        """Drive what is due now, each run once, however many there are; how many were moved on.

        Raises:
            StoreError: the store cannot be asked.
        """
        await self._workflows.ask_anew()
        room = asyncio.Semaphore(self._at_once)

        async def one(name: Name) -> bool:
            async with room:
                return await self._is_moved(name, looks=1)

        moved, looked_at = 0, set[Name]()
        while names := await self._due(self._at_once * 4, under_way=looked_at):
            looked_at.update(names)
            driving = [asyncio.ensure_future(one(name)) for name in names]
            try:
                moved += sum(await asyncio.gather(*driving))
            finally:
                for each in driving:
                    each.cancel()
                await asyncio.gather(*driving, return_exceptions=True)
        return moved

    # ------------------------------------------------------------ within

    async def _filled(self, under_way: dict[Name, asyncio.Task[None]]) -> float:
        """Begin as many as there is room for; how long to rest, unless somebody says that there is more to do."""
        try:
            await self._workflows.ask_anew()
            if not self._line and len(under_way) < self._at_once:
                self._line.extend(await self._due(self._at_once * 4, under_way=under_way))
            while self._line and len(under_way) < self._at_once:
                name = self._line.popleft()
                under_way[name] = task = asyncio.ensure_future(self._moved(name))
                task.add_done_callback(lambda _, name=name: under_way.pop(name, None))  # type: ignore[misc]
            return self._look_seconds if len(under_way) >= self._at_once else await self._until_next()
        except PlacetError as fault:
            _log.warning("runs cannot be looked for", extra=told(fault))
            return _AFTER_FAULT_SECONDS

    async def _due(self, most: int, *, under_way: Collection[Name]) -> list[Name]:
        """Those that are due, without those that are being driven or were of no use a moment ago."""
        now = self._around.clock.monotonic()
        aside = {name for name, (until, _) in self._aside.items() if until > now}.union(under_way)
        due = await self._workflows.due(limit=min(most + len(aside), MOST_LISTED))
        return [name for name in due if name not in aside][:most]

    async def _moved(self, name: Name) -> None:
        await self._is_moved(name, looks=_LOOKS)

    async def _is_moved(self, name: Name, *, looks: int) -> bool:
        """Whether it was driven on, or postponed. One that was not is left aside for a while, each time for longer.

        Args:
            looks: so often in a row it is looked at in vain before it is postponed: others may go on with it meanwhile.
        """
        times = self._in_vain(name)
        try:
            progress = await self.drive(*name)
            is_left = isinstance(progress, Unserved) and times + 1 < looks and self._leaves_few
            if isinstance(progress, Unserved) and not is_left:
                await self._workflows.postpone(progress)
            if not is_left and not isinstance(progress, Busy):
                self._aside.pop(name, None)
                return True
        except NotFound:
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as fault:  # its lease ends by itself, and then it is due again
            if owes_cancellation():  # ours
                raise
            _log.warning("a run could not be driven", extra=told(fault))
        self._aside.pop(name, None)
        seconds = min(_LONGEST_ASIDE_SECONDS, 2.0 ** min(times, 8))
        self._aside[name] = (self._around.clock.monotonic() + seconds, times + 1)
        if len(self._aside) > _MOST_ASIDE:
            now = self._around.clock.monotonic()
            self._aside = {each: aside for each, aside in self._aside.items() if aside[0] > now}
        if len(self._aside) > _MOST_ASIDE:
            self._aside.pop(next(iter(self._aside)))
        return False

    def _in_vain(self, name: Name) -> int:
        """How often in a row it was of no use to look at it. What was long ago counts no more."""
        until, times = self._aside.get(name, (0.0, 0))
        return times if self._around.clock.monotonic() - until < _LONGEST_ASIDE_SECONDS else 0

    @property
    def _leaves_few(self) -> bool:
        """With very many, those behind them in the line would not be reached."""
        now = self._around.clock.monotonic()
        return sum(until > now for until, _ in self._aside.values()) < _MOST_LEFT

    async def _until_next(self) -> float:
        """Seconds until the next run is due. One that is due and was not begun is left aside, and looked at later."""
        due_at = await self._around.store.next_due_run()
        if due_at is None:
            return self._look_seconds
        until = (due_at - await self._around.store.now()).total_seconds()
        return min(self._look_seconds, until) if until > 0 else self._look_seconds


async def _all_ended(under_way: Mapping[Name, asyncio.Task[None]]) -> None:
    await asyncio.gather(*under_way.values(), return_exceptions=True)
