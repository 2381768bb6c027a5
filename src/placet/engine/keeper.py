"""Signs of life and looking after the lost, while a gate is open."""

from __future__ import annotations

import asyncio
import logging

from placet.engine.driven import Driven
from placet.engine.faults import told_of_round
from placet.engine.performing import Performing
from placet.engine.reconciler import Reconciler
from placet.engine.settings import GateSettings
from placet.model.identifiers import OwnerId
from placet.ports.clock import Clock
from placet.ports.meter import Meter
from placet.ports.store import Store

_log = logging.getLogger("placet.keeper")


class Keeper:
    """Two rounds: a heartbeat three times per lease while something is in flight, and a recovery now and then.

    Neither ends because of what it met: a fault is told in the log, without its text, and the next round comes.
    """

    def __init__(
        self,
        *,
        store: Store,
        performing: Performing,
        reconciler: Reconciler,
        clock: Clock,
        settings: GateSettings,
        owner: OwnerId,
        meter: Meter,
        driven: Driven,
    ) -> None:
        self._driven = driven
        self._store = store
        self._performing = performing
        self._reconciler = reconciler
        self._clock = clock
        self._settings = settings
        self._owner = owner
        self._meter = meter
        self._rounds: list[asyncio.Task[None]] = []

    def start_heartbeat(self) -> None:
        self._rounds.append(asyncio.get_running_loop().create_task(self._beat(), name="placet-heartbeat"))

    def start_recovery(self) -> None:
        self._rounds.append(asyncio.get_running_loop().create_task(self._recover(), name="placet-recovery"))

    async def stop(self) -> None:
        for task in self._rounds:
            task.cancel()
        await asyncio.gather(*self._rounds, return_exceptions=True)
        self._rounds.clear()

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(self._settings.lease_seconds / 3)
            if self._performing.in_flight or self._driven.any:
                try:
                    if self._performing.in_flight:
                        await self._store.heartbeat(self._owner, lease_seconds=self._settings.lease_seconds)
                    await self._driven.beat()
                except Exception as fault:
                    self._meter.heartbeat_failed()
                    _log.warning("heartbeat failed", extra=told_of_round(fault))

    async def _recover(self) -> None:
        while True:
            try:
                await self._reconciler.recover()
            except Exception as fault:
                _log.warning("recovery failed", extra=told_of_round(fault))
            await self._clock.sleep(self._settings.recovery_seconds)
