"""Hostile policies: whatever they answer, raise or wait for is a deny, and nothing of theirs is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from placet import Allow, Ask, Deny, Invalid, Matrix, Refused, Requirement, Succeeded
from placet.model.decision import Entitled
from placet.model.identifiers import PolicyVersion
from placet.testing.hostile import KINDS
from tests.engine.conftest import OPERATOR, OpenWorld, Spy, World, looked_up, written
from tests.hostile.conftest import SECRET, Watch, answering

VERSION = PolicyVersion("v1")


class Policy:
    """Answers what the test says, where it says."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def _say(self, name: str, otherwise: Any) -> Any:
        answer = self.answers.get(name, otherwise)
        return answer.make() if type(answer) is answering else answer

    @property
    def version(self) -> Any:
        return self._say("version", VERSION)

    @property
    def timeout_seconds(self) -> Any:
        return self._say("timeout_seconds", None)

    async def decide(self, call: Any) -> Any:
        return self._say("decide", Allow(reasons=("ok",), policy_version=VERSION))

    def is_listed(self, contract: Any, principal: Any) -> Any:
        return self._say("is_listed", True)

    async def may_decide(self, question: Any, person: Any) -> Any:
        return self._say("may_decide", Entitled())


def half_made(kind: type, /, **fields: object) -> Any:
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def allowed(**fields: object) -> Any:
    return half_made(Allow, **{"reasons": ("ok",), "policy_version": VERSION, "requirement": Requirement(), **fields})


DECISIONS: dict[str, Callable[[Any], Any]] = {
    "decision": lambda value: value,
    "reasons": lambda value: allowed(reasons=value),
    "reason": lambda value: allowed(reasons=(value,)),
    "version": lambda value: allowed(policy_version=value),
    "requirement": lambda value: allowed(requirement=value),
    "kind": lambda value: allowed(requirement=half_made(Requirement, kind=value)),
    "lifetime": lambda value: allowed(
        requirement=half_made(
            Requirement, kind=Requirement().kind, lifetime_seconds=value, decide_within_seconds=1.0
        )
    ),
    "reasons of a deny": lambda value: half_made(Deny, reasons=value, policy_version=VERSION),
    "version of an ask": lambda value: half_made(Ask, reasons=(), policy_version=value, requirement=Requirement()),
}  # fmt: skip


async def assert_policy_failed(world: World, watch: Watch, spy: Spy, why: str = "") -> None:
    before = len(world.words())
    for tool in ("look", "write"):
        outcome = await watch.ended(lambda: world.submit(tool, {"word": "x"}, call_id=tool, run=f"r{before}"))
        watch.hear_outcome(outcome)
        assert (type(outcome), outcome.code, outcome.reasons) == (Refused, "denied", ("policy_failed",)), why
        proposal = {"call_id": "c", "tool": tool, "arguments": {"word": "x"}}
        explained = await watch.ended(lambda: world.gate.explain(proposal, principal=OPERATOR, run="r"))
        watch.hear_outcome(explained)
        assert type(explained) is Deny, why
    assert world.words()[before:] == ["started", "denied"] * 2
    assert spy.count == 0
    watch.assert_nothing_leaked(world)


@pytest.mark.req("B058")
@pytest.mark.parametrize(
    "table",
    [
        half_made(Matrix),
        half_made(Matrix, requirement=None),
        half_made(Matrix, requirement=Requirement(lifetime_seconds=1e300)),
    ],
    ids=["of nothing", "of none", "of a time that is too long"],
)
async def test_a_table_of_ours_that_was_made_wrongly_denies(
    open_world: OpenWorld, spy: Spy, watch: Watch, table: Matrix
) -> None:
    world = await open_world(looked_up(spy), written(spy), policy=table)

    await assert_policy_failed(world, watch, spy)


async def with_policy(open_world: OpenWorld, watch: Watch, spy: Spy, policy: Any) -> World:
    return await open_world(looked_up(spy), written(spy), metrics=watch.registry, policy=policy)


@pytest.mark.req("C016")
@pytest.mark.parametrize("position", DECISIONS)
async def test_a_hostile_decision_is_a_deny(open_world: OpenWorld, watch: Watch, spy: Spy, position: str) -> None:
    policy = Policy()
    world = await with_policy(open_world, watch, spy, policy)
    for name, value in watch.each((KeyboardInterrupt,)):
        policy.answers = {"decide": DECISIONS[position](value)}
        await assert_policy_failed(world, watch, spy, name)

    assert watch.ran == []


