"""Hostile sinks, clocks and sources of ids: each call ends closed, and nothing of theirs is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import placet
from placet import Succeeded
from placet.errors import ConfigurationError, MisuseError
from placet.testing import FakeClock, SeededIds
from placet.testing.hostile import KINDS
from tests.engine.conftest import OpenWorld, Spy, looked_up, written
from tests.hostile.conftest import BOUND_SECONDS, SECRET, Watch, answering

# ---------------------------------------------------------------- sinks


class Sink:
    """Says of itself what the test says."""

    def __init__(self, **said: Any) -> None:
        self._said = said
        self.heard: list[Any] = []

    @property
    def name(self) -> Any:
        name = self._said.get("name", "hostile")
        return name.make() if type(name) is answering else name

    @property
    def is_required(self) -> Any:
        word = self._said.get("is_required", False)
        return word.make() if type(word) is answering else word

    async def deliver(self, event: Any) -> Any:
        self.heard.append(event)
        deliver = self._said.get("deliver")
        return None if deliver is None else deliver(event)


@pytest.mark.req("B127", "B182")
@pytest.mark.parametrize("position", ["name", "is_required"])
@pytest.mark.parametrize("metered", [True, False])
async def test_a_sink_that_lies_about_itself_does_not_open(
    open_world: OpenWorld, watch: Watch, spy: Spy, position: str, metered: bool
) -> None:
    metrics = watch.registry if metered else None
    for name, value in watch.each((KeyboardInterrupt,)):
        sinks = (Sink(**{position: value}),)
        error = await watch.ended(lambda: open_world(looked_up(spy), metrics=metrics, sinks=sinks))
        assert type(error) is ConfigurationError, name

    assert watch.ran == []
    watch.assert_nothing_leaked()


@pytest.mark.parametrize("position", ["name", "is_required"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_sink_that_raises_when_asked_about_itself_does_not_open(
    open_world: OpenWorld, watch: Watch, spy: Spy, kind: type[BaseException], position: str
) -> None:
    def fail() -> Any:
        raise watch.values(kind).error()

    error = await watch.ended(
        lambda: open_world(looked_up(spy), metrics=watch.registry, sinks=(Sink(**{position: answering(fail)}),))
    )

    assert isinstance(error, ConfigurationError | MisuseError)
    watch.assert_nothing_leaked()


@pytest.mark.parametrize("position", ["sink", "sinks"])
async def test_a_hostile_sink_does_not_open(open_world: OpenWorld, watch: Watch, spy: Spy, position: str) -> None:
    for name, value in watch.each():
        sinks = (value,) if position == "sink" else value
        if position == "sinks" and not value_is_full(value):
            continue  # no sinks at all, in an ordinary way
        error = await watch.ended(lambda: open_world(looked_up(spy), sinks=sinks))
        if name.startswith("lying") and position == "sinks":
            continue  # it was read, and there was nothing in it
        assert isinstance(error, ConfigurationError | MisuseError), name

    watch.assert_nothing_leaked()


def value_is_full(value: Any) -> bool:
    return not any(type(value) is kind for kind in (list, tuple, set, frozenset, dict)) or len(value) > 0


async def test_a_sink_that_names_itself_otherwise_later_is_counted_under_its_first_name(
    open_world: OpenWorld, watch: Watch, spy: Spy
) -> None:
    names = iter(["first"])

    def fail(event: Any) -> Any:
        raise RuntimeError(SECRET)

    sink = Sink(name=answering(lambda: next(names, SECRET)), deliver=fail)
    world = await open_world(looked_up(spy), metrics=watch.registry, sinks=(sink,))

    assert (await world.submit("look", {"word": "x"})).is_success
    await eventually(lambda: watch.registry.get_sample_value("placet_sink_failures_total", {"sink": "first"}) == 2)
    watch.assert_nothing_leaked(world)


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while not is_so():
            await asyncio.sleep(0)


@pytest.mark.req("B127", "B140")
@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_raising_sink_changes_nothing_but_a_required_one_stops_the_send(
    open_world: OpenWorld, watch: Watch, spy: Spy, kind: type[BaseException], required: bool
) -> None:
    def fail(event: Any) -> Any:
        raise watch.values(kind).error()

    sink = Sink(is_required=required, deliver=fail)
    world = await open_world(looked_up(spy), written(spy), metrics=watch.registry, sinks=(sink,))

    for tool in ("look", "write"):
        outcome = await watch.ended(lambda: world.submit(tool, {"word": "x"}, call_id=tool))
        watch.hear_outcome(outcome)
        assert outcome.is_success is not required
    assert spy.count == (0 if required else 2)
    await eventually(lambda: len(sink.heard) >= (4 if not required else 2))
    watch.assert_nothing_leaked(world)


@pytest.mark.req("B142")
async def test_a_sink_that_changes_what_it_hears_changes_only_its_copy(
    open_world: OpenWorld, watch: Watch, spy: Spy
) -> None:
    def spoil(event: Any) -> None:
        for name in ("tenant", "subject", "kind", "outcome", "reasons", "fence", "run_id"):
            object.__setattr__(event, name, SECRET)
        for counts in (event.arguments, event.result):
            if counts is not None:
                object.__setattr__(counts, "field_count", 99)

    sinks = (Sink(name="one", deliver=spoil, is_required=True), Sink(name="two", deliver=spoil), Sink(name="three"))
    world = await open_world(looked_up(spy), written(spy), metrics=watch.registry, sinks=sinks)

    assert (await world.submit("write", {"word": "x"})).is_success
    await eventually(lambda: len(sinks[2].heard) >= 2)
    assert all(event.tenant == "acme" for event in sinks[2].heard)
    assert [event.get("arguments", {}).get("field_count") for event in world.events()] == [2, 2]
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


# ---------------------------------------------------------------- ids


class Ids(SeededIds):
    """Names things as the test says, once the gate is open."""

    def __init__(self, *, name: Callable[[str], Any] | None = None, chance: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self._name = name
        self._chance = chance

    def new_id(self, prefix: str) -> Any:
        return super().new_id(prefix) if self._name is None else self._name(prefix)

    def fraction(self) -> Any:
        return super().fraction() if self._chance is None else self._chance()


@pytest.mark.parametrize("position", ["name", "chance"])
async def test_hostile_ids_and_chance_are_replaced_by_our_own(
    open_world: OpenWorld, watch: Watch, spy: Spy, position: str
) -> None:
    async def fails() -> Any:
        raise placet.RemoteStatus(429)

    given: list[Any] = [None]
    ids = Ids(name=lambda prefix: given[0]) if position == "name" else Ids(chance=lambda: given[0])
    busy = placet.tool(effect="write", risk="low", permission="ops.write", name="busy", breaker=None)(_act(fails))
    asked = written(spy, name="asked", approval="always")
    world = await watch.ended(
        lambda: open_world(looked_up(spy), written(spy), asked, busy, ids=ids, metrics=watch.registry)
    )
    plain: list[tuple[str, Any]] = [("none", None), ("too long", "x" * 500), ("empty", ""), ("text", SECRET + " x")]
    for index, (name, value) in enumerate([*plain, *watch.each((KeyboardInterrupt,))]):
        given[0] = value
        said = [
            await watch.ended(lambda: world.submit(tool, arguments, run=f"r{index}", call_id=tool))
            for tool, arguments in (("look", {"word": "x"}), ("write", {"word": "x"}), ("busy", {}))
        ]
        assert [type(each).__name__ for each in said] == ["Succeeded", "Succeeded", "Failed"], name
        waiting = await watch.ended(lambda: world.submit("asked", {"word": "x"}, run=f"r{index}", call_id="c2"))
        assert type(waiting) is placet.AwaitingApproval, name
        await world.approve(waiting)
        done = await watch.ended(lambda: world.submit("asked", {"word": "x"}, run=f"r{index}", call_id="c2"))
        assert done.is_success, name

    assert watch.ran == []
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


def _act(work: Callable[[], Any]) -> Any:
    async def act() -> dict[str, str]:
        await work()
        return {}

    return act


@pytest.mark.parametrize("method", ["name", "chance"])
@pytest.mark.parametrize("kind", KINDS)
async def test_raising_ids_and_chance_are_replaced_by_our_own(
    open_world: OpenWorld, watch: Watch, spy: Spy, kind: type[BaseException], method: str
) -> None:
    def fail(*_: object) -> Any:
        raise watch.values(kind).error()

    world = await watch.ended(
        lambda: open_world(looked_up(spy), written(spy), ids=Ids(**{method: fail}), metrics=watch.registry)
    )

    for tool in ("look", "write"):
        assert (await watch.ended(lambda: world.submit(tool, {"word": "x"}, call_id=tool))).is_success
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


async def test_a_source_that_repeats_a_name_cannot_make_two_claims_one(
    open_world: OpenWorld, watch: Watch, spy: Spy
) -> None:
    """Two claims of one operation under one token would each be told that the row is theirs."""
    world = await open_world(looked_up(spy), written(spy), ids=Ids(name=lambda prefix: f"{prefix}-same"))

    outcomes = await asyncio.gather(*(world.submit("write", {"word": "x"}) for _ in range(5)))

    assert spy.count == 1
    assert sorted({type(outcome).__name__ for outcome in outcomes}) == ["Replayed", "Succeeded"]


# ---------------------------------------------------------------- clocks


class Clock(FakeClock):
    """Tells the time as the test says, once it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.says: dict[str, Callable[[], Any]] = {}

    def now(self) -> Any:
        return self.says["now"]() if "now" in self.says else super().now()

    def monotonic(self) -> Any:
        return self.says["monotonic"]() if "monotonic" in self.says else super().monotonic()

    async def sleep(self, seconds: float) -> Any:
        if "sleep" in self.says:
            return self.says["sleep"]()
        return await super().sleep(seconds)


