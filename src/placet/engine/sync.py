"""The gate for programs without an event loop: calls are carried to one loop in one thread, and nothing more."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from placet.engine.desk import Desk
from placet.engine.faults import told
from placet.engine.gate import Gate
from placet.engine.granting import Granting
from placet.engine.purging import Purger
from placet.engine.reconciler import Reconciler
from placet.engine.several import Several
from placet.engine.switch import Switch
from placet.engine.triage import Triage
from placet.errors import MisuseError
from placet.rules.foreign import safe_exception_name

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")
Inner = TypeVar("Inner")
_log = logging.getLogger("placet.loop")
_ENDING_SECONDS = 5.0
"""How long what is still in the loop may take to end, once cancelled."""


class LoopThread:
    """An event loop of its own; `carry` runs a coroutine there and waits for its value."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._handing_over = threading.Lock()
        self._is_closed = False
        self._has_stopped = False
        self._waiting: set[Future[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="placet-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Until it is stopped. A loop stops for an exit or interrupt that a task raised, which ends that task alone."""
        while not (self._has_stopped or self._loop.is_closed()):
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as stop:
                name = safe_exception_name(type(stop))
                _log.warning("a task in the gate's loop raised %s", name, extra={"error_type": name})
            except BaseException as fault:  # the loop itself is broken: it would fail again at once, and without end
                _log.critical("the gate's loop has failed: %s", safe_exception_name(type(fault)), extra=told(fault))
                self._give_up()
                return

    def _give_up(self) -> None:
        """Nothing runs any more: those that wait are not left waiting, and nobody begins to."""
        with self._handing_over:
            self._has_stopped = True
            waiting = tuple(self._waiting)
        for future in waiting:
            future.cancel()

    def _stop(self) -> None:
        self._has_stopped = True
        self._loop.stop()

    @property
    def is_ours(self) -> bool:
        """Whether this is the process the thread runs in; a fork copies no threads."""
        return os.getpid() == self._process

    def carry(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run there, wait here.

        Raises:
            MisuseError: the gate is closed, or another process's; nothing ran.
        """
        if not self.is_ours:
            work.close()
            raise MisuseError("The gate belongs to another process: open a gate after the fork.")
        with self._handing_over:
            if self._is_closed or self._has_stopped:
                work.close()
                raise MisuseError("The gate is closed.", hint="Open another with placet.open.")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._waiting.add(future)
            future.add_done_callback(self._waiting.discard)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interrupted caller has its attempt closed, as a cancelled task has
            raise

    def close(self) -> None:
        """Cancel what is still in the loop, wait until it has ended, and stop. In a forked child nothing is touched."""
        if not self.is_ours:
            return
        with self._handing_over:
            if self._is_closed:
                return
            self._is_closed = True
        if self._has_stopped:  # by a fault; nothing of the loop can be ended in it
            self._thread.join()
            with suppress(Exception):
                self._loop.close()
            return
        try:
            asyncio.run_coroutine_threadsafe(_end_everything(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._stop)
            self._thread.join()
            self._loop.close()


async def _end_everything() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_ENDING_SECONDS)
    await asyncio.get_running_loop().shutdown_asyncgens()


class _Carrier:
    def __init__(self, inner: Any, thread: LoopThread) -> None:
        self._inner = inner
        self._thread = thread


def _carried(
    method: Callable[Concatenate[Inner, Parameters], Coroutine[Any, Any, Value]],
) -> Callable[Concatenate[Any, Parameters], Value]:
    """The same method with the same parameters, waited for."""

    def call(carrier: _Carrier, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Value:
        return carrier._thread.carry(method(carrier._inner, *args, **kwargs))

    call.__doc__ = method.__doc__
    call.__name__ = method.__name__
    return call


class SyncTriage(_Carrier):
    """`Triage`, waited for."""

    page = _carried(Triage.page)


class SyncSeveral(_Carrier):
    """`Several`, waited for."""

    look = _carried(Several.look)
    deny = _carried(Several.deny)
    approve = _carried(Several.approve)


class SyncDesk(_Carrier):
    """`Desk`, waited for."""

    def __init__(self, desk: Desk, thread: LoopThread) -> None:
        super().__init__(desk, thread)
        self.triage = SyncTriage(desk.triage, thread)
        self.several = SyncSeveral(desk.several, thread)

    pending = _carried(Desk.pending)
    listed = _carried(Desk.listed)
    page = _carried(Desk.page)
    show = _carried(Desk.show)
    approve = _carried(Desk.approve)
    deny = _carried(Desk.deny)
    withdraw = _carried(Desk.withdraw)
    withdraw_vote = _carried(Desk.withdraw_vote)
    edit = _carried(Desk.edit)
    expire_overdue = _carried(Desk.expire_overdue)


class SyncGranting(_Carrier):
    """`Granting`, waited for."""

    draft = _carried(Granting.draft)
    give = _carried(Granting.give)
    like = _carried(Granting.like)
    listed = _carried(Granting.listed)
    page = _carried(Granting.page)
    standing = _carried(Granting.standing)
    standing_page = _carried(Granting.standing_page)
    show = _carried(Granting.show)
    revoke = _carried(Granting.revoke)


class SyncReconciler(_Carrier):
    """`Reconciler`, waited for."""

    recover = _carried(Reconciler.recover)
    settle_by_person = _carried(Reconciler.settle_by_person)
    effects = _carried(Reconciler.effects)
    waiting = _carried(Reconciler.waiting)
    broken_effects = _carried(Reconciler.broken_effects)
    broken_among = _carried(Reconciler.broken_among)
    page = _carried(Reconciler.page)
    show = _carried(Reconciler.show)
    probe_now = _carried(Reconciler.probe_now)


class SyncSwitch(_Carrier):
    """`Switch`, waited for."""

    stop = _carried(Switch.stop)
    resume = _carried(Switch.resume)
    stops = _carried(Switch.stops)


class SyncPurger(_Carrier):
    """`Purger`, waited for."""

    purge_round = _carried(Purger.purge_round)
    purge = _carried(Purger.purge)
    old = _carried(Purger.old)
    hold = _carried(Purger.hold)
    lift = _carried(Purger.lift)
    holds = _carried(Purger.holds)


class SyncGate(_Carrier):
    """`Gate`, waited for. May be used from any number of threads."""

    submit = _carried(Gate.submit)
    submit_all = _carried(Gate.submit_all)
    submit_until_failure = _carried(Gate.submit_until_failure)
    submit_listed = _carried(Gate.submit_listed)
    submit_followed = _carried(Gate.submit_followed)
    ask = _carried(Gate.ask)
    explain = _carried(Gate.explain)
    who_may_approve = _carried(Gate.who_may_approve)
    drain = _carried(Gate.drain)
    verify_audit = _carried(Gate.verify_audit)
    audit_heads = _carried(Gate.audit_heads)

    def __init__(self, gate: Gate, thread: LoopThread) -> None:
        super().__init__(gate, thread)
        self.desk = SyncDesk(gate.desk, thread)
        self.grants = SyncGranting(gate.grants, thread)
        self.reconciler = SyncReconciler(gate.reconciler, thread)
        self.switch = SyncSwitch(gate.switch, thread)
        self.purger = SyncPurger(gate.purger, thread)
        self.tools_for = gate.tools_for
