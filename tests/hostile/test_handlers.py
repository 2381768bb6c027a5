"""Hostile handlers: what they raise and return, where they run, and that a real cancellation is still one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import placet
from placet import EffectState, Failed, NotSent, RemoteStatus, Succeeded, ToolRejected, Unknown
from placet.testing.hostile import KINDS, HostileValues
from tests.engine.conftest import OPERATOR, SCOPE, OpenWorld, Spy, World, looked_up
from tests.hostile.conftest import BOUND_SECONDS, Watch

Make = Callable[[HostileValues], BaseException]


def _with_key(values: HostileValues, name: str) -> RemoteStatus:
    """An error whose attributes cannot be looked up without comparing a hostile key."""
    error = RemoteStatus(503)
    attributes: dict[Any, Any] = {values.key_like(name): 1}
    error.__dict__ = attributes
    return error


def _status(**fields: object) -> RemoteStatus:
    error = RemoteStatus(503)
    error.__dict__.update(fields)
    return error


def _rejected(*words: object) -> ToolRejected:
    error = ToolRejected()
    error.args = words
    return error


def _group(values: HostileValues) -> BaseException:
    return BaseExceptionGroup(values.secret, [values.error(), ValueError(values.secret)])


def _caused(values: HostileValues) -> BaseException:
    try:
        try:
            raise values.error()
        except BaseException as inner:
            raise ToolRejected("fine") from inner
    except ToolRejected as error:
        error.add_note(values.secret)
        return error


RAISED: dict[str, Make] = {
    "error": lambda values: values.error(),
    "group": _group,
    "status under a hostile key": lambda values: _with_key(values, "status"),
    "retry_after under a hostile key": lambda values: _with_key(values, "retry_after"),
    "subclass of a rejection": lambda values: type(values.secret, (ToolRejected,), {})(),
    "subclass of not sent": lambda values: type(values.secret, (NotSent,), {})(values.secret),
    "subclass of a status": lambda values: type(values.secret, (RemoteStatus,), {})(503),
    "error with a cause": _caused,
}  # fmt: skip


def acting(isolation: str, work: Callable[[], Any], *, effect: str = "write", hint: Any = dict[str, str]) -> Any:
    async def in_loop() -> Any:
        return work()

    def in_thread() -> Any:
        return work()

    handler = in_loop if isolation == "loop" else in_thread
    handler.__annotations__ = {"return": hint}
    options: dict[str, Any] = {"effect": effect, "risk": "medium", "permission": SCOPE, "name": "act", "breaker": None}
    return placet.tool(**options)(handler)


async def submit_each(world: World, watch: Watch, run: str) -> Any:
    outcome = await watch.ended(lambda: world.submit("act", run=run))
    watch.hear_outcome(outcome)
    return outcome


@pytest.mark.req("B134", "B139", "B201", "B202", "B138")
@pytest.mark.parametrize("isolation", ["loop", "thread"])
@pytest.mark.parametrize("effect", ["write", "read"])
@pytest.mark.parametrize("name", RAISED)
async def test_whatever_a_handler_raises_is_an_outcome(
    open_world: OpenWorld, watch: Watch, spy: Spy, name: str, effect: str, isolation: str
) -> None:
    kinds = iter(KINDS)

    def work() -> Any:
        raise RAISED[name](watch.values(next(kinds)))

    tool = acting(isolation, work, effect=effect)
    world = await open_world(looked_up(spy), tool, metrics=watch.registry)

    outcomes = [await submit_each(world, watch, f"r{index}") for index, _ in enumerate(KINDS)]

    assert {type(outcome) for outcome in outcomes} <= ({Unknown, Failed} if effect == "write" else {Failed})
    assert {effect.state for effect in await world.effects()} <= {EffectState.UNKNOWN, EffectState.FAILED}
    assert next(kinds, None) is None
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


ERROR_PARTS: dict[str, Callable[[Any], BaseException]] = {
    "status": lambda value: _status(status=value),
    "retry_after": lambda value: _status(status=429, retry_after=value),
    "words": _rejected,
    "attributes": lambda value: _status(**{"code": value, "tool": value, "hint": value}),
}  # fmt: skip


@pytest.mark.req("B138", "B139")
@pytest.mark.parametrize("isolation", ["loop", "thread"])
@pytest.mark.parametrize("part", ERROR_PARTS)
async def test_an_error_of_ours_turned_against_us_is_an_outcome(
    open_world: OpenWorld, watch: Watch, spy: Spy, part: str, isolation: str
) -> None:
    values = {name: make for name, make in watch.values(KeyboardInterrupt).values().items() if "text" not in name}
    left = list(values.values())

    def work() -> Any:
        raise ERROR_PARTS[part](left.pop()())

    world = await open_world(looked_up(spy), acting(isolation, work), metrics=watch.registry)

    outcomes = [await submit_each(world, watch, f"r{index}") for index, _ in enumerate(values)]

    assert {type(outcome) for outcome in outcomes} <= {Unknown, Failed}
    assert watch.ran == []
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


@pytest.mark.req("B128", "B130", "B133", "B138")
@pytest.mark.parametrize("isolation", ["loop", "thread"])
@pytest.mark.parametrize("where_it_is", ["alone", "in a dict", "in a list"])
@pytest.mark.parametrize("hint", [dict[str, object], dict[str, int], str, object, list[int], bool, int, float, None])
async def test_whatever_a_handler_returns_the_effect_is_committed_and_nothing_of_it_is_told(
    open_world: OpenWorld, watch: Watch, spy: Spy, hint: Any, where_it_is: str, isolation: str
) -> None:
    if hint is None:
        hint = list[dict[str, str]] | None
    values = watch.values(KeyboardInterrupt).values()
    left = list(values.values())

    def work() -> Any:
        value = left.pop()()
        return {"alone": value, "in a dict": {"a": value}, "in a list": [value]}[where_it_is]

    world = await open_world(looked_up(spy), acting(isolation, work, hint=hint), metrics=watch.registry)

    for index, name in enumerate(reversed(list(values))):
        outcome = await watch.ended(lambda: world.submit("act", run=f"r{index}"))
        assert type(outcome) is Succeeded, name
        if outcome.result_unavailable is not None:
            watch.hear_outcome(outcome)

    assert {effect.state for effect in await world.effects()} == {EffectState.COMMITTED}
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


@pytest.mark.req("B139")
@pytest.mark.parametrize("isolation", ["loop", "thread"])
async def test_a_handler_that_raises_cancellation_or_exit_does_not_hide_a_real_cancellation(
    open_world: OpenWorld, watch: Watch, spy: Spy, isolation: str
) -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def waits() -> str:
        entered.set()
        try:
            await release.wait()
        except asyncio.CancelledError:
            raise KeyboardInterrupt(watch.values().secret) from None
        return "done"

    made_up = acting(isolation, lambda: (_ for _ in ()).throw(watch.values(asyncio.CancelledError).error()))
    options: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": SCOPE, "name": "wait"}
    world = await open_world(looked_up(spy), made_up, placet.tool(**options)(waits), metrics=watch.registry)

    assert type(await submit_each(world, watch, "r1")) is Unknown
    asking = asyncio.ensure_future(world.submit("wait", run="r2"))
    async with asyncio.timeout(BOUND_SECONDS):
        await entered.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert {effect.state for effect in await world.effects()} == {EffectState.UNKNOWN}
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_task_that_a_handler_leaves_behind_does_not_take_the_sync_gate_with_it(
    spy: Spy, kind: type[BaseException]
) -> None:
    """Such a task's exit leaves the event loop's own run; with it would go everybody who waits for the gate."""

    async def leaves() -> str:
        async def exits() -> None:
            raise kind

        task = asyncio.ensure_future(exits())
        task.add_done_callback(lambda done: done.exception())
        return "done"

    options: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": SCOPE, "name": "act"}
    with placet.open(tools=[looked_up(spy), placet.tool(**options)(leaves)], store=placet.MEMORY) as gate:
        first = gate.submit({"call_id": "c1", "tool": "act", "arguments": {}}, principal=OPERATOR, run="r")
        second = gate.submit({"call_id": "c2", "tool": "look", "arguments": {"word": "x"}}, principal=OPERATOR, run="r")

    assert (first.is_success, second.is_success) == (True, True)
