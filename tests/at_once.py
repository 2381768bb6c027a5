"""Work of a store that never waits (memory; look-ups of SQLite), for helpers of tests that cannot wait either."""

from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

Value = TypeVar("Value")


def at_once(work: Coroutine[Any, Any, Value]) -> Value:
    """Its value, without an event loop; an AssertionError if it would have to wait."""
    try:
        work.send(None)
    except StopIteration as done:
        value: Value = done.value
        return value
    work.close()
    raise AssertionError("this work waits for something")


def each_at_once(values: AsyncIterator[Value]) -> list[Value]:
    """All of them, in order."""

    async def collected() -> list[Value]:
        return [value async for value in values]

    return at_once(collected())
