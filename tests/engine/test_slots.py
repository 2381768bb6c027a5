"""Who gets the next process: the tenant that holds the fewest, and then the one that has waited longest."""

from __future__ import annotations

import asyncio

import pytest

from placet.engine.slots import Slots
from placet.ports.waiting import raise_owed_cancellation

LONG = 30.0


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Queue:
    """Callers of several tenants; each keeps its slot until told to give it back."""

    def __init__(self, count: int) -> None:
        self.slots = Slots(count)
        self.got: list[str] = []
        self.tasks: dict[str, asyncio.Task[bool]] = {}

    async def comes(self, *names: str, seconds: float = LONG) -> None:
        """A caller; the first letter of its name is its tenant."""
        for name in names:
            self.tasks[name] = asyncio.ensure_future(self._turn(name, seconds))
            await turns()

    async def _turn(self, name: str, seconds: float) -> bool:
        has_slot = self.slots.take(name[0]) or await self.slots.wait(name[0], seconds=seconds)
        if has_slot:
            self.got.append(name)
        await raise_owed_cancellation()
        return has_slot

    async def goes(self, name: str) -> None:
        self.slots.free(name[0])
        await turns()


async def test_a_free_slot_is_taken_at_once_and_one_more_than_there_are_waits() -> None:
    queue = Queue(2)
    await queue.comes("a1", "a2", "a3")
    assert (queue.got, queue.slots.waiting("a"), queue.slots.has_free) == (["a1", "a2"], 1, False)
    for name in ("a1", "a2"):
        await queue.goes(name)
    assert (queue.got, queue.slots.waiting("a"), queue.slots.has_free) == (["a1", "a2", "a3"], 0, True)


async def test_a_free_slot_goes_to_the_tenant_that_holds_the_fewest_however_many_of_another_wait() -> None:
    queue = Queue(3)
    await queue.comes("a1", "a2", "a3", *(f"a{number}" for number in range(4, 50)), "b1", "c1")
    await queue.goes("a1")
    await queue.goes("a2")
    assert queue.got == ["a1", "a2", "a3", "b1", "c1"]


async def test_tenants_that_hold_as_few_take_turns_and_the_calls_of_one_keep_their_order() -> None:
    queue = Queue(1)
    await queue.comes("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    for _ in range(6):
        await queue.goes(queue.got[-1])
    assert queue.got == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_nobody_overtakes_those_that_wait() -> None:
    queue = Queue(1)
    await queue.comes("a1", "b1")
    queue.slots.free("a")
    assert not queue.slots.take("c"), "the slot is another's already"
    await turns()
    assert queue.got == ["a1", "b1"]


async def test_who_waits_in_vain_or_leaves_has_no_slot_and_blocks_nobody() -> None:
    queue = Queue(1)
    await queue.comes("a1")
    await queue.comes("b1", seconds=0.01)
    assert await queue.tasks["b1"] is False
    await queue.comes("b2", "b3", "c1")
    queue.tasks["b2"].cancel()
    with pytest.raises(asyncio.CancelledError):
        await queue.tasks["b2"]
    assert (queue.slots.waiting("b"), queue.slots.waiting("c")) == (1, 1)

    await queue.goes("a1")
    await queue.goes("b3")
    await queue.goes("c1")
    assert queue.got == ["a1", "b3", "c1"]
    assert queue.slots.has_free


async def test_a_slot_that_is_handed_over_as_its_caller_leaves_is_passed_on() -> None:
    queue = Queue(1)
    await queue.comes("a1", "b1", "c1")
    queue.slots.free("a")
    queue.tasks["b1"].cancel()
    with pytest.raises(asyncio.CancelledError):
        await queue.tasks["b1"]
    await turns()
    assert queue.got == ["a1", "c1"]
    await queue.goes("c1")
    assert queue.slots.has_free


async def test_nothing_is_remembered_of_tenants_that_hold_and_wait_for_nothing() -> None:
    queue = Queue(1)
    for number in range(20):
        tenant = chr(ord("a") + number)
        await queue.comes(f"{tenant}1", f"{tenant}2")
        await queue.goes(f"{tenant}1")
        await queue.goes(f"{tenant}2")
    assert (queue.slots._held, queue.slots._waiting) == ({}, {})


async def test_a_tenant_that_holds_one_and_gets_another_holds_two() -> None:
    queue = Queue(2)
    await queue.comes("a1", "b1", "a2")
    await queue.goes("b1")
    assert (queue.got, queue.slots._held) == (["a1", "b1", "a2"], {"a": 2})

    await queue.comes("b2", "a3")
    for name in ("a1", "a2"):
        await queue.goes(name)
    assert queue.got == ["a1", "b1", "a2", "b2", "a3"], "who holds the fewest goes first"
    for name in ("b2", "a3"):
        await queue.goes(name)
    assert queue.slots._held == {}
