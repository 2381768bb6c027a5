"""One worker: a round now, and another after every pause, until it is told to end.

Announcing goes by rounds of its own beside the others, one for each destination: a message that nobody takes holds up
no recovery, and a receiver that is slow holds up no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from placet.engine.announcing import Announcer, AnnouncingReport
from placet.engine.faults import told_of_round
from placet.engine.gate import Gate
from placet.engine.inline import InlineDriver
from placet.engine.reconciler import RecoveryReport
from placet.engine.reminding import RemindingReport
from placet.engine.rounds import noted
from placet.ports.clock import Clock

_log = logging.getLogger("placet.worker")

_Work = Callable[[], Awaitable[AnnouncingReport]]
ANNOUNCING_SECONDS = 2.0
"""How long to pause between rounds of announcing: a person who is asked should hear of it at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round did.

    Attributes:
        recovery: rows taken over, and unknown ones settled or still open.
        expired: approvals that nobody decided in time, of every tenant.
        reminding: questions that people were told of again, or others of, because nobody has decided them.
        purged: what the settings' retention let go, rows of every kind and tenant.
        announcing: messages that were sent, or not.
        moved: runs of workflows that were driven on.
    """

    recovery: RecoveryReport
    expired: int
    purged: int
    reminding: RemindingReport = field(default_factory=RemindingReport)
    announcing: AnnouncingReport = field(default_factory=AnnouncingReport)
    moved: int = 0


class Worker:
    """Works for one gate, whose tools' probes it can ask.

    Args:
        announcer: of the gate's store; None announces nothing.
        driver: of the workflows whose runs it drives, on that gate; None drives none.
    """

    def __init__(
        self,
        gate: Gate,
        *,
        clock: Clock,
        pause_seconds: float,
        announcer: Announcer | None = None,
        driver: InlineDriver | None = None,
    ) -> None:
        self._gate = gate
        self._clock = clock
        self._pause_seconds = pause_seconds
        self._announcer = announcer
        self._driver = driver
        self._has_failed = False

    async def once(self) -> Round:
        """One round: take over what its owners lost, close lost reads, probe what is due, expire what is overdue,
        remind of what waits, forget what is old, look at what is pinned, announce what happened, and drive runs that
        are due to where they wait, or end.

        Raises:
            Exception: the first fault of a part, a `StoreError` where its rows could not be listed; the other parts
                were done all the same.
        """
        faults: list[Exception] = []
        done = await self._looked_after(faults)
        if self._announcer is not None:
            announcing = await noted(self._announcer.round(), faults, AnnouncingReport())
            done = replace(done, announcing=announcing)
        if self._driver is not None:
            done = replace(done, moved=await noted(self._driver.catch_up(), faults, 0))
        if faults:
            raise faults[0]
        return done

    async def _looked_after(self, faults: list[Exception]) -> Round:
        """All of a round but announcing."""
        nothing = RecoveryReport(taken_over=0, committed=0, absent=0, still_unknown=0)
        recovery = await noted(self._gate.reconciler.recover(), faults, nothing)
        expired = await noted(self._gate.desk.expire_overdue(), faults, 0)
        reminding = await noted(self._gate.reminding.remind_due(), faults, RemindingReport())
        purged = await noted(self._gate.purger.purge_round(), faults, None)
        await noted(self._gate.pins.check(), faults, None)
        return Round(
            recovery=recovery,
            expired=expired,
            purged=0 if purged is None else purged.count,
            reminding=reminding,
        )

    async def run(self, ending: asyncio.Event) -> None:
        """Round after round, and runs driven as they become due, until `ending` is set; the round and the steps that
        are under way then are finished.

        Nothing that a round meets ends it: a fault is told in the log, without its text but with the code and the next
        step of a store's, and the next round comes.
        """
        rounds = [self._repeated(self._round, self._pause_seconds, ending)]
        if self._announcer is not None:
            pause_seconds = min(ANNOUNCING_SECONDS, self._pause_seconds)
            works: list[_Work] = [partial(self._announcer.serve, each) for each in self._announcer.destinations]
            works += [self._tidied] if works else []
            rounds += [self._repeated(partial(self._announce, each), pause_seconds, ending) for each in works]
        async with asyncio.TaskGroup() as group:
            for each in rounds:
                group.create_task(each)
            if self._driver is not None:
                group.create_task(self._driver.serve(ending))

    async def _repeated(
        self, round_of: Callable[[], Awaitable[None]], pause_seconds: float, ending: asyncio.Event
    ) -> None:
        over = asyncio.ensure_future(ending.wait())
        try:
            while not ending.is_set():
                await round_of()
                pause = asyncio.ensure_future(self._clock.sleep(pause_seconds))
                await asyncio.wait((over, pause), return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
        finally:
            over.cancel()

    async def _tidied(self) -> AnnouncingReport:
        if self._announcer is not None:
            await self._announcer.tidy()
        return AnnouncingReport()

    async def _announce(self, work: _Work) -> None:
        """Said only where there was something to announce; what was not taken has been said message by message."""
        try:
            done = await work()
        except Exception as fault:
            _log.warning("round of announcing failed", extra=told_of_round(fault))
            return
        if done != AnnouncingReport():
            _log.info("announced", extra=asdict(done))

    async def _round(self) -> None:
        """Said where there was something to do, or where the round before failed; that one more went by is for whoever
        looks closely."""
        faults: list[Exception] = []
        done = await self._looked_after(faults)
        if faults:
            self._has_failed = True
            _log.warning("round failed", extra=told_of_round(faults[0]))
            return
        is_worth_saying = _did_something(done) or self._has_failed
        self._has_failed = False
        recovery = done.recovery
        _log.log(
            logging.INFO if is_worth_saying else logging.DEBUG,
            "round done",
            extra={
                "taken_over": recovery.taken_over,
                "committed": recovery.committed,
                "absent": recovery.absent,
                "still_unknown": recovery.still_unknown,
                "expired": done.expired,
                "reminded": done.reminding.reminded,
                "escalated": done.reminding.escalated,
                "purged": done.purged,
            },
        )


def _did_something(done: Round) -> bool:
    """What is still unknown was so before, and is said by its own alert."""
    recovery = done.recovery
    counts = (recovery.taken_over, recovery.committed, recovery.absent, done.expired, done.purged)
    return any(counts) or done.reminding != RemindingReport()