@pytest.mark.parametrize("kind", [Allow, Ask, Deny])
@pytest.mark.parametrize("fields", [{}, {"reasons": ()}, {"reasons": (), "policy_version": VERSION}])
async def test_a_half_made_decision_is_a_deny(
    open_world: OpenWorld, watch: Watch, spy: Spy, kind: type, fields: dict[str, object]
) -> None:
    if kind is Deny and len(fields) == 2:
        fields = {"policy_version": VERSION}
    world = await with_policy(open_world, watch, spy, Policy(decide=half_made(kind, **fields)))

    await assert_policy_failed(world, watch, spy)


async def test_a_subclass_of_a_decision_is_a_deny(open_world: OpenWorld, watch: Watch, spy: Spy) -> None:
    child = type("Child", (Allow,), {})(reasons=(), policy_version=VERSION)
    world = await with_policy(open_world, watch, spy, Policy(decide=child))

    await assert_policy_failed(world, watch, spy)


@pytest.mark.parametrize("count", [65, 100_000])
async def test_more_reasons_than_can_be_read_are_a_deny(
    open_world: OpenWorld, watch: Watch, spy: Spy, count: int
) -> None:
    decision = Allow(reasons=("r" * 100,) * count, policy_version=VERSION)
    world = await with_policy(open_world, watch, spy, Policy(decide=decision))

    await assert_policy_failed(world, watch, spy)


@pytest.mark.parametrize("method", ["decide", "timeout_seconds"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_raising_policy_is_a_deny(
    open_world: OpenWorld, watch: Watch, spy: Spy, kind: type[BaseException], method: str
) -> None:
    def fail() -> Any:
        raise watch.values(kind).error()

    world = await with_policy(open_world, watch, spy, Policy(**{method: answering(fail)}))

    await assert_policy_failed(world, watch, spy)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_raising_version_or_listing_of_a_policy_lists_nothing_and_refuses_nothing(
    open_world: OpenWorld, watch: Watch, spy: Spy, kind: type[BaseException]
) -> None:
    def fail() -> Any:
        raise watch.values(kind).error()

    world = await with_policy(open_world, watch, spy, Policy(version=answering(fail), is_listed=answering(fail)))

    invalid = await watch.ended(lambda: world.submit("nope"))
    assert type(invalid) is Invalid
    assert watch.ended_at_once(lambda: world.gate.tools_for(OPERATOR)) == ()
    watch.assert_nothing_leaked(world)
    await watch.assert_serves(world)


@pytest.mark.parametrize("position", ["version", "is_listed", "timeout_seconds"])
async def test_hostile_words_of_a_policy_about_itself_end_closed(
    open_world: OpenWorld, watch: Watch, spy: Spy, position: str
) -> None:
    policy = Policy()
    world = await with_policy(open_world, watch, spy, policy)

    for name, value in watch.each((KeyboardInterrupt,)):
        policy.answers = {position: value}
        for tool in ("look", "nope"):
            outcome = await watch.ended(lambda: world.submit(tool, {"word": "x"}, call_id=tool, run=name))
            watch.hear_outcome(outcome)
            expected = {"look": Refused if position == "timeout_seconds" else Succeeded, "nope": Invalid}[tool]
            assert type(outcome) is expected, name
        listed = watch.ended_at_once(lambda: world.gate.tools_for(OPERATOR))
        assert len(listed) == (0 if position == "is_listed" else 2), name
    assert watch.ran == []
    watch.assert_nothing_leaked(world)


async def test_a_policy_that_does_not_end_when_cancelled_is_left_behind(
    open_world: OpenWorld, watch: Watch, spy: Spy
) -> None:
    forever = asyncio.Event()

    class Stubborn(Policy):
        timeout_seconds = 0.01

        async def decide(self, call: Any) -> Any:
            while True:
                try:
                    await forever.wait()
                    raise RuntimeError(SECRET)
                except asyncio.CancelledError:
                    continue

    world = await with_policy(open_world, watch, spy, Stubborn())

    await assert_policy_failed(world, watch, spy)

    forever.set()
    await asyncio.sleep(0)


async def test_a_policy_that_is_false_is_still_the_policy(open_world: OpenWorld, watch: Watch, spy: Spy) -> None:
    class Empty(Policy):
        def __len__(self) -> int:
            return 0

    world = await with_policy(
        open_world, watch, spy, Empty(decide=Deny(reasons=("closed_today",), policy_version=VERSION))
    )

    outcome = await world.submit("look", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert outcome.reasons == ("closed_today",)
