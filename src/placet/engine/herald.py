"""Tells meters and sinks what has become durable. Nothing it does changes what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from placet.model.audit import AuditEvent, EventKind
from placet.ports.meter import Meter
from placet.ports.sinks import AuditSink
from placet.ports.waiting import foreign

DELIVERY_SECONDS = 5.0
BACKLOG = 10_000
"""Events that may wait for slow sinks; beyond it they are dropped there and counted. The store has them all."""


class Herald:
    """Delivers copies of events: before dispatch to sinks that must hear, afterwards to all others."""

    def __init__(self, *, meter: Meter, sinks: Sequence[AuditSink]) -> None:
        self._meter = meter
        self._required = [sink for sink in sinks if sink.is_required]
        self._others = list(sinks)
        self._waiting: asyncio.Queue[AuditEvent] = asyncio.Queue(BACKLOG)
        self._pump: asyncio.Task[None] | None = None

    async def before_dispatch(self, events: Iterable[AuditEvent]) -> bool:
        """Deliver to every required sink; false if one of them did not take it, and then nothing may be sent."""
        for sink in self._required:
            for event in events:
                if not await self._deliver(sink, event):
                    return False
        return True

    def durable(self, events: Iterable[AuditEvent]) -> None:
        """Count completed attempts, and hand the events to the sinks that may hear later."""
        for event in events:
            if event.kind is EventKind.COMPLETED and event.outcome is not None:
                self._meter.attempt_completed(
                    tool=event.tool, outcome=event.outcome.value, seconds=event.duration_ms / 1000.0
                )
            if self._others:
                self._enqueue(event)

    def _enqueue(self, event: AuditEvent) -> None:
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._serve(), name="placet-sinks")
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            for sink in self._others:
                self._meter.sink_failed(sink=sink.name)

    async def close(self) -> None:
        """Give waiting events a bounded chance, then stop."""
        if self._pump is not None:
            await asyncio.wait((asyncio.ensure_future(self._waiting.join()),), timeout=DELIVERY_SECONDS)
            self._pump.cancel()

    async def _serve(self) -> None:
        while True:
            event = await self._waiting.get()
            for sink in self._others:
                if not sink.is_required or event.kind is not EventKind.STARTED:
                    await self._deliver(sink, event)
            self._waiting.task_done()

    async def _deliver(self, sink: AuditSink, event: AuditEvent) -> bool:
        """Whether the sink took it. Whatever a sink raises, cancellation included, is its own fault (B127, B140)."""
        heard = await foreign(_delivered(sink, event), timeout_seconds=DELIVERY_SECONDS)
        if heard is not True:
            self._meter.sink_failed(sink=sink.name)
        return heard is True


async def _delivered(sink: AuditSink, event: AuditEvent) -> bool:
    await sink.deliver(event)
    return True
