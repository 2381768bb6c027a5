"""Hostile values in every argument of the desk and of the reconciler: an error of ours, on record where it decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from placet import ApprovalState, ApprovalView, EffectState, Found, Principal, Unknown
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.testing.hostile import KINDS
from tests.engine.conftest import APPROVER, OpenWorld, Spy, World, acting, looked_up
from tests.hostile.conftest import Watch

KEEPER = Principal.person("kim", tenant="acme", scopes=("effects.reconcile", "effects.read", "approvals.decide"))
INSTANT = datetime(2026, 1, 1, tzinfo=UTC)

Ask = Callable[[World, ApprovalView, Any], Awaitable[Any]]

DESK: dict[str, tuple[Ask, tuple[type[BaseException], ...]]] = {
    "pending by": (lambda w, view, v: w.gate.desk.pending(by=v), (MisuseError,)),
    "pending limit": (lambda w, view, v: w.gate.desk.pending(by=APPROVER, limit=v), (MisuseError,)),
    "listed by": (lambda w, view, v: w.gate.desk.listed(by=v), (MisuseError,)),
    "listed states": (lambda w, view, v: w.gate.desk.listed(by=APPROVER, states=v), (MisuseError,)),
    "listed state": (lambda w, view, v: w.gate.desk.listed(by=APPROVER, states=(v,)), (MisuseError,)),
    "listed limit": (lambda w, view, v: w.gate.desk.listed(by=APPROVER, limit=v), (MisuseError,)),
    "show": (lambda w, view, v: w.gate.desk.show(v, by=APPROVER), (NotFound,)),
    "show by": (lambda w, view, v: w.gate.desk.show(view.approval_id, by=v), (MisuseError,)),
    "approve": (lambda w, view, v: w.gate.desk.approve(v, digest=view.digest, by=APPROVER), (NotFound,)),
    "approve digest": (
        lambda w, view, v: w.gate.desk.approve(view.approval_id, digest=v, by=APPROVER),
        (DecisionRefused,),
    ),
    "approve by": (lambda w, view, v: w.gate.desk.approve(view.approval_id, digest=view.digest, by=v), (MisuseError,)),
    "approve reason": (
        lambda w, view, v: w.gate.desk.approve(view.approval_id, digest=view.digest, by=APPROVER, reason=v),
        (MisuseError,),
    ),
    "deny": (lambda w, view, v: w.gate.desk.deny(v, digest=view.digest, by=APPROVER), (NotFound,)),
    "deny digest": (lambda w, view, v: w.gate.desk.deny(view.approval_id, digest=v, by=APPROVER), (DecisionRefused,)),
    "deny by": (lambda w, view, v: w.gate.desk.deny(view.approval_id, digest=view.digest, by=v), (MisuseError,)),
    "deny reason": (
        lambda w, view, v: w.gate.desk.deny(view.approval_id, digest=view.digest, by=APPROVER, reason=v),
        (MisuseError,),
    ),
    "withdraw": (lambda w, view, v: w.gate.desk.withdraw(v, by=APPROVER), (NotFound,)),
    "withdraw by": (lambda w, view, v: w.gate.desk.withdraw(view.approval_id, by=v), (MisuseError,)),
}  # fmt: skip


@pytest.mark.req("B047", "B058", "B040")
@pytest.mark.parametrize("position", DESK)
async def test_a_hostile_argument_of_the_desk_decides_nothing(
    waiting: tuple[World, ApprovalView], watch: Watch, spy: Spy, position: str
) -> None:
    world, view = waiting
    ask, expected = DESK[position]
    for name, value in watch.each():
        error = await watch.ended(lambda: ask(world, view, value))
        assert type(error) in expected, (name, error)

    assert (watch.ran, spy.count) == ([], 0)
    assert (await world.gate.desk.show(view.approval_id, by=APPROVER)).state is ApprovalState.PENDING
    watch.assert_nothing_leaked(world)
    await world.gate.desk.approve(view.approval_id, digest=view.digest, by=APPROVER)
    assert (await world.submit("asked", {"word": "x"})).is_success
    await watch.assert_serves(world)


HALF_MADE_PEOPLE: dict[str, Callable[[], Any]] = {
    "nothing set": lambda: object.__new__(Principal),
    "subclass": lambda: type("Child", (Principal,), {})(subject="paula", tenant="acme"),
    "a class": lambda: Principal,
}  # fmt: skip


@pytest.mark.req("B047")
@pytest.mark.parametrize("name", HALF_MADE_PEOPLE)
async def test_a_half_made_person_decides_nothing(waiting: tuple[World, ApprovalView], watch: Watch, name: str) -> None:
    world, view = waiting
    for position, (ask, _) in DESK.items():
        if position.endswith("by"):
            assert type(await watch.ended(lambda: ask(world, view, HALF_MADE_PEOPLE[name]()))) is MisuseError
    for position, ask_reconciler in RECONCILER.items():
        if position.endswith("by"):
            assert type(await watch.ended(lambda: ask_reconciler(world, "k", HALF_MADE_PEOPLE[name]()))) is MisuseError


# ---------------------------------------------------------------- the reconciler

RECONCILER: dict[str, Callable[[World, str, Any], Awaitable[Any]]] = {
    "settle operation key": lambda w, key, v: w.gate.reconciler.settle_by_person(
        v, "committed", by=KEEPER, looked_at=INSTANT, reason="seen"
    ),
    "settle truth": lambda w, key, v: w.gate.reconciler.settle_by_person(
        key, v, by=KEEPER, looked_at=INSTANT, reason="seen"
    ),
    "settle by": lambda w, key, v: w.gate.reconciler.settle_by_person(
        key, "committed", by=v, looked_at=INSTANT, reason="seen"
    ),
    "settle looked_at": lambda w, key, v: w.gate.reconciler.settle_by_person(
        key, "committed", by=KEEPER, looked_at=v, reason="seen"
    ),
    "settle reason": lambda w, key, v: w.gate.reconciler.settle_by_person(
        key, "committed", by=KEEPER, looked_at=INSTANT, reason=v
    ),
    "effects by": lambda w, key, v: w.gate.reconciler.effects(by=v),
    "effects states": lambda w, key, v: w.gate.reconciler.effects(by=KEEPER, states=v),
    "effects state": lambda w, key, v: w.gate.reconciler.effects(by=KEEPER, states=(v,)),
    "effects limit": lambda w, key, v: w.gate.reconciler.effects(by=KEEPER, limit=v),
    "probe": lambda w, key, v: w.gate.reconciler.probe(v),
}  # fmt: skip


@pytest.mark.req("B047", "B058")
@pytest.mark.parametrize("position", RECONCILER)
async def test_a_hostile_argument_of_the_reconciler_settles_nothing(
    open_world: OpenWorld, watch: Watch, spy: Spy, position: str
) -> None:
    async def fails() -> None:
        raise watch.values().error()

    world = await open_world(looked_up(spy), acting(fails), metrics=watch.registry)
    assert isinstance(await world.submit("act"), Unknown)
    key = (await world.effect()).operation_key
    for name, value in watch.each():
        error = await watch.ended(lambda: RECONCILER[position](world, key, value))
        assert type(error) is (NotFound if position == "settle operation key" else MisuseError), (name, error)

    assert watch.ran == []
    assert (await world.effect()).state is EffectState.UNKNOWN
    watch.assert_nothing_leaked(world)
    world.clock.advance(1)
    settled = await world.gate.reconciler.settle_by_person(
        key, "committed", by=KEEPER, looked_at=INSTANT, reason="seen"
    )
    assert settled.state is EffectState.RECONCILED_COMMITTED
    await watch.assert_serves(world)


# ---------------------------------------------------------------- what probes answer


PROBE_ANSWERS: dict[str, Callable[[Any], Any]] = {
    "answer": lambda value: value,
    "reference": lambda value: Found(result={"done": "yes"}, external_reference=value),
    "result": lambda value: Found(result=value),
    "result inside": lambda value: Found(result={"done": value}),
}  # fmt: skip


def half_found(**fields: object) -> Found:
    made: Found = object.__new__(Found)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


async def unknown_with(world_of: OpenWorld, watch: Watch, spy: Spy, probe: Callable[[Any], Any]) -> World:
    """A world with one unknown effect, whose probe is due."""

    async def fails() -> None:
        raise watch.values().error()

    world = await world_of(looked_up(spy), acting(fails, probe=probe), metrics=watch.registry)
    assert isinstance(await world.submit("act"), Unknown)
    world.clock.advance(120)
    return world


@pytest.mark.req("B138")
@pytest.mark.parametrize("position", PROBE_ANSWERS)
@pytest.mark.parametrize("plain", ["coroutine", "plain"])
async def test_a_hostile_probe_answer_settles_only_what_it_says(
    open_world: OpenWorld, watch: Watch, spy: Spy, plain: str, position: str
) -> None:
    answers: list[Any] = []

    async def probe(context: object) -> Any:
        return answers.pop()

    def plain_probe(context: object) -> Any:
        return answers.pop()

    world = await unknown_with(open_world, watch, spy, probe if plain == "coroutine" else plain_probe)
    for index, (name, value) in enumerate(watch.each((KeyboardInterrupt,))):
        run = f"r{index + 1}"
        if index:
            await world.submit("act", run=run)
            world.clock.advance(120)
        answers.append(PROBE_ANSWERS[position](value))
        (before,) = [effect for effect in await world.effects() if effect.run_id == run]

        state = await watch.ended(lambda: world.gate.reconciler.probe(before))

        (after,) = [effect for effect in await world.effects() if effect.run_id == run]
        assert answers == [], name
        assert (after.state, after.probes) == (
            (EffectState.UNKNOWN, 1) if position == "answer" else (EffectState.RECONCILED_COMMITTED, 0)
        ), name
        assert state is after.state
        again = await watch.ended(lambda: world.submit("act", run=run))
        if position == "answer" or again.result is None:
            watch.hear_outcome(again)
        assert after.external_reference is None, name

    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


@pytest.mark.parametrize("made", [half_found(), half_found(result="x"), half_found(external_reference="x")])
async def test_a_half_made_found_is_one_look_in_vain(
    open_world: OpenWorld, watch: Watch, spy: Spy, made: Found
) -> None:
    async def probe(context: object) -> Any:
        return made

    world = await unknown_with(open_world, watch, spy, probe)

    await watch.ended(world.gate.reconciler.recover)

    effect = await world.effect()
    assert (effect.state, effect.probes) == (EffectState.UNKNOWN, 1)
    await watch.assert_serves(world)


@pytest.mark.req("B138", "B139")
@pytest.mark.parametrize("plain", ["coroutine", "plain"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_raising_probe_is_one_look_in_vain(
    open_world: OpenWorld, watch: Watch, spy: Spy, plain: str, kind: type[BaseException]
) -> None:
    async def probe(context: object) -> Any:
        raise watch.values(kind).error()

    def plain_probe(context: object) -> Any:
        raise watch.values(kind).error()

    world = await unknown_with(open_world, watch, spy, probe if plain == "coroutine" else plain_probe)

    await watch.ended(world.gate.reconciler.recover)

    effect = await world.effect()
    assert (effect.state, effect.probes) == (EffectState.UNKNOWN, 1)
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)