@pytest.mark.req("B049", "B054", "B069")
@pytest.mark.parametrize("position", ["now", "monotonic", "sleep"])
async def test_a_hostile_answer_of_a_clock_refuses_or_is_not_needed(
    open_world: OpenWorld, watch: Watch, spy: Spy, where: str, position: str
) -> None:
    clock = Clock()
    world = await open_world(
        looked_up(spy), written(spy), written(spy, name="asked", approval="always"), store=where, clock=clock,
        metrics=watch.registry,
    )  # fmt: skip
    for index, (name, value) in enumerate(watch.each((KeyboardInterrupt,))):
        clock.says = {position: partial(_give, value)}
        for tool in ("look", "write", "asked", "nope"):
            outcome = await watch.ended(lambda: world.submit(tool, {"word": "x"}, run=f"r{index}", call_id=tool))
            watch.hear_outcome(outcome)
            assert position == "sleep" or not outcome.may_have_acted, name
    clock.says = {}

    assert position == "sleep" or spy.count == 0
    assert watch.ran == []
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


def _give(value: Any) -> Any:
    return value


@pytest.mark.parametrize("jump", [-1e9, -1.0, 1e15, -1e300, 1e300])
async def test_a_clock_that_jumps_while_a_handler_runs_hides_nothing(
    open_world: OpenWorld, watch: Watch, spy: Spy, jump: float
) -> None:
    clock = Clock()

    async def act() -> dict[str, str]:
        before = FakeClock.monotonic(clock)
        clock.says = {"monotonic": lambda: before + jump}
        spy()
        return {"done": "yes"}

    tool = placet.tool(effect="write", risk="medium", permission="ops.write", name="act")(act)
    world = await open_world(looked_up(spy), tool, clock=clock, metrics=watch.registry)

    outcome = await watch.ended(lambda: world.submit("act"))
    clock.says = {}

    assert type(outcome) is Succeeded
    assert world.completed()["duration_ms"] >= 0
    await watch.assert_serves(world)


async def test_a_clock_whose_sleep_takes_no_time_and_whose_time_stands_still_blocks_nobody(
    open_world: OpenWorld, watch: Watch, spy: Spy
) -> None:
    clock = Clock()
    release = asyncio.Event()

    async def act() -> dict[str, str]:
        await release.wait()
        return {"done": "yes"}

    tool = placet.tool(effect="write", risk="medium", permission="ops.write", name="act")(act)
    world = await open_world(looked_up(spy), tool, clock=clock, metrics=watch.registry)
    clock.says = {"sleep": lambda: None}
    first = asyncio.ensure_future(world.submit("act"))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(world.submit("act"))
    for _ in range(50):
        await asyncio.sleep(0)
    release.set()

    async with asyncio.timeout(BOUND_SECONDS):
        outcomes = await asyncio.gather(first, second)

    assert [type(outcome).__name__ for outcome in outcomes] == ["Succeeded", "Replayed"]
    assert datetime(2026, 1, 1, tzinfo=UTC) == clock.now()
