"""Runs a handler in a process of its own, which is killed at its deadline, when its caller leaves, and at close.

    take a child ── hand the call over ── wait: answer | deadline | caller leaves ── kill ── wait until ended ── report

What a child says is believed as a handler is: its facts become reports, its result is checked again here. What it does
not say decides only one thing: a child that ended without having said that it calls the handler has not called it.

A new interpreter takes a few tenths of a second to import placet and the tools, and this counts as part of the
attempt. So after the first attempt a few spare children wait, with nothing of any call in them; each serves one.
Source: DESIGN section 11.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from placet.adapters.transports import wire
from placet.adapters.transports.child import Child, Noise, Silence, Word
from placet.adapters.transports.crossing import NOISE, ascii_of, order_of, report_of_word
from placet.adapters.transports.places import place_of
from placet.adapters.transports.wire import Fact, steady_seconds
from placet.errors import MisuseError
from placet.model.attempt import CallerLeft, DeadlinePassed, Raised, Report, Returned, Unsent
from placet.model.call import Call
from placet.model.context import CallContext
from placet.ports.clock import Clock
from placet.ports.meter import Meter
from placet.ports.waiting import owe_cancellation, whatever_happens
from placet.rules.contracts import Tool
from placet.rules.foreign import known_exception_name, safe_exception_name

_log = logging.getLogger("placet.process")
MAX_STUCK = 8
"""Children of one tool that the system could not end before no more are started."""
_LEAST_PATIENCE_SECONDS = 2.0
"""How long the kernel gets to end killed processes before we call it unknown whether they ended."""
_NOT_CALLED_WORDS = frozenset({"import_failed", "tool_changed", "arguments_refused", "too_late", "process_ended"})


class ProcessTransport:
    """One process tree for each attempt. How many run at once is decided before they are claimed (`engine.capacity`).

    Args:
        spare_processes: children kept ready once the first attempt was made.

    Raises:
        ContractError: a tool that no new process could import.
        MisuseError: this process is itself one of an attempt; it could go on without end.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        meter: Meter,
        clock: Clock,
        grace_seconds: float,
        spare_processes: int,
    ) -> None:
        if wire.is_an_attempt():
            raise MisuseError(
                "A process handler, or a module it imports, opens a gate with process handlers of its own.",
                hint="Open gates in the program, not where the tools are defined.",
            )
        self._tools = {tool.contract.name: tool for tool in tools}
        self._places = {name: place_of(tool) for name, tool in self._tools.items()}
        self._meter = meter
        self._clock = clock
        self._patience_seconds = max(grace_seconds, _LEAST_PATIENCE_SECONDS)
        self._wanted_spares = spare_processes
        self._spares: deque[Child] = deque()
        self._stuck = dict.fromkeys(self._tools, 0)
        self._ending: set[asyncio.Task[None]] = set()
        self._unended: set[Child] = set()
        self._is_closed = False

    def has_room(self, tool: str) -> bool:
        return self._stuck.get(tool, 0) < MAX_STUCK

    async def attempt(
        self, call: Call, context: CallContext, *, timeout_seconds: float, when_late: Callable[[Report], None]
    ) -> Report:
        ends_at = steady_seconds() + timeout_seconds
        order = order_of(call, context, self._places[call.contract.name], clock=self._clock, ends_at=ends_at)
        child = self._child(call.contract.name) if order is not None else None
        if order is None or child is None:
            return Unsent()
        ends_at = order["steady_limit"]
        child.hand_over(order, ends_at=ends_at, most_bytes=call.contract.max_result_bytes)
        self._refill(call.contract.name)
        has_caller = True
        try:
            await asyncio.wait((child.answer,), timeout=max(0.0, ends_at - steady_seconds()))
        except asyncio.CancelledError:
            has_caller = False
        is_in_time = child.answer.done() and not (type(child.answer.result()) is Silence and _has_passed(ends_at))
        ending = asyncio.ensure_future(child.end(within_seconds=self._patience_seconds))
        await whatever_happens(ending)
        has_ended = ending.result()
        report = self._report(call, child, has_caller=has_caller, is_in_time=is_in_time, has_ended=has_ended)
        hears = when_late if type(report) in (DeadlinePassed, CallerLeft) else _ignore
        if has_ended or child.gone.done():
            child.forget()
            if not has_ended:  # it went between the two looks; whoever keeps a place for it hears so, after the report
                asyncio.get_running_loop().call_soon(hears, DeadlinePassed(has_ended=False))
        else:
            self._detach(call, child, hears)
        if not has_caller:
            _owe_to_caller()
        return report

    async def close(self) -> None:
        """End the spare children, and give up on those that could not be ended."""
        self._is_closed = True
        for child in self._unended:
            child.kill_all()
        while self._spares:
            self._ends(self._retire(self._spares.popleft()))
        if self._ending:
            await asyncio.wait(self._ending, timeout=self._patience_seconds)
        left = tuple(self._ending)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # ------------------------------------------------------------ children

    def _child(self, tool: str) -> Child | None:
        """A spare child that is still there, or a new one; None if the system has no room."""
        child: Child | None = None
        while self._spares and child is None:
            child = self._spares.popleft()
            if not child.is_waiting():
                self._ends(self._retire(child))
                child = None
        return child or self._started(tool)

    def _refill(self, tool: str) -> None:
        while not self._is_closed and len(self._spares) < self._wanted_spares:
            spare = self._started(tool)
            if spare is None:
                return
            self._spares.append(spare)

    def _started(self, tool: str) -> Child | None:
        try:
            return Child({"modules": sorted({place.module for place in self._places.values()})})
        except Exception as fault:  # OSError of many kinds: no memory, no process, no descriptor left
            error_type = safe_exception_name(fault)
            _log.warning(
                "no process was started for %s: %s", tool, error_type, extra={"tool": tool, "error_type": error_type}
            )
            return None

    def _detach(self, call: Call, child: Child, when_late: Callable[[Report], None]) -> None:
        """Watch what the system could not end; when it has ended after all, that is told."""
        name = call.contract.name

        async def watch() -> None:
            try:
                await asyncio.shield(child.gone)
                has_ended = await child.end(within_seconds=0.0)
                when_late((self._late(call, child) if has_ended else None) or DeadlinePassed(has_ended=has_ended))
            finally:
                _log.info(
                    "the watch over a process of %s has ended", name, extra={"tool": name, "warden": child.warden}
                )
                self._stuck[name] -= 1
                self._meter.strays(tool=name, change=-1)
                self._unended.discard(child)
                child.forget()

        _log.warning("the system has not ended a process of %s yet", name, extra={"tool": name, "warden": child.warden})
        self._stuck[name] += 1
        self._meter.strays(tool=name, change=1)
        self._unended.add(child)
        self._ends(watch())

    async def _retire(self, child: Child) -> None:
        await child.end(within_seconds=self._patience_seconds)
        child.forget()

    def _ends(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    # ------------------------------------------------------------ what is known

    def _report(self, call: Call, child: Child, *, has_caller: bool, is_in_time: bool, has_ended: bool) -> Report:
        """What the attempt proves. `calling` was in the pipe before the call, so without it nothing was called."""
        answer = child.answer.result() if child.answer.done() else Silence()
        if is_in_time and type(answer) is Word:
            return self._report_of(call, answer)
        cannot_call = has_ended or child.gone.done()
        if cannot_call and not child.was_called and type(answer) is not Noise:
            self._tell_not_called(call, "process_ended")
            return Unsent()
        if not has_caller:
            self._tell_cut_short(call, "caller_left")
            return CallerLeft(has_ended=has_ended)
        if is_in_time and has_ended:
            is_noise = type(answer) is Noise
            self._tell_cut_short(call, "noise" if is_noise else "died")
            return Raised(error_type=NOISE if is_noise else "process_died")
        self._tell_cut_short(call, "died" if is_in_time else "deadline")
        return DeadlinePassed(has_ended=has_ended, late=self._late(call, child))

    def _late(self, call: Call, child: Child) -> Returned | None:
        """A result that came when nobody waited any more."""
        answer = child.answer.result() if child.answer.done() else None
        report = self._report_of(call, answer) if type(answer) is Word else None
        return report if type(report) is Returned else None

    def _report_of(self, call: Call, word: Word) -> Report:
        if word.fact is Fact.NOT_CALLED:
            self._tell_not_called(call, ascii_of(word.payload))
        return report_of_word(self._tools[call.contract.name], word.fact, word.payload)

    # ------------------------------------------------------------ what operators hear: names only

    def _tell_not_called(self, call: Call, words: str) -> None:
        """The outcome says only that nothing was sent; why is for the operator."""
        word, _, error_type = words.partition(" ")
        reason = word if word in _NOT_CALLED_WORDS else "unknown"
        names = {"tool": call.contract.name, "reason": reason}
        told = reason
        if reason == "import_failed":
            names["error_type"] = known_exception_name(error_type)
            told = f"{reason} ({names['error_type']})"
        self._meter.process_cut_short(tool=call.contract.name, reason="not_called")
        _log.warning("a process handler of %s was not called: %s", call.contract.name, told, extra=names)

    def _tell_cut_short(self, call: Call, reason: str) -> None:
        name = call.contract.name
        self._meter.process_cut_short(tool=name, reason=reason)
        _log.warning("a process handler of %s was cut short: %s", name, reason, extra={"tool": name, "code": reason})


def _ignore(report: Report) -> None:
    """For an attempt that was answered: what it says after that is nobody's."""


def _has_passed(ends_at: float) -> bool:
    return steady_seconds() >= ends_at


def _owe_to_caller() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    owe_cancellation()
