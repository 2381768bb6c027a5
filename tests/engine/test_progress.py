"""A running tool says how far it is: who hears it, how much of it, and how long it may say nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from math import inf, nan
from typing import Any

import pytest

import placet
from placet import CallContext, CallProgress
from placet.testing import FakeClock
from tests.engine import process_tools
from tests.engine.conftest import SCOPE, Moved, OpenWorld

READ: dict[str, Any] = {"effect": "read", "name": "act", "retry": placet.RetryPolicy(max_attempts=1)}
SILENCE = 0.5


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_caller_hears_what_its_tool_says_and_nobody_else_does(
    open_world: OpenWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(context: CallContext) -> str:
        context.progress(0)
        context.progress(3, 10, "  canary-word\n of it ")
        return "done"

    world = await open_world(placet.tool(**READ)(act))
    heard: list[CallProgress] = []
    unheard = await world.submit("act", call_id="c0")
    with caplog.at_level(logging.DEBUG):
        outcome = await world.submit("act", on_progress=heard.append)
    assert (unheard.unwrap(), outcome.unwrap()) == ("done", "done")
    assert heard == [
        CallProgress(call_id="c1", tool="act", attempt=1, done=0.0),
        CallProgress(call_id="c1", tool="act", attempt=1, done=3.0, total=10.0, message="canary-word of it"),
    ]
    assert "canary-word" not in f"{heard} {caplog.text} {world.events()}"


async def test_a_plain_function_says_it_from_its_thread_and_it_is_heard_in_the_gates_loop(
    open_world: OpenWorld,
) -> None:
    def act(context: CallContext) -> str:
        context.progress(1, message="one")
        return "done"

    heard: list[tuple[str | None, bool]] = []

    def hears(word: CallProgress) -> None:
        heard.append((word.message, threading.current_thread() is threading.main_thread()))

    world = await open_world(placet.tool(**READ)(act))
    assert (await world.submit("act", on_progress=hears)).unwrap() == "done"
    assert heard == [("one", True)]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ((1, inf, "x" * 300), (1.0, None, "x" * 200)),
        ((1, 10**400, "a\u200bb"), (1.0, None, None)),
        ((1, True, "a\ud800"), (1.0, None, None)),
        ((1, "2", "\u202etxt"), (1.0, None, None)),
        ((1, -2, b"words"), (1.0, -2.0, None)),
        ((10**400, 2, "no number"), None),
        ((nan, 2, "no number"), None),
        ((True, 2, "no number"), None),
        (("1", 2, "no number"), None),
        ((None, 2, "no number"), None),
    ],
    ids=["long", "hidden", "half a character", "turned", "bytes", "huge", "nan", "bool", "text", "none"],
)
async def test_only_what_can_be_told_is_told_and_the_handler_never_fails_of_it(
    open_world: OpenWorld, said: tuple[Any, Any, Any], told: tuple[Any, Any, Any] | None
) -> None:
    async def act(context: CallContext) -> str:
        context.progress(*said)
        return "done"

    world = await open_world(placet.tool(**READ)(act))
    heard: list[CallProgress] = []
    assert (await world.submit("act", on_progress=heard.append)).unwrap() == "done"
    assert [(word.done, word.total, word.message) for word in heard] == ([] if told is None else [told])


async def test_of_a_flood_a_burst_is_told_and_then_as_many_as_time_allows(open_world: OpenWorld) -> None:
    clock = FakeClock()

    async def act(context: CallContext) -> str:
        for number in range(1_000):
            context.progress(number)
        clock.advance(0.25)
        for number in range(1_000, 2_000):
            context.progress(number)
        return "done"

    world = await open_world(placet.tool(**READ)(act), clock=clock)
    heard: list[CallProgress] = []
    await world.submit("act", on_progress=heard.append)
    assert [word.done for word in heard] == [*map(float, range(20)), 1_000.0, 1_001.0]


async def test_what_a_listener_raises_is_nobodys(open_world: OpenWorld) -> None:
    async def act(context: CallContext) -> str:
        context.progress(1)
        return "done"

    def hears(word: CallProgress) -> None:
        raise RuntimeError("canary")

    world = await open_world(placet.tool(**READ)(act))
    assert (await world.submit("act", on_progress=hears)).unwrap() == "done"


async def test_a_listener_that_would_have_to_be_awaited_is_misuse(open_world: OpenWorld) -> None:
    async def hears(word: CallProgress) -> None: ...

    async def act() -> str:
        return "done"

    world = await open_world(placet.tool(**READ)(act))
    for listener in (hears, "hears"):
        with pytest.raises(placet.errors.MisuseError):
            await world.submit("act", on_progress=listener)


async def test_a_thread_that_goes_on_after_its_end_is_not_heard(open_world: OpenWorld) -> None:
    may_go_on, has_ended = threading.Event(), threading.Event()

    def act(context: CallContext) -> str:
        may_go_on.wait(30.0)
        context.progress(1)
        has_ended.set()
        return "done"

    world = await open_world(placet.tool(**READ, timeout_seconds=0.02)(act))
    heard: list[CallProgress] = []
    assert (await world.submit("act", on_progress=heard.append)).status == "timed_out"
    may_go_on.set()
    assert await asyncio.to_thread(has_ended.wait, 30.0)
    await turns()
    assert heard == []


# ---------------------------------------------------------------- silence


@pytest.mark.case("I08")
async def test_each_word_begins_the_silence_anew(open_world: OpenWorld) -> None:
    clock = Moved()

    async def act(context: CallContext) -> str:
        for number in range(20):  # 8 seconds of 0.4 each
            clock.advance(SILENCE * 0.8)
            context.progress(number)
            await turns()
        return "done"

    world = await open_world(placet.tool(**READ, timeout_seconds=30, silence_seconds=SILENCE)(act), clock=clock)
    assert (await world.submit("act")).unwrap() == "done"


@pytest.mark.case("I08")
@pytest.mark.parametrize("words", [0, 3])
async def test_who_says_nothing_for_too_long_is_late_and_both_limits_are_in_the_message(
    open_world: OpenWorld, words: int
) -> None:
    clock = Moved()

    async def act(context: CallContext) -> str:
        for number in range(words):
            context.progress(number)
            clock.advance(SILENCE * 0.8)
            await turns()
        clock.advance(SILENCE)
        await asyncio.Event().wait()
        return "done"

    world = await open_world(placet.tool(**READ, timeout_seconds=30, silence_seconds=SILENCE)(act), clock=clock)
    outcome = await world.submit("act")
    assert (outcome.status, outcome.code) == ("timed_out", "timed_out")
    assert "30 seconds in all, 0.5 without a word of its progress" in outcome.message
    assert world.events("completed")[-1]["error_type"] == "DeadlinePassed"


async def test_a_word_said_while_the_clock_fails_ends_no_silence(open_world: OpenWorld) -> None:
    class Failing(Moved):
        fails = False

        def monotonic(self) -> float:
            if self.fails:
                raise OSError
            return super().monotonic()

    clock = Failing()

    async def act(context: CallContext) -> str:
        clock.fails = True
        context.progress(1)
        clock.fails = False
        clock.advance(SILENCE)
        await asyncio.Event().wait()
        return "done"

    world = await open_world(placet.tool(**READ, timeout_seconds=30, silence_seconds=SILENCE)(act), clock=clock)
    async with asyncio.timeout(30):
        assert (await world.submit("act")).code == "timed_out"


@pytest.mark.case("I08")
async def test_no_word_moves_the_deadline(open_world: OpenWorld) -> None:
    async def act(context: CallContext) -> str:
        while True:
            context.progress(1)
            await asyncio.sleep(0)

    world = await open_world(placet.tool(**READ, timeout_seconds=0.05, silence_seconds=30)(act))
    outcome = await world.submit("act")
    assert outcome.status == "timed_out"
    assert "0.05 seconds in all, 30 without a word of its progress" in outcome.message


async def test_a_write_that_fell_silent_is_unknown_and_is_not_tried_again(open_world: OpenWorld) -> None:
    clock, begun = Moved(), 0

    async def act(context: CallContext) -> str:
        nonlocal begun
        begun += 1
        clock.advance(SILENCE)
        await asyncio.Event().wait()
        return "done"

    write = placet.tool(effect="write", risk="medium", permission=SCOPE, name="act", silence_seconds=SILENCE)(act)
    world = await open_world(write, clock=clock)
    assert (await world.submit("act")).status == "unknown"
    assert begun == 1


async def test_a_thread_that_falls_silent_is_left_behind(open_world: OpenWorld) -> None:
    clock, may_end = Moved(), threading.Event()

    def act(context: CallContext) -> str:
        may_end.wait(30.0)
        return "done"

    world = await open_world(placet.tool(**READ, timeout_seconds=30, silence_seconds=SILENCE)(act), clock=clock)
    calling = asyncio.ensure_future(world.submit("act"))
    while not any(thread.name == "placet-act" for thread in threading.enumerate()):
        await asyncio.sleep(0.005)
    clock.advance(SILENCE)
    assert (await calling).status == "timed_out"
    may_end.set()


def test_silence_is_part_of_what_a_contract_promises() -> None:
    async def act() -> str:
        return "done"

    def made(**options: Any) -> placet.Tool:
        return placet.tool(**READ, **options)(act)

    assert made().contract.digest != made(silence_seconds=2).contract.digest
    assert made(silence_seconds=2).contract.silence_seconds == 2.0
    for wrong in (0, -1, inf, nan, "2", True):
        with pytest.raises(placet.errors.ContractError, match="silence_seconds"):
            made(silence_seconds=wrong)


def test_nothing_is_heard_of_a_process_so_its_silence_is_no_limit() -> None:
    with pytest.raises(placet.errors.ContractError, match="silence_seconds"):
        placet.tool(effect="read", isolation="process", silence_seconds=1)(process_tools.look.function)
