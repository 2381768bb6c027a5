"""Tells meters and sinks what has become durable. Nothing it does changes what happened."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from placet.errors import ConfigurationError
from placet.model.audit import ALARMS, AuditEvent, EventKind
from placet.model.exact import has_methods
from placet.ports.meter import Meter
from placet.ports.sinks import AuditSink
from placet.ports.waiting import foreign, takes_owed_cancellation

DELIVERY_SECONDS = 5.0
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
BACKLOG = 10_000
"""Events that may wait for slow sinks; beyond it they are dropped there and counted. The store has them all."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A sink, and what it said of itself when the gate opened; it is not asked again."""

    sink: AuditSink
    name: str
    is_required: bool


def introduced(sinks: Sequence[AuditSink]) -> tuple[Listener, ...]:
    """The sinks with their names.

    Raises:
        ConfigurationError: one does not say properly what it is called, or whether it must hear.
    """
    listeners = tuple(_introduced(sink) for sink in sinks)
    if None in listeners:
        raise ConfigurationError(
            "A sink has a method deliver, its name is 1 to 64 characters of a-z A-Z 0-9 _ . -, "
            "and its is_required True or False.",
            code="sink_invalid",
            hint="Give each sink a fixed name such as 'webhook', and is_required = False unless it must hear first.",
        )
    return tuple(listener for listener in listeners if listener is not None)


def _introduced(sink: AuditSink) -> Listener | None:
    if not has_methods(sink, "deliver"):
        return None
    with suppress(BaseException):
        name: object = sink.name
        is_required: object = sink.is_required
        if type(name) is str and _NAME.fullmatch(name) and type(is_required) is bool:
            return Listener(sink, name, is_required)
    return None


class Herald:
    """Delivers copies of events: before dispatch to sinks that must hear, afterwards to all others."""

    def __init__(self, *, meter: Meter, listeners: Sequence[Listener]) -> None:
        self._meter = meter
        self._listeners = tuple(listeners)
        self._waiting: asyncio.Queue[tuple[AuditEvent, bool]] = asyncio.Queue(BACKLOG)
        self._pump: asyncio.Task[None] | None = None
        self._abandoned: set[asyncio.Task[bool]] = set()
        self._is_closed = False

    async def before_dispatch(self, opening: AuditEvent) -> bool:
        """Tell every required sink that an attempt begins; false if one did not take it: then nothing may be sent."""
        for listener in self._listeners:
            if listener.is_required and not await self._deliver(listener, opening):
                return False
        return True

    def durable(self, events: Iterable[AuditEvent]) -> None:
        """Count completed attempts, and hand the events to the sinks that may hear later."""
        events = tuple(events)
        for event in events:
            if event.kind is EventKind.COMPLETED and event.outcome is not None:
                self._meter.attempt_completed(
                    tool=event.tool, outcome=event.outcome.value, seconds=event.duration_ms / 1000.0
                )
            elif event.kind in ALARMS:
                self._meter.alarmed(kind=event.kind.value)
        if self._listeners:
            closed = {_attempt(event) for event in events if event.kind is EventKind.COMPLETED}
            for event in events:
                self._enqueue(event, event.kind is EventKind.STARTED and _attempt(event) not in closed)

    def _enqueue(self, event: AuditEvent, is_opening: bool) -> None:
        if self._is_closed:
            return
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._serve(), name="placet-sinks")
        try:
            self._waiting.put_nowait((event, is_opening))
        except asyncio.QueueFull:
            for listener in self._listeners:
                self._meter.sink_failed(sink=listener.name)

    async def close(self) -> None:
        """Give waiting events a bounded chance, then stop; nothing is delivered any more."""
        if self._pump is not None:
            emptied = asyncio.ensure_future(self._waiting.join())
            await asyncio.wait((emptied,), timeout=DELIVERY_SECONDS)
            emptied.cancel()
            self._is_closed = True  # a cancellation that meets a delivery ends that delivery, and not the task
            self._pump.cancel()
            await asyncio.wait((emptied, self._pump), timeout=DELIVERY_SECONDS)
        self._is_closed = True

    async def _serve(self) -> None:
        while not self._is_closed:
            event, is_opening = await self._waiting.get()
            for listener in self._listeners:
                if not (is_opening and listener.is_required):  # that one hears it before the dispatch
                    await self._deliver(listener, event)
            self._waiting.task_done()

    async def _deliver(self, listener: Listener, event: AuditEvent) -> bool:
        """Whether the sink took it in time. What it raises, cancellation included, is its own fault (B127, B140)."""
        delivery = asyncio.get_running_loop().create_task(_delivered(listener.sink, _copy(event)))
        await foreign(_wait_for(delivery), timeout_seconds=None)
        if not delivery.done():
            delivery.cancel()
            self._abandoned.add(delivery)
            delivery.add_done_callback(self._abandoned.discard)
            if await takes_owed_cancellation():  # the sink was not given its time, so it did not fail
                return False
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
