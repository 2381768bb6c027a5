"""A cancelled caller gets its answer and its cancellation, each once and none lost."""

from __future__ import annotations

import asyncio

import pytest

from placet.ports.waiting import (
    Unbreakable,
    owe_cancellation,
    owes_cancellation,
    raise_owed_cancellation,
    takes_owed_cancellation,
    whatever_happens,
)


async def until_it_waits() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def a_future(is_ours: bool) -> asyncio.Future[str]:
    loop = asyncio.get_running_loop()
    return Unbreakable(loop=loop) if is_ours else loop.create_future()


@pytest.mark.parametrize("is_ours", [True, False], ids=["unbreakable", "ordinary"])
@pytest.mark.parametrize("cancellations", [0, 1, 3])
async def test_the_answer_comes_and_so_does_the_cancellation(is_ours: bool, cancellations: int) -> None:
    future, heard = a_future(is_ours), []

    async def caller() -> None:
        await whatever_happens(future)
        heard.append(future.result())
        heard.append(owes_cancellation())
        await raise_owed_cancellation()
        heard.append("went on")

    task = asyncio.create_task(caller())
    await until_it_waits()
    for _ in range(cancellations):
        task.cancel()
        await until_it_waits()
    assert not task.done() and not future.done(), "nothing breaks the wait off"
    future.set_result("answer")
    await asyncio.wait([task])

    assert task.cancelled() is (cancellations > 0)
    assert heard == (["answer", True] if cancellations else ["answer", False, "went on"])


async def test_a_fault_comes_out_of_the_future_though_its_caller_was_cancelled() -> None:
    future, told = Unbreakable(loop=asyncio.get_running_loop()), []

    async def caller() -> None:
        await whatever_happens(future)
        told.append(type(future.exception()))
        await raise_owed_cancellation()

    task = asyncio.create_task(caller())
    await until_it_waits()
    task.cancel()
    future.set_exception(OSError())
    await asyncio.wait([task])

    assert (told, task.cancelled()) == ([OSError], True)


async def test_an_unbreakable_future_refuses_to_be_cancelled() -> None:
    future = Unbreakable(loop=asyncio.get_running_loop())

    assert (future.cancel(), future.cancel(msg="now"), future.done()) == (False, False, False)
    future.set_result(1)
    assert await future == 1


async def test_a_deadline_around_the_wait_ends_it_only_with_the_answer() -> None:
    future = Unbreakable(loop=asyncio.get_running_loop())

    async def caller() -> str:
        try:
            async with asyncio.timeout(0):
                await whatever_happens(future)
                await raise_owed_cancellation()
        except TimeoutError:
            return "late"
        return "in time"

    task = asyncio.create_task(caller())
    await until_it_waits()
    assert not task.done()
    future.set_result(None)
    assert await task == "late"
    assert task.cancelling() == 0


async def test_what_is_owed_is_known_without_a_wait() -> None:
    seen: list[bool] = []

    async def caller() -> None:
        seen.append(owes_cancellation())
        owe_cancellation()
        seen.append(owes_cancellation())
        seen.append(await takes_owed_cancellation())
        seen.append(owes_cancellation())
        await asyncio.sleep(0)

    task = asyncio.create_task(caller())
    await asyncio.wait([task])

    assert (seen, task.cancelled()) == ([False, True, True, True], True)
