"""A call under another id that shared a question shares what came of it: asking again acts no second time."""

from __future__ import annotations

import pytest

import placet
from placet import AskRule, AskRules, AwaitingApproval, Matrix, Replayed, Succeeded, Unknown
from placet.model.decision import GrantTerms
from tests.engine.conftest import ADMIN, APPROVER, OpenWorld, Spy, World, written

GRANTING = Matrix(asks=AskRules(rules=(AskRule(name="small", grants=GrantTerms(max_uses=9, max_seconds=3_600.0)),)))


async def give_grant(world: World) -> None:
    wish = placet.GrantWish(
        tool="write", subjects=("agent-operator",), limits={"word": "any", "count": "any"}, seconds=600.0, max_uses=5
    )
    draft = await world.gate.grants.draft(wish, by=APPROVER)
    await world.gate.grants.give(wish, digest=draft.digest, by=APPROVER)


async def test_under_a_grant_the_same_id_twice_acts_once(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy, approval="always"), store=where, policy=GRANTING)
    assert isinstance(await world.submit("write", {"word": "x"}, call_id="c1"), AwaitingApproval)
    await give_grant(world)

    first = await world.submit("write", {"word": "x"}, call_id="c2")
    again = [await world.submit("write", {"word": "x"}, call_id=name) for name in ("c2", "c1", "c2")]

    assert isinstance(first, Succeeded) and [type(each) for each in again] == [Replayed] * 3
    assert spy.count == 1
    assert [view.uses for view in await world.gate.grants.listed(by=APPROVER)] == [1]


async def test_whoever_waited_at_the_same_question_hears_what_came_of_it(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy, approval="always"), store=where, policy=GRANTING)
    waiting = await world.submit("write", {"word": "x"}, call_id="c1")
    assert isinstance(await world.submit("write", {"word": "x"}, call_id="c2"), AwaitingApproval)
    await world.approve(waiting)
    assert isinstance(await world.submit("write", {"word": "x"}, call_id="c1"), Succeeded)

    assert isinstance(await world.submit("write", {"word": "x"}, call_id="c2"), Replayed)
    await give_grant(world)
    assert isinstance(await world.submit("write", {"word": "x"}, call_id="c2"), Replayed)
    assert spy.count == 1


async def test_a_call_that_nobody_has_heard_of_yet_is_asked_about_anew(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy, approval="always"), store=where)
    waiting = await world.submit("write", {"word": "x"}, call_id="c1")
    await world.approve(waiting)
    assert isinstance(await world.submit("write", {"word": "x"}, call_id="c1"), Succeeded)

    third = await world.submit("write", {"word": "x"}, call_id="c3")
    assert isinstance(third, AwaitingApproval)
    await world.gate.desk.withdraw(third.approval_id, by=APPROVER)

    again = await world.submit("write", {"word": "x"}, call_id="c3")  # it had a question of its own
    assert isinstance(again, AwaitingApproval) and again.approval_id != third.approval_id
    other = await world.submit("write", {"word": "y"}, call_id="c2")
    assert isinstance(other, AwaitingApproval)
    assert spy.count == 1


async def test_an_unknown_outcome_is_unknown_to_both(open_world: OpenWorld, spy: Spy, where: str) -> None:
    @placet.tool(
        effect="write", risk="medium", permission="ops.write", name="lost", approval="always", timeout_seconds=1.0
    )
    async def lost(word: str) -> str:
        spy.calls.append(word)
        raise OSError(word)

    world = await open_world(lost, store=where)
    waiting = await world.submit("lost", {"word": "x"}, call_id="c1")
    assert isinstance(await world.submit("lost", {"word": "x"}, call_id="c2"), AwaitingApproval)
    await world.approve(waiting)

    outcomes = [await world.submit("lost", {"word": "x"}, call_id=name) for name in ("c2", "c2", "c1")]

    assert [type(each) for each in outcomes] == [Unknown] * 3
    assert len(spy.calls) == 1
    assert await world.gate.desk.pending(by=APPROVER) == ()


@pytest.mark.parametrize("principal", ["another agent", "another run"])
async def test_what_others_asked_is_nobody_elses_answer(open_world: OpenWorld, spy: Spy, principal: str) -> None:
    world = await open_world(written(spy, approval="always"))
    waiting = await world.submit("write", {"word": "x"}, call_id="c1")
    await world.approve(waiting)
    assert isinstance(await world.submit("write", {"word": "x"}, call_id="c1"), Succeeded)

    how = {"principal": ADMIN, "run": "r2"} if principal == "another agent" else {"run": "r2"}
    for _ in range(2):
        assert isinstance(await world.submit("write", {"word": "x"}, call_id="c2", **how), AwaitingApproval)
    assert spy.count == 1
