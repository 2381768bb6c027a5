"""What callers hand over to the store's thread, and how answers come back to the loops they wait in.

The thread has one event loop for all of the database's work, so that any number of loops and threads of the program
may call. Handing over costs one wake-up of the thread for all that waits, and answers one wake-up per caller's loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent import futures
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from placet.errors import MisuseError, StoreError, StoreUnavailable
from placet.model.audit import AuditEvent
from placet.ports.store import Heard
from placet.ports.waiting import Unbreakable, whatever_happens

Value = TypeVar("Value")

_CANCELLED_AGAIN_SECONDS: Final = 0.5


class How(Enum):
    """How an order is decided."""

    TOGETHER = "together"  # with whatever else waits, on what is remembered, and compared by the database
    LOCKED = "locked"  # on rows read under their locks, by itself, or with others that are about other rows
    ALONE = "alone"  # the same, after every transaction that is on its way, and before any other


@dataclass(slots=True, eq=False)
class Order:
    """A verb, or a look-up, and where its answer goes; nowhere without a future.

    Attributes:
        about: all the rows that one under locks reads and writes are of this, and no others are; None for any rows.
        put_at: since when it waits, by the clock of the store's loop.
    """

    work: Any
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any] | None
    how: How = How.TOGETHER
    about: tuple[str, str] | None = None
    is_decided: bool = False
    answer: Any = None
    fault: BaseException | None = None
    events: tuple[AuditEvent, ...] = ()
    put_at: float = 0.0

    def reset(self) -> None:
        """It is decided again: what it was answered was never given out."""
        self.is_decided, self.answer, self.fault, self.events = False, None, None, ()


class Intake:
    """Orders on their way into the thread. Everything but `put` and `close` is called there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._orders: deque[Order] = deque()
        self._has_any = asyncio.Event()
        self._is_awake = True
        self._door = threading.Lock()
        self.is_closed = False

    def put(self, order: Order) -> None:
        """Raises:
        StoreUnavailable: the intake is closed; nobody would serve it.
        """
        with self._door:  # what was let in before it closed is served, and nothing is let in after
            if self.is_closed:
                raise StoreUnavailable("The store is closed.")
            order.put_at = self._loop.time()
            self._orders.append(order)
            if not self._is_awake:  # set after looking for orders and before sleeping, so none is passed over
                self._is_awake = True
                self._loop.call_soon_threadsafe(self._has_any.set)

    def close(self) -> None:
        """What was put before is served; `take` answers with nothing afterwards."""
        with self._door:
            self.is_closed = True
        self._loop.call_soon_threadsafe(self._has_any.set)

    @property
    def has_any(self) -> bool:
        return bool(self._orders)

    async def wait(self) -> bool:
        """Until there is an order; False once it is closed and empty."""
        while not self._orders:
            if self.is_closed:
                return False
            self._has_any.clear()
            self._is_awake = False
            if self._orders or self.is_closed:
                self._is_awake = True
                continue
            await self._has_any.wait()
            self._is_awake = True
        return True

    def take(self, most: int) -> list[Order]:
        """What is decided together next: a number of orders, or one that is decided by itself."""
        if self._orders and self._orders[0].how is not How.TOGETHER:
            return self._take_locked(most)
        batch: list[Order] = []
        while self._orders and len(batch) < most and self._orders[0].how is How.TOGETHER:
            batch.append(self._orders.popleft())
        return batch

    def _take_locked(self, most: int) -> list[Order]:
        """The next one, and whatever else waits that is about other rows alone; in one order on every host, so that two
        transactions do not wait for each other."""
        first = self._orders.popleft()
        if first.how is not How.LOCKED or first.about is None:
            return [first]
        batch, left = {first.about: first}, deque[Order]()
        while self._orders and self._orders[0].how is not How.ALONE and len(batch) < most:
            order = self._orders.popleft()
            if order.how is How.LOCKED and order.about is not None and order.about not in batch:
                batch[order.about] = order
            else:
                left.append(order)
        self._orders.extendleft(reversed(left))
        return [batch[about] for about in sorted(batch)]


class StoreThread:
    """One thread with one event loop, in which everything of one store happens."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._door = threading.Lock()
        self._is_over = False
        self._carried: set[futures.Future[Any]] = set()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="placet-postgres", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def check_process(self) -> None:
        """Raises:
        MisuseError: the store was opened before a fork; the thread is the parent's.
        """
        if os.getpid() != self._process:
            raise MisuseError("The store belongs to another process: open a gate after the fork.")

    @property
    def is_ours(self) -> bool:
        return os.getpid() == self._process

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run there, and wait here, in a thread that is not the store's."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def carry(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run there, and wait in the caller's loop, to the end.

        Raises:
            StoreUnavailable: the thread has ended; nothing was run.
        """
        with self._door:  # what came in before it closed is waited for by whoever stops it
            if self._is_over:
                work.close()
                raise StoreUnavailable("The store is closed.")
            carried = asyncio.run_coroutine_threadsafe(work, self.loop)
            self._carried.add(carried)
        carried.add_done_callback(self._carried.discard)
        future = asyncio.wrap_future(carried)
        await whatever_happens(future)
        return future.result()

    def stop(self) -> None:
        """End it, after what was carried there."""
        with self._door:
            self._is_over = True
        futures.wait(tuple(self._carried))
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


async def handed_over(
    intake: Intake,
    thread: StoreThread,
    work: Callable[..., Any],
    how: How = How.TOGETHER,
    about: tuple[str, str] | None = None,
) -> Any:
    """Hand an order over, and wait for its answer.

    Raises:
        StoreUnavailable: nothing of it was committed.
        StoreInDoubt: the commit's own answer was lost.
        MisuseError: the store was opened before a fork.
    """
    thread.check_process()
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = Unbreakable(loop=loop)
    intake.put(Order(work=work, loop=loop, future=future, how=how, about=about))
    await whatever_happens(future)
    return future.result()


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel it until it is over. A library may lose a cancellation that comes just as what it waits for is there."""
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=_CANCELLED_AGAIN_SECONDS)
    await asyncio.gather(task, return_exceptions=True)


def fail(orders: list[Order], fault: StoreError) -> None:
    for order in orders:
        if order.fault is None:
            order.fault = fault


def deliver(orders: list[Order], heard: Heard) -> None:
    """Wake every caller, one hop per event loop, and let the events be heard there."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Order]] = {}
    for order in orders:
        by_loop.setdefault(order.loop, []).append(order)
    for loop, some in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, some, heard)
        except RuntimeError:
            continue  # that loop is closed; nobody waits there any more


def _resolve(orders: list[Order], heard: Heard) -> None:
    for order in orders:
        future = order.future
        if future is None or future.done():
            continue
        if order.fault is not None:
            future.set_exception(order.fault)
        else:
            future.set_result(order.answer)
    for order in orders:  # after every answer, so that a fault of a listener keeps nobody waiting
        if order.fault is None and order.events:
            heard(order.events)
