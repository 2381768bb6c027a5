"""What upstreams tell between calls: a flood of it costs whoever listens no more than a word now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from placet.mcp_server.relay_listening import _Waiting
from placet.model.relaying import Notice

CHANGED = Notice(method="notifications/resources/list_changed", params={})


def updated(uri: str) -> Notice:
    return Notice(method="notifications/resources/updated", params={"uri": uri})


class Rests:
    """Lasts until it is told to end."""

    def __init__(self) -> None:
        self.begun = 0
        self._end = asyncio.Event()

    async def __call__(self) -> None:
        self.begun += 1
        await self._end.wait()
        self._end.clear()

    async def end(self) -> None:
        self._end.set()
        for _ in range(5):
            await asyncio.sleep(0)


async def heard(taken: AsyncIterator[tuple[str, Notice]], told: list[Notice], waiting: _Waiting) -> None:
    async for _, notice in taken:
        told.append(notice)
        waiting.put("desk", CHANGED)  # it goes on while the client is told


async def test_a_server_that_says_all_the_time_that_it_has_changed_is_passed_on_now_and_then() -> None:
    rests, told = Rests(), list[Notice]()
    waiting = _Waiting(rest=rests)
    hearing = asyncio.ensure_future(heard(waiting.taken(), told, waiting))
    waiting.put("desk", updated("a"))
    waiting.put("desk", updated("b"))
    for _ in range(200):
        waiting.put("desk", CHANGED)
        await asyncio.sleep(0)
    assert told == [updated("a"), updated("b"), CHANGED] and rests.begun == 1
    for _ in range(3):
        before = len(told)
        await rests.end()
        assert told[before:] == [CHANGED]
    hearing.cancel()


async def test_what_was_said_before_the_end_is_told_and_nothing_is_after_it() -> None:
    rests, told = Rests(), list[Notice]()
    waiting = _Waiting(rest=rests)
    waiting.put("desk", updated("a"))
    waiting.end()
    async with asyncio.timeout(30.0):
        async for _, notice in waiting.taken():
            told.append(notice)
            if len(told) == 1:
                waiting.put("desk", updated("b"))
                asyncio.get_running_loop().call_soon(asyncio.ensure_future, rests.end())
    assert told == [updated("a"), updated("b")]
