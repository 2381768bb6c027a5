"""Runs the registered Python function of a tool, under its deadline, whatever the function does.

A coroutine is cancelled at its deadline and given a short grace to end. A thread cannot be stopped: placet stops
waiting, counts the stray, and lets no more than a few of one tool exist. What either says later is evidence, never a
success (REQUIREMENTS B108, C032).
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from types import CoroutineType
from typing import Any, TypeVar

from placet.adapters.transports.reports import report_of, returned
from placet.model.attempt import CallerLeft, DeadlinePassed, Raised, Report, Returned, Unsent
from placet.model.call import Call
from placet.model.context import Absent, CallContext, CannotTell, Found, ProbeAnswer, ProbeContext, Seen
from placet.model.contract import Isolation
from placet.ports.meter import Meter
from placet.ports.waiting import one_turn, owe_cancellation, whatever_happens
from placet.rules.contracts import Tool

Answer = TypeVar("Answer")

MAX_STRAY_THREADS = 64
"""Attempts of one tool, of all tenants together, that may go on past their deadline before no more are begun."""
MAX_STRAY_LOOKS = 8
"""Probes of one tool that may go on past their deadline before no more are begun; and, counted by themselves as any
proposer has them begun, as many looks at states of one tenant."""
MAX_STRAYS_OF_ALL = 64
"""Looks at states of one tool that may go on past their deadline for all tenants together."""


class _Strays:
    """Looks of one tool that go on past their deadline, by tenant. Truthy while there are any."""

    def __init__(self, *, of_one: int, of_all: int) -> None:
        self._of_one, self._of_all = of_one, of_all
        self._by_tenant = Counter[str]()

    def __bool__(self) -> bool:
        return bool(self._by_tenant)

    def have_room(self, tenant: str) -> bool:
        return self._by_tenant[tenant] < self._of_one and self._by_tenant.total() < self._of_all

    def count(self, tenant: str, change: int) -> None:
        self._by_tenant[tenant] += change
        if not self._by_tenant[tenant]:
            del self._by_tenant[tenant]


class PythonTransport:
    """Every tool's own function, and nothing else."""

    def __init__(self, tools: Mapping[str, Tool], *, meter: Meter, grace_seconds: float) -> None:
        self._tools = dict(tools)
        self._meter = meter
        self._grace_seconds = grace_seconds
        self._strays = dict.fromkeys(self._tools, 0)
        self._stray_looks = {name: _Strays(of_one=MAX_STRAY_LOOKS, of_all=MAX_STRAY_LOOKS) for name in self._tools}
        self._stray_state_looks = {
            name: _Strays(of_one=MAX_STRAY_LOOKS, of_all=MAX_STRAYS_OF_ALL) for name in self._tools
        }
        self._left_looks: set[asyncio.Future[Any]] = set()
        self._detached: set[asyncio.Future[Report]] = set()

    async def attempt(
        self,
        call: Call,
        context: CallContext,
        *,
        timeout_seconds: float,
        when_late: Callable[[Report], None],
        silence: asyncio.Future[None] | None = None,
    ) -> Report:
        tool = self._tools[call.contract.name]
        try:
            keywords = tool.handler_arguments(call.canonical_arguments, context)
        except BaseException:  # the stored call no longer fits the code of its contract; nothing was called
            return Unsent()
        is_thread = call.contract.isolation is Isolation.THREAD
        running = _in_thread(tool, keywords) if is_thread else _in_task(tool, keywords)
        try:
            await one_turn()  # enough for a coroutine that waits for nothing, and much cheaper than a timer
            if not running.done():
                ends = (running,) if silence is None else (running, silence)
                await asyncio.wait(ends, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
            has_caller = True
        except asyncio.CancelledError:
            has_caller = False
        if has_caller and running.done():
            if running.cancelled():  # the handler cancelled its own task
                return Raised(error_type="CancelledError")
            return running.result()
        has_ended = not is_thread and await self._end(running)
        if not has_ended:
            self._detach(tool.contract.name, running, when_late)
        if not has_caller:
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            owe_cancellation()
            return CallerLeft(has_ended=has_ended)
        late = running.result() if has_ended and not running.cancelled() else None
        return DeadlinePassed(has_ended=has_ended, late=late if type(late) is Returned else None)

    async def probe(self, tool: str, context: ProbeContext, *, timeout_seconds: float) -> ProbeAnswer:
        known = self._tools.get(tool)
        answer: object = CannotTell()
        if known is not None and known.probe is not None:
            answer = await self._looked(tool, known.probe, context, timeout_seconds, strays=self._stray_looks[tool])
        return answer if type(answer) is Found or type(answer) is Absent else CannotTell()

    async def precondition(self, tool: str, context: ProbeContext, *, timeout_seconds: float) -> Seen | CannotTell:
        known = self._tools.get(tool)
        if known is None or known.precondition is None:
            return CannotTell()
        strays = self._stray_state_looks[tool]
        answer = await self._looked(tool, known.precondition, context, timeout_seconds, strays=strays)
        return answer if type(answer) is CannotTell else Seen(state=answer)

    async def _looked(
        self,
        tool: str,
        look: Callable[[ProbeContext], object],
        context: ProbeContext,
        timeout_seconds: float,
        *,
        strays: _Strays,
    ) -> object:
        """What a function of the tool that looks answers in time; `CannotTell` for everything else."""
        if not strays.have_room(context.tenant):
            return CannotTell()
        looking = asyncio.ensure_future(self._look(tool, look, context, strays))
        try:
            await asyncio.wait((looking,), timeout=timeout_seconds)
        finally:
            if not looking.done():
                looking.cancel()
                self._leave(looking, strays, context.tenant)
        if not looking.done() or looking.cancelled():  # a probe may even have cancelled itself
            return CannotTell()
        return looking.result()

    async def _look(
        self, name: str, look: Callable[[ProbeContext], Any], context: ProbeContext, strays: _Strays
    ) -> object:
        try:
            if _is_async(look):
                answer: object = await look(context)
            else:
                answer = await self._look_in_thread(name, look, context, strays)
                if inspect.isawaitable(answer):
                    answer = await answer
            if type(answer) is Found:  # a fresh one, which has all its fields
                return Found(result=answer.result, external_reference=answer.external_reference)
        except BaseException:
            return CannotTell()
        return answer

    async def _look_in_thread(
        self, name: str, look: Callable[[ProbeContext], Any], context: ProbeContext, strays: _Strays
    ) -> object:
        """A plain function may block; nobody but its own look waits for it, and what it says too late is ignored."""
        looking = _answer_of_thread(f"placet-probe-{name}", partial(_look_of, look, context))
        try:
            return await asyncio.shield(looking)
        except asyncio.CancelledError:
            self._leave(looking, strays, context.tenant)
            raise

    def _leave(self, looking: asyncio.Future[Any], strays: _Strays, tenant: str) -> None:
        """Count a look that goes on past its deadline, until it ends."""

        def ended(future: asyncio.Future[Any]) -> None:
            self._left_looks.discard(future)
            strays.count(tenant, -1)
            if not future.cancelled() and type(answer := future.result()) is CoroutineType:
                answer.close()  # nobody will await it

        strays.count(tenant, +1)
        self._left_looks.add(looking)
        looking.add_done_callback(ended)

    def has_room(self, tool: str) -> bool:
        return self._strays.get(tool, 0) < MAX_STRAY_THREADS

    async def _end(self, running: asyncio.Future[Report]) -> bool:
        """Cancel and wait a bounded grace; whether it ended."""
        running.cancel()
        ending = asyncio.ensure_future(asyncio.wait((running,), timeout=self._grace_seconds))
        await whatever_happens(ending)
        return running.done()

    def _detach(self, name: str, running: asyncio.Future[Report], when_late: Callable[[Report], None]) -> None:
        """Watch an attempt that went on: it is counted while it runs, and heard when it ends."""

        def ended(future: asyncio.Future[Report]) -> None:
            self._detached.discard(future)
            self._count_stray(name, -1)
            when_late(Raised(error_type="CancelledError") if future.cancelled() else future.result())

        self._detached.add(running)
        self._count_stray(name, +1)
        running.add_done_callback(ended)

    def _count_stray(self, name: str, change: int) -> None:
        self._strays[name] += change
        self._meter.strays(tool=name, change=change)


def _in_task(tool: Tool, keywords: dict[str, Any]) -> asyncio.Future[Report]:
    return asyncio.get_running_loop().create_task(_in_loop(tool, keywords))


async def _in_loop(tool: Tool, keywords: dict[str, Any]) -> Report:
    try:
        return returned(await tool.function(**keywords))
    except BaseException as error:
        return report_of(error)


def _in_thread(tool: Tool, keywords: dict[str, Any]) -> asyncio.Future[Report]:
    """A thread of its own, so that a stray one blocks nobody."""

    def run() -> Report:
        try:
            return returned(tool.function(**keywords))
        except BaseException as error:
            return report_of(error)

    try:
        return _answer_of_thread(f"placet-{tool.contract.name}", run)
    except RuntimeError:  # the system has no thread left, so nothing was called
        unsent: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        unsent.set_result(Unsent())
        return unsent


def _look_of(look: Callable[[ProbeContext], Any], context: ProbeContext) -> object:
    try:
        return look(context)
    except BaseException:
        return CannotTell()


def _answer_of_thread(name: str, work: Callable[[], Answer]) -> asyncio.Future[Answer]:
    """What the work, which may not raise, answers from a thread; it carries the caller's context (C04).

    Raises:
        RuntimeError: the system has no thread left; nothing was called.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(answer: Answer) -> None:
        if not future.done():
            future.set_result(answer)

    def run() -> None:
        answer = context.run(work)
        try:
            loop.call_soon_threadsafe(deliver, answer)
        except RuntimeError:
            return  # the loop is gone, and with it whoever waited; the lease tells the others

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def _is_async(look: Callable[[ProbeContext], Any]) -> bool:
    return inspect.iscoroutinefunction(look) or inspect.iscoroutinefunction(type(look).__call__)
