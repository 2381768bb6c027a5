"""How many looks at the states of one tool there are at once, however many questions are to be asked about it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

import placet
from placet import AwaitingApproval, CallContext, GateSettings, Principal, ProbeContext, Refused, Succeeded, Tool
from placet.engine.preconditions import MOST_LOOKS
from tests.engine.conftest import OPERATOR, SCOPE, OpenWorld, World

pytestmark = pytest.mark.case("E12")
NEIGHBOUR = Principal.agent("agent-operator", tenant="other", roles=("operator",), scopes=(SCOPE,))


@dataclass
class Slow:
    """A state that is read for as long as it takes until `may_end`.

    Attributes:
        begun: the accounts that were looked at, in order.
        most: the most looks that were on their way at once.
    """

    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    begun: list[str] = field(default_factory=list)
    most: int = 0
    _now: int = 0

    async def look(self, asked: ProbeContext) -> Any:
        self._now += 1
        self.most = max(self.most, self._now)
        self.begun.append(f"{asked.tenant}/{asked.arguments['account']}")  # type: ignore[index,call-overload]
        try:
            await self.may_end.wait()
        finally:
            self._now -= 1
        return 12

    async def has_begun(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.begun) < count:
                await asyncio.sleep(0)

    def tool(self) -> Tool:
        @placet.tool(effect="write", risk="medium", permission=SCOPE, approval="always", precondition=self.look)
        async def close(account: str, context: CallContext) -> str:
            return "closed"

        return close


@pytest.fixture
def slow() -> Slow:
    return Slow()


def asking(world: World, number: int, *, principal: Principal = OPERATOR, **more: Any) -> asyncio.Future[Any]:
    wish = world.submit("close", {"account": f"a-{number}"}, run=f"r{number}", principal=principal, **more)
    return asyncio.ensure_future(wish)


async def several_turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_of_many_questions_at_once_a_few_look_and_the_others_wait_their_turn(
    open_world: OpenWorld, slow: Slow
) -> None:
    world = await open_world(slow.tool())
    many = [asking(world, number) for number in range(5 * MOST_LOOKS)]
    await slow.has_begun(MOST_LOOKS)
    await several_turns()
    assert len(slow.begun) == MOST_LOOKS

    slow.may_end.set()
    outcomes = await asyncio.wait_for(asyncio.gather(*many), 60)

    assert {type(each) for each in outcomes} == {AwaitingApproval}
    assert (len(slow.begun), slow.most) == (len(many), MOST_LOOKS)


async def test_another_tenants_question_does_not_wait_behind_all_of_them(open_world: OpenWorld, slow: Slow) -> None:
    world = await open_world(slow.tool())
    many = [asking(world, number) for number in range(5 * MOST_LOOKS)]
    await slow.has_begun(MOST_LOOKS)
    await several_turns()
    other = asking(world, 0, principal=NEIGHBOUR)
    await several_turns()

    slow.may_end.set()
    await asyncio.wait_for(asyncio.gather(*many, other), 60)

    assert slow.begun.index("other/a-0") == MOST_LOOKS, "the next one that may look"


async def test_what_was_approved_does_not_wait_behind_questions(open_world: OpenWorld, slow: Slow) -> None:
    world = await open_world(slow.tool())
    slow.may_end.set()
    await world.approve(await world.submit("close", {"account": "a-0"}, run="r0"))
    slow.may_end.clear()
    slow.begun.clear()
    many = [asking(world, number) for number in range(1, 2 * MOST_LOOKS)]
    await slow.has_begun(MOST_LOOKS)
    approved = asking(world, 0)
    await slow.has_begun(MOST_LOOKS + 1)
    assert slow.begun[-1] == "acme/a-0"

    slow.may_end.set()
    assert isinstance(await asyncio.wait_for(approved, 60), Succeeded)
    await asyncio.wait_for(asyncio.gather(*many), 60)


async def test_whose_turn_does_not_come_in_time_is_refused_for_now_and_nobody_is_asked(
    open_world: OpenWorld, slow: Slow
) -> None:
    world = await open_world(slow.tool(), settings=GateSettings(grace_seconds=0.05, probe_seconds=3_600.0))
    many = [asking(world, number) for number in range(MOST_LOOKS)]
    await slow.has_begun(MOST_LOOKS)

    outcome = await asyncio.wait_for(asking(world, 99, timeout_seconds=0.1), 60)

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, outcome.retryable) == (
        "precondition_unavailable", ("too_many_looks",), True
    )  # fmt: skip
    slow.may_end.set()
    await asyncio.wait_for(asyncio.gather(*many), 60)
    assert isinstance(await world.submit("close", {"account": "a-99"}, run="r99"), AwaitingApproval)


async def test_whoever_leaves_while_it_waits_takes_nobodys_turn(open_world: OpenWorld, slow: Slow) -> None:
    world = await open_world(slow.tool())
    many = [asking(world, number) for number in range(2 * MOST_LOOKS)]
    await slow.has_begun(MOST_LOOKS)
    await several_turns()
    for each in many:
        each.cancel()
    ended = await asyncio.wait_for(asyncio.gather(*many, return_exceptions=True), 60)
    assert {type(each) for each in ended} == {asyncio.CancelledError}
    assert len(slow.begun) == MOST_LOOKS

    slow.may_end.set()
    again = [asking(world, number) for number in range(2 * MOST_LOOKS)]
    assert {type(each) for each in await asyncio.wait_for(asyncio.gather(*again), 60)} == {AwaitingApproval}
    assert slow.most == MOST_LOOKS
