"""Attempts: deadlines, retries, cancellation, threads, and what each way of ending leaves behind."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

import placet
from placet import (
    CallContext,
    EffectState,
    Failed,
    GateSettings,
    Isolation,
    NotSent,
    Refused,
    Remote,
    RemoteStatus,
    Replayed,
    RetryPolicy,
    Succeeded,
    TimedOut,
    Tool,
    ToolRejected,
    Unknown,
)
from placet.engine.capacity import MAX_STRAYS
from placet.errors import StoreUnavailable
from placet.testing import FakeClock
from tests.engine.conftest import OPERATOR, SCOPE, OpenWorld, Spy

DEADLINE = 0.02
EFFECTS = ("read", "idempotent_write", "write")


def tool_of(handler: Any, *, effect: str = "write", attempts: int = 3, **options: Any) -> Tool:
    settings: dict[str, Any] = {
        "effect": effect,
        "risk": "medium",
        "permission": SCOPE,
        "name": "act",
        "retry": RetryPolicy(max_attempts=attempts),
        "timeout_seconds": DEADLINE,
    }
    return placet.tool(**(settings | options))(handler)


class Custom(BaseException):
    """Not even an Exception."""


async def returns() -> str:
    return "done"


def raising(make: Callable[[], BaseException]) -> Any:
    async def handler() -> str:
        raise make()

    return handler


async def sleeps_for_ever() -> str:
    await asyncio.sleep(60)
    return "late"


async def swallows_and_returns() -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "late"
    return "never"


HANDLERS: dict[str, Any] = {
    "returns": returns,
    "ToolRejected": raising(lambda: ToolRejected("no")),
    "NotSent": raising(NotSent),
    "429": raising(lambda: RemoteStatus(429)),
    "500": raising(lambda: RemoteStatus(500)),
    "502": raising(lambda: RemoteStatus(502)),
    "503": raising(lambda: RemoteStatus(503)),
    "504": raising(lambda: RemoteStatus(504)),
    "400": raising(lambda: RemoteStatus(400)),
    "ConnectionError": raising(lambda: ConnectionResetError("s3cr3t")),
    "TimeoutError": raising(lambda: TimeoutError("s3cr3t")),
    "ValueError": raising(lambda: ValueError("s3cr3t")),
    "BaseException": raising(lambda: Custom("s3cr3t")),
    "SystemExit": raising(lambda: SystemExit("s3cr3t")),
    "KeyboardInterrupt": raising(lambda: KeyboardInterrupt("s3cr3t")),
    "CancelledError": raising(lambda: asyncio.CancelledError("s3cr3t")),
    "GeneratorExit": raising(lambda: GeneratorExit("s3cr3t")),
    "deadline": sleeps_for_ever,
    "swallowed": swallows_and_returns,
}

# what the handler does: for read, idempotent write and write: outcome, code, effect state, attempts; audit, error type
READ, IDEMPOTENT, WRITE = EFFECTS
BUSY, TOOL_FAILED = (Failed, "remote_busy"), (Failed, "tool_failed")
UNSURE = (Unknown, "effect_unknown", "unknown")
TABLE: dict[str, tuple[dict[str, tuple[Any, ...]], str, str | None]] = {
    "returns": (
        {
            READ: (Succeeded, "succeeded", None, 1),
            IDEMPOTENT: (Succeeded, "succeeded", "committed", 1),
            WRITE: (Succeeded, "succeeded", "committed", 1),
        },
        "success",
        None,
    ),
    "ToolRejected": (
        {
            READ: (Failed, "tool_rejected", None, 1),
            IDEMPOTENT: (Failed, "tool_rejected", "failed", 1),
            WRITE: (Failed, "tool_rejected", "failed", 1),
        },
        "error",
        "ToolRejected",
    ),
    "NotSent": (
        {
            READ: (Failed, "not_sent", None, 3),
            IDEMPOTENT: (Failed, "not_sent", "failed", 3),
            WRITE: (Failed, "not_sent", "failed", 3),
        },
        "error",
        "NotSent",
    ),
    "429": (
        {READ: (*BUSY, None, 3), IDEMPOTENT: (*BUSY, "failed", 3), WRITE: (*BUSY, "failed", 1)},
        "error",
        "RemoteStatus",
    ),
    **{
        status: (
            {READ: (*BUSY, None, 3), IDEMPOTENT: (*UNSURE, 3), WRITE: (*UNSURE, 1)},
            "error",
            "RemoteStatus",
        )
        for status in ("500", "502", "503", "504")
    },
    "400": (
        {READ: (*TOOL_FAILED, None, 1), IDEMPOTENT: (*UNSURE, 1), WRITE: (*UNSURE, 1)},
        "error",
        "RemoteStatus",
    ),
    **{
        name: (
            {READ: (*TOOL_FAILED, None, 3), IDEMPOTENT: (*UNSURE, 3), WRITE: (*UNSURE, 1)},
            "error",
            error_type,
        )
        for name, error_type in (
            ("ConnectionError", "ConnectionResetError"),
            ("TimeoutError", "TimeoutError"),
            ("ValueError", "ValueError"),
            ("BaseException", "untrusted_exception"),
            ("SystemExit", "SystemExit"),
            ("KeyboardInterrupt", "KeyboardInterrupt"),
            ("CancelledError", "untrusted_exception"),
            ("GeneratorExit", "GeneratorExit"),
        )
    },
    "deadline": (
        {READ: (TimedOut, "timed_out", None, 3), IDEMPOTENT: (*UNSURE, 3), WRITE: (*UNSURE, 1)},
        "timeout",
        "DeadlinePassed",
    ),
    "swallowed": (
        {
            READ: (TimedOut, "timed_out", None, 1),
            IDEMPOTENT: (Unknown, "effect_unknown", "reconciled_committed", 1),
            WRITE: (Unknown, "effect_unknown", "reconciled_committed", 1),
        },
        "timeout",
        "DeadlinePassed",
    ),
}
CASES = [(name, effect) for name in TABLE for effect in EFFECTS]
REASONS = {
    "returns": "returned",
    "ToolRejected": "rejected",
    "NotSent": "not_sent",
    **{status: f"status_{status}" for status in ("400", "429", "500", "502", "503", "504")},
    "ConnectionError": "raised_ConnectionResetError",
    **{name: f"raised_{name}" for name in ("TimeoutError", "ValueError", "SystemExit", "KeyboardInterrupt")},
    "GeneratorExit": "raised_GeneratorExit",
    **{name: "raised_untrusted_exception" for name in ("BaseException", "CancelledError")},
    "deadline": "deadline_passed",
    "swallowed": "late_word",
}
"""The fixed word on the row that a person sees first."""


@pytest.mark.req("B098", "B102", "B103", "B104", "B108", "B139", "C027", "C028", "H036", "H037", "H041", "H043", "B134")
@pytest.mark.case("I01", "I03", "M01")
@pytest.mark.parametrize(("name", "effect"), CASES)
async def test_how_an_attempt_ends_decides_outcome_effect_and_audit(
    open_world: OpenWorld, name: str, effect: str
) -> None:
    expected, word, error_type = TABLE[name]
    kind, code, state, attempts = expected[effect]
    clock = FakeClock()
    world = await open_world(tool_of(HANDLERS[name], effect=effect), clock=clock)

    outcome = await world.submit("act")
    await asyncio.sleep(0.001)  # a late word is written in a task of its own

    assert (type(outcome), outcome.code) == (kind, code)
    assert [effect.state.value for effect in await world.effects()] == ([state] if state else [])
    assert world.words() == ["started", word] * attempts
    assert world.attempts() == [number for number in range(1, attempts + 1) for _ in (0, 1)]
    assert {event.get("error_type") for event in world.events("completed")} == {error_type}
    assert len(clock.slept) == attempts - 1
    assert all(event["duration_ms"] == 0.0 for event in world.events("started"))
    assert b"s3cr3t" not in world.bodies()
    assert "s3cr3t" not in repr(outcome)
    has_result = [("result_fingerprint" in event) for event in world.events("completed")]
    assert has_result == [word == "success"] * attempts
    if state:
        assert (await world.effect()).reason == REASONS[name]
        ends = [(event.get("detail"), event.get("effect_state")) for event in world.events("completed")]
        last = ("deadline_passed", "unknown") if name == "swallowed" else (REASONS[name], state)
        assert ends == [(None, None)] * (attempts - 1) + [last]
        late = [
            (event["detail"], event["effect_state"], event["attempt"]) for event in world.events("effect_reconciled")
        ]
        assert late == ([("late_word", "reconciled_committed", 1)] if name == "swallowed" else [])


@pytest.mark.req("C029", "C031", "B103")
async def test_back_off_doubles_within_its_cap_with_seeded_jitter(open_world: OpenWorld) -> None:
    from placet.testing import SeededIds

    clock = FakeClock()
    retry = RetryPolicy(max_attempts=9)
    world = await open_world(tool_of(HANDLERS["503"], effect="read", retry=retry), clock=clock, seed=7)

    await world.submit("act", attempt=4)

    chance = SeededIds(7)
    bounds = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert clock.slept == [bound * chance.fraction() for bound in bounds]
    assert world.attempts() == [number for number in range(4, 13) for _ in (0, 1)]


@pytest.mark.req("C030")
@pytest.mark.case("I05")
@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_waited_for_with_jitter_on_top(open_world: OpenWorld, form: str) -> None:
    clock = FakeClock()
    text = "7" if form == "seconds" else format_datetime(clock.now() + timedelta(seconds=7), usegmt=True)
    answers = [RemoteStatus(429, retry_after=text)]

    async def act() -> str:
        if answers:
            raise answers.pop()
        return "done"

    world = await open_world(tool_of(act, effect="idempotent_write"), clock=clock)
    outcome = await world.submit("act")

    assert outcome.unwrap() == "done"
    (slept,) = clock.slept
    assert 7.0 <= slept <= 7.25
    assert world.words() == ["started", "error", "started", "success"]


@pytest.mark.case("I05")
@pytest.mark.parametrize("text", ["-1", "abc", "", "1.5"])
async def test_a_retry_after_that_means_nothing_is_ignored(open_world: OpenWorld, text: str) -> None:
    clock = FakeClock()
    world = await open_world(
        tool_of(raising(lambda: RemoteStatus(429, retry_after=text)), effect="read", attempts=2), clock=clock
    )

    outcome = await world.submit("act")

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.retry_after_seconds) == ("remote_busy", None)
    assert all(slept <= 0.25 for slept in clock.slept)


@pytest.mark.case("I05")
@pytest.mark.parametrize("text", ["60", "86400", "999999999"])
async def test_a_wait_longer_than_the_call_fails_now_and_says_how_long(open_world: OpenWorld, text: str) -> None:
    clock = FakeClock()
    world = await open_world(tool_of(raising(lambda: RemoteStatus(429, retry_after=text)), effect="read"), clock=clock)

    outcome = await world.submit("act", timeout_seconds=30)

    assert isinstance(outcome, Failed)
    assert (outcome.retry_after_seconds, clock.slept) == (min(float(text), 86_400.0), [])
    assert outcome.as_data()["retry_after_seconds"] == outcome.retry_after_seconds
    assert outcome.retryable


async def test_no_attempt_begins_after_the_callers_patience(open_world: OpenWorld, spy: Spy) -> None:
    clock = FakeClock()

    async def act() -> str:
        spy()
        clock.advance(6)
        raise RemoteStatus(503)

    world = await open_world(tool_of(act, effect="read", attempts=100, timeout_seconds=20), clock=clock)
    outcome = await world.submit("act", timeout_seconds=13)

    assert (outcome.code, spy.count) == ("remote_busy", 3)
    assert clock.monotonic() < 13 + 6


async def test_the_deadline_of_an_attempt_is_never_longer_than_the_callers_patience(open_world: OpenWorld) -> None:
    heard: list[float] = []

    async def act(context: CallContext) -> str:
        heard.append(context.remaining_seconds())
        return ""

    world = await open_world(tool_of(act, timeout_seconds=10))
    await world.submit("act", timeout_seconds=3)

    assert heard == [3.0]


@pytest.mark.req("B105")
async def test_the_reference_retry_scenario(open_world: OpenWorld) -> None:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    naps = [0.03]

    async def act() -> str:
        if naps:
            await asyncio.sleep(naps.pop())
        return "done"

    world = await open_world(tool_of(act, effect="idempotent_write", timeout_seconds=0.01), metrics=registry)
    outcome = await world.submit("act")

    assert outcome.unwrap() == "done"
    assert world.words() == ["started", "timeout", "started", "success"]
    assert world.attempts() == [1, 1, 2, 2]
    for word in ("timeout", "success"):
        labels = {"tool": "act", "outcome": word}
        assert registry.get_sample_value("placet_tool_calls_total", labels) == 1
        assert registry.get_sample_value("placet_tool_duration_seconds_count", labels) == 1


@pytest.mark.req("B101")
async def test_each_attempt_has_a_deadline_of_its_own(open_world: OpenWorld) -> None:
    naps = [60.0, 60.0]

    async def act() -> str:
        if naps:
            await asyncio.sleep(naps.pop())
        return "done"

    world = await open_world(tool_of(act, effect="read"))

    assert (await world.submit("act")).unwrap() == "done"
    assert world.words() == ["started", "timeout", "started", "timeout", "started", "success"]


@pytest.mark.req("B109", "B039", "B110", "H044")
async def test_every_attempt_hears_the_same_call_whatever_the_last_one_did_to_it(open_world: OpenWorld) -> None:
    heard: list[tuple[Any, ...]] = []

    async def act(words: list[str], context: CallContext) -> str:
        heard.append((list(words), context.tenant, context.call_id, context.operation_key, context.attempt))
        words.append("changed")
        if len(heard) < 3:
            raise ConnectionError
        return "done"

    world = await open_world(tool_of(act, effect="idempotent_write"))
    await world.submit("act", {"words": ["a"]})

    key = (await world.effect()).operation_key
    assert heard == [(["a"], "acme", "c1", key, number) for number in (1, 2, 3)]


async def test_one_doubtful_attempt_makes_the_whole_dispatch_doubtful(open_world: OpenWorld) -> None:
    reports = [ToolRejected("no"), ConnectionError("s3cr3t")]

    async def act() -> str:
        raise reports.pop()

    world = await open_world(tool_of(act, effect="idempotent_write"))
    outcome = await world.submit("act")

    assert isinstance(outcome, Unknown)
    assert (await world.effect()).state is EffectState.UNKNOWN
    assert world.attempts() == [1, 1, 2, 2]


async def test_a_doubtful_attempt_is_forgiven_by_a_later_success(open_world: OpenWorld) -> None:
    reports: list[Exception] = [ConnectionError()]

    async def act() -> str:
        if reports:
            raise reports.pop()
        return "done"

    world = await open_world(tool_of(act, effect="idempotent_write"))

    assert (await world.submit("act")).unwrap() == "done"
    assert (await world.effect()).state is EffectState.COMMITTED


async def test_retries_stay_within_the_time_the_remote_remembers_the_key(open_world: OpenWorld, spy: Spy) -> None:
    clock = FakeClock()

    async def act() -> str:
        spy()
        clock.advance(5)
        raise ConnectionError

    forgetful = Remote(honours_key=True, key_retention_seconds=20)
    world = await open_world(
        tool_of(act, effect="idempotent_write", attempts=10, timeout_seconds=8, remote=forgetful), clock=clock
    )
    await world.submit("act", timeout_seconds=1000)

    assert spy.count == 3


async def test_the_guard_says_when_it_is_too_late_to_send(open_world: OpenWorld) -> None:
    clock = FakeClock()

    async def act(context: CallContext) -> str:
        context.guard()
        clock.advance(10)
        assert context.remaining_seconds() == 0.0
        context.guard()
        return "sent"

    world = await open_world(tool_of(act, timeout_seconds=10, attempts=1), clock=clock)
    outcome = await world.submit("act")

    assert (type(outcome), outcome.code) == (Failed, "not_sent")
    assert (await world.effect()).state is EffectState.FAILED


# ---------------------------------------------------------------- results


@pytest.mark.req("C003", "H044", "B128")
@pytest.mark.case("H11", "M04")
@pytest.mark.parametrize(
    "value", [None, 7, ["a"], {"a": 1}, {"a": "\ud800"}, {"a": "x" * 70_000}, {1: "a"}, object(), {"a": float("nan")}]
)
async def test_a_result_that_breaks_its_contract_never_uncommits(
    open_world: OpenWorld, spy: Spy, value: object
) -> None:
    async def act() -> dict[str, str]:
        spy()
        return value  # type: ignore[return-value]

    world = await open_world(tool_of(act))
    outcome = await world.submit("act")
    again = await world.submit("act")

    assert isinstance(outcome, Succeeded)
    assert (outcome.code, outcome.result) == ("performed_result_unavailable", None)
    assert "Do not repeat it" in outcome.message
    assert isinstance(again, Replayed)
    assert (again.result, again.result_unavailable) == (None, outcome.result_unavailable)
    assert (spy.count, (await world.effect()).state) == (1, EffectState.COMMITTED)
    assert world.words() == ["started", "success", "started", "replayed"]


@pytest.mark.req("C003", "B031")
async def test_a_read_whose_result_breaks_its_contract_is_an_error_and_withheld(open_world: OpenWorld) -> None:
    async def act() -> dict[str, str]:
        return "<html>s3cr3t</html>"  # type: ignore[return-value]

    world = await open_world(tool_of(act, effect="read"))
    outcome = await world.submit("act")

    assert (type(outcome), outcome.code) == (Failed, "result_broken")
    assert world.words() == ["started", "error"]
    assert "s3cr3t" not in repr(outcome)
    assert b"s3cr3t" not in world.bodies()


# ---------------------------------------------------------------- cancellation of the caller


async def started_and_cancelled(world: Any, spy: Spy, **more: Any) -> None:
    task = asyncio.create_task(world.submit("act", **more))
    while not spy.count:
        await asyncio.sleep(0.001)
    task.cancel("the caller left")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


@pytest.mark.req("B106", "H042")
@pytest.mark.parametrize("effect", EFFECTS)
async def test_a_cancelled_caller_gets_its_cancellation_after_the_attempt_is_closed(
    open_world: OpenWorld, spy: Spy, where: str, effect: str
) -> None:
    async def act() -> str:
        spy()
        await asyncio.sleep(60)
        return ""

    world = await open_world(tool_of(act, effect=effect, timeout_seconds=60), store=where)
    await started_and_cancelled(world, spy)

    assert world.words() == ["started", "error"]
    assert world.completed()["error_type"] == "CancelledError"
    assert [effect.state.value for effect in await world.effects()] == ([] if effect == "read" else ["unknown"])


@pytest.mark.req("B106", "H042", "B108")
async def test_a_cancelled_caller_does_not_wait_for_a_handler_that_will_not_end(
    open_world: OpenWorld, spy: Spy
) -> None:
    ended = asyncio.Event()

    async def act() -> str:
        spy()
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    world = await open_world(tool_of(act, timeout_seconds=60))
    await started_and_cancelled(world, spy)
    assert (await world.effect()).state is EffectState.UNKNOWN
    assert (await world.effect()).attempt_ended_at is None

    ended.set()
    await asyncio.sleep(0.005)
    assert (await world.effect()).state is EffectState.RECONCILED_COMMITTED


async def test_asyncio_timeout_around_submit_works(open_world: OpenWorld, spy: Spy, where: str) -> None:
    limits: list[asyncio.Timeout] = []

    async def act() -> str:
        spy()
        limits[0].reschedule(asyncio.get_running_loop().time())  # once it runs, however slow the way to it was
        await asyncio.sleep(60)
        return ""

    world = await open_world(tool_of(act, timeout_seconds=60), store=where)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60) as limit:
            limits.append(limit)
            await world.submit("act")
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
    assert (await world.effect()).state is EffectState.UNKNOWN
    assert (await world.submit("act")).code == "effect_unknown"


async def test_a_task_group_around_submit_ends_it(open_world: OpenWorld, spy: Spy) -> None:
    async def act() -> str:
        spy()
        await asyncio.sleep(60)
        return ""

    async def fail() -> None:
        while not spy.count:
            await asyncio.sleep(0)
        raise RuntimeError("sibling")

    world = await open_world(tool_of(act, timeout_seconds=60))
    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(world.submit("act"))
            group.create_task(fail())

    assert (await world.effect()).state is EffectState.UNKNOWN


async def test_cancelled_while_waiting_between_attempts(open_world: OpenWorld, spy: Spy) -> None:
    class Slow(FakeClock):
        async def sleep(self, seconds: float) -> None:
            spy()
            await asyncio.sleep(60)

    world = await open_world(tool_of(HANDLERS["503"], effect="idempotent_write"), clock=Slow())
    await started_and_cancelled(world, spy)

    assert world.words() == ["started", "error"]
    assert (await world.effect()).state is EffectState.UNKNOWN


async def test_cancelled_before_the_handler_began_nothing_is_sent(open_world: OpenWorld, spy: Spy, where: str) -> None:
    async def act() -> str:
        spy()
        return ""

    world = await open_world(tool_of(act), store=where)
    task = asyncio.create_task(world.submit("act"))
    await asyncio.sleep(0)
    if where != placet.MEMORY:  # the claim is on its way to the disk now
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [effect.state for effect in await world.effects()] in ([EffectState.FAILED], [])
        assert spy.count == 0
    else:
        await task


async def test_a_submit_in_a_task_that_was_cancelled_before_and_went_on_is_not_cancelled_again(
    open_world: OpenWorld, spy: Spy
) -> None:
    async def act() -> str:
        spy()
        return "done"

    world = await open_world(tool_of(act))

    async def cleaning_up() -> Any:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return await world.submit("act")

    task = asyncio.create_task(cleaning_up())
    await asyncio.sleep(0)
    task.cancel()

    assert (await task).unwrap() == "done"


async def test_two_cancellations_of_one_caller_are_both_its_own(open_world: OpenWorld, spy: Spy) -> None:
    async def act() -> str:
        spy()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
        return ""

    world = await open_world(tool_of(act, timeout_seconds=60))
    task = asyncio.create_task(world.submit("act"))
    while not spy.count:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0.002)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert world.words() == ["started", "error"]


# ---------------------------------------------------------------- handlers that will not end


@pytest.mark.req("B108")
@pytest.mark.case("I03")
async def test_the_answer_comes_at_the_deadline_whatever_the_cleanup_does(open_world: OpenWorld) -> None:
    cleaning_up, may_end = asyncio.Event(), asyncio.Event()

    async def act() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            cleaning_up.set()
            await may_end.wait()
        return ""

    world = await open_world(tool_of(act), settings=GateSettings(grace_seconds=0.02))
    async with asyncio.timeout(60):
        outcome = await world.submit("act")

    assert isinstance(outcome, Unknown)
    assert cleaning_up.is_set()
    assert (await world.effect()).attempt_ended_at is None
    may_end.set()


@pytest.mark.req("C032", "B108")
async def test_a_late_success_of_a_thread_is_evidence_and_not_a_success(open_world: OpenWorld, where: str) -> None:
    release = threading.Event()

    def act() -> str:
        release.wait(60)
        return "late"

    tool = tool_of(act)
    world = await open_world(tool, store=where)
    outcome = await world.submit("act")

    assert tool.contract.isolation is Isolation.THREAD
    assert isinstance(outcome, Unknown)
    assert (await world.effect()).state is EffectState.UNKNOWN
    release.set()
    async with asyncio.timeout(60):
        while (await world.effect()).state is EffectState.UNKNOWN:
            await asyncio.sleep(0.002)
    again = await world.submit("act")

    assert (await world.effect()).state is EffectState.RECONCILED_COMMITTED
    assert (type(again), again.unwrap()) == (Replayed, "late")
    assert world.words() == ["started", "timeout", "started", "replayed"]
    assert [event["detail"] for event in world.events("effect_reconciled")] == ["late_word"]


@pytest.mark.req("C032")
async def test_a_late_failure_of_a_thread_is_only_its_end(open_world: OpenWorld) -> None:
    release = threading.Event()

    def act() -> str:
        release.wait(60)
        raise ToolRejected("no")

    world = await open_world(tool_of(act))
    await world.submit("act")
    release.set()
    async with asyncio.timeout(60):
        while (await world.effect()).attempt_ended_at is None:
            await asyncio.sleep(0.002)

    effect = await world.effect()
    assert effect.state is EffectState.UNKNOWN
    assert effect.attempt_ended_at is not None


@pytest.mark.req("C032")
async def test_a_late_failure_that_is_the_first_to_reach_the_ledger_is_told_as_one(open_world: OpenWorld) -> None:
    """The store did not serve when the deadline passed, and so has not heard of it."""
    release = threading.Event()

    def act() -> str:
        release.wait(30)
        raise ToolRejected("no")

    world = await open_world(tool_of(act))
    store: Any = world.gate.store
    settle = store.settle

    async def down(settlement: Any) -> Any:
        if settlement.reason == "deadline_passed":
            raise StoreUnavailable("The store does not serve.")
        return await settle(settlement)

    store.settle = down
    await world.submit("act")
    assert (await world.effect()).state is EffectState.DISPATCHED
    release.set()
    async with asyncio.timeout(30):
        while (await world.effect()).state is EffectState.DISPATCHED:
            await asyncio.sleep(0.002)
    store.settle = settle

    effect = await world.effect()
    assert (effect.state, effect.reason) == (EffectState.UNKNOWN, "late_word")
    assert effect.attempt_ended_at is not None
    assert world.completed()["detail"] == "late_word"


@pytest.mark.req("C032")
@pytest.mark.case("I07")
async def test_strays_of_one_tool_are_limited_and_leave_its_neighbours_alone(open_world: OpenWorld, spy: Spy) -> None:
    release = threading.Event()

    def act(number: int) -> str:
        spy(number)
        release.wait(60)
        return "late"

    async def neighbour() -> str:
        return "fine"

    world = await open_world(tool_of(act, timeout_seconds=0.005), placet.tool(effect="read")(neighbour))
    outcomes = [await world.submit("act", {"number": number}, call_id=f"c{number}") for number in range(MAX_STRAYS + 1)]
    other = await world.submit("neighbour", call_id="n")
    release.set()
    async with asyncio.timeout(60):
        while any(effect.state is not EffectState.RECONCILED_COMMITTED for effect in await world.effects()):
            await asyncio.sleep(0.002)
    again = await world.submit("act", {"number": 99}, call_id="again")

    assert [outcome.code for outcome in outcomes] == ["effect_unknown"] * MAX_STRAYS + ["capacity"]
    assert isinstance(outcomes[-1], Refused)
    assert outcomes[-1].retryable
    assert other.unwrap() == "fine"
    assert again.unwrap() == "late"
    assert spy.count == MAX_STRAYS + 1


async def test_a_thread_that_timed_out_is_not_joined_by_a_second_one(open_world: OpenWorld, spy: Spy) -> None:
    release = threading.Event()

    def act() -> str:
        spy()
        release.wait(60)
        return ""

    world = await open_world(tool_of(act, effect="idempotent_write"))
    outcome = await world.submit("act")
    release.set()

    assert (outcome.code, spy.count) == ("effect_unknown", 1)


HERE: contextvars.ContextVar[str] = contextvars.ContextVar("here")


@pytest.mark.case("C04")
async def test_context_variables_are_seen_in_threads_and_in_coroutines(open_world: OpenWorld) -> None:
    def in_thread() -> str:
        assert threading.current_thread() is not threading.main_thread()
        return HERE.get()

    async def in_loop() -> str:
        return HERE.get()

    tools = [placet.tool(effect="read", name=each.__name__)(each) for each in (in_thread, in_loop)]
    world = await open_world(*tools)

    async def one(number: int) -> list[object]:
        HERE.set(f"run-{number}")
        batch = [
            {"call_id": f"c{index}", "tool": tool.contract.name, "arguments": {}}
            for index, tool in enumerate(tools * 2)
        ]
        outcomes = await world.gate.submit_all(batch, principal=OPERATOR, run=f"run-{number}")
        return [outcome.unwrap() for outcome in outcomes]

    assert await asyncio.gather(*(one(number) for number in range(10))) == [[f"run-{n}"] * 4 for n in range(10)]


async def test_a_thread_hears_its_context_and_its_guard(open_world: OpenWorld) -> None:
    def act(context: CallContext) -> str:
        context.guard()
        return f"{context.tenant} {context.attempt}"

    world = await open_world(tool_of(act, timeout_seconds=5))

    assert (await world.submit("act")).unwrap() == "acme 1"


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt, StopIteration, Custom])
async def test_whatever_a_thread_raises_is_an_outcome(open_world: OpenWorld, error: type[BaseException]) -> None:
    def act() -> str:
        raise error("s3cr3t")

    world = await open_world(tool_of(act, timeout_seconds=5))
    outcome = await world.submit("act")

    assert (type(outcome), world.words()) == (Unknown, ["started", "error"])
    assert b"s3cr3t" not in world.bodies()


async def test_a_function_that_returns_a_coroutine_has_not_performed_anything(open_world: OpenWorld, spy: Spy) -> None:
    async def inner() -> str:
        spy()
        return "done"

    def act() -> str:
        return inner()  # type: ignore[return-value]

    world = await open_world(tool_of(act, timeout_seconds=5))
    outcome = await world.submit("act")

    assert (type(outcome), spy.count) == (Unknown, 0)
    assert (await world.effect()).state is EffectState.UNKNOWN


# ---------------------------------------------------------------- words of the handler


@pytest.mark.case("M01")
async def test_the_words_of_a_rejection_are_capped_and_escaped(open_world: OpenWorld) -> None:
    async def act() -> str:
        raise ToolRejected("unknown column \u202e" + "x" * 1000)

    world = await open_world(tool_of(act))
    outcome = await world.submit("act")

    assert isinstance(outcome, Failed)
    assert outcome.words is not None
    assert outcome.words.startswith("unknown column \\u{202e}xxx")
    assert len(outcome.words) == 500
    assert b"unknown column" not in world.bodies()


async def test_a_rejection_without_words_has_none(open_world: OpenWorld) -> None:
    world = await open_world(tool_of(raising(lambda: ToolRejected(""))), tool_of(raising(ToolRejected), name="bare"))

    for name in ("act", "bare"):
        outcome = await world.submit(name, call_id=name)
        assert isinstance(outcome, Failed)
        assert "s3cr3t" not in str(outcome.words)
