"""One worker: a round now, and another after every pause, until it is told to end."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from placet.engine.faults import told_of_round
from placet.engine.gate import Gate
from placet.engine.reconciler import RecoveryReport
from placet.engine.rounds import noted
from placet.ports.clock import Clock

_log = logging.getLogger("placet.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round did.

    Attributes:
        recovery: rows taken over, and unknown ones settled or still open.
        expired: approvals that nobody decided in time, of every tenant.
        purged: what the settings' retention let go, rows of every kind and tenant.
    """

    recovery: RecoveryReport
    expired: int
    purged: int


class Worker:
    """Works for one gate, whose tools' probes it can ask."""

    def __init__(self, gate: Gate, *, clock: Clock, pause_seconds: float) -> None:
        self._gate = gate
        self._clock = clock
        self._pause_seconds = pause_seconds

    async def once(self) -> Round:
        """One round: take over what its owners lost, close lost reads, probe what is due, expire what is overdue, and
        forget what is old.

        Raises:
            Exception: the first fault of a part, a `StoreError` where its rows could not be listed; the other parts
                were done all the same.
        """
        faults: list[Exception] = []
        nothing = RecoveryReport(taken_over=0, committed=0, absent=0, still_unknown=0)
        recovery = await noted(self._gate.reconciler.recover(), faults, nothing)
        expired = await noted(self._gate.desk.expire_overdue(), faults, 0)
        purged = await noted(self._gate.purger.purge_round(), faults, None)
        if faults:
            raise faults[0]
        return Round(recovery=recovery, expired=expired, purged=0 if purged is None else purged.count)

    async def run(self, ending: asyncio.Event) -> None:
        """Round after round until `ending` is set; the round that is under way then is finished.

        Nothing that a round meets ends it: a fault is told in the log, without its text but with the code and the next
        step of a store's, and the next round comes.
        """
        over = asyncio.ensure_future(ending.wait())
        try:
            while not ending.is_set():
                await self._round()
                pause = asyncio.ensure_future(self._clock.sleep(self._pause_seconds))
                await asyncio.wait((over, pause), return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
        finally:
            over.cancel()

    async def _round(self) -> None:
        try:
            done = await self.once()
        except Exception as fault:
            _log.warning("round failed", extra=told_of_round(fault))
            return
        recovery = done.recovery
        _log.info(
            "round done",
            extra={
                "taken_over": recovery.taken_over,
                "committed": recovery.committed,
                "absent": recovery.absent,
                "still_unknown": recovery.still_unknown,
                "expired": done.expired,
                "purged": done.purged,
            },
        )
