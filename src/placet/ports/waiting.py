"""Waiting that a cancelled caller cannot break off, and cancellation that is never lost.

A step that was handed over (a commit, an attempt being ended) is waited for to its end. The cancellation that arrived
meanwhile is owed: it is raised at the next ordinary wait, or by `raise_owed_cancellation`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from types import coroutine
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Answered = TypeVar("Answered")


class Unbreakable(asyncio.Future[Answered]):
    """An answer that is on its way. Whoever waits for it may be cancelled; the answer may not."""

    def cancel(self, msg: Any = None) -> bool:
        """Refuse; the waiting task takes note of its cancellation, and hears of it together with the answer."""
        return False


async def whatever_happens(future: asyncio.Future[Any]) -> None:
    """Wait until the future is done; the caller takes result or fault from it."""
    task = asyncio.current_task()
    owed = 0
    while not future.done():
        try:
            await (future if type(future) is Unbreakable else asyncio.shield(future))
        except asyncio.CancelledError:
            if future.cancelled():
                break
            owed += 1
            if task is not None:
                task.uncancel()
        except BaseException:
            break
    for _ in range(owed):
        owe_cancellation()


def owe_cancellation() -> None:
    """Have the current task cancelled at its next wait."""
    task = asyncio.current_task()
    if task is not None:
        task.cancel()


async def foreign(work: Coroutine[Any, Any, object], *, timeout_seconds: float | None) -> object:
    """What foreign code answers, or None for whatever it raises instead, a made-up cancellation included.

    A true cancellation of the caller is owed, not lost, even if the foreign code swallows it; after one, nothing
    foreign is begun. Running out of time is None too.
    """
    if owes_cancellation() and await takes_owed_cancellation():
        work.close()
        return None
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        if timeout_seconds is None:
            answer = await work
        else:
            async with asyncio.timeout(timeout_seconds):
                answer = await work
    except BaseException:
        answer = None
    if task is not None and task.cancelling() > before:
        task.uncancel()
        owe_cancellation()
    return answer


def paying(
    method: Callable[Parameters, Coroutine[Any, Any, Answered]],
) -> Callable[Parameters, Coroutine[Any, Any, Answered]]:
    """A public method that raises the cancellation it owes itself, instead of leaving it to its caller's next wait."""

    @wraps(method)
    async def paid(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Answered:
        answer = await method(*args, **kwargs)
        await raise_owed_cancellation()
        return answer

    return paid


@paying
async def in_a_thread(work: Callable[[], Answered]) -> Answered:
    """What a thread answers. It is waited for to its end: whoever is cancelled may clean up after it at once."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    await whatever_happens(working)
    return working.result()


def owes_cancellation() -> bool:
    """Whether the current task may be about to be cancelled; what costs more needs asking only then."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def takes_owed_cancellation() -> bool:
    """Whether the current task is about to be cancelled; it then still is, at its next wait."""
    try:
        await raise_owed_cancellation()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        owe_cancellation()
        return True
    return False


async def raise_owed_cancellation() -> None:
    """One wait, so that an owed cancellation is raised here."""
    if owes_cancellation():
        await one_turn()


@coroutine
def one_turn() -> Generator[None, None, None]:
    """Let everything run that is ready now; whatever was scheduled before us runs before we go on."""
    yield
