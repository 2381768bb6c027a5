"""Tells meters and sinks what has become durable. Nothing it does changes what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from placet.model.audit import AuditEvent, EventKind
from placet.ports.meter import Meter
from placet.ports.sinks import AuditSink
from placet.ports.waiting import foreign

DELIVERY_SECONDS = 5.0
BACKLOG = 10_000
"""Events that may wait for slow sinks; beyond it they are dropped there and counted. The store has them all."""


@dataclass(frozen=True, slots=True)
class _Listener:
    """A sink, and what it said of itself when the gate opened; it is not asked again."""

    sink: AuditSink
    name: str
    is_required: bool


class Herald:
    """Delivers copies of events: before dispatch to sinks that must hear, afterwards to all others."""

    def __init__(self, *, meter: Meter, sinks: Sequence[AuditSink]) -> None:
        self._meter = meter
        self._listeners = [_Listener(sink, sink.name, bool(sink.is_required)) for sink in sinks]
        self._waiting: asyncio.Queue[tuple[AuditEvent, bool]] = asyncio.Queue(BACKLOG)
        self._pump: asyncio.Task[None] | None = None
        self._abandoned: set[asyncio.Task[bool]] = set()

    async def before_dispatch(self, opening: AuditEvent) -> bool:
        """Tell every required sink that an attempt begins; false if one did not take it: then nothing may be sent."""
        for listener in self._listeners:
            if listener.is_required and not await self._deliver(listener, opening):
                return False
        return True

    def durable(self, events: Iterable[AuditEvent]) -> None:
        """Count completed attempts, and hand the events to the sinks that may hear later."""
        events = tuple(events)
        closed = {_attempt(event) for event in events if event.kind is EventKind.COMPLETED}
        for event in events:
            if event.kind is EventKind.COMPLETED and event.outcome is not None:
                self._meter.attempt_completed(
                    tool=event.tool, outcome=event.outcome.value, seconds=event.duration_ms / 1000.0
                )
            if self._listeners:
                self._enqueue(event, event.kind is EventKind.STARTED and _attempt(event) not in closed)

    def _enqueue(self, event: AuditEvent, is_opening: bool) -> None:
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._serve(), name="placet-sinks")
        try:
            self._waiting.put_nowait((event, is_opening))
        except asyncio.QueueFull:
            for listener in self._listeners:
                self._meter.sink_failed(sink=listener.name)

    async def close(self) -> None:
        """Give waiting events a bounded chance, then stop."""
        if self._pump is not None:
            emptied = asyncio.ensure_future(self._waiting.join())
            await asyncio.wait((emptied,), timeout=DELIVERY_SECONDS)
            emptied.cancel()
            self._pump.cancel()
            await asyncio.wait((emptied, self._pump), timeout=DELIVERY_SECONDS)

    async def _serve(self) -> None:
        while True:
            event, is_opening = await self._waiting.get()
            for listener in self._listeners:
                if not (is_opening and listener.is_required):  # that one hears it before the dispatch
                    await self._deliver(listener, event)
            self._waiting.task_done()

    async def _deliver(self, listener: _Listener, event: AuditEvent) -> bool:
        """Whether the sink took it in time. What it raises, cancellation included, is its own fault (B127, B140)."""
        delivery = asyncio.get_running_loop().create_task(_delivered(listener.sink, _copy(event)))
        await foreign(_wait_for(delivery), timeout_seconds=None)
        if not delivery.done():
            delivery.cancel()
            self._abandoned.add(delivery)
            delivery.add_done_callback(self._abandoned.discard)
        took = delivery.done() and not delivery.cancelled() and delivery.result()
        if not took:
            self._meter.sink_failed(sink=listener.name)
        return took


async def _delivered(sink: AuditSink, event: AuditEvent) -> bool:
    try:
        await sink.deliver(event)
    except BaseException:
        return False
    return True


async def _wait_for(delivery: asyncio.Task[bool]) -> None:
    await asyncio.wait((delivery,), timeout=DELIVERY_SECONDS)


def _copy(event: AuditEvent) -> AuditEvent:
    """What a sink does to its copy stays with it (B142)."""
    arguments, result = event.arguments, event.result
    return replace(
        event,
        arguments=None if arguments is None else replace(arguments),
        result=None if result is None else replace(result),
    )


def _attempt(event: AuditEvent) -> tuple[object, ...]:
    return event.tenant, event.run_id, event.call_id, event.attempt, event.fence
