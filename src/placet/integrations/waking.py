"""Tells an engine of runs for which there is something to do: a person has answered, a time is over, a starter died.

It looks at the store, and nowhere else: so what was decided while it was down is found at its first look, and a wake-up
that an engine has lost is told again. A look is one question about all runs; a run that rests costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from placet.engine.faults import told
from placet.model.identifiers import RunId
from placet.model.progress import Progress
from placet.model.waking import runs_topic
from placet.ports.clock import Clock
from placet.ports.wakeups import Wakeup, pause, silence

if TYPE_CHECKING:
    from placet.engine.workflow import Workflows

_log = logging.getLogger("placet.integrations")

LOOK_SECONDS: Final = 2.0
_AT_ONCE: Final = 100
_TOGETHER: Final = 8
_LOOKS_BETWEEN: Final = 2
_REMEMBERED: Final = 10_000
_FIRST_SECONDS: Final = 15.0
_STUCK_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 3_600.0


class DueRuns(Protocol):
    """What of `Workflows` is needed."""

    async def due(self, *, limit: int) -> tuple[tuple[str, str], ...]: ...

    async def look(self, tenant: str, run: str) -> Progress: ...


class Watch(Protocol):
    """What makes it look before its pause is over, and what it does before a look."""

    async def ask_anew(self) -> None:
        """Have those looked at that wait for an answer which the policy of today makes worthless."""
        ...

    async def is_between_steps(self, tenant: str, run: str) -> bool:
        """Whether it waits for nothing: an engine that has it goes on by itself."""
        ...

    def heard(self) -> AbstractContextManager[Wakeup]: ...


class StoreWatch:
    """The watch over the store of some workflows."""

    def __init__(self, workflows: Workflows) -> None:
        self._workflows = workflows
        self._gate = workflows.gate

    async def ask_anew(self) -> None:
        await self._workflows.ask_anew()

    async def is_between_steps(self, tenant: str, run: str) -> bool:
        rests = await self._gate.store.run_checkpoint(tenant, RunId(run))
        return rests is not None and rests.code is None

    def heard(self) -> AbstractContextManager[Wakeup]:
        return self._gate.store.waiting_for(runs_topic())


class _Nothing:
    async def ask_anew(self) -> None:
        return

    async def is_between_steps(self, tenant: str, run: str) -> bool:
        return False

    def heard(self) -> AbstractContextManager[Wakeup]:
        return silence()


@dataclass(slots=True, kw_only=True)
class _Told:
    state_version: int
    again_at: float
    pause_seconds: float


class Waker:
    """Wakes the runs of one store on one engine. Several may do so at once: a wake-up too many does no harm.

    Args:
        wake: tells the engine, which is asked to begin with the run if it does not know it. What it raises is logged
            without its text, and the run is told of again.
    """

    def __init__(
        self,
        runs: DueRuns,
        wake: Callable[[Progress], Awaitable[None]],
        *,
        clock: Clock,
        look_seconds: float = LOOK_SECONDS,
        watch: Watch | None = None,
    ) -> None:
        self._runs = runs
        self._watch = watch or _Nothing()
        self._wake = wake
        self._clock = clock
        self._look_seconds = look_seconds
        self._room = asyncio.Semaphore(_TOGETHER)
        self._seen: tuple[tuple[str, str], ...] = ()
        self._between: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()
        self._told: OrderedDict[tuple[str, str], _Told] = OrderedDict()

    async def once(self) -> int:
        """One look; how many runs were woken. One that stays as it is, its worker being down, is told of ever less.

        Raises:
            PlacetError: the store could not be asked.
        """
        woken = await asyncio.gather(*(self._told_or_passed_over(name) for name in await self._due()))
        return sum(woken)

    async def run(self, ending: asyncio.Event) -> None:
        """Look after look until `ending` is set; whom it is telling then is told. Nothing that a look meets ends it.

        A look waits for none of those that are being told: where an engine does a run's steps meanwhile, one that takes
        long keeps nobody waiting while there is room.
        """
        over = asyncio.ensure_future(ending.wait())
        telling: dict[tuple[str, str], asyncio.Task[int]] = {}
        try:
            with self._watch.heard() as wakeup:
                while not ending.is_set():
                    await self._look(telling, ending)
                    resting = asyncio.ensure_future(pause(wakeup, seconds=self._look_seconds, clock=self._clock))
                    await asyncio.wait((over, resting), return_when=asyncio.FIRST_COMPLETED)
                    resting.cancel()
            await asyncio.gather(*telling.values())
        finally:
            over.cancel()
            for each in telling.values():
                each.cancel()

    async def _due(self) -> tuple[tuple[str, str], ...]:
        await self._watch.ask_anew()
        # Those that it has told of, and that stay as they are, are still the first in line.
        known = sum(name in self._told for name in self._seen)
        self._seen = await self._runs.due(limit=min(_AT_ONCE + known, _REMEMBERED))
        return self._seen

    async def _look(self, telling: dict[tuple[str, str], asyncio.Task[int]], ending: asyncio.Event) -> None:
        try:
            due = await self._due()
        except Exception as fault:
            _log.warning("look at runs failed", extra=told(fault))
            return
        for name in due:
            if name not in telling:
                telling[name] = task = asyncio.ensure_future(self._told_or_passed_over(name, ending))
                task.add_done_callback(lambda _, name=name: telling.pop(name))  # type: ignore[misc]

    async def _told_or_passed_over(self, name: tuple[str, str], ending: asyncio.Event | None = None) -> int:
        """One row that cannot be read keeps no other run waiting."""
        async with self._room:
            try:
                return 0 if ending is not None and ending.is_set() else await self._told_if_news(name)
            except Exception as fault:
                _log.warning("run could not be looked at", extra=told(fault))
                return 0

    async def _told_if_news(self, name: tuple[str, str]) -> int:
        if self._is_stuck(name):
            return 0
        progress = await self._runs.look(*name)
        if not self._is_news(progress) or await self._goes_on_by_itself(progress):
            return 0
        return await self._told_of(progress)

    async def _goes_on_by_itself(self, progress: Progress) -> bool:
        """Between two steps of an engine that has it; not if it is found there again a while later."""
        name, now = (progress.tenant, progress.run_id), self._clock.monotonic()
        if not await self._watch.is_between_steps(*name):
            return False
        version, since = self._between.pop(name, (progress.state_version, now))
        if version != progress.state_version:
            since = now
        self._between[name] = (progress.state_version, since)
        if len(self._between) > _REMEMBERED:
            self._between.popitem(last=False)
        return now - since < self._look_seconds * _LOOKS_BETWEEN

    def _is_stuck(self, name: tuple[str, str]) -> bool:
        """Told of so often that it is not even looked at before its pause is over."""
        known = self._told.get(name)
        return known is not None and known.pause_seconds > _STUCK_SECONDS and self._clock.monotonic() < known.again_at

    def _is_news(self, progress: Progress) -> bool:
        known = self._told.get((progress.tenant, progress.run_id))
        if known is None or known.state_version != progress.state_version:
            return True
        return self._clock.monotonic() >= known.again_at

    async def _told_of(self, progress: Progress) -> int:
        try:
            await self._wake(progress)
        except Exception as fault:
            _log.warning("engine could not be told of a run", extra=told(fault))
            return 0
        self._remember(progress)
        return 1

    def _remember(self, progress: Progress) -> None:
        name = (progress.tenant, progress.run_id)
        known = self._told.pop(name, None)
        is_again = known is not None and known.state_version == progress.state_version
        seconds = min(known.pause_seconds * 2, _LONGEST_SECONDS) if known and is_again else _FIRST_SECONDS
        self._told[name] = _Told(
            state_version=progress.state_version,
            again_at=self._clock.monotonic() + seconds,
            pause_seconds=seconds,
        )
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
