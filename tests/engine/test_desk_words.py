"""Who may take an approval back, and what a second person is told who comes after the first."""

from __future__ import annotations

from pathlib import Path

import pytest

import placet
from placet import Principal
from placet.errors import DecisionRefused
from placet.model.outcome import AwaitingApproval, Succeeded
from tests.engine.conftest import APPROVER, OTHER_APPROVER, OpenWorld, Spy, World, written


async def asked(world: World) -> str:
    waiting = await world.submit("write", {"word": "x"})
    assert isinstance(waiting, AwaitingApproval)
    return waiting.approval_id


async def approved(world: World) -> str:
    approval_id = await asked(world)
    view = await world.gate.desk.show(approval_id, by=APPROVER)
    await world.gate.desk.approve(approval_id, digest=view.digest, by=APPROVER)
    return approval_id


async def test_whoever_approved_may_take_it_back_although_entitled_no_more(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy, approval="always"), store=where)
    approval_id = await approved(world)
    no_longer = Principal.person(APPROVER.subject, tenant="acme")

    view = await world.gate.desk.withdraw(approval_id, by=no_longer)

    assert view.state is placet.ApprovalState.REVOKED
    again = await world.submit("write", {"word": "x"})
    assert isinstance(again, AwaitingApproval) and again.approval_id != approval_id
    assert spy.count == 0


async def test_a_person_without_a_part_in_it_takes_nothing_back(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy, approval="always"), store=where)
    approval_id = await approved(world)

    with pytest.raises(DecisionRefused) as refused:
        await world.gate.desk.withdraw(approval_id, by=Principal.person("zoe", tenant="acme"))

    assert refused.value.code == "scope_missing"
    (event,) = world.events("decision_refused")
    assert (event["detail"], event["decided_by"], event["model_suggested"]) == ("scope_missing", "zoe", False)
    assert type(await world.submit("write", {"word": "x"})) is Succeeded


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_second_person_is_told_that_it_was_decided_and_the_first_hears_the_same_again(
    open_world: OpenWorld, spy: Spy, where: str, decision: str
) -> None:
    world = await open_world(written(spy, approval="always"), store=where)
    approval_id = await asked(world)
    desk = world.gate.desk
    decide = desk.approve if decision == "approve" else desk.deny
    view = await desk.show(approval_id, by=APPROVER)
    first = await decide(approval_id, digest=view.digest, by=APPROVER)

    with pytest.raises(DecisionRefused) as refused:
        await decide(approval_id, digest=view.digest, by=OTHER_APPROVER)

    assert refused.value.code == "already_decided"
    (event,) = world.events("decision_refused")
    assert (event["detail"], event["decided_by"]) == ("already_decided", OTHER_APPROVER.subject)
    assert await decide(approval_id, digest=view.digest, by=APPROVER) == first
    assert len(world.events("decision_refused")) == 1


async def test_where_the_tool_is_not_here_its_risk_and_kind_are_not_guessed(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store = str(tmp_path / "placet.db")
    world = await open_world(written(spy, approval="always"), store=store)
    approval_id = await asked(world)
    elsewhere = await open_world(store=store)

    here = await world.gate.desk.show(approval_id, by=APPROVER)
    there = await elsewhere.gate.desk.show(approval_id, by=APPROVER)

    assert (here.risk, here.effect_class) == ("medium", "write")
    assert (there.risk, there.effect_class) == ("unregistered", "unregistered")
