"""Work of a store for helpers of tests that cannot wait, whether or not an event loop runs where they are."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

Value = TypeVar("Value")


def at_once(work: Coroutine[Any, Any, Value]) -> Value:
    """Its value; it is done in an event loop of its own, while everything here stands still."""
    found: list[Value] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(asyncio.run(work))
        except BaseException as fault:
            failed.append(fault)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


def each_at_once(values: AsyncIterator[Value]) -> list[Value]:
    """All of them, in order."""

    async def collected() -> list[Value]:
        return [value async for value in values]

    return at_once(collected())
