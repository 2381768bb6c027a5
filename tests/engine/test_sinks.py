"""Who else hears: required sinks before the dispatch, all others afterwards, and none of them changes the truth."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import placet
from placet import EffectState, LogSink, Refused, RetryPolicy, Succeeded
from placet.engine import herald
from placet.model.audit import AuditEvent, EventKind
from placet.rules.audit import event_body
from tests.engine.conftest import OPERATOR, SCOPE, VIEWER, OpenWorld, Spy, World, looked_up, written

MARK = "phone=13800138000"


class Sink:
    """Keeps what it hears; fails when the test says so."""

    def __init__(self, *, required: bool = False, name: str = "memory", on: Callable[[AuditEvent], Any] = id) -> None:
        self.name = name
        self.is_required = required
        self.heard: list[AuditEvent] = []
        self._on = on

    async def deliver(self, event: AuditEvent) -> None:
        self.heard.append(event)
        answer = self._on(event)
        if asyncio.iscoroutine(answer):
            await answer

    def words(self) -> list[str]:
        return [str(event.outcome.value if event.outcome else event.kind.value) for event in self.heard]


def fails_on(kind: EventKind, error: Callable[[], BaseException]) -> Callable[[AuditEvent], Any]:
    def on(event: AuditEvent) -> None:
        if event.kind is kind:
            raise error()

    return on


async def delivered(world: World, *sinks: Sink) -> None:
    """Wait until the sinks have heard everything that is on record."""
    async with asyncio.timeout(60):
        while any(len(sink.heard) < len(world.events()) for sink in sinks):
            await asyncio.sleep(0.001)


ERRORS: dict[str, Callable[[], BaseException]] = {
    "error": lambda: RuntimeError(MARK),
    "cancellation": lambda: asyncio.CancelledError(MARK),
    "exit": lambda: SystemExit(MARK),
    "interrupt": lambda: KeyboardInterrupt(MARK),
    "base": lambda: BaseException(MARK),
}


@pytest.mark.req("C053", "C054", "B141", "B123")
@pytest.mark.parametrize("required", [True, False])
async def test_every_sink_hears_every_event_once_and_in_order(
    open_world: OpenWorld, spy: Spy, where: str, required: bool
) -> None:
    one, two = Sink(required=required), Sink(name="webhook")

    @placet.tool(effect="idempotent_write", risk="medium", permission=SCOPE, retry=RetryPolicy(max_attempts=2))
    async def flaky() -> str:
        spy()
        if spy.count == 1:
            raise ConnectionError
        return "done"

    world = await open_world(flaky, looked_up(spy), written(spy, approval="always"), store=where, sinks=(one, two))
    await world.submit("flaky", call_id="c1")
    await world.submit("look", {"word": "x"}, call_id="c2")
    await world.submit("nope", call_id="c3")
    waiting = await world.submit("write", {"word": "x"}, call_id="c4")
    await world.approve(waiting)
    await world.submit("write", {"word": "x"}, call_id="c4")
    await world.submit("write", {"word": "x"}, call_id="c4", principal=VIEWER, run="r2")
    await delivered(world, one, two)

    stored = sorted([event.body async for event in world.gate.store.chained()])
    assert sorted(event_body(event) for event in one.heard) == stored
    assert sorted(event_body(event) for event in two.heard) == stored
    assert [event.kind for event in two.heard] == [EventKind(event["kind"]) for event in world.events()]


@pytest.mark.req("B124", "B088", "B126", "B127", "B201")
@pytest.mark.case("N02")
@pytest.mark.parametrize("error", ERRORS)
async def test_a_required_sink_that_does_not_hear_the_start_keeps_a_write_from_being_sent(
    open_world: OpenWorld, spy: Spy, caplog: pytest.LogCaptureFixture, where: str, error: str
) -> None:
    registry = CollectorRegistry()
    sink = Sink(required=True, on=fails_on(EventKind.STARTED, ERRORS[error]))
    world = await open_world(written(spy), store=where, sinks=(sink,), metrics=registry)

    outcome = await world.submit("write", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, spy.count) == ("boundary_unavailable", ("sink_failed",), 0)
    assert not outcome.may_have_acted
    assert (await world.effect()).state is EffectState.FAILED
    assert world.words() == ["started", "error"]
    assert MARK not in caplog.text + repr(outcome)
    assert registry.get_sample_value("placet_sink_failures_total", {"sink": "memory"}) == 1
    assert registry.get_sample_value("placet_tool_calls_total", {"tool": "write", "outcome": "error"}) == 1


@pytest.mark.parametrize("tool", [looked_up, written])
async def test_what_a_sink_kept_from_being_sent_is_not_told_to_have_run_since_the_machine_was_started(
    open_world: OpenWorld, spy: Spy, tool: Callable[[Spy], placet.Tool]
) -> None:
    sink = Sink(required=True, on=fails_on(EventKind.STARTED, ERRORS["error"]))
    world = await open_world(tool(spy), sinks=(sink,))
    world.clock.advance(86_400)

    await world.submit(tool(spy), {"word": "x"})

    assert (world.completed()["outcome"], world.completed()["duration_ms"]) == ("error", 0.0)


@pytest.mark.req("B124")
async def test_a_read_is_not_begun_either(open_world: OpenWorld, spy: Spy) -> None:
    sink = Sink(required=True, on=fails_on(EventKind.STARTED, ERRORS["error"]))
    world = await open_world(looked_up(spy), sinks=(sink,))

    outcome = await world.submit("look", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, spy.count) == ("boundary_unavailable", ("sink_failed",), 0)
    assert world.words() == ["started", "error"]


@pytest.mark.req("B088", "B113")
async def test_a_start_that_was_not_heard_still_spends_the_approval(open_world: OpenWorld, spy: Spy) -> None:
    failing = [True]

    def on(event: AuditEvent) -> None:
        if failing and event.kind is EventKind.STARTED:
            raise RuntimeError(MARK)

    world = await open_world(written(spy, approval="always"), sinks=(Sink(required=True, on=on),))
    await world.approve(await world.submit("write", {"word": "x"}))
    refused = await world.submit("write", {"word": "x"})
    failing.clear()
    again = await world.submit("write", {"word": "x"})

    assert (refused.code, again.code, spy.count) == ("boundary_unavailable", "approval_required", 0)
    assert len(world.events("approval_spent")) == 1


@pytest.mark.req("B124")
async def test_a_further_attempt_is_told_before_it_begins_too(open_world: OpenWorld, spy: Spy) -> None:
    starts: list[AuditEvent] = []

    def on(event: AuditEvent) -> None:
        if event.kind is EventKind.STARTED:
            starts.append(event)
            if len(starts) == 2:
                raise RuntimeError(MARK)

    for effect, kind, state in (("idempotent_write", "unknown", EffectState.UNKNOWN), ("read", "failed", None)):
        starts.clear()
        before = spy.count

        @placet.tool(effect=effect, risk="medium", permission=SCOPE, retry=RetryPolicy(max_attempts=3))
        async def flaky() -> str:
            spy()
            raise ConnectionError

        world = await open_world(flaky, sinks=(Sink(required=True, on=on),))
        outcome = await world.submit(flaky)

        assert (outcome.status, spy.count - before) == (kind, 1)
        assert [effect.state for effect in await world.effects()] == ([state] if state else [])
        assert world.words() == ["started", "error"] * 2


@pytest.mark.req("B089", "B125", "B174")
@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("error", ERRORS)
async def test_a_sink_that_does_not_hear_the_end_changes_nothing(
    open_world: OpenWorld, spy: Spy, required: bool, error: str
) -> None:
    registry = CollectorRegistry()
    sink = Sink(required=required, on=fails_on(EventKind.COMPLETED, ERRORS[error]))
    world = await open_world(written(spy), sinks=(sink,), metrics=registry)

    outcome = await world.submit("write", {"word": "x"})
    await delivered(world, sink)
    again = await world.submit("write", {"word": "x"})

    assert (outcome.unwrap(), again.unwrap(), spy.count) == ({"word": "x"}, {"word": "x"}, 1)
    assert (await world.effect()).state is EffectState.COMMITTED
    assert registry.get_sample_value("placet_tool_calls_total", {"tool": "write", "outcome": "success"}) == 1


@pytest.mark.req("B125")
async def test_a_best_effort_sink_that_fails_on_the_start_lets_the_call_run(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy), sinks=(Sink(on=fails_on(EventKind.STARTED, ERRORS["error"])),))

    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


@pytest.mark.req("B090", "B140", "B106")
async def test_a_failing_sink_does_not_swallow_the_callers_cancellation(open_world: OpenWorld, spy: Spy) -> None:
    async def act() -> str:
        spy()
        await asyncio.sleep(60)
        return ""

    tool = placet.tool(effect="write", risk="medium", permission=SCOPE, name="act", timeout_seconds=60)(act)
    world = await open_world(
        tool, sinks=(Sink(required=True, on=fails_on(EventKind.COMPLETED, ERRORS["cancellation"])),)
    )
    task = asyncio.create_task(world.submit("act"))
    while not spy.count:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (await world.effect()).state is EffectState.UNKNOWN


@pytest.mark.req("B140")
@pytest.mark.parametrize("swallows", [True, False])
async def test_a_caller_cancelled_while_a_required_sink_listens_sends_nothing_and_is_cancelled(
    open_world: OpenWorld, spy: Spy, where: str, swallows: bool
) -> None:
    listening = asyncio.Event()

    async def listen() -> None:
        listening.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not swallows:
                raise

    def on(event: AuditEvent) -> Any:
        return listen() if event.kind is EventKind.STARTED else None

    registry = CollectorRegistry()
    world = await open_world(written(spy), store=where, sinks=(Sink(required=True, on=on),), metrics=registry)
    task = asyncio.create_task(world.submit("write", {"word": "x"}))
    await listening.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    effect = await world.effect()
    assert (spy.count, effect.state, effect.reason) == (0, EffectState.FAILED, "caller_left")
    assert world.completed()["detail"] == "caller_left"
    assert registry.get_sample_value("placet_sink_failures_total", {"sink": "memory"}) == 0


async def test_a_caller_cancelled_before_the_sink_listens_is_cancelled_and_nobody_says_the_sink_failed(
    open_world: OpenWorld, spy: Spy, tmp_path: Any
) -> None:
    registry = CollectorRegistry()
    sink = Sink(required=True)
    world = await open_world(written(spy), store=str(tmp_path / "p.db"), sinks=(sink,), metrics=registry)
    task = asyncio.create_task(world.submit("write", {"word": "x"}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    effect = await world.effect()
    assert (spy.count, effect.state) == (0, EffectState.FAILED)
    assert effect.reason in ("caller_left", "not_sent")
    assert registry.get_sample_value("placet_sink_failures_total", {"sink": sink.name}) == 0


@pytest.mark.parametrize("swallows", [True, False])
async def test_a_sink_that_never_comes_back_is_given_up(
    open_world: OpenWorld, spy: Spy, monkeypatch: pytest.MonkeyPatch, swallows: bool
) -> None:
    monkeypatch.setattr(herald, "DELIVERY_SECONDS", 0.02)
    let_go = asyncio.Event()

    async def hang() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                if not swallows:
                    raise

    world = await open_world(written(spy), sinks=(Sink(required=True, on=lambda event: hang()),))
    outcome = await asyncio.wait_for(world.submit("write", {"word": "x"}), 60)
    let_go.set()

    assert (outcome.code, spy.count) == ("boundary_unavailable", 0)
    assert (await world.effect()).state is EffectState.FAILED


async def test_a_further_attempt_that_a_required_sink_does_not_hear_of_is_not_made(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    def on(event: AuditEvent) -> None:
        if event.kind is EventKind.STARTED and event.attempt == 2:
            raise RuntimeError(MARK)

    async def look(word: str) -> str:
        spy(word)
        raise ConnectionError

    tool = placet.tool(effect="read", retry=RetryPolicy(max_attempts=3))(look)
    world = await open_world(tool, store=where, sinks=(Sink(required=True, on=on),))

    outcome = await world.submit("look", {"word": "x"})

    assert (outcome.code, outcome.may_have_acted, spy.count) == ("not_sent", False, 1)
    assert world.words() == ["started", "error"] * 2
    assert world.completed()["error_type"] == "NotSent"


async def test_a_gate_whose_sinks_never_come_back_leaves_nothing_running_when_it_closes(
    monkeypatch: pytest.MonkeyPatch, spy: Spy
) -> None:
    monkeypatch.setattr(herald, "DELIVERY_SECONDS", 0.02)
    never = asyncio.Event()
    before = asyncio.all_tasks()
    sink = Sink(on=lambda event: never.wait())
    async with placet.open(tools=[written(spy)], store=placet.MEMORY, sinks=(sink,)) as gate:
        for number in range(500):
            proposal = {"call_id": f"c{number}", "tool": "write", "arguments": {"word": "x"}}
            assert (await gate.submit(proposal, principal=OPERATOR, run=f"r{number}")).is_success
        told = len(sink.heard)
    for _ in range(5):
        await asyncio.sleep(0)

    assert asyncio.all_tasks() - before == set()
    assert len(sink.heard) - told < 100, "what waits is not begun just to be broken off"


class HostileSink:
    """Says its name once, and then only lies."""

    def __init__(self) -> None:
        self.asked = 0

    @property
    def name(self) -> str:
        self.asked += 1
        if self.asked > 1:
            raise RuntimeError(MARK)
        return "memory"

    @property
    def is_required(self) -> bool:
        if self.asked > 1:
            raise RuntimeError(MARK)
        return True

    def deliver(self, event: AuditEvent) -> Any:
        raise SystemExit(MARK)


async def test_a_sink_that_is_not_even_shaped_like_one_refuses_closed(
    open_world: OpenWorld, spy: Spy, caplog: pytest.LogCaptureFixture
) -> None:
    world = await open_world(written(spy), sinks=(HostileSink(),))

    outcome = await world.submit("write", {"word": "x"})

    assert (outcome.code, spy.count, world.words()) == ("boundary_unavailable", 0, ["started", "error"])
    assert MARK not in caplog.text


class Synchronous(Sink):
    def deliver(self, event: AuditEvent) -> Any:  # type: ignore[override]
        self.heard.append(event)


@pytest.mark.req("B141")
async def test_a_sink_that_cannot_be_awaited_has_not_heard(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy), sinks=(Synchronous(required=True),))

    assert (await world.submit("write", {"word": "x"})).code == "boundary_unavailable"


@pytest.mark.req("B142")
async def test_what_a_sink_does_to_its_copy_stays_with_it(open_world: OpenWorld, spy: Spy, where: str) -> None:
    def deface(event: AuditEvent) -> None:
        object.__setattr__(event, "tenant", "globex")
        object.__setattr__(event, "subject", MARK)
        if event.arguments is not None:
            object.__setattr__(event.arguments, "field_count", 999)
        if event.result is not None:
            object.__setattr__(event.result, "field_count", 999)

    vandal, witness = Sink(required=True, on=deface), Sink(name="webhook")
    world = await open_world(written(spy), store=where, sinks=(vandal, witness))
    await world.submit("write", {"word": "x"})
    await delivered(world, vandal, witness)

    assert {event.tenant for event in witness.heard} == {"acme"}
    assert {event.arguments.field_count for event in witness.heard if event.arguments} == {2}
    assert {event["arguments"]["field_count"] for event in world.events("started", "completed")} == {2}
    assert b"globex" not in world.bodies()


async def test_a_slow_sink_holds_nobody_up_and_hears_everything_before_the_gate_closes(spy: Spy) -> None:
    may_hear = asyncio.Event()
    sink = Sink(on=lambda event: may_hear.wait())
    async with placet.open(
        tools=[looked_up(spy)], store=placet.MEMORY, sinks=(sink,), recovery=placet.Recovery.MANUAL
    ) as gate:
        for index in range(10):
            proposal = {"call_id": f"c{index}", "tool": "look", "arguments": {"word": "x"}}
            await gate.submit(proposal, principal=VIEWER, run="r1")
        assert len(sink.heard) <= 1
        may_hear.set()

    assert sink.words() == ["started", "success"] * 10


@pytest.mark.req("C054", "C052")
async def test_the_log_sink_writes_each_event_as_one_line_of_its_fields(
    open_world: OpenWorld, spy: Spy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "placet.audit")
    world = await open_world(written(spy), sinks=(LogSink(),))
    await world.submit("write", {"word": "s3cr3t"})
    async with asyncio.timeout(60):
        while len([record for record in caplog.records if record.name == "placet.audit"]) < 2:
            await asyncio.sleep(0.001)

    told = [record.__dict__["audit"] for record in caplog.records if record.name == "placet.audit"]
    renamed = {"arguments": "arguments_counts", "result": "result_counts"}
    assert told == [{renamed.get(name, name): value for name, value in event.items()} for event in world.events()]
    assert "s3cr3t" not in str(told)


async def test_one_letter_is_name_enough(open_world: OpenWorld, spy: Spy) -> None:
    sink = Sink(name="s")
    world = await open_world(looked_up(spy), sinks=(sink,))

    await world.submit("look", {"word": "x"})
    await delivered(world, sink)

    assert sink.words() == ["started", "success"]
